#include "frontend/text/pattern.h"

#include <limits>

#include "frontend/text/characters.h"

namespace weft::text {
namespace {

constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();
// Patterns of tokenizers have a few dozen sequences and groups in groups of two levels; more than
// this is a mistake, or meant to be slow.
constexpr size_t kMaxSequences = 512;
constexpr int kMaxDepth = 16;
// Characters, those of sets too, that are copied while groups become sequences; patterns of
// tokenizers take some thousand. It bounds time and memory: with many alternatives before it, each
// character stands in all of them.
constexpr size_t kMaxCopied = size_t{1} << 17;
constexpr size_t kMaxRepeats = 1000;

using Set = Pattern::Set;
using Item = Pattern::Item;
using Sequence = Pattern::Sequence;
using Kind = Set::Part::Kind;

class Parser {
public:
  Parser(std::string_view source, const std::string &where, Location location)
      : characters_(source), where_(where), location_(location) {}

  std::vector<Sequence> parse() {
    std::vector<Sequence> all = alternatives(0);
    if (!at_end())
      fail("an unexpected )");
    return all;
  }

private:
  [[noreturn]] void fail(const std::string &what) const {
    throw Error(ErrorKind::kFile,
                "'" + where_ + "': the pattern '" + std::string(characters_.text) + "' has " +
                    what + " at character " + std::to_string(at_) + ", which is not supported",
                location_);
  }
  bool at_end() const {
    return at_ == characters_.size();
  }
  bool next_is(char32_t code) const {
    return !at_end() && characters_.codes[at_] == code;
  }
  bool take(char32_t code) {
    if (!next_is(code))
      return false;
    ++at_;
    return true;
  }
  bool take(std::string_view ascii) {
    if (characters_.size() - at_ < ascii.size() ||
        characters_.bytes(at_, at_ + ascii.size()) != ascii)
      return false;
    at_ += ascii.size();
    return true;
  }
  char32_t any(const char *wanted) {
    if (at_end())
      fail(std::string("its end in place of ") + wanted);
    return characters_.codes[at_++];
  }

  // Nesting is bounded, so that this may call itself.
  std::vector<Sequence> alternatives(int depth) {
    if (depth > kMaxDepth)
      fail("too many groups in each other");
    std::vector<Sequence> all;
    do {
      std::vector<Sequence> sequences = sequence(depth);
      count(size_of(sequences));
      all.insert(all.end(), sequences.begin(), sequences.end());
    } while (take('|'));
    return all;
  }

  std::vector<Sequence> sequence(int depth) {
    std::vector<Sequence> all = {{}};
    while (!at_end() && !next_is('|') && !next_is(')')) {
      if (next_is('('))
        all = product(all, group(depth));
      else
        append(all, quantified(item()));
    }
    return all;
  }

  static size_t size_of(const Item &item) {
    return 1 + item.set.parts.size();
  }
  static size_t size_of(const std::vector<Sequence> &all) {
    size_t size = all.size();
    for (const Sequence &sequence : all)
      for (const Item &item : sequence)
        size += size_of(item);
    return size;
  }

  void count(size_t size) {
    copied_ += size;
    if (copied_ > kMaxCopied)
      fail("more than " + std::to_string(kMaxCopied) + " characters in all alternatives");
  }

  void append(std::vector<Sequence> &all, const Item &item) {
    count(all.size() * size_of(item));
    for (Sequence &sequence : all)
      sequence.push_back(item);
  }

  std::vector<Sequence> product(const std::vector<Sequence> &left,
                                const std::vector<Sequence> &right) {
    if (left.size() * right.size() > kMaxSequences)
      fail("more than " + std::to_string(kMaxSequences) + " alternatives");
    count(size_of(left) * right.size() + size_of(right) * left.size());
    std::vector<Sequence> all;
    for (const Sequence &a : left)
      for (const Sequence &b : right) {
        all.push_back(a);
        all.back().insert(all.back().end(), b.begin(), b.end());
      }
    return all;
  }

  std::vector<Sequence> group(int depth) {
    take('(');
    Item::Look look = take("?!")   ? Item::Look::kIsNot
                      : take("?=") ? Item::Look::kIs
                                   : Item::Look::kNone;
    bool outer = ignore_case_;
    if (look == Item::Look::kNone && next_is('?')) {
      if (take("?i:"))
        ignore_case_ = true;
      else if (!take("?:"))
        fail("a group of an unknown kind");
    }
    std::vector<Sequence> all = alternatives(depth + 1);
    ignore_case_ = outer;
    if (!take(')'))
      fail("a ( without )");
    if (look != Item::Look::kNone) {
      if (all.size() != 1 || all[0].size() != 1 || all[0][0].min != 1 || all[0][0].max != 1)
        fail("a look at more than one character");
      all[0][0].look = look;
    }
    if (take('?'))
      all.push_back({});
    if (next_is('*') || next_is('+') || next_is('{') || next_is('?'))
      fail("a repeated group");
    return all;
  }

  // After a backslash.
  Set::Part escaped() {
    char32_t code = any("an escaped character");
    switch (code) {
    case 's':
    case 'S':
      return {.kind = Kind::kSpace, .negated = code == 'S'};
    case 'p':
    case 'P': {
      bool negated = code == 'P';
      if (take("{L}"))
        return {.kind = Kind::kLetter, .negated = negated};
      if (take("{N}"))
        return {.kind = Kind::kNumber, .negated = negated};
      fail("a category other than L and N");
    }
    case 'r':
      return {.first = '\r', .last = '\r'};
    case 'n':
      return {.first = '\n', .last = '\n'};
    case 't':
      return {.first = '\t', .last = '\t'};
    default:
      if (code < 0x80 && (is_letter(code) || is_number(code)))
        fail("an unknown escape");
      return {.first = code, .last = code};
    }
  }

