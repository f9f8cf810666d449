// The caches of the process: each is entered in one list where it is made, so that whoever asks
// what holds memory between calls sees all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace weft::runtime {

// What a cache holds now, and at most; -1 where it is not counted, or has no bound of that kind.
struct CacheUse {
  int64_t entries = -1, bytes = -1;
  int64_t max_entries = -1, max_bytes = -1;
};

struct Cache {
  const char *name;
  const char *freed; // what frees it
  std::function<CacheUse()> use;
};

class CacheList {
public:
  static CacheList &instance() {
    static auto *list = new CacheList; // objects in static variables enter themselves
    return *list;
  }
  void add(Cache cache) {
    std::lock_guard lock(mutex_);
    caches_.push_back(std::move(cache));
  }
  // In no order. The recorder's lock is held where their figures are asked for (weft::caches).
  std::vector<Cache> all() const {
    std::lock_guard lock(mutex_);
    return caches_;
  }

private:
  mutable std::mutex mutex_;
  std::vector<Cache> caches_;
};

// In a static variable beside the cache.
struct RegisteredCache {
  RegisteredCache(const char *name, const char *freed, std::function<CacheUse()> use) {
    CacheList::instance().add({name, freed, std::move(use)});
  }
};

// The objects of a class that each have a cache of one kind: one row is for all of them.
template <typename T> class Instances {
public:
  static Instances &instance() {
    static auto *all = new Instances;
    return *all;
  }
  void add(T *object) {
    std::lock_guard lock(mutex_);
    objects_.push_back(object);
  }
  void remove(T *object) {
    std::lock_guard lock(mutex_);
    std::erase(objects_, object);
  }
  // Calls f with each; they live meanwhile.
  template <typename F> void each(const F &f) const {
    std::lock_guard lock(mutex_);
    std::for_each(objects_.begin(), objects_.end(), f);
  }

private:
  mutable std::mutex mutex_;
  std::vector<T *> objects_;
};

} // namespace weft::runtime
