#include "runtime/collective/world.h"

#include <poll.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "runtime/collective/tcp.h"
#include "runtime/collective/tcp_store.h"

namespace weft::runtime {
namespace {

using Variables = std::map<std::string, std::string>;

absl::StatusOr<World> read(const Variables &variables) {
  return world_from_environment([&](const char *name) -> const char * {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

std::string error(const Variables &variables) {
  absl::StatusOr<World> world = read(variables);
  EXPECT_EQ(world.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(world.status().message());
}

TEST(World, IsOneRankWithoutAStarter) {
  auto world = read({});
  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->rank, 0);
  EXPECT_EQ(world->size, 1);
  EXPECT_EQ(world->timeout_seconds, 9);
  EXPECT_EQ(world->meeting_seconds(), 9);
  auto later = read({{"WEFT_RENDEZVOUS_TIMEOUT", "300"}});
  EXPECT_EQ(later->timeout_seconds, 9);
  EXPECT_EQ(later->meeting_seconds(), 300);
}

TEST(World, IsReadFromEachStarter) {
  auto torchrun = read({{"RANK", "5"},
                        {"WORLD_SIZE", "8"},
                        {"LOCAL_RANK", "1"},
                        {"LOCAL_WORLD_SIZE", "4"},
                        {"MASTER_ADDR", "node7"},
                        {"MASTER_PORT", "29500"},
                        {"TORCHELASTIC_RUN_ID", "run"},
                        {"TORCHELASTIC_RESTART_COUNT", "2"},
                        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                        {"WEFT_COLLECTIVE_TIMEOUT", "2.5"},
                        {"SLURM_PROCID", "0"},
                        {"SLURM_NTASKS", "2"}});
  ASSERT_TRUE(torchrun.ok()) << torchrun.status();
  EXPECT_EQ(torchrun->rank, 5);
  EXPECT_EQ(torchrun->size, 8);
  EXPECT_EQ(torchrun->local_rank, 1);
  EXPECT_EQ(torchrun->local_size, 4);
  EXPECT_EQ(torchrun->address, "node7");
  EXPECT_EQ(torchrun->port, 29501); // at 29500 its agent listens
  EXPECT_EQ(torchrun->job, "run.2");
  EXPECT_EQ(torchrun->timeout_seconds, 2.5);

  auto mpirun = read({{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"PMIX_NAMESPACE", "12345"},
                      {"MASTER_PORT", "2000"}});
  ASSERT_TRUE(mpirun.ok()) << mpirun.status();
  EXPECT_EQ(mpirun->rank, 1);
  EXPECT_EQ(mpirun->address, "127.0.0.1"); // all ranks are on this machine
  EXPECT_EQ(mpirun->port, 2000);
  EXPECT_EQ(mpirun->job, "12345");

  Variables srun = {{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "4"},
                    {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "4711"},
                    {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "gpu[03-04,07],login"}};
  auto slurm = read(srun);
  ASSERT_TRUE(slurm.ok()) << slurm.status();
  EXPECT_EQ(slurm->rank, 3);
  EXPECT_EQ(slurm->local_rank, 1);
  EXPECT_EQ(slurm->address, "gpu03");
  EXPECT_EQ(slurm->job, "4711.0");
  int port = slurm->port;
  EXPECT_TRUE(port >= 15000 && port < 32768) << port;
  srun["SLURM_STEP_ID"] = "1";
  srun["SLURM_STEP_NODELIST"] = "a,b";
  EXPECT_NE(read(srun)->port, port); // two steps of one job
  EXPECT_EQ(read(srun)->address, "a");
  srun["MASTER_ADDR"] = "b";
  srun["MASTER_PORT"] = "1";
  EXPECT_EQ(read(srun)->address, "b");
  EXPECT_EQ(read(srun)->port, 1);
  srun["WEFT_RENDEZVOUS"] = "/shared/meet";
  EXPECT_EQ(read(srun)->file, "/shared/meet");
}

TEST(World, WhatIsMissingOrContradictsIsNamed) {
  EXPECT_EQ(error({{"RANK", "0"}}), "RANK is set, and WORLD_SIZE is not: start the ranks with "
                                    "tools/launch.sh or torchrun, which sets both, or unset RANK");
  EXPECT_EQ(error({{"SLURM_NTASKS", "2"}}).substr(0, 44),
            "SLURM_NTASKS is set, and SLURM_PROCID is not");
  EXPECT_EQ(error({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "RANK=2 contradicts WORLD_SIZE=2: ranks count from 0");
  EXPECT_EQ(error({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
            "RANK='x': it must be a number of 0 to 1048576");
  EXPECT_EQ(
      error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "1"}}),
      "LOCAL_RANK=1 contradicts LOCAL_WORLD_SIZE=1: ranks of a machine count from 0");
  auto meets = [](const Variables &variables) {
    return std::string(connect_store(*read(variables)).status().message());
  };
  EXPECT_EQ(meets({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
            "tools/launch.sh or torchrun has started rank 0 of 2, but neither MASTER_ADDR nor "
            "MASTER_PORT is set: give every rank both (the machine of rank 0, and a port that is "
            "free there), or WEFT_RENDEZVOUS, the path of a file that all ranks can write");
  EXPECT_NE(meets({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "80"}})
                .find("but MASTER_ADDR is not set"),
            std::string::npos);
  EXPECT_EQ(error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}),
            "MASTER_PORT='70000': it must be a number of 1 to 65535");
  EXPECT_EQ(error({{"WEFT_RENDEZVOUS_TIMEOUT", "x"}}),
            "WEFT_RENDEZVOUS_TIMEOUT='x': it must be 0.1 to 1e6 seconds");
  EXPECT_EQ(error({{"WEFT_COLLECTIVE_TIMEOUT", "0"}}),
            "WEFT_COLLECTIVE_TIMEOUT='0': it must be 0.1 to 1e6 seconds");
}

// A deadline comes in the middle of a frame, since rank 0 does not read. What is sent later arrives
// as it was sent.
TEST(TcpStore, WhatADeadlineCutsOffGoesBeforeTheNextFrame) {
  int port = 0;
  auto listener = listen_at(port, /*local=*/true);
  ASSERT_TRUE(listener.ok()) << listener.status();
  World world;
  world.rank = 1;
  world.size = world.local_size = 2;
  world.address = "127.0.0.1";
  world.port = port;
  const Deadline late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Socket rank_0;
  std::string came;
  std::vector<Frame> frames;
  auto read_frame = [&] {
    Frame frame;
    while (decode(came, frame) == 0)
      if (!wait_for(rank_0, POLLIN, late) || read_some(rank_0, came) < 0)
        return false;
    frames.push_back(frame);
    return true;
  };
  std::thread meets([&] {
    ASSERT_TRUE(wait_for(*listener, POLLIN, late));
    rank_0 = Socket(accept4(listener->get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    ASSERT_TRUE(rank_0);
    std::string bytes = encode({Frame::kHello, "", kHelloText}) + encode({Frame::kAccept, "", "s"});
    ASSERT_TRUE(write_some(rank_0, bytes));
  });
  auto store = connect_store(world);
  meets.join();
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string value(1 << 20, 'x');
  int sets = 1;
  while ((*store)->set("name", value).ok())
    ++sets;
  std::thread reads([&] {
    while (read_frame() && frames.back().kind != Frame::kFail) {}
    std::string bytes = encode({Frame::kFailure, "", frames.back().value});
    write_some(rank_0, bytes);
  });
  EXPECT_EQ((*store)->fail("14 the reason", late), "14 the reason");
  reads.join();
  ASSERT_EQ(frames.size(), static_cast<size_t>(sets) + 2);
  EXPECT_EQ(frames[0].kind, Frame::kJoin);
  for (int i = 1; i <= sets; ++i)
    EXPECT_TRUE(frames[i].kind == Frame::kSet && frames[i].value == value) << i;
  EXPECT_EQ(frames.back().kind, Frame::kFail);
  EXPECT_EQ(frames.back().value, "14 the reason");
}

} // namespace
} // namespace weft::runtime
