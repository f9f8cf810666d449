#include "runtime/threading/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/core/ends.h"
#include "runtime/core/spin.h"
#include "runtime/threading/parallel_for.h"

namespace weft::runtime {
namespace {

thread_local bool runs_a_task = false;
constinit thread_local ThreadPool *lent = nullptr; // to the thread

uint64_t share_of(int threads, int first, int last) {
  return static_cast<uint64_t>(threads) << 48 | static_cast<uint64_t>(last) << 24 |
         static_cast<uint64_t>(first);
}

} // namespace

ThreadPool::~ThreadPool() {
  stop();
}

ThreadPool &ThreadPool::of_this_thread() {
  if (lent)
    return *lent;
  thread_local ThreadPool pool;
  return pool;
}

ThreadPool::Lent::Lent(ThreadPool &pool) : before_(std::exchange(lent, &pool)) {}

ThreadPool::Lent::~Lent() {
  lent = before_;
}

bool ThreadPool::in_task() {
  return runs_a_task;
}

int ThreadPool::reserve(int threads) {
  threads = std::clamp(threads, 1, kMostThreads);
  if (threads <= threads_)
    return threads;
  if (refused_calls_ > 0) {
    --refused_calls_;
    return threads_;
  }
  // Idle threads look through the shares at any time: a larger pool is made anew.
  stop();
  shares_ = std::make_unique<Share[]>(threads);
  num_shares_ = threads_ = threads;
  pays_ = threads <= available_processors();
  try {
    for (int i = 1; i < threads; ++i)
      workers_.emplace_back([this, i] { loop(i); });
  } catch (const std::exception &) { // no thread, or no memory for one
    threads_ = static_cast<int>(workers_.size()) + 1;
    refused_calls_ = kRefusedCalls;
  }
  return threads_;
}

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  regions_.fetch_add(1);
  regions_.notify_all();
  for (std::thread &worker : workers_)
    join(worker);
  workers_.clear();
  threads_ = 1;
  refused_calls_ = 0;
  stopping_.store(false, std::memory_order_relaxed);
}

void ThreadPool::run(int threads, int tasks, Task task, void *data) {
  threads = reserve(std::min(threads, tasks));
  if (threads == 1) {
    for (int i = 0; i < tasks; ++i)
      task(data, 0, i);
    return;
  }
  task_ = task;
  data_ = data;
  pending_.store(static_cast<uint32_t>(tasks), std::memory_order_relaxed);
  for (int t = 0; t < threads; ++t)
    shares_[t].word.store(share_of(threads, static_cast<int64_t>(tasks) * t / threads,
                                   static_cast<int64_t>(tasks) * (t + 1) / threads),
                          std::memory_order_release);
  regions_.fetch_add(1);
  regions_.notify_all();
  work(0);
  auto ended = [this] {
    return pending_.load(std::memory_order_acquire) == 0;
  };
  if (!spin_until(ended, pays_))
    while (uint32_t pending = pending_.load(std::memory_order_acquire))
      pending_.wait(pending, std::memory_order_acquire);
}

// The task, or -1.
int ThreadPool::claim(Share &share, int thread) {
  constexpr uint64_t kIndex = (1 << 24) - 1;
  uint64_t word = share.word.load(std::memory_order_acquire);
  while ((word & kIndex) < (word >> 24 & kIndex) && thread < static_cast<int>(word >> 48))
    if (share.word.compare_exchange_weak(word, word + 1, std::memory_order_acquire))
      return static_cast<int>(word & kIndex);
  return -1;
}

void ThreadPool::work(int thread) {
  for (int i = 0; i < num_shares_; ++i) {
    Share &share = shares_[(thread + i) % num_shares_];
    for (int index; (index = claim(share, thread)) >= 0;) {
      runs_a_task = true;
      task_(data_, thread, index);
      runs_a_task = false;
      if (pending_.fetch_sub(1) == 1 && thread != 0)
        pending_.notify_one();
    }
  }
}

void ThreadPool::loop(int thread) {
  pthread_setname_np(pthread_self(), "weft-worker");
  RunsHere pieces;
  while (true) {
    // Before the work: a region that comes later changes it.
    uint32_t regions = regions_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed))
      return;
    work(thread);
    if (!spin_until([&] { return regions_.load(std::memory_order_acquire) != regions; }, pays_))
      regions_.wait(regions, std::memory_order_acquire);
  }
}

} // namespace weft::runtime
