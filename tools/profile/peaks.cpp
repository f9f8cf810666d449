#include "tools/profile/peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace weft::profile {
namespace {

using Clock = std::chrono::steady_clock;

// The best of many short turns: beside other processes some of them are undisturbed.
constexpr auto kTurn = std::chrono::milliseconds(5);
constexpr int kTurns = 24;
// Three arrays of it are more than most caches.
constexpr int64_t kArrayBytes = int64_t{128} << 20;
constexpr int kPasses = 6;

// Sums enough to hide the latency of an addition behind those of the others.
constexpr int kSums = 12, kRounds = 4096;

template <typename Vector> [[gnu::always_inline]] inline float multiply_and_add(int64_t blocks) {
  Vector sums[kSums];
  for (int i = 0; i < kSums; ++i)
    sums[i] = Vector{} + static_cast<float>(i);
  Vector factor = Vector{} + 0.999f, term = Vector{} + 0.001f;
  for (int64_t block = 0; block < blocks * kRounds; ++block) {
#pragma clang fp contract(fast)
#pragma clang loop unroll(full)
    for (int i = 0; i < kSums; ++i)
      sums[i] = sums[i] * factor + term;
  }
  float sum = 0;
  for (int i = 0; i < kSums; ++i)
    sum += sums[i][0];
  return sum;
}

using Narrow = float __attribute__((vector_size(16)));
using Wide = float __attribute__((vector_size(32)));
using Widest = float __attribute__((vector_size(64)));

using Compute = float (*)(int64_t blocks);
struct Way {
  Compute compute;
  int width;
};

float narrow(int64_t blocks) {
  return multiply_and_add<Narrow>(blocks);
}
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float wide(int64_t blocks) {
  return multiply_and_add<Wide>(blocks);
}
__attribute__((target("avx512f"))) float widest(int64_t blocks) {
  return multiply_and_add<Widest>(blocks);
}
#endif

// The widest vectors are not the fastest everywhere: all that the processor has are tried.
std::vector<Way> ways() {
  std::vector<Way> result = {{narrow, 4}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    result.push_back({wide, 8});
  if (__builtin_cpu_supports("avx512f"))
    result.push_back({widest, 16});
#endif
  return result;
}

// Runs work(thread) on all threads at once; seconds.
template <typename Work> double on_all(int threads, Work work) {
  std::atomic<int> ready{0};
  std::vector<std::thread> others;
  std::vector<Clock::time_point> begins(static_cast<size_t>(threads)), ends(begins.size());
  auto run = [&](int thread) {
    ++ready;
    while (ready.load() < threads)
      std::this_thread::yield();
    begins[static_cast<size_t>(thread)] = Clock::now();
    work(thread);
    ends[static_cast<size_t>(thread)] = Clock::now();
  };
  for (int thread = 1; thread < threads; ++thread)
    others.emplace_back(run, thread);
  run(0);
  for (std::thread &each : others)
    each.join();
  return std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) -
                                       *std::min_element(begins.begin(), begins.end()))
      .count();
}

std::atomic<float> used; // so that nothing is left out

double measure_compute(int threads) {
  double best = 0;
  for (const Way &way : ways())
    for (int turn = 0; turn < kTurns; ++turn) {
      std::atomic<int64_t> blocks{0};
      double seconds = on_all(threads, [&](int) {
        int64_t done = 0;
        float sum = 0;
        for (auto end = Clock::now() + kTurn; Clock::now() < end; ++done)
          sum += way.compute(1);
        blocks += done;
        used = sum;
      });
      double flops = 2.0 * kSums * kRounds * way.width * static_cast<double>(blocks.load());
      best = std::max(best, flops / seconds * 1e-9);
    }
  return best;
}

double measure_memory(int threads) {
  auto count = static_cast<size_t>(kArrayBytes / static_cast<int64_t>(sizeof(float)));
  // Left as they come: each thread is the first to touch its part.
  std::unique_ptr<float[]> a(new float[count]), b(new float[count]), c(new float[count]);
  auto part = [&](int thread) {
    auto number = static_cast<size_t>(thread), all = static_cast<size_t>(threads);
    return std::pair(count * number / all, count * (number + 1) / all);
  };
  on_all(threads, [&](int thread) {
    auto [begin, end] = part(thread);
    for (size_t i = begin; i < end; ++i) {
      a[i] = 1;
      b[i] = 2;
      c[i] = 3;
    }
  });
  double best = 0;
  auto measure = [&](double arrays, auto work) {
    for (int pass = 0; pass < kPasses; ++pass) {
      double seconds = on_all(threads, [&](int thread) {
        auto [begin, end] = part(thread);
        work(begin, end);
      });
      best = std::max(best, arrays * static_cast<double>(kArrayBytes) / seconds * 1e-9);
    }
  };
  measure(3, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      a[i] = b[i] + 3 * c[i];
  });
  measure(1, [&](size_t begin, size_t end) {
    constexpr size_t kLanes = 32;
    float sums[kLanes] = {};
    for (size_t i = begin; i + kLanes <= end; i += kLanes)
      for (size_t k = 0; k < kLanes; ++k)
        sums[k] += a[i + k];
    for (float sum : sums)
      used = used + sum;
  });
  return best;
}

} // namespace

Peaks measure_peaks(int threads) {
  threads = std::max(threads, 1);
  return {measure_compute(threads), measure_memory(threads)};
}

} // namespace weft::profile
