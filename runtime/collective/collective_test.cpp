// Groups and collectives over the layer "local": ranks are threads.
#include "runtime/collective/communicator.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/abi/weft_collective.h"
#include "runtime/collective/check_collectives.h"
#include "runtime/collective/layers.h"
#include "runtime/profile/profile.h"

namespace weft::runtime {
namespace {

// Runs one thread for each rank, connected.
void run_ranks(int size, const std::function<void(Communicator &)> &body, double timeout = 10) {
  std::vector<std::unique_ptr<Store>> stores = local_stores(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
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
}

CollectiveCall all_reduce(std::vector<float> &data, std::string place = "") {
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.count = static_cast<int64_t>(data.size());
  call.input = call.output = data.data();
  call.place = std::move(place);
  return call;
}

CollectiveCall barrier() {
  return {};
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, Ranks, testing::Range(1, 9));

TEST_P(Ranks, EveryCollectiveGivesWhatLoopsSay) {
  run_ranks(GetParam(),
            [](Communicator &ranks) { EXPECT_EQ(check_collectives(*ranks.world()), ""); });
}

TEST(Collective, AProfileHasTheCallOfEachRank) {
  std::string file = testing::TempDir() + "/collectives.json";
  ASSERT_TRUE(profile::start(file).ok());
  run_ranks(3, [](Communicator &ranks) {
    std::vector<float> data(1000, 1);
    EXPECT_TRUE(ranks.world()->run(all_reduce(data, "train.cpp:7")).ok());
  });
  ASSERT_TRUE(profile::stop().ok());
  std::ifstream in(file);
  int calls = 0;
  for (std::string line; std::getline(in, line);)
    calls += line.find("all_reduce(sum, float32 x 1000)") != std::string::npos &&
             line.find("\"cat\":\"collective\"") != std::string::npos &&
             line.find("\"line\":\"train.cpp:7\",\"group\":\"world\",\"bytes\":4000") !=
                 std::string::npos;
  EXPECT_EQ(calls, 3);
}

TEST(Collective, BitsDoNotDependOnTime) {
  for (int64_t count : {900, 20011}) {
    std::vector<std::vector<float>> first(4);
    run_ranks(4, [&](Communicator &ranks) {
      Group &group = *ranks.world();
      for (int repeat = 0; repeat < 500; ++repeat) {
        std::vector<char> bytes = sample(DType::kFloat32, 0, count, group.rank(), 7);
        std::vector<float> data(static_cast<size_t>(count));
        std::memcpy(data.data(), bytes.data(), bytes.size());
        uint32_t delay = static_cast<uint32_t>(repeat * 7919 + group.rank() * 104729) % 97;
        std::this_thread::sleep_for(std::chrono::microseconds(delay));
        ASSERT_TRUE(group.run(all_reduce(data)).ok());
        std::vector<float> &kept = first[static_cast<size_t>(group.rank())];
        if (repeat == 0)
          kept = data;
        ASSERT_EQ(std::memcmp(kept.data(), data.data(), bytes.size()), 0) << repeat;
      }
    });
    for (int rank = 1; rank < 4; ++rank)
      EXPECT_EQ(std::memcmp(first[0].data(), first[rank].data(), count * sizeof(float)), 0);
  }
}

TEST(Collective, CallsAreStartedAndWaitedForLater) {
  run_ranks(3, [](Communicator &ranks) {
    Group &group = *ranks.world();
    std::vector<std::vector<float>> data;
    for (int i = 0; i < 40; ++i)
      data.emplace_back(i % 5 == 0 ? 3000 : 3, static_cast<float>(i + group.rank()));
    std::vector<std::shared_ptr<const Event>> events;
    for (std::vector<float> &one : data) {
      auto event = group.start(all_reduce(one));
      ASSERT_TRUE(event.ok()) << event.status();
      events.push_back(*event);
    }
    for (int i = 39; i >= 0; --i) {
      ASSERT_TRUE(events[i]->wait().ok());
      EXPECT_EQ(data[i].back(), static_cast<float>(3 * i + 3));
    }
  });
}

TEST(Collective, GroupsRunAtOnceAndDoNotWaitForEachOther) {
  run_ranks(4, [](Communicator &ranks) {
    auto rows = ranks.world()->split(ranks.world()->rank() / 2, 0, "rows");
    auto columns = ranks.world()->split(ranks.world()->rank() % 2, 0, "columns");
    ASSERT_TRUE(rows.ok() && columns.ok());
    // In two orders: within a group alone does the order count.
    bool rows_first = (*rows)->rank() == 0;
    for (int i = 0; i < 50; ++i) {
      std::vector<float> a(2000, 1), b(2000, 2);
      std::shared_ptr<const Event> events[2];
      for (bool is_rows : {rows_first, !rows_first}) {
        auto event = is_rows ? (*rows)->start(all_reduce(a)) : (*columns)->start(all_reduce(b));
        ASSERT_TRUE(event.ok()) << event.status();
        events[is_rows] = *event;
      }
      ASSERT_TRUE(events[0]->wait().ok() && events[1]->wait().ok());
      EXPECT_EQ(a[1999], 2);
      EXPECT_EQ(b[1999], 4);
    }
  });
}

TEST(Collective, GroupsAreSplitByColorAndOrderedByKey) {
  run_ranks(5, [](Communicator &ranks) {
    int rank = ranks.world()->rank();
    // 4, 3 and 1 from the back; 0 and 2 in none.
    auto odd = ranks.world()->split(rank == 0 || rank == 2 ? -1 : 7, -rank, "some");
    ASSERT_TRUE(odd.ok()) << odd.status();
    ASSERT_EQ(*odd == nullptr, rank == 0 || rank == 2);
    if (!*odd)
      return;
    EXPECT_EQ((*odd)->size(), 3);
    EXPECT_EQ((*odd)->rank(), rank == 4 ? 0 : rank == 3 ? 1 : 2);
    CollectiveCall call;
    call.kind = Collective::kAllToAll;
    call.count = 3000;
    EXPECT_EQ(check_call(**odd, call, 1, false), "");
    auto alone = (*odd)->split(rank, 0, "alone");
    ASSERT_TRUE(alone.ok() && (*alone)->size() == 1);
    std::vector<float> data(10, 3);
    EXPECT_TRUE((*alone)->run(all_reduce(data)).ok());
    EXPECT_EQ(data[9], 3);
  });
}

TEST(Collective, WhatNoRankMayCallIsRefusedAndNothingIsStarted) {
  run_ranks(2, [](Communicator &ranks) {
    Group &group = *ranks.world();
    int64_t data[4] = {};
    auto wrong = [&](Collective kind, Reduction reduction, int64_t count, int peer, void *output) {
      CollectiveCall call{kind,    DType::kInt64, reduction, count, peer,
                          kNoRank, data,          output,    "here"};
      auto started = group.start(call);
      EXPECT_EQ(started.status().code(), absl::StatusCode::kInvalidArgument);
      return std::string(started.status().message());
    };
    EXPECT_EQ(
        wrong(Collective::kAllReduce, Reduction::kMean, 4, 0, data),
        "all_reduce(mean, int64 x 4): there is no mean of int64; cast to a floating dtype, or "
        "take the sum");
    EXPECT_EQ(wrong(Collective::kBroadcast, Reduction::kSum, 4, 2, data),
              "broadcast(from 2, int64 x 4): the group has the ranks 0 to 1");
    EXPECT_EQ(wrong(Collective::kSend, Reduction::kSum, 4, group.rank(), data),
              absl::StrCat("send(to ", group.rank(),
                           ", int64 x 4): that is this rank itself; copy instead"));
    EXPECT_EQ(wrong(Collective::kAllGather, Reduction::kSum, -1, 0, data),
              "all_gather(int64 x -1): the count is negative or too large");
    EXPECT_EQ(wrong(Collective::kAllGather, Reduction::kSum, int64_t{1} << 60, 0, data),
              "all_gather(int64 x 1152921504606846976): the count is negative or too large");
    EXPECT_EQ(wrong(Collective::kAllReduce, Reduction::kSum, 4, 0, nullptr),
              "all_reduce(sum, int64 x 4): a buffer is null");
    EXPECT_EQ(
        wrong(Collective::kAllReduce, Reduction::kSum, 3, 0, data + 1),
        "all_reduce(sum, int64 x 3): input and output overlap; they may be one buffer, or none "
        "of it");
    EXPECT_EQ(
        wrong(Collective::kReduceScatter, Reduction::kSum, 2, 0, data + 1),
        "reduce_scatter(sum, int64 x 2): input and output overlap; the output may only be this "
        "rank's part of the input");
    EXPECT_EQ(wrong(Collective::kAllToAll, Reduction::kSum, 2, 0, data),
              "all_to_all(int64 x 2): input and output overlap; give it two buffers");
    EXPECT_TRUE(group.run(barrier()).ok());
  });
}

TEST(Collective, CallsThatDifferAreAnErrorOnAllRanksThatNamesBothLines) {
  using Change = void (*)(CollectiveCall &);
  const std::pair<Change, const char *> changes[] = {
      {[](CollectiveCall &call) { call.kind = Collective::kBroadcast; },
       "broadcast(from 0, float32 x 2000)"},
      {[](CollectiveCall &call) { call.dtype = DType::kInt32; }, "all_reduce(sum, int32 x 2000)"},
      {[](CollectiveCall &call) { call.count = 3; }, "all_reduce(sum, float32 x 3)"},
      {[](CollectiveCall &call) { call.reduction = Reduction::kMax; },
       "all_reduce(max, float32 x 2000)"},
      {[](CollectiveCall &call) { call.kind = Collective::kSend; }, "send(to 0, float32 x 2000)"}};
  for (const auto &[change, what] : changes)
    run_ranks(3, [&](Communicator &ranks) {
      Group &group = *ranks.world();
      ASSERT_TRUE(group.run(barrier()).ok());
      std::vector<float> data(2000);
      CollectiveCall call = all_reduce(data, absl::StrCat("r", group.rank(), ".cpp:5"));
      if (group.rank() == 1)
        change(call);
      absl::Status status = group.run(call);
      std::string text(status.message());
      EXPECT_NE(text.find("in group 'world' differ: "), text.npos) << status;
      EXPECT_NE(text.find("all_reduce(sum, float32 x 2000) as number 2 at r"), text.npos) << status;
      EXPECT_NE(text.find(absl::StrCat("rank 1 calls ", what)), text.npos) << status;
      EXPECT_NE(text.find("r1.cpp:5"), text.npos) << status;
      EXPECT_NE(text.find(absl::StrCat(". Rank ", group.rank(), " ")), text.npos) << status;
      // From then on nothing is started, with the same error.
      absl::Status later = group.start(barrier()).status();
      EXPECT_EQ(later.message(), absl::StrCat(ranks.status().message(), ". Rank ", group.rank(),
                                              " has not started barrier()"));
      EXPECT_EQ(text.find(std::string(ranks.status().message())), 0u) << ranks.status();
    });
}

TEST(Collective, ASilentRankIsNamedOnAllRanksWithinTheTimeout) {
  auto begin = std::chrono::steady_clock::now();
  std::atomic<int> ended = 0;
  run_ranks(
      3,
      [&](Communicator &ranks) {
        Group &group = *ranks.world();
        ASSERT_TRUE(group.run(barrier()).ok());
        if (group.rank() == 1) {
          while (ended < 2)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        } else {
          std::vector<float> data(5000);
          absl::Status status = group.run(all_reduce(data, "train.cpp:12"));
          EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
          std::string text(status.message());
          EXPECT_EQ(text.find("rank 1 is silent for longer than the timeout of 1 s"), 0u) << text;
          EXPECT_NE(text.find("was in all_reduce(sum, float32 x 5000) at train.cpp:12, number 2 of "
                              "group 'world'"),
                    text.npos)
              << text;
          ++ended;
        }
        EXPECT_EQ(group.run(barrier()).code(), absl::StatusCode::kDeadlineExceeded);
      },
      1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)); // and no hang
}

TEST(Collective, ARankThatWaitsForASilentOneIsNotTakenForIt) {
  std::atomic<int> ended = 0;
  run_ranks(
      3,
      [&](Communicator &ranks) {
        int rank = ranks.world()->rank();
        auto first = ranks.world()->split(rank < 2 ? 0 : -1, 0, "first");
        auto second = ranks.world()->split(rank > 0 ? 0 : -1, 0, "second");
        ASSERT_TRUE(first.ok() && second.ok());
        if (rank == 2) {
          while (ended < 2)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return;
        }
        // Rank 0 waits for rank 1, and did so before rank 1 waited for rank 2.
        std::this_thread::sleep_for(std::chrono::milliseconds(rank * 30));
        absl::Status status = (rank == 0 ? *first : *second)->run(barrier());
        EXPECT_EQ(status.message().find("rank 2 is silent for longer than the timeout of 2 s"), 0u)
            << status;
        ++ended;
      },
      2);
}

TEST(Collective, RanksThatUseGroupsInOtherOrdersAreToldTheirCalls) {
  run_ranks(
      2,
      [&](Communicator &ranks) {
        auto first = ranks.world()->split(0, 0, "first"),
             second = ranks.world()->split(0, 0, "second");
        ASSERT_TRUE(first.ok() && second.ok());
        absl::Status status = (ranks.world()->rank() == 0 ? *first : *second)->run(barrier());
        std::string text(status.message());
        EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
        EXPECT_EQ(text.find("is silent"), text.npos) << text;
        for (const char *part : {"rank 0 waits for rank 1 in barrier()", "of group 'first'",
                                 "rank 1 waits for rank 0 in barrier()", "of group 'second'",
                                 "ranks use groups in one order"})
          EXPECT_NE(text.find(part), text.npos) << text;
      },
      2);
}

TEST(Collective, ARankThatLeavesOrFailsEndsTheOthersWaits) {
  run_ranks(3, [](Communicator &ranks) {
    ASSERT_TRUE(ranks.world()->run(barrier()).ok()); // all are connected
    if (ranks.world()->rank() == 2)
      return ranks.fail(absl::DataLossError("the disk of rank 2 is full"));
    absl::Status status = ranks.world()->run(barrier());
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(status.message().find("the disk of rank 2 is full"), 0u) << status;
  });
  run_ranks(3, [](Communicator &ranks) {
    if (ranks.world()->rank() == 2)
      return;
    absl::Status status = ranks.world()->run(barrier());
    EXPECT_EQ(status.message().find("rank 2 has gone (it has "), 0u) << status;
  });
}

// Its threads are not there, and the locks that they held stay held: nothing waits for either, and
// the other ranks hear nothing.
TEST(Collective, AGroupEndsInAForkedChild) {
  run_ranks(2, [](Communicator &ranks) {
    std::vector<std::shared_ptr<const Event>> events;
    for (int child = 0; child < 20; ++child) {
      for (int call = 0; call < 50; ++call)
        events.push_back(*ranks.world()->start(barrier()));
      if (ranks.world()->rank() == 1)
        continue;
      pid_t forked = fork(); // while calls are under way
      if (forked == 0) {
        alarm(30);
        bool refused = absl::IsFailedPrecondition(ranks.world()->run(barrier()));
        Communicator(std::move(ranks));
        _exit(refused ? 0 : 1);
      }
      int status = -1;
      waitpid(forked, &status, 0);
      ASSERT_EQ(status, 0);
    }
    for (const auto &event : events)
      EXPECT_TRUE(event->wait().ok());
  });
}

// A layer in C++ may throw: that is its failure, not the end of the process.
TEST(Layers, MayThrow) {
  static const char *throws = "";
  static weft_collective_layer local = **find_collective_layer("local");
  weft_collective_layer layer = local;
  layer.name = "throwing";
  layer.connect = [](const weft_collective_world *world, void **connection) {
    if (throws == std::string("connect"))
      throw std::runtime_error("out of luck");
    return local.connect(world, connection);
  };
  layer.post = [](void *connection, weft_collective_transfer *transfer) {
    if (throws == std::string("post"))
      throw std::runtime_error("out of luck");
    return local.post(connection, transfer);
  };
  layer.wait = [](void *connection, weft_collective_transfer *transfer, int64_t timeout,
                  const char **why) {
    if (throws == std::string("wait"))
      throw std::runtime_error("out of luck");
    return local.wait(connection, transfer, timeout, why);
  };
  ASSERT_EQ(weft_register_collective_layer(&layer), nullptr);
  for (const char *function : {"connect", "post", "wait"}) {
    throws = function;
    std::vector<std::unique_ptr<Store>> stores = local_stores(2);
    std::vector<std::thread> threads;
    std::vector<absl::Status> said(2);
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        World world;
        world.rank = rank;
        world.size = 2;
        auto made = Communicator::connect(world, "throwing", std::move(stores[rank]));
        std::vector<float> data(10, 1);
        said[rank] = made.ok() ? made->world()->run(all_reduce(data)) : made.status();
      });
    for (std::thread &thread : threads)
      thread.join();
    for (const absl::Status &status : said) {
      EXPECT_NE(status.message().find("layer 'throwing'"), std::string::npos) << status;
      EXPECT_NE(status.message().find(absl::StrCat("its ", function,
                                                   "() threw an exception: out of luck")),
                std::string::npos)
          << status;
    }
  }
}

TEST(Layers, AreRegisteredByNameAndVersion) {
  auto nothing = find_collective_layer("none");
  EXPECT_EQ(nothing.status().message().find(
                "no collective layer named 'none' is registered in this process "
                "(weft_register_collective_layer); known: local"),
            0u)
      << nothing.status();
  weft_collective_layer layer = **find_collective_layer("local");
  EXPECT_EQ(weft_register_collective_layer(&layer),
            std::string("the collective layer 'local' is registered already, by this name"));
  layer.name = "test";
  layer.wait = nullptr;
  EXPECT_EQ(weft_register_collective_layer(&layer),
            std::string("the collective layer 'test' lacks post or wait"));
  layer.version = WEFT_VERSION(2, 0);
  EXPECT_NE(std::string(weft_register_collective_layer(&layer)).find("version 2.0 of"),
            std::string::npos);
  EXPECT_EQ(load_collective_plugin("./none.so").code(), absl::StatusCode::kNotFound);
  World world;
  EXPECT_EQ(Communicator::connect(world, "none").status().code(), absl::StatusCode::kNotFound);
}

} // namespace
} // namespace weft::runtime
