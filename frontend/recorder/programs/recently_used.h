// Entries by the program key that they have, in the order of their last use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>

#include "frontend/recorder/slices/program_key.h"

namespace weft::recorder {

// What a search makes of an entry: one that is not taken, one that is better than those before, one
// that none can be better than.
enum class Choice { kNo, kBetter, kBest };

// Keys are compared field by field; the hash only finds candidates.
template <typename Entry> class RecentlyUsed {
public:
  // The best of the entries with the key, by choose(entry), which is the most recently used one
  // then. Null: none.
  template <typename Choose> Entry *find(const ProgramKey &key, const Choose &choose) {
    auto [first, last] = index_.equal_range(key.hash());
    auto best = order_.end();
    for (auto choice = Choice::kNo; first != last && choice != Choice::kBest; ++first) {
      auto each = first->second;
      choice = each->program_key() == key ? choose(*each) : Choice::kNo;
      if (choice != Choice::kNo)
        best = each;
    }
    if (best == order_.end())
      return nullptr;
    order_.splice(order_.begin(), order_, best);
    return &*best;
  }
  Entry *find(const ProgramKey &key) {
    return find(key, [](const Entry &) { return Choice::kBest; });
  }
  // Entries stay where they are.
  Entry &add(Entry entry) {
    std::list<Entry> made;
    made.push_back(std::move(entry));
    index_.emplace(made.front().program_key().hash(), made.begin());
    order_.splice(order_.begin(), made);
    return order_.front();
  }
  // Drops the least recently used beyond these bounds. The newest ones stay, whatever they hold:
  // `kept` of them.
  void trim(int64_t entries, int64_t bytes, int64_t kept) {
    for (int64_t held = this->bytes(); size() > kept && (size() > entries || held > bytes);) {
      const Entry &oldest = order_.back();
      held -= oldest.bytes();
      auto [at, last] = index_.equal_range(oldest.program_key().hash());
      index_.erase(
          std::find_if(at, last, [&](const auto &each) { return &*each.second == &oldest; }));
      order_.pop_back();
    }
  }
  int64_t size() const {
    return std::ssize(order_);
  }
  // Some microseconds: for who is about to compile, and for figures.
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const Entry &entry : order_)
      bytes += entry.bytes();
    return bytes;
  }
  // The last used first.
  auto begin() const {
    return order_.begin();
  }
  auto end() const {
    return order_.end();
  }

private:
  std::list<Entry> order_;
  std::unordered_multimap<uint64_t, typename std::list<Entry>::iterator> index_; // by hash
};

} // namespace weft::recorder
