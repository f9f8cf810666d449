// Ranks on two machines, which are network namespaces of this one with a cable between them.
#include "runtime/collective/processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace weft::runtime {
namespace {

using Words = std::vector<std::string>;

// Empty, or why the command cannot be.
std::string run(const Words &words) {
  Process process(words, common_variables());
  int status = process.finish();
  return status == 0 ? "" : absl::StrCat(words[0], ": ", process.text());
}

class TwoMachines : public testing::Test {
protected:
  void SetUp() override {
    // They live as long as a process in them does.
    Words hold = {"unshare", "-nm", "sh", "-c", "ip link set lo up && echo up && exec sleep 300"};
    for (auto &machine : machines_) {
      machine = std::make_unique<Process>(hold, common_variables());
      if (!machine->read_until("up"))
        GTEST_SKIP() << "no network namespaces can be made here: " << machine->text();
    }
    std::string why = run(on(0, {"ip", "link", "add", "cable", "type", "veth", "peer", "name",
                                 "cable", "netns", std::to_string(machines_[1]->id())}));
    for (int machine : {0, 1})
      for (const Words &words :
           {Words{"ip", "address", "add", address(machine) + "/24", "dev", "cable"},
            Words{"ip", "link", "set", "cable", "up"}})
        if (why.empty())
          why = run(on(machine, words));
    if (!why.empty())
      GTEST_SKIP() << "no virtual networks can be made here: " << why;
  }

  // Above those of the loopback: of two ranks the one with the higher address connects, with Gloo.
  static std::string address(int machine) {
    return absl::StrCat("192.168.77.", machine + 1);
  }
  // The command as run on a machine.
  Words on(int machine, const Words &words) const {
    Words all = {"nsenter", "-n", "-m", "-t", std::to_string(machines_[machine]->id())};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  // Ranks 0 and 1 on the first machine, rank 2 on the second one. `named`: where the ranks of a
  // machine look for rank 0; none: they meet in a file.
  void add_ranks(Job &job, const Words &args, const std::vector<std::string> &named,
                 const std::string &timeout = "10") {
    for (int rank : {0, 1, 2}) {
      int machine = rank / 2;
      Variables more = {{"LOCAL_RANK", std::to_string(rank % 2)},
                        {"LOCAL_WORLD_SIZE", machine ? "1" : "2"},
                        {"WEFT_COLLECTIVE_TIMEOUT", timeout}};
      if (!named.empty()) {
        more["WEFT_RENDEZVOUS"] = "";
        more["MASTER_ADDR"] = named[static_cast<size_t>(machine)];
        more["MASTER_PORT"] = "15999";
      }
      job.add(rank, 3, args, more, on(machine, {}));
    }
  }

  std::unique_ptr<Process> machines_[2];
};

TEST_F(TwoMachines, ANameThatStandsForTheLoopbackIsNoAddressForOthers) {
  Job job(0, {});
  // What Debian's /etc/hosts says of a machine's own name.
  add_ranks(job, {"gloo", "check"}, {"127.0.1.1", address(0)}, "5");
  for (auto &rank : job.ranks)
    expect_says(*rank, "all right", 0);
}

TEST_F(TwoMachines, RanksMeetInAFileWhateverTheMachinesNameIs) {
  Job job(0, {});
  add_ranks(job, {"gloo", "check"}, {});
  for (auto &rank : job.ranks)
    expect_says(*rank, "all right", 0);
}

TEST_F(TwoMachines, ANetworkThatDropsIsAnErrorOnAllRanksWithinTheTimeout) {
  Job job(0, {});
  add_ranks(job, {"gloo", "steps", "1000000", "1"}, {}, "2");
  for (auto &rank : job.ranks)
    ASSERT_TRUE(rank->read_until("step 2")) << rank->text();
  ASSERT_EQ(run(on(1, {"ip", "link", "set", "cable", "down"})), "");
  for (int rank : {0, 1})
    expect_says(job[rank], "error: rank 2 is silent for longer than the timeout of 2 s");
  // Which of the two it waits for first depends on the call.
  expect_says(job[2], " is silent for longer than the timeout of 2 s");
}

TEST_F(TwoMachines, ASilentNameServerIsNotWaitedForBeyondTheTimeout) {
  std::string file = temporary_file("resolv");
  std::ofstream(file) << "nameserver 192.168.77.99\noptions timeout:30\n";
  ASSERT_EQ(run(on(1, {"mount", "--bind", file, "/etc/resolv.conf"})), "");
  Job job(0, {});
  auto begin = std::chrono::steady_clock::now();
  job.add(1, 2, {"gloo", "check"},
          {{"LOCAL_WORLD_SIZE", "1"},
           {"LOCAL_RANK", "0"},
           {"WEFT_RENDEZVOUS", ""},
           {"MASTER_ADDR", "no-such-host.example"},
           {"MASTER_PORT", "15999"},
           {"WEFT_COLLECTIVE_TIMEOUT", "1"}},
          on(1, {}));
  expect_says(job[0], "error: rank 1 has not reached rank 0 at no-such-host.example:15999 within 1 "
                      "s (the name 'no-such-host.example' is not known in time");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)); // the server: 30 s
  unlink(file.c_str());
}

} // namespace
} // namespace weft::runtime
