// One kind of things that users register: the list, its lock, and its part of keys.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compiler/pipeline/Registrations.h"

namespace weft::compiler {

// All functions may be called from any thread. Make a registry with new and never destroy it:
// threads that outlive main() may still compile.
template <typename T> class Registry {
public:
  // kind: Registration::kind of its things ("fusion-rule").
  explicit Registry(const char *kind) : kind_(kind) {}

  // Adds a thing behind the others. refuse, if given, sees them first: its error leaves all as is.
  template <typename Refuse>
  absl::Status add(T thing, std::string name, std::string version, std::string place,
                   Refuse refuse) {
    {
      std::lock_guard lock(mutex_);
      if (absl::Status status = refuse(things_); !status.ok())
        return status;
      things_.push_back(std::move(thing));
      numbers_.push_back(++last_);
      changed();
      TakesBack::note([this, number = last_] { remove(number); });
    }
    addRegistration({kind_, std::move(name), std::move(version), std::move(place)});
    return absl::OkStatus();
  }
  absl::Status add(T thing, std::string name, std::string version, std::string place = "") {
    return add(std::move(thing), std::move(name), std::move(version), std::move(place),
               [](const std::vector<T> &) { return absl::OkStatus(); });
  }

  // In the order of registration.
  std::vector<T> things() const {
    std::lock_guard lock(mutex_);
    return things_;
  }
  void clear() {
    {
      std::lock_guard lock(mutex_);
      things_.clear();
      numbers_.clear();
      changed();
    }
    removeRegistrations(kind_);
  }
  // 0 while there are none; another number after each change. For keys of caches in memory.
  uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }
  // A number that never comes again after a change.
  uint64_t changes() const {
    return changes_.load(std::memory_order_acquire);
  }

private:
  void remove(uint64_t number) {
    std::lock_guard lock(mutex_);
    auto found = std::find(numbers_.begin(), numbers_.end(), number);
    if (found == numbers_.end())
      return; // cleared since
    things_.erase(things_.begin() + (found - numbers_.begin()));
    numbers_.erase(found);
    changed();
  }
  void changed() {
    uint64_t number = changes_.fetch_add(1, std::memory_order_acq_rel) + 1;
    generation_.store(things_.empty() ? 0 : number, std::memory_order_release);
  }

  const char *kind_;
  mutable std::mutex mutex_;
  std::vector<T> things_;
  std::vector<uint64_t> numbers_; // of each thing, in the order of things_
  uint64_t last_ = 0;
  std::atomic<uint64_t> changes_{0}, generation_{0};
};

// InvalidArgument where what is registered lacks its name, or its function (called `part`).
inline absl::Status checkParts(const std::string &kind, const std::string &name, bool hasPart,
                               const std::string &part = "function") {
  if (!name.empty() && hasPart)
    return absl::OkStatus();
  return absl::InvalidArgumentError("the " + kind + " '" + name +
                                    (name.empty() ? "' has no name" : "' has no " + part));
}

} // namespace weft::compiler
