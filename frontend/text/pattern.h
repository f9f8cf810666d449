// Private: the regular expressions that tokenizers cut a text into words with.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/error.h"

namespace weft::text {

// Alternatives of sequences of sets of characters, each with a quantifier: characters, ".", \s \S
// \p{L} \p{N} \P{L} \P{N} \r \n \t, sets in brackets, (?:..), (?i:..) over ASCII, groups with or
// without "?", ? * + {n} {n,m}, and (?!..), (?=..) of one set. Alternatives are tried in order, and
// repetitions take as much as they can and give back. A group stands for sequences of its own, so
// that what precedes it gives back before its next alternative is tried: the same unless both can
// match the same characters.
class Pattern {
public:
  // Throws Error (kFile), "'where': ..", for what it does not know, with its place.
  Pattern(std::string_view source, const std::string &where, Location location);

  // How many characters match from `at` on; 0 for none.
  size_t match(std::span<const char32_t> text, size_t at) const;

  struct Set {
    struct Part {
      enum class Kind { kRange, kLetter, kNumber, kSpace } kind = Kind::kRange;
      bool negated = false;
      char32_t first = 0, last = 0; // of a range
    };
    std::vector<Part> parts;
    bool negated = false;

    bool has(char32_t code) const;
  };
  struct Item {
    Set set;
    size_t min = 1, max = 1;
    enum class Look { kNone, kIs, kIsNot } look = Look::kNone; // at the next one, which stays
  };
  using Sequence = std::vector<Item>;

private:
  std::vector<Sequence> sequences_;
};

} // namespace weft::text
