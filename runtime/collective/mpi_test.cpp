// Jobs that a real mpirun starts, over the layer "mpi": ranks meet through MPI itself.
#include "runtime/collective/processes.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "absl/strings/str_cat.h"

namespace weft::runtime {
namespace {

int count(const std::string &text, const std::string &what) {
  int found = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1))
    ++found;
  return found;
}

class MpiRun : public testing::Test {
protected:
  void SetUp() override {
    std::istringstream folders(common_variables()["PATH"]);
    bool is_there = false;
    for (std::string folder; std::getline(folders, folder, ':');)
      is_there |= access((folder + "/mpirun").c_str(), X_OK) == 0;
    if (!is_there)
      GTEST_SKIP() << "there is no mpirun (Debian: openmpi-bin)";
    void *library = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_LOCAL);
    if (!library || !dlsym(library, "ompi_mpi_comm_world"))
      GTEST_SKIP() << "there is no libmpi.so.40 of Open MPI (Debian: libopenmpi3)";
  }

  // `ends`: whether mpirun ends all ranks when one fails, which cuts off what the others say.
  static std::unique_ptr<Process> start(int ranks, const std::vector<std::string> &args,
                                        Variables more = {}, bool ends = false) {
    Variables variables = common_variables();
    variables["OMPI_ALLOW_RUN_AS_ROOT"] = variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
    // What Open MPI keeps until the end is its own.
    if (variables.contains("ASAN_OPTIONS"))
      variables["ASAN_OPTIONS"] += ":detect_leaks=0";
    variables.insert(more.begin(), more.end());
    std::vector<std::string> words = {"mpirun", "--oversubscribe", "-np", std::to_string(ranks)};
    if (!ends)
      words.insert(words.end(), {"--mca", "orte_abort_on_non_zero_status", "0"});
    words.push_back(rank_program());
    words.insert(words.end(), args.begin(), args.end());
    return std::make_unique<Process>(words, variables);
  }
};

TEST_F(MpiRun, EveryCollectiveGivesWhatLoopsSay) {
  for (int size : {1, 2, 3, 4}) {
    auto job = start(size, {"mpi", "check"}, {}, true);
    EXPECT_EQ(job->finish(), 0) << job->text();
    EXPECT_EQ(count(job->text(), "all right"), size) << job->text();
  }
}

TEST_F(MpiRun, AProgramMayUseMpiItself) {
  auto job = start(2, {"--init-mpi", "3", "mpi", "steps", "3", "10"}, {}, true);
  EXPECT_EQ(job->finish(), 0) << job->text();
  EXPECT_EQ(count(job->text(), "done"), 2) << job->text();
  job = start(2, {"--init-mpi", "0", "mpi", "steps", "3", "10"});
  job->finish();
  EXPECT_EQ(count(job->text(), "the program has called MPI_Init: threads need MPI_Init_thread with "
                               "MPI_THREAD_MULTIPLE"),
            2)
      << job->text();
}

TEST_F(MpiRun, ARankThatEndsIsNamedOnAllOthers) {
  auto job = start(3, {"mpi", "exit"});
  job->finish();
  EXPECT_EQ(count(job->text(), "error: rank 1 has gone"), 2) << job->text();
}

TEST_F(MpiRun, CallsThatDifferAreNamedOnAllRanks) {
  auto job = start(3, {"mpi", "differ"});
  job->finish();
  EXPECT_EQ(count(job->text(), "error: the ranks' calls in group 'world' differ: rank "), 3)
      << job->text();
  EXPECT_GE(count(job->text(), "all_reduce(max, float32 x 50000) as number 2 at train.cpp:11"), 3);
}

TEST_F(MpiRun, ALateRankIsAnErrorOnAllRanks) {
  auto job = start(3, {"mpi", "late", "3000"}, {{"WEFT_COLLECTIVE_TIMEOUT", "1"}});
  job->finish();
  EXPECT_EQ(count(job->text(), "not all ranks of the job have come to MPI"), 3) << job->text();
}

TEST_F(MpiRun, WhatIsMissingIsNamed) {
  Job alone(2, {"mpi", "check"}, {{"WEFT_RENDEZVOUS", ""}});
  for (auto &rank : alone.ranks)
    expect_says(*rank, "this process was not started by mpirun: start the ranks with `mpirun -n");
  auto job = start(2, {"mpi", "check"}, {{"WEFT_MPI_LIBRARY", "/none.so"}});
  job->finish();
  EXPECT_EQ(count(job->text(), "Open MPI was not found (/none.so: cannot open"), 2) << job->text();
  job = start(2, {"mpi", "check"}, {{"WEFT_MPI_LIBRARY", "libm.so.6"}});
  job->finish();
  EXPECT_EQ(count(job->text(), "libm.so.6 is not Open MPI"), 2) << job->text();
}

} // namespace
} // namespace weft::runtime
