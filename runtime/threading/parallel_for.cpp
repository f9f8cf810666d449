#include "runtime/threading/parallel_for.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

// libgomp's stable entry points, declared here because clang generates no code for this library.
extern "C" {
void GOMP_parallel(void (*body)(void *), void *data, unsigned num_threads, unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

// ThreadSanitizer does not see the fork and the join inside libgomp.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
extern "C" {
void __tsan_acquire(void *address);
void __tsan_release(void *address);
}
#define WEFT_TSAN_ACQUIRE(address) __tsan_acquire(address)
#define WEFT_TSAN_RELEASE(address) __tsan_release(address)
#endif
#endif
#ifndef WEFT_TSAN_ACQUIRE
#define WEFT_TSAN_ACQUIRE(address)
#define WEFT_TSAN_RELEASE(address)
#endif

namespace weft::runtime {
namespace {

struct Call {
  RangeBody body;
  void *data;
  int64_t count;
  int64_t grain;
  std::atomic<uint64_t> first_error{
      0}; // ranges - thread, then the code: the larger, the earlier the range
};

// Thread t of n takes an equal share of the grains, so that the same pieces stay on the same core
// from one launch to the next.
void run_share(Call &call, int thread, int threads) {
  int64_t grains = (call.count + call.grain - 1) / call.grain;
  int64_t share = grains / threads;
  int64_t rest = grains % threads;
  int64_t first = thread * share + std::min<int64_t>(thread, rest);
  int64_t last = first + share + (thread < rest ? 1 : 0);
  int64_t begin = first * call.grain;
  int64_t end = std::min(last * call.grain, call.count);
  if (begin >= end)
    return;
  int32_t code = call.body(call.data, thread, begin, end);
  if (code == 0)
    return;
  uint64_t error = (static_cast<uint64_t>(threads - thread) << 32) | static_cast<uint32_t>(code);
  uint64_t known = call.first_error.load(std::memory_order_relaxed);
  while (error > known &&
         !call.first_error.compare_exchange_weak(known, error, std::memory_order_relaxed)) {}
}

void team_body(void *data) {
  Call &call = *static_cast<Call *>(data);
  WEFT_TSAN_ACQUIRE(&call.body);
  // The team may be smaller than was asked for (OMP_THREAD_LIMIT): shares follow its real size.
  run_share(call, omp_get_thread_num(), omp_get_num_threads());
  WEFT_TSAN_RELEASE(&call.first_error);
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
  if (threads <= 1 || count <= grain)
    return body(data, 0, 0, count);
  Call call{body, data, count, grain};
  WEFT_TSAN_RELEASE(&call.body);
  // Always the whole team, even for fewer grains: libgomp ends the threads that a smaller team
  // leaves out, and makes them anew for the next.
  GOMP_parallel(team_body, &call, static_cast<unsigned>(threads), 0);
  WEFT_TSAN_ACQUIRE(&call.first_error);
  return static_cast<int32_t>(call.first_error.load(std::memory_order_relaxed) & 0xffffffffu);
}

int default_threads() {
  if (const char *text = std::getenv("WEFT_NUM_THREADS")) {
    int threads = 0;
    const char *end = text + std::strlen(text);
    auto [stop, error] = std::from_chars(text, end, threads);
    if (error == std::errc() && stop == end && threads >= 1 && threads <= 1024)
      return threads;
  }
  return available_processors();
}

ScopedTeamSize::ScopedTeamSize(int threads) : before_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
}
ScopedTeamSize::~ScopedTeamSize() {
  omp_set_num_threads(before_);
}

} // namespace weft::runtime
