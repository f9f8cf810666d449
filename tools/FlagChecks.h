// Checks of numbers in flags. CLI11's own write the largest double in full where a number is too
// small, and take numbers that no type holds.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>

#include "CLI/CLI.hpp"

namespace weft::tools {

// A whole number of the type, of at least so much.
template <typename T = int64_t> CLI::Validator wholeNumber(std::type_identity_t<T> least) {
  auto check = [least](const std::string &text) -> std::string {
    T value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::result_out_of_range && stop == end)
      return text + " is too large";
    if (error != std::errc() || stop != end || value < least)
      return "it must be a whole number of at least " + std::to_string(least) + ", not " + text;
    return "";
  };
  return CLI::Validator(check, least > 0 ? "POSITIVE" : "NONNEGATIVE");
}

// A number above 0, or from 0 on.
inline CLI::Validator positiveNumber(bool orZero = false) {
  auto check = [orZero](const std::string &text) -> std::string {
    double value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    bool isNumber = error == std::errc() && stop == end && std::isfinite(value);
    if (isNumber && (value > 0 || (orZero && value == 0)))
      return "";
    return std::string("it must be a number ") + (orZero ? "of at least 0" : "above 0") + ", not " +
           text;
  };
  return CLI::Validator(check, orZero ? "NONNEGATIVE" : "POSITIVE");
}

// One of the names, which becomes its value: for transform(). CLI11's own shows the numbers of an
// enum.
template <typename Value> CLI::Validator oneOf(const std::map<std::string, Value> &values) {
  auto change = [values](std::string &text) -> std::string {
    std::string names;
    for (const auto &[name, value] : values)
      names += (names.empty() ? "" : ", ") + name;
    auto found = values.find(text);
    if (found == values.end())
      return "it must be one of " + names + ", not " + text;
    text = std::to_string(static_cast<int64_t>(found->second));
    return "";
  };
  return CLI::Validator(change, "");
}

} // namespace weft::tools
