// Private: a JSON file that others wrote. What is wrong with it is an error that names the file and
// the key.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "weft/error.h"

namespace weft::io {

// Members are read with `where`, the names above them, for the errors: "model.vocab".
class JsonFile {
public:
  using json = nlohmann::json;

  JsonFile(std::string path, Location location) : path_(std::move(path)), location_(location) {}

  [[noreturn]] void fail(const std::string &what) const {
    throw Error(ErrorKind::kFile, "'" + path_ + "': " + what, location_);
  }

  std::string read() const {
    std::ifstream stream(path_, std::ios::binary);
    std::ostringstream content;
    if (!stream || !(content << stream.rdbuf()))
      fail("the file cannot be read, or is empty");
    return content.str();
  }
  json parse() const {
    json value = json::parse(read(), nullptr, false);
    if (!value.is_object())
      fail("the file is no JSON object");
    return value;
  }

  // The member, or null where it is absent.
  static const json &member(const json &object, const std::string &key) {
    static const json kNull;
    if (!object.is_object())
      return kNull;
    auto found = object.find(key);
    return found == object.end() ? kNull : *found;
  }
  static std::string below(const std::string &where, const std::string &key) {
    return where.empty() ? key : where + "." + key;
  }

  std::string text(const json &object, const std::string &key, const std::string &where) const {
    const json &value = member(object, key);
    if (!value.is_string())
      fail(below(where, key) + " must be a string");
    return value.get<std::string>();
  }
  // In place of one that is absent or null, `otherwise`; so below.
  std::string text(const json &object, const std::string &key, const std::string &where,
                   const std::string &otherwise) const {
    return member(object, key).is_null() ? otherwise : text(object, key, where);
  }
  bool flag(const json &object, const std::string &key, const std::string &where,
            bool otherwise) const {
    const json &value = member(object, key);
    if (!value.is_null() && !value.is_boolean())
      fail(below(where, key) + " must be true or false");
    return value.is_null() ? otherwise : value.get<bool>();
  }
  // An integer in [0, end).
  int64_t integer(const json &value, const std::string &where, int64_t end) const {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= end)
      fail(where + " must be an integer in [0, " + std::to_string(end) + ")");
    return value.get<int64_t>();
  }
  double number(const json &object, const std::string &key, const std::string &where) const {
    const json &value = member(object, key);
    if (!value.is_number())
      fail(below(where, key) + " must be a number");
    return value.get<double>();
  }
  double number(const json &object, const std::string &key, const std::string &where,
                double otherwise) const {
    return member(object, key).is_null() ? otherwise : number(object, key, where);
  }
  const json &list(const json &object, const std::string &key, const std::string &where) const {
    const json &value = member(object, key);
    if (!value.is_array())
      fail(below(where, key) + " must be a list");
    return value;
  }

  const std::string &path() const {
    return path_;
  }
  Location location() const {
    return location_;
  }

private:
  std::string path_;
  Location location_;
};

} // namespace weft::io
