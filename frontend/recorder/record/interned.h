// What there is one object of for each key: types, source lines, the texts and structures of
// signatures.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "frontend/recorder/record/handle.h"
#include "frontend/recorder/record/lock.h"

namespace weft::recorder {

// A base of such objects.
struct Interned {
  mutable uint32_t users = 0; // Refs, under the recorder's lock
  mutable bool idle = false;  // nobody has asked for it, or used it, since the table was last swept
  uint32_t id = 0;            // never reused in its table: keys compare by it
};

inline void retain(const Interned &object) {
  UnderLock lock;
  ++object.users;
}
// When the last one goes, unused(T &) decides: the object stays for whoever asks for it next, or is
// erased from its table.
template <std::derived_from<Interned> T> void release(T &object) {
  UnderLock lock;
  if (--object.users == 0)
    unused(object);
}

// The objects of one kind. T has members key(), which gives a Key, and hash(Key), whose upper bits
// tell keys apart. Of those with the same recent_bits of them the one that was found last is at
// hand.
template <typename T, typename Key, int recent_bits = 1> class InternTable {
public:
  // Null where there is none.
  T *find(const Key &key) {
    T *&recent = recent_of(key);
    if ((!recent || !(recent->key() == key)) && !look_up(key, recent))
      return nullptr;
    recent->idle = false;
    return recent;
  }
  T *add(std::unique_ptr<T> object) {
    object->id = next_id_++;
    return objects_.emplace(object->key(), std::move(object)).first->second.get();
  }
  void erase(const T &object) {
    if (T *&recent = recent_of(object.key()); recent == &object)
      recent = nullptr;
    objects_.erase(objects_.find(object.key()));
  }
  int64_t size() const {
    return std::ssize(objects_);
  }
  auto begin() const {
    return objects_.begin();
  }
  auto end() const {
    return objects_.end();
  }

  // How many objects make it time for a sweep: `bound` more than the last one left.
  int64_t most(int64_t bound) const {
    return left_ + bound;
  }
  bool crowded(int64_t bound) const {
    return size() > most(bound);
  }
  // Erases what nobody uses and nobody has asked for since the last sweep, so that what a caller
  // has just seen stays; but leaves no more than `bound` objects without use.
  template <typename Gone> void sweep(int64_t bound, const Gone &gone) {
    int64_t spared = 0;
    recent_.fill(nullptr);
    for (auto it = objects_.begin(); it != objects_.end();) {
      const T &object = *it->second;
      bool is_used = object.users > 0;
      if (!is_used && (object.idle || spared == bound)) {
        gone(object);
        it = objects_.erase(it);
        continue;
      }
      object.idle = !is_used;
      spared += !is_used;
      ++it;
    }
    left_ = size();
  }

private:
  struct Hash {
    size_t operator()(const Key &key) const {
      return T::hash(key);
    }
  };
  T *&recent_of(const Key &key) {
    return recent_[T::hash(key) >> (64 - recent_bits)];
  }
  // Out of line: it would enlarge the frame of each call.
  [[gnu::noinline]] bool look_up(const Key &key, T *&found) {
    auto it = objects_.find(key);
    if (it == objects_.end())
      return false;
    found = it->second.get();
    return true;
  }

  std::unordered_map<Key, std::unique_ptr<T>, Hash> objects_; // by what they hold themselves
  std::array<T *, size_t(1) << recent_bits> recent_{};
  int64_t left_ = 0;
  uint32_t next_id_ = 0;
};

} // namespace weft::recorder
