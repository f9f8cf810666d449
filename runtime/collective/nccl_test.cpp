// The layer "nccl" over libraries that stand in for NCCL and the driver: which calls it makes, in
// which order, of which groups, and what it ends. Ranks are threads, each with a device of its own.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/recording_nccl.h"

namespace weft::runtime {
namespace {

void *load(const std::string &name) {
  const char *sources = std::getenv("TEST_SRCDIR"), *workspace = std::getenv("TEST_WORKSPACE");
  std::string folder = sources ? absl::StrCat(sources, "/", workspace, "/runtime/collective/")
                               : "bazel-bin/runtime/collective/";
  void *library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return library;
}

struct Recording {
  void *cuda = load("recording_cuda.so"), *nccl = load("recording_nccl.so");
  weft_recording_memory_t memory =
      reinterpret_cast<weft_recording_memory_t>(dlsym(cuda, "weft_recording_memory"));
  weft_recording_nccl_log_t log =
      reinterpret_cast<weft_recording_nccl_log_t>(dlsym(nccl, "weft_recording_nccl_log"));
  weft_recording_nccl_errors_t errors =
      reinterpret_cast<weft_recording_nccl_errors_t>(dlsym(nccl, "weft_recording_nccl_errors"));
  weft_recording_nccl_live_t live =
      reinterpret_cast<weft_recording_nccl_live_t>(dlsym(nccl, "weft_recording_nccl_live"));
  weft_recording_nccl_reset_t reset =
      reinterpret_cast<weft_recording_nccl_reset_t>(dlsym(nccl, "weft_recording_nccl_reset"));
};
Recording &recording() {
  static Recording recording;
  return recording;
}

// Addresses of a device: nobody looks at what is there.
constexpr long kBytes = 1 << 20;
float *device_memory(int rank, int buffer = 0) {
  return reinterpret_cast<float *>((0x7000L + rank * 16 + buffer) << 24);
}

void run_ranks(int size, const std::function<void(Communicator &)> &body, double timeout = 9) {
  recording().reset();
  std::vector<std::unique_ptr<Store>> stores = local_stores(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      for (int buffer : {0, 1})
        recording().memory(device_memory(rank, buffer), kBytes, rank);
      World world;
      world.rank = rank;
      world.size = size;
      world.timeout_seconds = timeout;
      auto made = Communicator::connect(world, "local", std::move(stores[rank]));
      ASSERT_TRUE(made.ok()) << made.status();
      body(*made);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(std::string(recording().errors()), "");
  EXPECT_EQ(recording().live(), 0);
}

CollectiveCall on_device(int rank, Collective kind, int64_t count, DType dtype = DType::kFloat32,
                         Reduction reduction = Reduction::kSum, int peer = 0) {
  return {kind,
          dtype,
          reduction,
          count,
          peer,
          kNoRank,
          device_memory(rank, 0),
          device_memory(rank, 1),
          "train.cpp:7"};
}

absl::Status start_and_wait(Group &group, const CollectiveCall &call, long stream = 5) {
  auto event = group.start_on_device(call, reinterpret_cast<void *>(stream));
  return event.ok() ? (*event)->wait() : event.status();
}

TEST(Nccl, EachCollectiveIsEnqueuedInOrder) {
  run_ranks(2, [](Communicator &ranks) {
    ASSERT_TRUE(ranks.add_devices("nccl").ok()) << ranks.status();
    Group &world = *ranks.world();
    const int me = world.rank();
    auto run = [&](auto... call) {
      absl::Status status = start_and_wait(world, on_device(me, call...));
      EXPECT_TRUE(status.ok()) << status;
    };
    run(Collective::kAllReduce, 1000);
    run(Collective::kAllReduce, 9, DType::kBFloat16, Reduction::kMean);
    run(Collective::kAllReduce, 8, DType::kBool, Reduction::kSum);
    run(Collective::kReduceScatter, 7, DType::kInt64, Reduction::kMin);
    run(Collective::kAllGather, 6, DType::kInt16);
    run(Collective::kBroadcast, 5, DType::kFloat16, Reduction::kSum, 1);
    run(Collective::kAllToAll, 4);
    run(me ? Collective::kReceive : Collective::kSend, 3, DType::kUInt8, Reduction::kSum, 1 - me);
    run(Collective::kAllReduce, 0);  // nothing to do
    EXPECT_TRUE(world.run({}).ok()); // the host's calls go on beside it
  });
  const std::string both = "all: AllReduce 1000 type 7 op 0 stream 5\n"
                           "all: AllReduce 9 type 9 op 4 stream 5\n"
                           "all: AllReduce 8 type 1 op 2 stream 5\n"
                           "all: ReduceScatter 7 type 4 op 3\n"
                           "all: AllGather 12 type 1\n"
                           "all: Broadcast 10 type 1 from 1\n"
                           "all: +Send 16 type 1 to 0\nall: +Recv 16 type 1 from 0\n"
                           "all: +Send 16 type 1 to 1\nall: +Recv 16 type 1 from 1\n";
  EXPECT_EQ(recording().log(0), both + "all: Send 3 type 1 to 1\nall: destroy\n");
  EXPECT_EQ(recording().log(1), both + "all: Recv 3 type 1 from 0\nall: destroy\n");
}

TEST(Nccl, GroupsHaveCommunicatorsOfTheirOwn) {
  run_ranks(4, [](Communicator &ranks) {
    ASSERT_TRUE(ranks.add_devices("nccl").ok()) << ranks.status();
    const int me = ranks.world()->rank();
    // 2 and 1, in this order; 3 alone; 0 in none.
    auto group = ranks.world()->split(me == 0 ? -1 : me == 3 ? 9 : 7, -me, "some");
    ASSERT_TRUE(group.ok()) << group.status();
    if (*group) {
      CollectiveCall call = on_device(me, Collective::kBroadcast, 10);
      EXPECT_TRUE(start_and_wait(**group, call).ok());
    }
    EXPECT_TRUE(start_and_wait(*ranks.world(), on_device(me, Collective::kAllReduce, 1)).ok());
  });
  EXPECT_EQ(recording().log(0),
            std::string("all: AllReduce 1 type 7 op 0 stream 5\nall: destroy\n"));
  for (auto [rank, name] : {std::pair(1, "all/2"), {2, "all/2"}, {3, "all/3"}})
    EXPECT_EQ(recording().log(rank),
              absl::StrCat(name,
                           ": Broadcast 40 type 1 from 0\nall: AllReduce 1 type 7 op 0 stream 5\n",
                           name, ": destroy\nall: destroy\n"));
}

TEST(Nccl, MemoryThatIsNotTheDevicesIsRefused) {
  float host[4] = {};
  // What only rank 0 has, and what all ranks call.
  const std::pair<std::function<void(CollectiveCall &, int)>, const char *> cases[] = {
      {[&](CollectiveCall &call, int me) {
         if (me == 0)
           call.input = call.output = host;
       },
       "the input is not in a device's memory: copy it there, or start the call on the host"},
      {[](CollectiveCall &call, int me) {
         if (me == 0)
           call.output = device_memory(1);
       },
       "the output is in the memory of device 1, and this rank is connected with device 0"},
      {[](CollectiveCall &call, int) { call.count = kBytes / 4 + 1; },
       "the input is not in a device's memory"},
      {[](CollectiveCall &call, int) { call.dtype = DType::kInt16; },
       "NCCL has no reductions of int16: cast to int32"}};
  for (const auto &[change, what] : cases)
    run_ranks(2, [&](Communicator &ranks) {
      ASSERT_TRUE(ranks.add_devices("nccl").ok());
      ASSERT_TRUE(ranks.world()->run({}).ok()); // all are connected
      const int me = ranks.world()->rank();
      CollectiveCall call = on_device(me, Collective::kAllReduce, 4);
      change(call, me);
      absl::Status status = start_and_wait(*ranks.world(), call);
      // All ranks hear it, though only one could not, at their next call at the latest.
      if (status.ok())
        status = ranks.world()->run({});
      EXPECT_NE(status.message().find("at train.cpp:7: rank "), std::string::npos) << status;
      EXPECT_NE(status.message().find(what), std::string::npos) << status;
    });
}

TEST(Nccl, CallsThatDifferEndWhatDevicesWaitFor) {
  run_ranks(3, [](Communicator &ranks) {
    ASSERT_TRUE(ranks.add_devices("nccl").ok());
    ASSERT_TRUE(ranks.world()->run({}).ok()); // all are connected
    Group &world = *ranks.world();
    CollectiveCall call = on_device(world.rank(), Collective::kAllGather, 4);
    std::vector<float> data(12);
    absl::Status status;
    if (world.rank() == 1) { // the same, on the host
      call.input = data.data();
      call.output = data.data();
      call.input = data.data() + 4;
      status = world.run(call);
    } else {
      status = start_and_wait(world, call);
    }
    EXPECT_NE(status.message().find("all_gather(float32 x 4) on a device as number 2 at train"),
              std::string::npos)
        << status;
    EXPECT_NE(status.message().find("rank 1 calls all_gather(float32 x 4) as number 2 at train"),
              std::string::npos)
        << status;
    EXPECT_FALSE(world.start_on_device(call, nullptr).ok());
  });
  for (int rank : {0, 1, 2})
    EXPECT_NE(std::string(recording().log(rank)).find("all: abort\n"), std::string::npos);
}

TEST(Nccl, ARankThatDoesNotConnectItsDeviceIsAnErrorOnAllOthers) {
  run_ranks(
      2,
      [](Communicator &ranks) {
        absl::Status status;
        if (ranks.world()->rank() == 0)
          status = ranks.add_devices("nccl");
        while (status.ok()) { // rank 1 is elsewhere in its program
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          status = ranks.status();
        }
        EXPECT_NE(
            status.message().find("cannot connect with the others through the layer 'nccl': "
                                  "ncclCommInitRankConfig: not all ranks have come within 1000 ms"),
            std::string::npos)
            << status;
      },
      1);
}

TEST(Nccl, WhatHasNoDevicesIsRefused) {
  run_ranks(1, [](Communicator &ranks) {
    Group &world = *ranks.world();
    absl::Status status = start_and_wait(world, on_device(0, Collective::kAllReduce, 4));
    EXPECT_EQ(status.message(), "all_reduce(sum, float32 x 4) at train.cpp:7: the ranks' devices "
                                "are not connected (Communicator::add_devices)");
    EXPECT_EQ(ranks.add_devices("local").message(),
              "the layer 'local' has no collectives on devices");
    World other;
    EXPECT_EQ(Communicator::connect(other, "nccl").status().message(),
              "the layer 'nccl' connects devices: connect the ranks through another one, and add "
              "this one to it");
    ASSERT_TRUE(ranks.add_devices("nccl").ok()); // a job of one rank
    EXPECT_TRUE(start_and_wait(world, on_device(0, Collective::kAllReduce, 4)).ok());
    EXPECT_EQ(world.start_on_device({}, nullptr).status().message(),
              "barrier(): it moves no data; start it on the host");
  });
}

} // namespace
} // namespace weft::runtime
