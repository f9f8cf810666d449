// The recorder's lock, and what takes it where a call did not.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::recorder {

// A mutex that its owner may take again, and give up wholly while it waits or compiles. There is
// one. Each call takes it for some 100 ns, a cut for some microseconds. A thread that slept for so
// short a time would be woken by each owner in turn: so a thread that finds it taken spins first.
class RecorderMutex {
public:
  void lock() {
    if (depth_++ == 0)
      acquire();
  }
  void unlock() {
    if (--depth_ == 0)
      release();
  }
  // Gives the lock up, however often it was taken, and takes it back when destroyed. What the
  // caller refers to must be held by handles.
  class Pause {
  public:
    explicit Pause(RecorderMutex &mutex);
    ~Pause();

  private:
    RecorderMutex &mutex_;
    uint32_t depth_;
  };
  // By this thread.
  static bool held() {
    return depth_ > 0;
  }

private:
  enum State : uint32_t { kFree, kTaken, kAwaited };
  void acquire() {
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire)) [[unlikely]]
      acquire_taken();
  }
  void acquire_taken();
  void release() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      state_.notify_one();
  }

  std::atomic<uint32_t> state_{kFree}; // kAwaited: a thread may sleep until it is free
  // How often this thread has taken it. In a shared library the default would be a call.
  [[gnu::tls_model("initial-exec")]] inline static constinit thread_local uint32_t depth_ = 0;
};

RecorderMutex &recorder_mutex();

// Holds the lock while it lives. Whatever changes a count of the recorder's or takes from its pools
// makes one: a call has the lock already, which costs a comparison; an object of the user's that
// goes outside of any call takes it.
class UnderLock {
public:
  UnderLock() : taken_(!RecorderMutex::held()) {
    if (taken_) [[unlikely]]
      take();
  }
  ~UnderLock() {
    if (taken_) [[unlikely]]
      give_back();
  }
  UnderLock(const UnderLock &) = delete;
  UnderLock &operator=(const UnderLock &) = delete;

private:
  static void take();
  static void give_back();
  bool taken_;
};

} // namespace weft::recorder
