// Text as a data set: characters of UTF-8 files, numbered by a vocabulary, read in windows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/data/dataset.h"
#include "weft/error.h"

namespace weft::data {

// The characters (Unicode code points) of a UTF-8 text. `name` stands in the error. Throws Error
// when the text is empty or not UTF-8 (overlong forms, surrogates and NUL characters, the mark of a
// binary file, are refused), with the offset of the first bad byte.
std::u32string decode_utf8(std::string_view text, const std::string &name,
                           Location location = Location::current());

// The characters as UTF-8.
std::string encode_utf8(std::u32string_view characters);

// The characters of a UTF-8 file. Throws Error when it is missing, unreadable, not a file, empty,
// or not UTF-8.
std::u32string read_text(const std::string &path, Location location = Location::current());

// The file itself, or the regular files directly in the folder: sorted by name, a file that several
// names (symbolic links) lead to once, hidden ones left out. Throws Error when `path` is missing,
// or a folder without files.
std::vector<std::string> text_files(const std::string &path,
                                    Location location = Location::current());

// Numbers characters 0, 1, 2, ... in the order of their code points.
class Vocabulary {
public:
  Vocabulary() = default;

  // The distinct characters of the text.
  explicit Vocabulary(std::u32string_view text);

  // How many characters it knows.
  int64_t size() const {
    return static_cast<int64_t>(characters_.size());
  }
  // The characters, in the order of their ids.
  const std::u32string &characters() const {
    return characters_;
  }

  // The number of each character; throws Error, naming the character, when it is not in the
  // vocabulary.
  std::vector<int64_t> encode(std::u32string_view text,
                              Location location = Location::current()) const;

  // The text of numbers in [0, size()); throws Error for others.
  std::u32string decode(std::span<const int64_t> ids,
                        Location location = Location::current()) const;

private:
  std::u32string characters_;
  std::unordered_map<char32_t, int64_t> ids_;
};

// Windows over a sequence of ids: item i is input = ids[i * stride, i * stride + window) and target
// = the same moved on by one; a batch is int64 [batch, window] twice.
class TextDataset : public Dataset {
public:
  // Throws Error when ids holds fewer than window + 1 elements, or window or stride is below 1.
  TextDataset(std::vector<int64_t> ids, int64_t window, int64_t stride = 1,
              Location location = Location::current());

  int64_t size() const override;
  HostBatch fetch(std::span<const int64_t> items) const override;

private:
  std::vector<int64_t> ids_;
  int64_t window_, stride_;
};

} // namespace weft::data
