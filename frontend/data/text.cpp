#include "weft/data/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

namespace weft::data {
namespace {

namespace fs = std::filesystem;

// A character of UTF-8 at `offset` and its length in bytes, or length 0 when there is none (RFC
// 3629, section 4).
struct Decoded {
  char32_t character;
  int length;
};
Decoded decode_one(std::string_view text, size_t offset) {
  auto byte = [&](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  auto is_tail = [&](size_t i) {
    return (byte(i) & 0xC0u) == 0x80u;
  };
  unsigned lead = byte(offset);
  if (lead < 0x80)
    return {lead, lead == 0 ? 0 : 1};
  int length = lead >= 0xC2 && lead <= 0xDF   ? 2
               : (lead & 0xF0u) == 0xE0       ? 3
               : lead >= 0xF0 && lead <= 0xF4 ? 4
                                              : 0;
  if (length == 0)
    return {0, 0};
  char32_t character = lead & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) {
    if (!is_tail(offset + i))
      return {0, 0};
    character = (character << 6) | (byte(offset + i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool surrogate = character >= 0xD800 && character <= 0xDFFF;
  if (character < kSmallest[length] || character > 0x10FFFF || surrogate)
    return {0, 0};
  return {character, length};
}

// How a character is shown in a message.
std::string shown(char32_t character) {
  char number[16];
  std::snprintf(number, sizeof number, "U+%04X", static_cast<unsigned>(character));
  return character >= 0x20 && character != 0x7F
             ? "'" + encode_utf8(std::u32string_view(&character, 1)) + "' (" + number + ")"
             : number;
}

} // namespace

std::u32string decode_utf8(std::string_view text, const std::string &name, Location location) {
  if (text.empty())
    throw Error(ErrorKind::kFile, name + " is empty", location);
  std::u32string characters;
  characters.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    Decoded decoded = decode_one(text, offset);
    if (decoded.length == 0)
      throw Error(ErrorKind::kFile,
                  name + " is not UTF-8 text: byte " + std::to_string(offset) + " of " +
                      std::to_string(text.size()) + " starts no character",
                  location);
    characters.push_back(decoded.character);
    offset += decoded.length;
  }
  return characters;
}

std::string encode_utf8(std::u32string_view characters) {
  std::string text;
  text.reserve(characters.size());
  for (char32_t c : characters) {
    if (c < 0x80) {
      text.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
      text.push_back(static_cast<char>(0xC0 | (c >> 6)));
      text.push_back(static_cast<char>(0x80 | (c & 0x3F)));
    } else if (c < 0x10000) {
      text.push_back(static_cast<char>(0xE0 | (c >> 12)));
      text.push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
      text.push_back(static_cast<char>(0x80 | (c & 0x3F)));
    } else {
      text.push_back(static_cast<char>(0xF0 | (c >> 18)));
      text.push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3F)));
      text.push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
      text.push_back(static_cast<char>(0x80 | (c & 0x3F)));
    }
  }
  return text;
}

std::u32string read_text(const std::string &path, Location location) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    throw Error(ErrorKind::kFile, "cannot read '" + path + "': no such file", location);
  if (!fs::is_regular_file(status))
    throw Error(ErrorKind::kFile, "cannot read '" + path + "': not a regular file", location);
  std::ifstream stream(path, std::ios::binary);
  std::string text;
  if (stream)
    text.assign(std::istreambuf_iterator<char>(stream), {});
  if (!stream)
    throw Error(ErrorKind::kFile, "cannot read '" + path + "': " + std::strerror(errno), location);
  return decode_utf8(text, "'" + path + "'", location);
}

std::vector<std::string> text_files(const std::string &path, Location location) {
  std::error_code error;
  if (!fs::exists(path, error))
    throw Error(ErrorKind::kFile, "cannot read '" + path + "': no such file or folder", location);
  if (!fs::is_directory(path, error))
    return {path};
  std::vector<fs::path> candidates;
  fs::directory_iterator entries(path, error);
  if (error)
    throw Error(ErrorKind::kFile, "cannot read '" + path + "': " + error.message(), location);
  for (const fs::directory_entry &entry : entries)
    if (entry.is_regular_file(error) && entry.path().filename().string().front() != '.')
      candidates.push_back(entry.path());
  std::sort(candidates.begin(), candidates.end());
  std::vector<std::string> files;
  std::set<fs::path> seen;
  for (const fs::path &candidate : candidates)
    if (seen.insert(fs::canonical(candidate, error)).second)
      files.push_back(candidate.string());
  if (files.empty())
    throw Error(ErrorKind::kFile, "the folder '" + path + "' holds no files", location);
  return files;
}

Vocabulary::Vocabulary(std::u32string_view text) : characters_(text) {
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
  for (size_t i = 0; i < characters_.size(); ++i)
    ids_.emplace(characters_[i], static_cast<int64_t>(i));
}

std::vector<int64_t> Vocabulary::encode(std::u32string_view text, Location location) const {
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for (char32_t character : text) {
    auto found = ids_.find(character);
    if (found == ids_.end())
      throw Error(ErrorKind::kValue,
                  "the character " + shown(character) + " is not among the " +
                      std::to_string(size()) + " characters of the vocabulary",
                  location);
    ids.push_back(found->second);
  }
  return ids;
}

std::u32string Vocabulary::decode(std::span<const int64_t> ids, Location location) const {
  std::u32string text;
  text.reserve(ids.size());
  for (int64_t id : ids) {
    if (id < 0 || id >= size())
      throw Error(ErrorKind::kValue,
                  "the id " + std::to_string(id) + " is outside the vocabulary of " +
                      std::to_string(size()) + " characters",
                  location);
    text.push_back(characters_[static_cast<size_t>(id)]);
  }
  return text;
}

TextDataset::TextDataset(std::vector<int64_t> ids, int64_t window, int64_t stride,
                         Location location)
    : ids_(std::move(ids)), window_(window), stride_(stride) {
  if (window < 1 || stride < 1)
    throw Error(ErrorKind::kValue,
                "TextDataset: window and stride must be at least 1, not " + std::to_string(window) +
                    " and " + std::to_string(stride),
                location);
  if (static_cast<int64_t>(ids_.size()) < window + 1)
    throw Error(ErrorKind::kValue,
                "the text is too short: a window of " + std::to_string(window) +
                    " characters needs " + std::to_string(window + 1) + ", there are " +
                    std::to_string(ids_.size()),
                location);
}

int64_t TextDataset::size() const {
  return (static_cast<int64_t>(ids_.size()) - window_ - 1) / stride_ + 1;
}

HostBatch TextDataset::fetch(std::span<const int64_t> items) const {
  std::vector<int64_t> shape = {static_cast<int64_t>(items.size()), window_};
  HostBatch batch{HostArray::empty(DType::kInt64, shape), HostArray::empty(DType::kInt64, shape)};
  int64_t *input = batch.input.as<int64_t>().data();
  int64_t *target = batch.target.as<int64_t>().data();
  for (int64_t item : items) {
    const int64_t *start = ids_.data() + item * stride_;
    input = std::copy_n(start, window_, input);
    target = std::copy_n(start + 1, window_, target);
  }
  return batch;
}

} // namespace weft::data
