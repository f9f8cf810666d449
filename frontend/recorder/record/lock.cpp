#include "frontend/recorder/record/lock.h"

#include <chrono>
#include <linux/membarrier.h>
#include <mutex>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "runtime/core/spin.h"

namespace weft::recorder {

// Has each thread of the process pass a memory barrier. Whether it can: Linux since 4.14, if no
// filter of system calls is in the way.
static bool fence_all_threads() {
  auto membarrier = [](int command) {
    return syscall(SYS_membarrier, command, 0, 0) == 0;
  };
  return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
         (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
          membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

RecorderMutex::RecorderMutex() {
  if (fence_all_threads())
    return;
  ending_.store(true, std::memory_order_relaxed);
  state_.store(kFree, std::memory_order_release);
}

void RecorderMutex::end_reservation() {
  static std::mutex ending; // of several threads one does it
  std::lock_guard<std::mutex> lock(ending);
  if (ending_.exchange(true, std::memory_order_relaxed))
    return;
  // A filter of system calls may have come since: any store is seen long before that.
  if (!fence_all_threads())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  while (inside_.load(std::memory_order_acquire))
    std::this_thread::yield();
  reserved_for_.store(this, std::memory_order_relaxed); // no thread's
  release();
}

void RecorderMutex::acquire_shared() {
  if (!ending_.load(std::memory_order_relaxed)) {
    const void *nobody = nullptr;
    if (reserved_for_.compare_exchange_strong(nobody, &depth_, std::memory_order_relaxed) &&
        enter_reserved())
      return;
    end_reservation();
  }
  uint32_t expected = kFree;
  if (state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire)) [[likely]]
    return;
  // A look now and then: who records goes on for some calls, rather than have each of them move the
  // record from one processor's cache to the other's.
  auto is_mine = [this, look = 0]() mutable {
    constexpr int kEvery = 16; // 1 us or less
    uint32_t expected = kFree;
    return ++look % kEvery == 0 && state_.load(std::memory_order_relaxed) == kFree &&
           state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire);
  };
  if (runtime::spin_until(is_mine, /*pays=*/true))
    return;
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
    state_.wait(kAwaited, std::memory_order_relaxed);
}

RecorderMutex::Pause::Pause(RecorderMutex &mutex)
    : mutex_(mutex), depth_(std::exchange(RecorderMutex::depth_, 0)) {
  mutex_.release();
}

RecorderMutex::Pause::~Pause() {
  mutex_.acquire();
  RecorderMutex::depth_ = depth_;
}

void UnderLock::take() {
  recorder_mutex().lock();
}
void UnderLock::give_back() {
  recorder_mutex().unlock();
}

} // namespace weft::recorder
