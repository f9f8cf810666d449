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

// Keys are compared field by field; the hash only finds candidates.
template <typename Entry> class RecentlyUsed {
public:
  // Which nothing was used after then; null: none.
  Entry *find(const ProgramKey &key) {
    auto [first, last] = index_.equal_range(key.hash());
    for (; first != last; ++first)
      if (auto found = first->second; found->program_key() == key) {
        order_.splice(order_.begin(), order_, found);
        return &*found;
      }
    return nullptr;
  }
  // Entries stay where they are.
  Entry &add(Entry entry) {
    std::list<Entry> made;
    made.push_back(std::move(entry));
    index_.emplace(made.front().program_key().hash(), made.begin());
    order_.splice(order_.begin(), made);
    return order_.front();
  }
  const Entry &oldest() const {
    return order_.back();
  }
  void drop_oldest() {
    auto [at, last] = index_.equal_range(oldest().program_key().hash());
    index_.erase(
        std::find_if(at, last, [&](const auto &each) { return &*each.second == &oldest(); }));
    order_.pop_back();
  }
  int64_t size() const {
    return std::ssize(order_);
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
