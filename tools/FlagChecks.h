// Checks of numbers in flags. CLI11's own write the largest double in full where a number is too
// small, and take numbers that no type holds.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
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

} // namespace weft::tools
