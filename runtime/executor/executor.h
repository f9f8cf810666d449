// Runs a device's work, in the order in which it is submitted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/executable/executable.h"
#include "runtime/memory/arena_pool.h"
#include "runtime/memory/event.h"
#include "runtime/memory/ordered_memory.h"
#include "runtime/threading/thread_pool.h"

namespace weft::runtime {

// Submissions wait when this many are under way: each holds its inputs and outputs, and a loop that
// reads nothing would run out of memory.
inline constexpr int64_t kMaxInFlight = 16;
// A serial program that touches no more bytes than this runs on the caller's thread: it takes less
// time (some 20 us) than a caller that reads the result would lose in two hand-overs; a larger one
// is worth the overlap with the caller.
inline constexpr int64_t kMaxInlineBytes = 256 << 10;
// So does one of up to this size, even if it would be shared out among threads, while another
// caller's program is under way: each caller keeps a processor busy then, where the executor's
// thread would run their programs one after the other. For some 100 us the start of a team of
// threads and two hand-overs count.
inline constexpr int64_t kMaxInlineBytesOfMany = 1 << 20;

// A caller whose last kWaitedAtOnce runs it ran itself, as it waited for each before the executor's
// thread had come to it, runs the next ones when it starts them: nobody is woken then. One in
// kTrialRuns is left to whoever comes first, so that a caller that has found other work to do
// meanwhile gets the overlap again.
inline constexpr uint32_t kWaitedAtOnce = 4, kTrialRuns = 16;

struct ExecutorStats {
  int64_t submitted = 0;   // programs that went through the queue
  int64_t inline_runs = 0; // small programs run on their caller's thread, beside the queue
  // Outputs in the memory of buffers that only runs under way still held (ordered_memory.h).
  int64_t ordered_buffers = 0, ordered_bytes = 0;
};

// What a thread does that waits for a run.
enum class Waiters {
  kSleep,
  // Runs what is queued, its own run the last, if nobody does: a hand-over to another thread and
  // back takes some 10 us, and 50 where an idle processor has to be woken. The executor outlives
  // all that wait.
  kRun,
};

// A line of runs, one at a time, each on the executor's own thread or on one that waits for it.
// Whoever runs has the turn, and with it the sole use of the executor's pool of threads
// (parallel_for). All functions may be called from any thread that does not run an item.
class Executor final : EventQueue {
  struct Item;

public:
  // A run that was started. It begins at finish() at the latest, which is called without a lock
  // that others need meanwhile: a small run takes place there.
  class Started {
  public:
    Started() = default;
    Started(Started &&) noexcept;
    Started &operator=(Started &&) noexcept;
    // finish(), if that was not called.
    ~Started();
    // waits: whether the caller waits for the run at once, and may as well run it here.
    void finish(bool waits = false);

  private:
    friend class Executor;
    Executor *executor_ = nullptr;
    std::unique_ptr<Item> item_;       // null: it is queued
    std::shared_ptr<const Event> end_; // of what is queued
  };

  // name: of its device, in profiles.
  Executor(std::shared_ptr<Memory> memory, int threads, std::string name = "",
           Waiters waiters = Waiters::kSleep);
  // Finishes what is under way.
  ~Executor();
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  // The run comes after all that was started before on the same buffers. `inputs` are as the
  // executable's specs say. In `outputs` null entries are filled: with a new buffer, or with the
  // one that the output is tied to. A failure that is returned came before the first instruction:
  // nothing has changed, a retry is legal. A later one poisons outputs and donated inputs: their
  // wait() returns it. So does an input that an earlier run has poisoned. A small program
  // (kMaxInlineBytes, kMaxInlineBytesOfMany) runs on the caller's thread, in finish(), when nothing
  // is under way on its buffers; others may wait for it from now on.
  // Where the calling thread can compute nothing (core/ends.h): FailedPrecondition, as of run().
  // after: runs that it reads nothing of, and that must have succeeded before it begins: it fails
  // as if they wrote its inputs. end: is given the run's end. results: where new outputs lie; null:
  // in the executor's memory.
  absl::StatusOr<Started> start(std::shared_ptr<Executable> executable,
                                std::vector<std::shared_ptr<Buffer>> inputs,
                                std::vector<std::shared_ptr<Buffer>> &outputs,
                                std::vector<std::shared_ptr<const Event>> after = {},
                                std::shared_ptr<const Event> *end = nullptr,
                                Memory *results = nullptr);
  // start() and finish(); where there is no memory, once more after make_room().
  absl::Status submit(std::shared_ptr<Executable> executable,
                      std::vector<std::shared_ptr<Buffer>> inputs,
                      std::vector<std::shared_ptr<Buffer>> &outputs);

