#include "frontend/text/characters.h"

#include <algorithm>
#include <iterator>

namespace weft::text {
namespace {

struct CodeRange {
  char32_t first, last;
};

#include "frontend/text/unicode_ranges.inc"

template <size_t N> bool contains(const CodeRange (&ranges)[N], char32_t code) {
  const CodeRange *after =
      std::upper_bound(std::begin(ranges), std::end(ranges), code,
                       [](char32_t value, const CodeRange &range) { return value < range.first; });
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

// The size of the UTF-8 character that the bytes begin with, and its number; 0 if they begin with
// none.
size_t decode(std::string_view bytes, char32_t &code) {
  auto at = [&](size_t i) {
    return static_cast<unsigned char>(bytes[i]);
  };
  const unsigned char first = at(0);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes.size() < size)
    return 0;
  code = first & (0xff >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (at(i) & 0x3f);
  }
  // Overlong forms, surrogates, and what is beyond Unicode.
  const char32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  return code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : size;
}

} // namespace

Characters::Characters(std::string_view given) : text(given) {
  codes.reserve(text.size());
  starts.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    char32_t code = 0;
    size_t size = decode(text.substr(at), code);
    if (size == 0) {
      code = kBadByte + static_cast<unsigned char>(text[at]);
      size = 1;
    }
    codes.push_back(code);
    starts.push_back(at);
    at += size;
  }
  starts.push_back(text.size());
}

void append_utf8(std::string &text, char32_t code) {
  auto add = [&](char32_t byte) {
    text.push_back(static_cast<char>(byte));
  };
  if (code < 0x80) {
    add(code);
    return;
  }
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xe0 | code >> 12);
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3f));
    }
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

bool is_letter(char32_t code) {
  return contains(kLetters, code);
}

bool is_number(char32_t code) {
  return contains(kNumbers, code);
}

bool is_space(char32_t code) {
  constexpr CodeRange kSpaces[] = {
      {9, 13},          {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
      {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
  return contains(kSpaces, code);
}

} // namespace weft::text
