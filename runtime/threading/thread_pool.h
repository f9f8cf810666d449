// Threads that share one caller's work.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace weft::runtime {

// A region of work is a number of tasks, each of which runs once, on whichever thread comes first.
// Tasks are dealt out to the threads in equal runs, so that the same tasks stay on the same core
// from one region to the next. A thread that is through with its own takes over those of others
// that have not begun: a thread that the system keeps from running, since another process has its
// processor, delays the region by the one task that it holds, if any.
//
// One thread at a time calls a pool.
class ThreadPool {
public:
  // `thread` is the one that runs task `index`; the caller is 0.
  using Task = void (*)(void *data, int thread, int index);
  static constexpr int kMostThreads = 1024, kMostTasks = (1 << 24) - 1,
                       kRefusedCalls = 1000; // a second of small regions

  ThreadPool() = default;
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  // The pool that is lent to the calling thread, or else its own.
  static ThreadPool &of_this_thread();
  // Lends the calling thread a pool for as long as the object lives.
  class Lent {
  public:
    explicit Lent(ThreadPool &pool);
    ~Lent();
    Lent(const Lent &) = delete;
    Lent &operator=(const Lent &) = delete;

  private:
    ThreadPool *before_;
  };
  // Whether the calling thread runs a task of some pool. Regions do not nest: such a thread runs
  // itself what it would share.
  static bool in_task();

  // Has `threads` threads ready, the caller among them. How many of them there are: fewer only
  // where the system gives no more. Then the next kRefusedCalls calls that want more do not ask it
  // again: each time all threads would end and begin anew.
  int reserve(int threads);

  // Runs task(data, t, i) for each i of [0, tasks), each t of [0, reserve(threads)), and returns
  // when all have ended. Not to be called from a task. Tasks may wait for each other where there
  // are no more of them than reserve() said: then each is begun. For a thread holds one task at a
  // time, so that while one has not begun, some thread holds none, and that thread takes it when it
  // runs.
  void run(int threads, int tasks, Task task, void *data);
  // Ends the pool's threads; the next region starts new ones. No region is under way.
  void stop();

private:
  // Tasks of one thread that have not begun. All that a claim depends on is in the one word that
  // it changes: the next task (24 bits), the last (24) and the region's threads (16). So a thread
  // that comes late, with a word of another region, claims nothing or a task of this one.
  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
  };

  int claim(Share &share, int thread);
  void work(int thread);
  void loop(int thread);

  std::unique_ptr<Share[]> shares_; // one a thread
  int num_shares_ = 0;
  std::vector<std::thread> workers_;
  int threads_ = 1;
  int refused_calls_ = 0; // that are left
  bool pays_ = false; // to spin: each thread may have a processor
  // Of the region under way; read by holders of a task alone.
  Task task_ = nullptr;
  void *data_ = nullptr;
  std::atomic<uint32_t> pending_{0}; // its tasks that have not ended
  std::atomic<uint32_t> regions_{0}; // what idle threads wait on
  std::atomic<bool> stopping_{false};
};

} // namespace weft::runtime
