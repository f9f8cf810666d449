#include "runtime/threading/parallel_for.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/threading/thread_pool.h"

namespace weft::runtime {
namespace {

// Pieces of each thread's share: one that the system does not let run delays the others by one of
// them. More would cost more than they save: bodies have work before their loops.
constexpr int64_t kPieces = 4;

struct Call {
  RangeBody body;
  void *data;
  int64_t count, grain, pieces;
  // pieces - index, then the code: the larger, the earlier the piece.
  std::atomic<uint64_t> first_error{0};
};

void run_piece(void *data, int thread, int index) {
  Call &call = *static_cast<Call *>(data);
  int64_t grains = (call.count + call.grain - 1) / call.grain;
  // Of equal size, but for one grain.
  auto start = [&](int64_t piece) {
    return std::min((grains / call.pieces * piece + std::min(piece, grains % call.pieces)) *
                        call.grain,
                    call.count);
  };
  int32_t code = call.body(call.data, thread, start(index), start(index + 1));
  if (code == 0)
    return;
  uint64_t error = static_cast<uint64_t>(call.pieces - index) << 32 | static_cast<uint32_t>(code);
  uint64_t known = call.first_error.load(std::memory_order_relaxed);
  while (error > known &&
         !call.first_error.compare_exchange_weak(known, error, std::memory_order_relaxed)) {}
}

} // namespace

int available_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(CPU_COUNT(&set), 1);
  return std::max<int>(std::thread::hardware_concurrency(), 1);
}

int32_t parallel_for(int64_t count, int64_t grain, int threads, RangeBody body, void *data) {
  if (count <= 0)
    return 0;
  grain = std::max<int64_t>(grain, 1);
  if (threads <= 1 || count <= grain || ThreadPool::in_task())
    return body(data, 0, 0, count);
  threads = std::min(threads, ThreadPool::kMostThreads);
  int64_t pieces = std::min((count + grain - 1) / grain, threads * kPieces);
  Call call{body, data, count, grain, pieces};
  ThreadPool::of_this_thread().run(threads, static_cast<int>(pieces), run_piece, &call);
  return static_cast<int32_t>(call.first_error.load(std::memory_order_relaxed) & 0xffffffffu);
}

std::optional<int> threads_from_environment() {
  const char *text = std::getenv("WEFT_NUM_THREADS");
  if (text == nullptr || *text == '\0')
    return std::nullopt;
  int threads = 0;
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, threads);
  bool is_number = error == std::errc() && stop == end;
  if (is_number && threads >= 1 && threads <= ThreadPool::kMostThreads)
    return threads;
  static std::atomic<bool> said{false};
  if (!(is_number && threads == 0) && !said.exchange(true))
    std::fprintf(stderr,
                 "weft: WEFT_NUM_THREADS=%s is ignored: it must be a number from 1 to %d, or 0 for "
                 "all processors\n",
                 text, ThreadPool::kMostThreads);
  return std::nullopt;
}

int default_threads() {
  return threads_from_environment().value_or(available_processors());
}

} // namespace weft::runtime
