#include "backends/cpu/device/onednn_threads.h"

#include <dnnl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/threading/no_threads.h"
#include "runtime/threading/parallel_for.h"

// As compilers call libgomp for code with OpenMP's directives.
extern "C" {
void GOMP_parallel(void (*body)(void *), void *data, unsigned num_threads, unsigned flags);
void GOMP_barrier(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
int omp_in_parallel(void);
}

namespace weft::backends::cpu {
namespace {

// Threads of this process with the pool's name, or without.
int threads_now(bool of_pool) {
  int count = 0;
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    std::getline(file, name);
    count += (name == "weft-worker") == of_pool;
  }
  return count;
}

// The same, after those that have ended have gone, where that is what keeps it from `wanted`.
int count_threads(bool of_pool, int wanted) {
  for (int i = 0; i < 1000 && threads_now(of_pool) > wanted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return threads_now(of_pool);
}

// A product that is worth several threads; its least element, which is `size` everywhere.
float multiply() {
  constexpr dnnl_dim_t size = 512;
  std::vector<float> a(size * size, 1), b(size * size, 1), c(size * size);
  EXPECT_EQ(
      dnnl_sgemm('N', 'N', size, size, size, 1, a.data(), size, b.data(), size, 0, c.data(), size),
      dnnl_success);
  return *std::min_element(c.begin(), c.end());
}

TEST(OnednnThreads, WeftsCallsWorkOnThePoolAndOthersOnTheirOwn) {
  ASSERT_EQ(onednn_own_threads(), "");
  omp_set_num_threads(3);
  int others = 0;
  // A thread of its own: what follows begins without a pool and without a team.
  std::thread([&] {
    others = threads_now(false) - 1;
    for (int round = 0; round < 20; ++round) {
      OnednnTeam team(4);
      EXPECT_EQ(multiply(), 512);
    }
    EXPECT_EQ(count_threads(true, 3), 3);
    EXPECT_EQ(count_threads(false, others + 1), others + 1); // and this one
  }).join();
  EXPECT_EQ(multiply(), 512);
  EXPECT_EQ(count_threads(true, 0), 0);
  // OpenMP's three, the test's among them.
  EXPECT_EQ(count_threads(false, others + 2), others + 2);
}

TEST(OnednnThreads, AMatmulInATaskOfThePoolStaysOnItsThread) {
  runtime::parallel_for(
      4, 1, 2,
      [](void *, int, int64_t, int64_t) {
        OnednnTeam team(4);
        EXPECT_EQ(multiply(), 512);
        return int32_t{0};
      },
      nullptr);
  EXPECT_EQ(count_threads(true, 1), 1);
}

// A product of fewer shares than it was made for lacks a part of its sums.
TEST(OnednnThreads, ThreadsThatTheSystemDoesNotGiveAreAnError) {
  ASSERT_EQ(onednn_own_threads(), "");
  // Threads of their own: each begins without a pool.
  std::thread([] {
    OnednnTeam team(4);
    {
      runtime::NoThreads none;
      multiply();
    }
    EXPECT_EQ(team.status().message(),
              "the system gives this process 1 of the 4 threads that oneDNN's call is made for; "
              "raise the limit on its threads or memory, or let it use fewer: WEFT_NUM_THREADS=1");
    EXPECT_TRUE(team.status().ok()) << "said once";
    OnednnTeam fewer(1);
    EXPECT_EQ(multiply(), 512);
    EXPECT_TRUE(fewer.status().ok());
  }).join();
}

TEST(OnednnThreads, OpenMpOfTheProgramKeepsItsMeaning) {
  ASSERT_EQ(onednn_own_threads(), "");
  OnednnTeam team(2);
  omp_set_num_threads(5);
  EXPECT_EQ(omp_get_max_threads(), 5);
  EXPECT_FALSE(omp_in_parallel());
  // Static: ThreadSanitizer does not see that libgomp orders its threads.
  static struct {
    std::atomic<int> numbers{0}, arrived{0}, wrong{0};
  } seen;
  GOMP_parallel(
      [](void *) {
        seen.numbers |= 1 << omp_get_thread_num();
        seen.wrong += omp_get_num_threads() != 3 || !omp_in_parallel();
        ++seen.arrived;
        GOMP_barrier();
        seen.wrong += seen.arrived != 3;
      },
      nullptr, 3, 0);
  EXPECT_EQ(seen.numbers, 7);
  EXPECT_EQ(seen.wrong, 0);
}

} // namespace
} // namespace weft::backends::cpu
