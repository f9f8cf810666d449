#include "frontend/text/bpe.h"

#include <queue>

#include "frontend/text/characters.h"

namespace weft::text {

void Merges::apply(std::vector<int64_t> &symbols) const {
  if (symbols.size() < 2)
    return;
  // A list of the symbols that are left, and a heap of pairs that may be merged: one that was
  // changed since is skipped when its turn comes.
  constexpr size_t kNone = static_cast<size_t>(-1);
  struct Candidate {
    int64_t rank;
    size_t at;
    int64_t left, right, merged;
    bool operator<(const Candidate &other) const { // the lowest rank is the heap's largest
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  std::vector<size_t> next(symbols.size()), previous(symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) {
    next[i] = i + 1 < symbols.size() ? i + 1 : kNone;
    previous[i] = i > 0 ? i - 1 : kNone;
  }
  std::priority_queue<Candidate> heap;
  auto offer = [&](size_t at) {
    if (at == kNone || next[at] == kNone)
      return;
    auto found = table_.find({symbols[at], symbols[next[at]]});
    if (found != table_.end())
      heap.push({found->second.rank, at, symbols[at], symbols[next[at]], found->second.merged});
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    offer(i);
  constexpr int64_t kGone = -1;
  while (!heap.empty()) {
    Candidate best = heap.top();
    heap.pop();
    size_t right = next[best.at];
    if (symbols[best.at] != best.left || right == kNone || symbols[right] != best.right)
      continue;
    symbols[best.at] = best.merged;
    symbols[right] = kGone;
    next[best.at] = next[right];
    if (next[right] != kNone)
      previous[next[right]] = best.at;
    offer(previous[best.at]);
    offer(best.at);
  }
  std::erase(symbols, kGone);
}

ByteNames::ByteNames() : names_(256) {
  char32_t beyond = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    char32_t code = prints ? static_cast<char32_t>(byte) : beyond++;
    append_utf8(names_[static_cast<size_t>(byte)], code);
    bytes_[code] = static_cast<unsigned char>(byte);
  }
}

bool ByteNames::bytes(std::string_view token, std::string &result) const {
  result.clear();
  for (char32_t code : Characters(token).codes) {
    auto found = bytes_.find(code);
    if (found == bytes_.end())
      return false;
    result.push_back(static_cast<char>(found->second));
  }
  return true;
}

} // namespace weft::text
