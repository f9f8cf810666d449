// Ranks on two machines, and what becomes of them when the network does not do what it should.
#include "runtime/collective/machines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

namespace weft::runtime {
namespace {

class Network : public testing::Test {
protected:
  void SetUp() override {
    if (std::string why = machines_.make(); !why.empty())
      GTEST_SKIP() << why;
  }
  TwoMachines machines_;
};

TEST_F(Network, ANameThatStandsForTheLoopbackIsNoAddressForOthers) {
  Job job(0, {});
  // What Debian's /etc/hosts says of a machine's own name.
  machines_.add_ranks(job, {"gloo", "check"}, {"127.0.1.1", TwoMachines::address(0)}, "5");
  for (auto &rank : job.ranks)
    expect_says(*rank, "all right", 0);
}

TEST_F(Network, RanksThatReachRankZeroByIPv4AndByIPv6ConnectWithEachOther) {
  Job job(0, {});
  machines_.add_ranks(job, {"gloo", "check"},
                      {TwoMachines::address(0), TwoMachines::ipv6_address(0)}, "5");
  for (auto &rank : job.ranks)
    expect_says(*rank, "all right", 0);
}

TEST_F(Network, RanksMeetInAFileWhateverTheMachinesNameIs) {
  Job job(0, {});
  machines_.add_ranks(job, {"gloo", "check"}, {});
  for (auto &rank : job.ranks)
    expect_says(*rank, "all right", 0);
}

TEST_F(Network, ANetworkThatDropsIsAnErrorOnAllRanksWithinTheTimeout) {
  Job job(0, {});
  machines_.add_ranks(job, {"gloo", "steps", "1000000", "1"}, {}, "2");
  for (auto &rank : job.ranks)
    ASSERT_TRUE(rank->read_until("step 2")) << rank->text();
  ASSERT_EQ(machines_.run(1, {"ip", "link", "set", "cable", "down"}), "");
  for (int rank : {0, 1})
    expect_says(job[rank], "error: rank 2 is silent for longer than the timeout of 2 s");
  // Which of the two it waits for first depends on the call.
  expect_says(job[2], " is silent for longer than the timeout of 2 s");
}

TEST_F(Network, ASilentNameServerIsNotWaitedForBeyondTheTimeout) {
  std::string file = temporary_file("resolv");
  std::ofstream(file) << "nameserver 192.168.77.99\noptions timeout:30\n";
  ASSERT_EQ(machines_.run(1, {"mount", "--bind", file, "/etc/resolv.conf"}), "");
  Job job(0, {});
  auto begin = std::chrono::steady_clock::now();
  job.add(1, 2, {"gloo", "check"},
          {{"LOCAL_WORLD_SIZE", "1"},
           {"LOCAL_RANK", "0"},
           {"WEFT_RENDEZVOUS", ""},
           {"MASTER_ADDR", "no-such-host.example"},
           {"MASTER_PORT", "15999"},
           {"WEFT_COLLECTIVE_TIMEOUT", "1"}},
          machines_.on(1, {}));
  expect_says(job[0], "error: rank 1 has not reached rank 0 at no-such-host.example:15999 within 1 "
                      "s (the name 'no-such-host.example' is not known in time");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)); // the server: 30 s
  unlink(file.c_str());
}

} // namespace
} // namespace weft::runtime