  // Runs any other work in order; the event holds its status. `context` is the executor's.
  using Work = std::function<absl::Status(const RunContext &context)>;
  std::shared_ptr<const Event> submit(Work work);
  // submit() and wait().
  absl::Status run(Work work);

  // Waits for all that was submitted before. Errors stay with the buffers that they poisoned.
  void synchronize();
  // Stops the threads after what is under way has ended; later submissions run on their caller's
  // thread, one at a time.
  void stop();
  // Waits for what is under way, which gives memory back, as may the arena of a larger program.
  void make_room();
  // Gives the shared arena back.
  void trim() {
    arenas_.trim();
  }

  int threads() const {
    return threads_.load(std::memory_order_relaxed);
  }
  // For what is submitted from now on.
  void set_threads(int threads);
  std::shared_ptr<Memory> memory() const;
  void set_memory(std::shared_ptr<Memory> memory);
  ExecutorStats stats() const;

private:
  struct Item {
    std::shared_ptr<Event> event;
    std::shared_ptr<Executable> executable; // null: `work`
    std::unique_ptr<RunResources> resources;
    RunContext context;
    std::vector<std::shared_ptr<Buffer>> inputs;
    std::vector<std::shared_ptr<Buffer>> outputs;
    // Writes of inputs that were under way, or failed, at submission.
    std::vector<std::shared_ptr<const Event>> dependencies;
    // Reads that were under way of what the run writes: their errors are not its own.
    std::vector<std::shared_ptr<const Event>> readers;
    Work work;
  };

  // in_line: the run takes its place in the queue.
  absl::Status bind_outputs(const Executable &executable, bool in_line, Memory &memory,
                            const std::vector<std::shared_ptr<Buffer>> &inputs,
                            std::vector<std::shared_ptr<Buffer>> &outputs);
  absl::StatusOr<std::unique_ptr<RunResources>>
  acquire(Executable &executable, const RunContext &context, Memory &results,
          const std::vector<std::shared_ptr<Buffer>> &inputs,
          std::vector<std::shared_ptr<Buffer>> &outputs);
  RunContext context(bool on_executor);
  bool is_shared_now();
  // What the ends of its runs are told.
  EventQueue *queue_of_events() {
    return waiters_ == Waiters::kRun ? this : nullptr;
  }
  void mark(Item &item);
  absl::Status run_in_turn(Work work);
  std::shared_ptr<const Event> enqueue(Work work);
  void enqueue(std::unique_ptr<Item> item);
  // Has the executor's thread look at the queue.
  void wake();
  void run_until(const Event &event) override;
  // Runs what is queued up to this run, if nobody does; whether it ran that one.
  bool take_turn(const Event &event);
  // Whether who starts the run, the only one that is queued, is going to wait for it at once.
  bool expects_wait(const Event &event);
  // In a profile: what the device's memory holds now.
  void count_memory();
  void run_inline(Item &item);
  void run(std::unique_ptr<Item> item);
  // The first of the queue, whose turn it is; holds the lock before and after.
  void run_next(std::unique_lock<std::mutex> &lock);
  void loop();

  const std::string name_;
  const Waiters waiters_;
  mutable std::mutex settings_mutex_;
  std::shared_ptr<Memory> memory_;
  std::atomic<int> threads_{0};
  ArenaPool arenas_;
  OrderedMemory ordered_;
  ThreadPool pool_; // of who has the turn

  std::mutex queue_mutex_;
  std::condition_variable room_;
  std::deque<std::unique_ptr<Item>> queue_;
  std::vector<std::shared_ptr<const Event>> inline_runs_under_way_; // under queue_mutex_
  bool has_turn_ = false; // somebody runs an item of the queue
  int64_t in_flight_ = 0;
  std::thread::id last_caller_; // of those that queued something
  uint32_t waited_at_once_ = 0; // runs in a row that who waits for them ran
  uint32_t expected_ = 0;       // how often expects_wait() was asked with enough of these
  bool stopping_ = false;
  bool stopped_ = false;
  std::atomic<uint32_t> arrivals_{0}; // what the thread waits on
  std::atomic<int64_t> submitted_{0}, inline_runs_{0};
  std::thread thread_;
};

} // namespace weft::runtime
