// Private: byte-pair encoding (Sennrich et al. 2016): the symbols of a word, of which the pair that
// was learned first is merged until none is left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::text {

struct Merges {
  // By rank: the first has the lowest. The later of two equal pairs counts, as in a table.
  void add(int64_t left, int64_t right, int64_t merged) {
    table_[{left, right}] = {next_++, merged};
  }
  // Merges in place. Of equal ranks the leftmost pair comes first.
  void apply(std::vector<int64_t> &symbols) const;

private:
  struct Pair {
    int64_t left, right;
    bool operator==(const Pair &) const = default;
  };
  struct Hash {
    size_t operator()(const Pair &pair) const {
      return static_cast<size_t>(
          (static_cast<uint64_t>(pair.left) << 32 ^ static_cast<uint64_t>(pair.right)) *
              0x9e3779b97f4a7c15u >>
          16);
    }
  };
  struct Merge {
    int64_t rank, merged;
  };
  std::unordered_map<Pair, Merge, Hash> table_;
  int64_t next_ = 0;
};

// GPT-2's names of bytes: those that print stand for themselves, the others for U+0100 and on.
class ByteNames {
public:
  ByteNames();
  // The character that stands for a byte, in UTF-8.
  const std::string &name(unsigned char byte) const {
    return names_[byte];
  }
  // The bytes that the characters of a token stand for; false where one stands for none.
  bool bytes(std::string_view token, std::string &result) const;

private:
  std::vector<std::string> names_;
  std::unordered_map<char32_t, unsigned char> bytes_;
};

} // namespace weft::text
