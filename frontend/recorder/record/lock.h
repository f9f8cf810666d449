// The recorder's lock, and what takes it where a call did not.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::recorder {

// A mutex that its owner may take again, and give up wholly while it waits or compiles. There is
// one. Each call takes it for some 100 ns, a cut for some microseconds. A thread that slept for so
// short a time would be woken by each owner in turn: so a thread that finds it taken spins first.
//
// Most programs record on one thread. So the first thread that takes the mutex reserves it: from
// then on it enters and leaves by stores alone, without the two atomic exchanges that a call would
// pay for. The first other thread ends the reservation for good (end_reservation).
class RecorderMutex {
public:
  RecorderMutex();
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
  // Whether this thread is the only one so far.
  bool is_reserved() const {
    return is_mine() && !ending_.load(std::memory_order_relaxed);
  }
  // By this thread.
  static bool held() {
    return depth_ > 0;
  }

private:
  enum State : uint32_t { kFree, kTaken, kAwaited };
  void acquire() {
    if (!enter_reserved())
      acquire_shared();
  }
  void release() {
    if (is_mine())
      inside_.store(false, std::memory_order_release);
    else if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      state_.notify_one();
  }
  bool is_mine() const {
    return reserved_for_.load(std::memory_order_relaxed) == &depth_;
  }
  // The store comes before the load for whoever ends the reservation: it has each thread of the
  // process pass a barrier between its own store of `ending_` and its load of `inside_`.
  bool enter_reserved() {
    if (!is_mine())
      return false;
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!ending_.load(std::memory_order_relaxed)) [[likely]]
      return true;
    inside_.store(false, std::memory_order_release);
    return false;
  }
  void acquire_shared();
  void end_reservation();

  // Taken until the reservation has ended. kAwaited: a thread may sleep until it is free.
  std::atomic<uint32_t> state_{kTaken};
  std::atomic<const void *> reserved_for_{nullptr}; // that thread's depth_; null before the first
  std::atomic<bool> inside_{false};                 // that thread has it
  std::atomic<bool> ending_{false};                 // for good
  // How often this thread has taken it.
  inline static constinit thread_local uint32_t depth_ = 0;
};

RecorderMutex &recorder_mutex();

// A base of what does something as long as it lives: it is neither copied nor moved.
struct Scope {
  Scope() = default;
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;
};

// Holds the lock while it lives. Whatever changes a count of the recorder's or takes from its pools
// makes one: a call has the lock already, which costs a comparison; an object of the user's that
// goes outside of any call takes it.
class UnderLock : Scope {
public:
  UnderLock() : taken_(!RecorderMutex::held()) {
    if (taken_) [[unlikely]]
      take();
  }
  ~UnderLock() {
    if (taken_) [[unlikely]]
      give_back();
  }

private:
  static void take();
  static void give_back();
  bool taken_;
};

} // namespace weft::recorder
