// Entries by a hash of what they are for, in the order of their last use.
#pragma once

#include <cstdint>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>

namespace weft::recorder {

template <typename Entry> class RecentlyUsed {
public:
  // The one with this hash that it `is`, which nothing was used after then; null: none.
  template <typename Is> Entry *find(uint64_t hash, const Is &is) {
    auto [first, last] = index_.equal_range(hash);
    for (; first != last; ++first)
      if (auto found = first->second; is(found->second)) {
        order_.splice(order_.begin(), order_, found);
        return &found->second;
      }
    return nullptr;
  }
  // Entries stay where they are.
  Entry &add(uint64_t hash, Entry entry) {
    order_.emplace_front(hash, std::move(entry));
    try {
      index_.emplace(hash, order_.begin());
    } catch (...) {
      order_.pop_front();
      throw;
    }
    return order_.front().second;
  }
  const Entry &oldest() const {
    return order_.back().second;
  }
  void drop_oldest() {
    auto [at, last] = index_.equal_range(order_.back().first);
    while (at != last && &at->second->second != &oldest())
      ++at;
    index_.erase(at, at == last ? last : std::next(at));
    order_.pop_back();
  }
  int64_t size() const {
    return static_cast<int64_t>(order_.size());
  }
  // With their hashes, the last used first.
  auto begin() const {
    return order_.begin();
  }
  auto end() const {
    return order_.end();
  }

private:
  using Order = std::list<std::pair<uint64_t, Entry>>;
  Order order_;
  std::unordered_multimap<uint64_t, typename Order::iterator> index_;
};

} // namespace weft::recorder
