// Jobs of real processes over the layer "gloo": what they compute, and what each of them says when
// one is killed, stopped, late, or of another job.
#include "runtime/collective/processes.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"

namespace weft::runtime {
namespace {

TEST(Processes, EveryCollectiveGivesWhatLoopsSay) {
  for (int size : {2, 3}) {
    Job job(size, {"gloo", "check"});
    for (auto &rank : job.ranks)
      expect_says(*rank, "all right", 0);
  }
}

TEST(Processes, AKilledRankIsNamedOnAllOthers) {
  for (int dies : {0, 2}) {
    Job job(3, {"gloo", "steps", "1000000", "1"});
    for (auto &rank : job.ranks)
      ASSERT_TRUE(rank->read_until("step 2")) << rank->text();
    job[dies].signal(SIGKILL);
    for (int rank : {0, 1, 2})
      if (rank != dies) {
        expect_says(job[rank], absl::StrCat("error: rank ", dies, " has gone"));
        EXPECT_NE(
            job[rank].text().find(absl::StrCat("all_reduce(sum, float32 x 50000) at train.cpp:")),
            std::string::npos)
            << job[rank].text();
      }
  }
}

TEST(Processes, ARankThatEndsIsNamedOnAllOthers) {
  Job job(3, {"gloo", "exit"});
  expect_says(job[1], "step 0", 3);
  for (int rank : {0, 2})
    expect_says(job[rank], "error: rank 1 has gone");
}

TEST(Processes, ChildrenOfARankLeaveItsConnectionsAlone) {
  Job job(2, {"gloo", "fork"});
  for (auto &rank : job.ranks)
    expect_says(*rank, "all right", 0);
}

TEST(Processes, AStoppedRankIsNamedOnAllOthersWithinTheTimeout) {
  for (int stops : {0, 1}) {
    Job job(3, {"gloo", "steps", "1000000", "1"}, {{"WEFT_COLLECTIVE_TIMEOUT", "2"}});
    for (auto &rank : job.ranks)
      ASSERT_TRUE(rank->read_until("step 2")) << rank->text();
    job[stops].signal(SIGSTOP);
    for (int rank : {0, 1, 2})
      if (rank != stops)
        expect_says(job[rank],
                    absl::StrCat("error: rank ", stops, " is silent for longer than the timeout"));
    // When it goes on, it says the same, or that the others have gone.
    job[stops].signal(SIGCONT);
    expect_says(job[stops], stops == 0 ? "error: " : "error: rank 1 is silent");
  }
}

TEST(Processes, ARankThatIsSilentInOneGroupIsNamedInTheOthers) {
  Job job(3, {"gloo", "groups"}, {{"WEFT_COLLECTIVE_TIMEOUT", "2"}});
  for (auto &rank : job.ranks)
    ASSERT_TRUE(rank->read_until("step 2")) << rank->text();
  job[1].signal(SIGSTOP);
  for (int rank : {0, 2})
    expect_says(job[rank], "error: rank 1 is silent for longer than the timeout");
  job[1].signal(SIGCONT);
  expect_says(job[1], "error: rank 1 is silent");
}

TEST(Processes, RanksOfOneMachineMeetWhateverItsNameIs) {
  int port = 20000 + getpid() % 12000; // below those that the system gives away
  Job job(2, {"gloo", "check"},
          {{"WEFT_RENDEZVOUS", ""},
           {"MASTER_ADDR", "no-such-host.invalid"},
           {"MASTER_PORT", std::to_string(port)}});
  for (auto &rank : job.ranks)
    expect_says(*rank, "all right", 0);
}

bool has_ipv6_loopback() {
  int descriptor = socket(AF_INET6, SOCK_DGRAM, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  bool binds = bind(descriptor, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
  close(descriptor);
  return binds;
}

TEST(Processes, RanksThatComeByIPv4AndByIPv6ConnectWithEachOther) {
  if (!has_ipv6_loopback())
    GTEST_SKIP() << "this machine has no IPv6";
  const std::string port = std::to_string(20000 + (getpid() + 2) % 12000);
  Job job(0, {});
  for (int rank : {0, 1})
    job.add(rank, 2, {"gloo", "check"},
            {{"WEFT_RENDEZVOUS", ""},
             {"LOCAL_RANK", "0"}, // as on two machines: nothing is known of this one
             {"LOCAL_WORLD_SIZE", "1"},
             {"MASTER_ADDR", rank == 0 ? "::1" : "127.0.0.1"},
             {"MASTER_PORT", port}});
  for (auto &rank : job.ranks)
    expect_says(*rank, "all right", 0);
}

TEST(Processes, MeetByTheVariablesOfEachStarter) {
  const int port = 20000 + (getpid() + 1) % 12000;
  const std::string text = std::to_string(port);
  const std::string job = std::to_string(getpid());
  // What each starter sets on a rank; "" stands for what it does not set.
  std::function<Variables(std::string)> starters[] = {
      [&](const std::string &rank) { // torchrun; at its port its agent listens
        return Variables{{"RANK", rank},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", rank},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "localhost"},
                         {"MASTER_PORT", text},
                         {"TORCHELASTIC_RUN_ID", job},
                         {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
      },
      [&](const std::string &rank) { // mpirun, with variables of the user's
        return Variables{{"OMPI_COMM_WORLD_RANK", rank},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", job},
                         {"MASTER_PORT", text}};
      },
      [&](const std::string &rank) { // srun
        return Variables{{"SLURM_PROCID", rank}, {"SLURM_NTASKS", "2"},
                         {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", job},
                         {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "localhost,node[2-3]"}};
      },
      [&](const std::string &rank) { // an Indexed Job of Kubernetes
        return Variables{{"RANK", rank},
                         {"WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "localhost"},
                         {"MASTER_PORT", text}};
      }};
  for (const auto &variables : starters) {
    Job ranks(0, {});
    for (int rank : {1, 0}) {
      Variables all = {{"WEFT_RENDEZVOUS", ""}, {"LOCAL_RANK", ""}, {"LOCAL_WORLD_SIZE", ""}};
      for (const auto &[name, value] : variables(std::to_string(rank)))
        all[name] = value;
      if (!all.contains("RANK"))
        all["RANK"] = all["WORLD_SIZE"] = "";
      ranks.add(rank, 2, {"gloo", "steps", "2", "0"}, all);
    }
    for (auto &rank : ranks.ranks)
      expect_says(*rank, "done", 0);
  }
}

TEST(Processes, CallsThatDifferAreNamedOnAllRanks) {
  Job job(3, {"gloo", "differ"});
  for (auto &rank : job.ranks) {
    expect_says(*rank, "all_reduce(sum, float32 x 50000) as number 2 at train.cpp:11");
    EXPECT_NE(rank->text().find(
                  "rank 1 calls all_reduce(max, float32 x 50000) as number 2 at train.cpp:11"),
              std::string::npos);
  }
}

TEST(Processes, ALateRankIsWaitedForUntilTheTimeoutAndNamed) {
  Job soon(2, {"gloo", "late", "300"});
  for (auto &rank : soon.ranks)
    expect_says(*rank, "done", 0);
  Job late(3, {"gloo", "late", "100000"}, {{"WEFT_COLLECTIVE_TIMEOUT", "1"}});
  for (int rank : {0, 2})
    expect_says(late[rank], "error: rank 1 of 3 did not come within 1 s");
}

TEST(Processes, WithoutRank0EveryRankSaysSo) {
  Job job(0, {});
  Variables soon = {{"WEFT_COLLECTIVE_TIMEOUT", "1"}};
  job.add(1, 2, {"gloo", "check"}, soon);
  expect_says(job[0], "error: rank 1 has not reached rank 0 (from the file ");
  soon["WEFT_RENDEZVOUS"] = "";
  soon["MASTER_ADDR"] = "127.0.0.1";
  soon["MASTER_PORT"] = "9"; // discard
  job.add(1, 2, {"gloo", "check"}, soon);
  expect_says(job[1], "error: rank 1 has not reached rank 0 at 127.0.0.1:9 within 1 s (Connection");
}

TEST(Processes, WhatAnEarlierJobHasLeftInTheFileIsNotWaitedFor) {
  // Something that takes connections, and says nothing.
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&address), length), 0);
  ASSERT_EQ(listen(listener, 100), 0);
  getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length);
  Job job(0, {});
  std::ofstream(job.file) << ntohs(address.sin_port) << " 127.0.0.1\n";
  job.add(1, 2, {"gloo", "check"}, {});
  sleep(1); // it has found the listener
  job.add(0, 2, {"gloo", "check"}, {});
  for (auto &rank : job.ranks)
    expect_says(*rank, "all right", 0);
  // Where no other place comes it is named.
  std::ofstream(job.file) << ntohs(address.sin_port) << " 127.0.0.1\n";
  job.add(1, 2, {"gloo", "check"}, {{"WEFT_COLLECTIVE_TIMEOUT", "1"}});
  expect_says(job[2], absl::StrCat("error: rank 1 has not reached rank 0 at 127.0.0.1:",
                                   ntohs(address.sin_port), " (from the file ", job.file,
                                   ") within 1 s (it says nothing)"));
  close(listener);
}

TEST(Processes, AnotherNumberOfRanksIsAnErrorOnAllOfThem) {
  Job job(2, {"gloo", "check"}, {{"WORLD_SIZE", "3"}});
  job.add(2, 4, {"gloo", "check"}, {});
  for (auto &rank : job.ranks)
    expect_says(*rank, "error: rank 2 was started as one of 4 ranks, rank 0 as one of 3");
}

TEST(Processes, ARankOfAnotherJobIsRefusedAndTheJobGoesOn) {
  Job job(0, {});
  Variables mine = {{"WEFT_JOB_ID", "mine"}};
  job.add(0, 2, {"gloo", "steps", "2", "0"}, mine);
  job.add(1, 2, {"gloo", "steps", "2", "0"}, {{"WEFT_JOB_ID", "yours"}});
  expect_says(job[1], "error: rank 1 of job 'yours' came to port ");
  EXPECT_NE(job[1].text().find("where rank 0 of job 'mine' listens"), std::string::npos);
  job.add(0, 2, {"gloo", "steps", "2", "0"}, {{"WEFT_RENDEZVOUS", "/no/such/folder/file"}});
  expect_says(job[2], "error: rank 0 cannot write the file /no/such/folder/file");
  job.add(1, 2, {"gloo", "steps", "2", "0"}, mine);
  expect_says(job[0], "done", 0);
  expect_says(job[3], "done", 0);
}

} // namespace
} // namespace weft::runtime
