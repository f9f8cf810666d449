// Ranks as threads that fail in the middle: the others are told which call does not come, nothing
// waits for ever, and what is left goes on.
#include "weft/distributed/distributed.h"
#include "weft/weft.h"

#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/system_allocator.h"

#include "tests/support/errors.h"

#include <gtest/gtest.h>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>

namespace weft::distributed {
namespace {

using testing_support::what_of;

// The device of a rank has an allocator that fails beyond so many bytes.
class Limited {
public:
  Limited(Device device, int64_t bytes) : device_(device) {
    set_allocator(std::make_shared<runtime::LimitAllocator>(
                      std::make_shared<runtime::SystemAllocator>(), bytes),
                  device_);
  }
  ~Limited() {
    set_allocator(nullptr, device_);
  }

private:
  Device device_;
};

// The text of each rank's error.
class Errors {
public:
  void put(const std::string &error) {
    std::lock_guard lock(mutex_);
    of_[static_cast<size_t>(world().rank())] = error;
  }
  const std::string &of(int rank) const {
    return of_[static_cast<size_t>(rank)];
  }

private:
  std::mutex mutex_;
  std::array<std::string, 8> of_;
};

void expect(const std::string &text, std::initializer_list<const char *> parts) {
  for (const char *part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

// Two calls alike in a row: the second one of a rank that skips the first must not meet the first
// one of the others.
TEST(Failures, ACallWhoseInputIsLostDoesNotCome) {
  Errors errors;
  (void)what_of([&] {
    run_ranks(2, [&] {
      int me = world().rank();
      Tensor table = arange(8).to(float32).eval(),
             label = Tensor::from(std::vector<int64_t>{me == 0 ? 99 : 1}, {1});
      Tensor loss = all_reduce(table.index_select(0, label).sum()), count = all_reduce(scalar(1.f));
      std::string of_loss = what_of([&] { (void)loss.item<float>(); }),
                  of_count = what_of([&] { EXPECT_EQ(count.item<float>(), 2); });
      errors.put(of_loss + " | " + of_count);
    });
  });
  expect(errors.of(0), {"index 99 at position 0 is out of range"});
  expect(errors.of(1),
         {"rank 0 does not come to", "all_reduce", "failures_test.cpp:", "its own error says why"});
}

// Fails on both ranks with errors that have these parts in them.
void expect_on_both(const std::function<void()> &rank, std::initializer_list<const char *> parts) {
  Errors errors;
  (void)what_of([&] { run_ranks(2, [&] { errors.put(what_of(rank)); }); });
  expect(errors.of(0), parts);
  expect(errors.of(1), parts);
}

TEST(Failures, ShapesOfOneSizeDiffer) {
  auto shape = [] {
    return world().rank() == 0 ? Shape{2, 3} : Shape{3, 2};
  };
  for (const auto &call : std::initializer_list<Tensor (*)(const Tensor &)>{
           [](const Tensor &x) { return all_reduce(x); },
           [](const Tensor &x) { return broadcast(x, 1); },
           [](const Tensor &x) { return all_gather(x); }})
    expect_on_both([&] { (void)call(ones(shape())).to_vector<float>(); },
                   {"rank 0 calls ", "float32 x 6 of [2, 3]", "rank 1 calls ",
                    "float32 x 6 of [3, 2]", "failures_test.cpp:"});
}

TEST(Failures, ABarrierHasItsOwnName) {
  expect_on_both(
      [] {
        if (world().rank() == 0)
          barrier();
        else
          (void)all_reduce(ones({2})).to_vector<float>();
      },
      {"rank 0 calls barrier() as number 1 at ", "rank 1 calls all_reduce(sum, ",
       "failures_test.cpp:"});
}

TEST(Failures, MeshesAndGroupsThatDifferAreTold) {
  using Axes = std::vector<std::pair<std::string, int>>;
  auto meshes = [](const Axes &first, const Axes &second) {
    return [first, second] {
      Mesh mesh(world().rank() == 0 ? first : second);
    };
  };
  expect_on_both(meshes({{"data", 2}}, {{"model", 2}}),
                 {"Mesh: ", "rank 0 calls Mesh(data 2) as number 1 at ",
                  "rank 1 calls Mesh(model 2) as number 1 at ", "failures_test.cpp:"});
  expect_on_both(meshes({{"data", 2}, {"model", 1}}, {{"data", 1}, {"model", 2}}),
                 {"rank 0 calls Mesh(data 2, model 1) ", "rank 1 calls Mesh(data 1, model 2) "});
  expect_on_both([] { (void)world().split(0, 0, world().rank() == 0 ? "row" : "column"); },
                 {"split: ", "rank 0 calls split('row') ", "rank 1 calls split('column') "});
}

TEST(Failures, GradientsOfOtherParametersOfOneSizeAreNamed) {
  std::vector<std::vector<Tensor>> of(2);
  expect_on_both(
      [&] {
        auto me = static_cast<size_t>(world().rank());
        std::vector<Tensor> &parameters = of[me];
        for (int i = 0; i < 4; ++i) {
          parameters.push_back(ones({2, 3}));
          parameters.back().set_requires_grad();
        }
        DataParallel replicas(parameters);
        (parameters[0] * parameters[1 + me] * parameters[3]).sum().backward();
        replicas.reduce_gradients();
        (void)parameters[0].grad().to_vector<float>();
      },
      {"gradients of parameters 0 to 1, 3; none of 2 (float32 [2, 3])",
       "gradients of parameters 0, 2 to 3; none of 1 (float32 [2, 3])", "failures_test.cpp:"});
}

TEST(Failures, ReplicasOfOtherShapesAreRefused) {
  expect_on_both(
      [] {
        bool is_first = world().rank() == 0;
        Tensor last = ones(is_first ? Shape{2, 3} : Shape{3, 2});
        DataParallel replicas({ones({4}), last});
        (void)last.to_vector<float>();
      },
      {"parameters 0 to 1: [4] [2, 3]", "parameters 0 to 1: [4] [3, 2]"});
}

TEST(Failures, AWrongTimeoutIsTheErrorOfInit) {
  for (const char *name : {"WEFT_COLLECTIVE_TIMEOUT", "WEFT_RENDEZVOUS_TIMEOUT"}) {
    setenv(name, "soon", 1);
    for (const auto &call : {std::function<void()>([] { run_ranks(2, [] {}); }),
                             std::function<void()>([] { (void)init(); })}) {
      Error error = testing_support::error_of(call);
      EXPECT_EQ(error.kind(), ErrorKind::kValue);
      expect(error.what(), {name, "='soon': it must be 0.1 to 1e6 seconds", "failures_test.cpp"});
    }
    unsetenv(name);
  }
}

// The address space has room for one more thread's stack, not for two.
class RoomForOneThread {
public:
  RoomForOneThread() {
    pthread_attr_t large;
    EXPECT_EQ(pthread_getattr_default_np(&attributes_), 0);
    EXPECT_EQ(pthread_attr_init(&large), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&large, kStack), 0);
    EXPECT_EQ(pthread_setattr_default_np(&large), 0);
    pthread_attr_destroy(&large);
    EXPECT_EQ(getrlimit(RLIMIT_AS, &limit_), 0);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit less = limit_;
    less.rlim_cur = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + kStack * 3 / 2;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &less), 0);
  }
  ~RoomForOneThread() {
    setrlimit(RLIMIT_AS, &limit_);
    pthread_setattr_default_np(&attributes_);
    pthread_attr_destroy(&attributes_);
  }

private:
  static constexpr size_t kStack = size_t(4) << 30;
  pthread_attr_t attributes_;
  rlimit limit_;
};

TEST(Failures, RanksThatCannotBeStartedEndThoseThatWere) {
  run_ranks(3, [] {}); // the devices' threads are there
  bool runs = false;
  auto error = [&] {
    RoomForOneThread room;
    return testing_support::error_of([&] { run_ranks(3, [&] { runs = true; }); });
  }();
  EXPECT_EQ(error.kind(), ErrorKind::kRun);
  expect(error.what(), {"run_ranks: 1 of 3 ranks were started", "run fewer ranks", "ulimit -u",
                        "failures_test.cpp"});
  EXPECT_FALSE(runs);
  run_ranks(3, [] { barrier(); });
}

// Rank 1 is in no group but the world.
TEST(Failures, ARankHasAsManyGroupsAsItMay) {
  Errors errors;
  (void)what_of([&] {
    run_ranks(2, [&] {
      bool first = world().rank() == 0;
      for (int i = 1; i < 256; ++i)
        EXPECT_EQ(world().split(first ? 0 : -1).defined(), first);
      errors.put(what_of([&] { (void)world().split(0); }));
    });
  });
  expect(errors.of(0), {"split: this rank has 256 groups, as many as a rank may have",
                        "make groups and meshes once", "failures_test.cpp"});
  expect(errors.of(1), {"split: ", "rank 0 does not come to split('part'): it has 256 groups"});
}

// The value is lost before the call is made.
TEST(Failures, ACallOnWhatIsLostAlready) {
  Errors errors;
  (void)what_of([&] {
    run_ranks(2, [&] {
      int me = world().rank();
      Tensor table = arange(8).to(float32).eval(),
             label = Tensor::from(std::vector<int64_t>{me == 0 ? 99 : 1}, {1}),
             picked = table.index_select(0, label);
      (void)what_of([&] { (void)picked.to_vector<float>(); });
      Tensor loss = all_reduce(picked * 2);
      // What it is asked for does not depend on it.
      EXPECT_EQ((table.narrow(0, 3, 1) + 1).item<float>(), 4);
      errors.put(what_of([&] { (void)loss.item<float>(); }));
    });
  });
  expect(errors.of(1), {"rank 0 does not come to weft.all_reduce (", "its own error says why"});
}

TEST(Failures, ARankThrowsWithACallUnderWay) {
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(testing_support::message_of([] {
                run_ranks(2, [] {
                  if (world().rank() == 1)
                    std::this_thread::sleep_for(std::chrono::milliseconds(20));
                  Tensor y = all_reduce(ones({4}));
                  submit_step({{y}});
                  if (world().rank() == 0)
                    throw Error(ErrorKind::kValue, "enough");
                  (void)what_of([&] { (void)y.to_vector<float>(); });
                });
              }),
              "enough");
  EXPECT_ANY_THROW(run_ranks(2, [] { throw 1; }));
}

TEST(Failures, NoMemoryOfOneRankIsAnErrorOfAll) {
  Errors errors;
  (void)what_of([&] {
    run_ranks(2, [&] {
      int me = world().rank();
      Tensor w = ones({3}).eval(), x = ones({1 << 16}).eval();
      barrier();
      std::optional<Limited> limited;
      if (me == 0)
        limited.emplace(current_device(), 64 << 10);
      std::string error;
      {
        Tensor y = all_gather(x);
        error = what_of([&] { (void)y.to_vector<float>(); });
      }
      // The rank's later evaluations do not meet it again.
      EXPECT_EQ((w * 2).sum().item<float>(), 6);
      errors.put(error);
    });
  });
  expect(errors.of(0), {"failures_test.cpp", "cpu:1"});
  expect(errors.of(1), {"rank 0 does not come to weft.all_gather (", "cpu:1"});
}

TEST(Failures, SynchronizeWaitsForCalls) {
  std::atomic<bool> has_come = false;
  run_ranks(2, [&] {
    Tensor x = ones({4}).eval();
    if (world().rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      has_come = true;
    }
    Tensor y = all_reduce(x);
    submit_step({{y}});
    synchronize();
    EXPECT_TRUE(has_come);
    EXPECT_EQ(y.to_vector<float>()[0], 2);
  });
}

// A function whose result depends on the rank: the call is made by both.
TEST(Failures, AJittedFunctionKeepsCallsWhoseResultsItDrops) {
  run_ranks(2, [] {
    auto f = jit([](const Tensor &x) {
      Tensor sum = all_reduce(x);
      return world().rank() == 0 ? sum : x;
    });
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(f(full({2}, i + 1)).to_vector<float>()[0],
                static_cast<float>(world().rank() == 0 ? 2 * (i + 1) : i + 1));
    expect(what_of([] {
             (void)trace([](const Tensor &x) { return all_reduce(x), x + 1; }, {ones({2})});
           }),
           {"exchanges with other ranks", "failures_test.cpp"});
  });
}

TEST(Failures, AJittedFunctionMayHaveABarrier) {
  run_ranks(2, [] {
    auto f = jit([](const Tensor &x) {
      barrier();
      return x + 1;
    });
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(f(full({2}, i)).to_vector<float>()[0], static_cast<float>(i + 1));
    expect(what_of([] {
             (void)trace(
                 [](const Tensor &x) {
                   barrier();
                   return x + 1;
                 },
                 {ones({2})});
           }),
           {"exchanges with other ranks", "(barrier)", "failures_test.cpp"});
    auto splits = jit([](const Tensor &x) { return x + world().split(0).size(); });
    expect(what_of([&] { (void)splits(ones({2})); }),
           {"split: ranks wait for each other here", "failures_test.cpp"});
  });
}

TEST(Ranks, OfTwoJobsAtOnce) {
  auto job = [](float value) {
    for (int i = 0; i < 20; ++i)
      run_ranks(2,
                [&] { EXPECT_EQ(all_reduce(full({3}, value)).to_vector<float>()[2], 2 * value); });
  };
  std::thread other(job, 5.f);
  job(7.f);
  other.join();
}

TEST(Ranks, ABroadcastsGradientIsZeroWhereNothingCameFrom) {
  run_ranks(2, [] {
    Tensor x = ones({2}).set_requires_grad();
    Tensor y = broadcast(x, 0) * (world().rank() == 0 ? INFINITY : -1.f);
    y.sum().backward();
    float gradient = x.grad().to_vector<float>()[0];
    if (world().rank() == 0)
      EXPECT_EQ(gradient, INFINITY);
    else
      EXPECT_TRUE(gradient == 0 && !std::signbit(gradient)) << gradient;
  });
}

// Ranks from which nothing came go back a second time with the others.
TEST(Ranks, ABroadcastHasASecondDerivative) {
  run_ranks(2, [] {
    Tensor x = full({2}, 3.0 + world().rank()).set_requires_grad(), y = broadcast(x, 1);
    Tensor first = grad({(y * y * y).sum()}, {x}, /*create_graph=*/true)[0];
    // Of the squares of both ranks' first derivatives: that of (2 * 3 y^2)^2 at rank 1's y.
    Tensor second = grad({(first * first).sum()}, {x})[0];
    EXPECT_EQ(second.to_vector<float>()[0], world().rank() == 1 ? 2 * 6 * 16 * 12 * 4.f : 0.f);
  });
}

TEST(Ranks, DrawTheirPartsThoughTheyAreThreads) {
  manual_seed(5);
  std::vector<float> whole = rand({2, 64}).to_vector<float>();
  manual_seed(5);
  run_ranks(2, [&] {
    size_t me = static_cast<size_t>(world().rank());
    default_generator().set_part(world().rank(), 2);
    barrier();
    std::vector<float> part = rand({1, 64}).to_vector<float>();
    EXPECT_EQ(part, std::vector<float>(whole.begin() + static_cast<int64_t>(me * 64),
                                       whole.begin() + static_cast<int64_t>(me * 64 + 64)));
    default_generator().set_part(0, 1);
  });
}

// A cut of a long record is of the rank's own ops.
TEST(Ranks, ABudgetCutsOnlyWhatIsTheRanks) {
  Config before = config(), small = before;
  small.budget_ops = 24;
  set_config(small);
  run_ranks(3, [] {
    int me = world().rank();
    if (me == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::vector<Tensor> sums;
    for (int i = 0; i < 20; ++i)
      sums.push_back(all_reduce(full({2}, me + i).eval() + 1));
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(sums[static_cast<size_t>(i)].to_vector<float>()[0], 3 + 3 + 3 * i);
  });
  set_config(before);
}

// Also where a rank lacks all gradients of a bucket.
TEST(Failures, ABucketThatOneRankLacksIsNamed) {
  Errors errors;
  (void)what_of([&] {
    run_ranks(2, [&] {
      Tensor a = ones({3}).set_requires_grad(), b = ones({2}).set_requires_grad();
      errors.put(what_of([&] {
        DataParallel parallel({a, b}, world(), {.bucket_bytes = 1});
        Tensor loss = world().rank() == 0 ? a.sum() * b.sum() : b.sum();
        loss.backward();
        parallel.reduce_gradients();
        barrier();
      }));
    });
  });
  for (int rank : {0, 1})
    expect(errors.of(rank), {"none of 0", "gradients of parameters 0"});
}

// What one rank sends, the other one must take.
TEST(Failures, SendersAndReceiversThatDoNotMeetAreToldBothLines) {
  Errors errors;
  what_of([&] {
    run_ranks(2, [&] {
      bool first = world().rank() == 0;
      errors.put(
          what_of([&] { (void)send_receive(ones({3}), first ? 1 : -1, -1).to_vector<float>(); }));
    });
  });
  for (int rank : {0, 1})
    expect(errors.of(rank), {"send_receive(to 1, from none", "send_receive(to none, from none",
                             "failures_test.cpp"});
}

} // namespace
} // namespace weft::distributed
