// Jobs of real processes over the layer "gloo": what they compute, and what each of them says when
// one is killed, stopped, late, or of another job.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weft::runtime {
namespace {

using std::chrono::steady_clock;

using Variables = std::map<std::string, std::string>;

std::string rank_program() {
  const char *sources = std::getenv("TEST_SRCDIR"), *workspace = std::getenv("TEST_WORKSPACE");
  return sources ? absl::StrCat(sources, "/", workspace, "/runtime/collective/rank_program")
                 : "bazel-bin/runtime/collective/rank_program";
}

// A process whose output is read to its end. It is killed when this goes, at the latest.
class Process {
public:
  Process(const std::vector<std::string> &args, const Variables &variables) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      std::abort();
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    std::vector<std::string> words = {rank_program()}, settings;
    words.insert(words.end(), args.begin(), args.end());
    for (const auto &[name, value] : variables)
      settings.push_back(name + "=" + value);
    std::vector<char *> argv, envp;
    for (std::string &word : words)
      argv.push_back(word.data());
    for (std::string &setting : settings)
      envp.push_back(setting.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data()) != 0)
      pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
  }
  ~Process() {
    if (pid_ > 0) {
      signal(SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    ::close(output_);
  }
  Process(const Process &) = delete;

  void signal(int number) {
    kill(pid_, number);
  }

  // Until the output holds `text`, or ends, or a minute is over: the test must not hang.
  bool read_until(const std::string &text) {
    auto end = steady_clock::now() + std::chrono::seconds(60);
    while (text.empty() || text_.find(text) == text_.npos) {
      pollfd one = {output_, POLLIN, 0};
      char bytes[4096];
      if (steady_clock::now() > end)
        return false;
      if (poll(&one, 1, 100) <= 0)
        continue;
      ssize_t got = read(output_, bytes, sizeof bytes);
      if (got <= 0)
        return text.empty();
      text_.append(bytes, static_cast<size_t>(got));
    }
    return true;
  }

  // Everything that it says, and its status; -1 after a signal.
  int finish() {
    if (!read_until("")) {
      ADD_FAILURE() << "it hangs; so far: " << text_;
      return -2;
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  const std::string &text() const {
    return text_;
  }

private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
};

// The ranks of a job that meet in a file.
struct Job {
  std::vector<std::unique_ptr<Process>> ranks;
  std::string file;

  Job(int size, const std::vector<std::string> &args, Variables more = {}) {
    static int jobs = 0;
    const char *folder = std::getenv("TEST_TMPDIR");
    file = absl::StrCat(folder ? folder : "/tmp", "/meet-", getpid(), "-", jobs++);
    for (int rank = 0; rank < size; ++rank)
      add(rank, size, args, more);
  }
  ~Job() {
    ranks.clear();
    unlink(file.c_str());
  }
  void add(int rank, int size, const std::vector<std::string> &args, const Variables &more) {
    Variables variables = {{"RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(size)},
                           {"LOCAL_RANK", std::to_string(rank)},
                           {"LOCAL_WORLD_SIZE", std::to_string(size)},
                           {"WEFT_RENDEZVOUS", file},
                           {"WEFT_COLLECTIVE_TIMEOUT", "10"}};
    for (const char *name : {"TSAN_OPTIONS", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"})
      if (const char *value = std::getenv(name)) // of tools/test.sh --sanitizers
        variables[name] = value;
    for (const auto &[name, value] : more)
      variables[name] = value;
    ranks.push_back(std::make_unique<Process>(args, variables));
  }
  Process &operator[](size_t rank) {
    return *ranks[rank];
  }
};

void expect_says(Process &process, const std::string &what, int status = 1) {
  EXPECT_EQ(process.finish(), status) << process.text();
  EXPECT_NE(process.text().find(what), std::string::npos)
      << "'" << what << "' is not in: " << process.text();
}

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