  void add_case(Set &set, char32_t code) const {
    set.parts.push_back({.first = code, .last = code});
    char32_t lower = code | 0x20;
    if (!ignore_case_ || code >= 0x80 || lower < 'a' || lower > 'z')
      return;
    char32_t other = code ^ 0x20;
    set.parts.push_back({.first = other, .last = other});
    // The two characters beyond ASCII whose other case is in it: long s and the Kelvin sign.
    if (lower == 's' || lower == 'k')
      set.parts.push_back({.first = lower == 's' ? U'\u017f' : U'\u212a',
                           .last = lower == 's' ? U'\u017f' : U'\u212a'});
  }

  Item item() {
    Item item;
    if (take('[')) {
      item.set = brackets();
    } else if (take('\\')) {
      item.set.parts.push_back(escaped());
    } else if (take('.')) {
      item.set.negated = true;
      item.set.parts.push_back({.first = '\n', .last = '\n'});
    } else {
      char32_t code = any("a character");
      if (code == '^' || code == '$' || code == '*' || code == '+' || code == '?' || code == '{')
        fail("an anchor or a repetition of nothing");
      add_case(item.set, code);
    }
    return item;
  }

  Set brackets() {
    Set set{.parts = {}, .negated = take('^')};
    bool first = true;
    while (first || !next_is(']')) {
      first = false;
      if (next_is('[') || take("&&"))
        fail("a set in a set");
      if (take('\\')) {
        set.parts.push_back(escaped());
      } else {
        char32_t low = any("]"), high = low;
        if (next_is('-') && at_ + 1 < characters_.size() && characters_.codes[at_ + 1] != ']') {
          take('-');
          high = any("the end of a range");
          if (high == '\\' || high < low)
            fail("a range whose end is no later character");
        }
        if (high == low)
          add_case(set, low);
        else if (ignore_case_)
          fail("a range under (?i:");
        else
          set.parts.push_back({.first = low, .last = high});
      }
      if (at_end())
        fail("a [ without ]");
    }
    take(']');
    return set;
  }

  size_t number() {
    size_t value = 0, start = at_;
    while (!at_end() && characters_.codes[at_] >= '0' && characters_.codes[at_] <= '9' &&
           value <= kMaxRepeats)
      value = value * 10 + (characters_.codes[at_++] - '0');
    if (at_ == start || value > kMaxRepeats)
      fail("a { without a number of at most " + std::to_string(kMaxRepeats));
    return value;
  }

  Item quantified(Item item) {
    if (take('?')) {
      item.min = 0;
    } else if (take('*')) {
      item.min = 0;
      item.max = kUnbounded;
    } else if (take('+')) {
      item.max = kUnbounded;
    } else if (take('{')) {
      item.min = item.max = number();
      if (take(','))
        item.max = next_is('}') ? kUnbounded : number();
      if (!take('}') || item.max < item.min)
        fail("a { that is no {n}, {n,} or {n,m}");
    } else {
      return item;
    }
    if (next_is('?') || next_is('+') || next_is('*'))
      fail("a lazy or possessive repetition");
    return item;
  }

  Characters characters_;
  const std::string &where_;
  Location location_;
  size_t at_ = 0, copied_ = 0;
  bool ignore_case_ = false;
};

// How many characters a sequence matches from `at` on; 0 for none.
size_t match_sequence(const Sequence &sequence, std::span<const char32_t> text, size_t at,
                      std::vector<size_t> &starts, std::vector<size_t> &counts) {
  starts.assign(sequence.size() + 1, at);
  counts.assign(sequence.size(), 0);
  size_t i = 0;
  while (i < sequence.size()) {
    const Item &item = sequence[i];
    size_t start = starts[i], count = 0;
    bool holds;
    if (item.look == Item::Look::kNone) {
      while (count < item.max && start + count < text.size() && item.set.has(text[start + count]))
        ++count;
      holds = count >= item.min;
    } else {
      bool is = start < text.size() && item.set.has(text[start]);
      holds = is == (item.look == Item::Look::kIs);
    }
    if (holds) {
      counts[i] = count;
      starts[++i] = start + count;
      continue;
    }
    // The last repetition that took more than it must gives one back.
    while (i > 0 &&
           (sequence[i - 1].look != Item::Look::kNone || counts[i - 1] <= sequence[i - 1].min))
      --i;
    if (i == 0)
      return 0;
    starts[i] = starts[i - 1] + --counts[i - 1];
  }
  return starts.back() - at;
}

} // namespace

bool Set::has(char32_t code) const {
  for (const Part &part : parts) {
    bool is = false;
    switch (part.kind) {
    case Part::Kind::kRange:
      is = code >= part.first && code <= part.last;
      break;
    case Part::Kind::kLetter:
      is = is_letter(code);
      break;
    case Part::Kind::kNumber:
      is = is_number(code);
      break;
    case Part::Kind::kSpace:
      is = is_space(code);
      break;
    }
    if (is != part.negated)
      return !negated;
  }
  return negated;
}

Pattern::Pattern(std::string_view source, const std::string &where, Location location)
    : sequences_(Parser(source, where, location).parse()) {}

size_t Pattern::match(std::span<const char32_t> text, size_t at) const {
  thread_local std::vector<size_t> starts, counts;
  for (const Sequence &sequence : sequences_)
    if (size_t length = match_sequence(sequence, text, at, starts, counts))
      return length;
  return 0;
}

} // namespace weft::text
