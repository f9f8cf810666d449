#include "runtime/io/json_reader.h"

#include <charconv>
#include <cstdio>

namespace weft::runtime {
namespace {

void append_utf8(std::string &text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | (c >> 6));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | (c >> 18));
    text += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

} // namespace

void JsonReader::skip() {
  while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t' ||
                                      text_[position_] == '\n' || text_[position_] == '\r'))
    ++position_;
}

bool JsonReader::take(char c) {
  skip();
  if (position_ >= text_.size() || text_[position_] != c)
    return false;
  ++position_;
  return true;
}

bool JsonReader::at_end() {
  skip();
  return position_ == text_.size();
}

bool JsonReader::hex4(uint32_t &value) {
  if (text_.size() - position_ < 4)
    return false;
  auto [end, error] =
      std::from_chars(text_.data() + position_, text_.data() + position_ + 4, value, 16);
  if (error != std::errc() || end != text_.data() + position_ + 4)
    return false;
  position_ += 4;
  return true;
}

bool JsonReader::string(std::string &value) {
  value.clear();
  if (!take('"'))
    return false;
  while (position_ < text_.size()) {
    char c = text_[position_++];
    if (c == '"')
      return is_utf8(value);
    if (static_cast<unsigned char>(c) < 0x20)
      return false;
    if (c != '\\') {
      value += c;
      continue;
    }
    if (position_ >= text_.size())
      return false;
    char escape = text_[position_++];
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (size_t i = kEscapes.find(escape); i != std::string_view::npos) {
      value += kMeanings[i];
      continue;
    }
    uint32_t code = 0, low = 0;
    if (escape != 'u' || !hex4(code))
      return false;
    if (code >= 0xD800 && code < 0xDC00) {
      if (text_.substr(position_, 2) != "\\u")
        return false;
      position_ += 2;
      if (!hex4(low) || low < 0xDC00 || low > 0xDFFF)
        return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
      return false;
    }
    append_utf8(value, code);
  }
  return false;
}

bool JsonReader::integers(std::vector<int64_t> &values) {
  values.clear();
  if (!take('['))
    return false;
  if (take(']'))
    return true;
  do {
    skip();
    int64_t value = 0;
    auto [end, error] =
        std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0)
      return false;
    position_ = static_cast<size_t>(end - text_.data());
    values.push_back(value);
  } while (take(','));
  return take(']');
}

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    unsigned lead = static_cast<unsigned char>(text[i]);
    size_t length = lead < 0x80                   ? 1
                    : lead >= 0xC2 && lead < 0xE0 ? 2
                    : (lead & 0xF0) == 0xE0       ? 3
                    : lead >= 0xF0 && lead < 0xF5 ? 4
                                                  : 0;
    if (length == 0 || text.size() - i < length)
      return false;
    uint32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
    for (size_t k = 1; k < length; ++k) {
      unsigned tail = static_cast<unsigned char>(text[i + k]);
      if ((tail & 0xC0) != 0x80)
        return false;
      code = (code << 6) | (tail & 0x3F);
    }
    if ((length == 3 && code < 0x800) || (length == 4 && code < 0x10000) || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000))
      return false;
    i += length;
  }
  return true;
}

} // namespace weft::runtime
