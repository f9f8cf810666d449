// How long it takes until every rank has said what is wrong and has ended, for each fault of a job
// of three real processes; the slowest of many times. Not a test of every day: what ranks wait for
// adds up to minutes. tools/collectives.sh runs it.
//   WEFT_FAULT_REPEATS  how often each fault; 20
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/collective/machines.h"

namespace weft::runtime {
namespace {

using std::chrono::steady_clock;

// Repeats `once`, which returns when the fault has happened and gives the ranks that have to see
// it.
void measure(const char *fault, const std::function<std::vector<Process *>(int repeat)> &once) {
  const char *text = std::getenv("WEFT_FAULT_REPEATS");
  const int repeats = text ? std::atoi(text) : 20;
  double slowest = 0;
  int silent = 0;
  for (int repeat = 0; repeat < repeats && !testing::Test::HasFatalFailure(); ++repeat) {
    std::vector<Process *> ranks = once(repeat);
    const auto begin = steady_clock::now();
    for (Process *rank : ranks) {
      rank->finish();
      silent += rank->text().find("error: ") == std::string::npos;
      EXPECT_NE(rank->text().find("error: "), std::string::npos) << fault << ": " << rank->text();
    }
    std::chrono::duration<double> time = steady_clock::now() - begin;
    slowest = std::max(slowest, time.count());
  }
  std::printf("%-48s %3d times, slowest %6.2f s, %d ranks without an error\n", fault, repeats,
              slowest, silent);
  std::fflush(stdout);
}

// With the timeout that a program has by itself.
std::unique_ptr<Job> start_job(int size, const Words &args, Variables more = {}) {
  more["WEFT_COLLECTIVE_TIMEOUT"] = "";
  return std::make_unique<Job>(size, args, more);
}
std::unique_ptr<Job> working_job() {
  return start_job(3, {"gloo", "steps", "1000000", "1"});
}
// Until some time in a step.
void wait_for_work(Job &job) {
  for (auto &rank : job.ranks)
    ASSERT_TRUE(rank->read_until("step 2")) << rank->text();
  static std::mt19937 random(std::random_device{}());
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
}
std::vector<Process *> all_but(Job &job, int rank) {
  std::vector<Process *> others;
  for (size_t one = 0; one < job.ranks.size(); ++one)
    if (static_cast<int>(one) != rank)
      others.push_back(job.ranks[one].get());
  return others;
}

TEST(FaultTimes, Killed) {
  std::unique_ptr<Job> job;
  measure("a rank is killed", [&](int repeat) {
    job = working_job();
    wait_for_work(*job);
    (*job)[repeat % 3].signal(SIGKILL);
    return all_but(*job, repeat % 3);
  });
}

TEST(FaultTimes, Stopped) {
  std::unique_ptr<Job> job;
  measure("a rank is stopped", [&](int repeat) {
    job = working_job();
    wait_for_work(*job);
    (*job)[repeat % 3].signal(SIGSTOP);
    return all_but(*job, repeat % 3);
  });
}

TEST(FaultTimes, Ends) {
  std::unique_ptr<Job> job;
  measure("a rank ends in the middle (from the start)", [&](int) {
    job = start_job(3, {"gloo", "exit"});
    return all_but(*job, 1);
  });
}

TEST(FaultTimes, Differs) {
  std::unique_ptr<Job> job;
  measure("ranks make other calls (from the start)", [&](int) {
    job = start_job(3, {"gloo", "differ"});
    return all_but(*job, -1);
  });
}

TEST(FaultTimes, Late) {
  std::unique_ptr<Job> job;
  measure("a rank does not come (from the start)", [&](int) {
    job = start_job(3, {"gloo", "late", "1000000"});
    return all_but(*job, 1);
  });
}

TEST(FaultTimes, WorldSize) {
  std::unique_ptr<Job> job;
  measure("another number of ranks (from the start)", [&](int) {
    job = start_job(2, {"gloo", "check"}, {{"WORLD_SIZE", "3"}});
    job->add(2, 4, {"gloo", "check"}, {{"WEFT_COLLECTIVE_TIMEOUT", ""}});
    return all_but(*job, -1);
  });
}

TEST(FaultTimes, OnePort) {
  std::unique_ptr<Job> first, second;
  measure("two jobs on one port (from the second's start)", [&](int repeat) {
    Variables place = {{"WEFT_RENDEZVOUS", ""},
                       {"MASTER_PORT", std::to_string(20000 + (getpid() + repeat) % 12000)}};
    first = start_job(3, {"gloo", "steps", "1000000", "50"}, place);
    for (auto &rank : first->ranks)
      EXPECT_TRUE(rank->read_until("step 0")) << rank->text();
    second = start_job(3, {"gloo", "check"}, place);
    return all_but(*second, -1);
  });
}

TEST(FaultTimes, Network) {
  TwoMachines machines;
  if (std::string why = machines.make(); !why.empty())
    GTEST_SKIP() << why;
  std::unique_ptr<Job> job;
  measure("the network between two machines drops", [&](int) {
    EXPECT_EQ(machines.run(1, {"ip", "link", "set", "cable", "up"}), "");
    job = start_job(0, {});
    machines.add_ranks(*job, {"gloo", "steps", "1000000", "1"}, {}, "");
    wait_for_work(*job);
    EXPECT_EQ(machines.run(1, {"ip", "link", "set", "cable", "down"}), "");
    return all_but(*job, -1);
  });
}

} // namespace
} // namespace weft::runtime
