// Private: the characters of a text of any bytes, and what Unicode says of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

// A byte that is not part of a UTF-8 character is one of its own, with this number and the byte's.
constexpr char32_t kBadByte = 0x110000;

// A text with the number of each character; none is lost, whatever the bytes are.
struct Characters {
  explicit Characters(std::string_view text);

  size_t size() const {
    return codes.size();
  }
  // The bytes of the characters in [begin, end).
  std::string_view bytes(size_t begin, size_t end) const {
    return text.substr(starts[begin], starts[end] - starts[begin]);
  }

  std::string_view text;
  std::vector<char32_t> codes;
  std::vector<size_t> starts; // of each character, and the text's size
};

void append_utf8(std::string &text, char32_t code);

bool is_letter(char32_t code); // general categories L*
bool is_number(char32_t code); // N*
bool is_space(char32_t code);  // White_Space

} // namespace weft::text
