// The little of JSON that a safetensors header is made of: objects, arrays of integers, strings.
// Reads what comes, keeps nothing, never recurses, never leaves its text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::runtime {

class JsonReader {
public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // Whether the next token is this character; if so, it is passed.
  bool take(char c);
  // A string with its escapes resolved; false when there is none. Surrogate pairs are joined, lone
  // ones refused.
  bool string(std::string &value);
  // [1, 2, 3] with integers that are not negative.
  bool integers(std::vector<int64_t> &values);
  // Nothing but white space is left.
  bool at_end();

private:
  void skip();
  bool hex4(uint32_t &value);

  std::string_view text_;
  size_t position_ = 0;
};

// The text as a JSON string, in quotes.
std::string json_quoted(std::string_view text);

bool is_utf8(std::string_view text);

} // namespace weft::runtime
