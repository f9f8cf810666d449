// Ranks as threads: collectives on tensors, their derivatives, their order, and what fails.
#include "weft/distributed/distributed.h"
#include "weft/weft.h"

#include "tests/support/errors.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace weft::distributed {
namespace {

using testing_support::what_of;

// What every rank found, by rank.
class Found {
public:
  void put(std::vector<double> values) {
    std::lock_guard lock(mutex_);
    values_[world().rank()] = std::move(values);
  }
  const std::vector<double> &of(int rank) {
    return values_[rank];
  }
  size_t size() const {
    return values_.size();
  }

private:
  std::mutex mutex_;
  std::map<int, std::vector<double>> values_;
};

// Small integers, so that every order of a sum or product is exact; each rank has its own.
double element(int rank, int64_t i) {
  return static_cast<double>((rank * 7 + i * 3) % 5 - 1);
}
Tensor input(int rank, int64_t count, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(element(rank, i));
  return Tensor::from(values).to(dtype);
}

double reduced(Reduction reduction, int ranks, int64_t i) {
  double result = element(0, i);
  for (int r = 1; r < ranks; ++r) {
    double x = element(r, i);
    result = reduction == Reduction::kMin       ? std::min(result, x)
             : reduction == Reduction::kMax     ? std::max(result, x)
             : reduction == Reduction::kProduct ? result * x
                                                : result + x;
  }
  return reduction == Reduction::kMean ? result / ranks : result;
}

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, ReduceEveryDType) {
  const int n = GetParam();
  const int64_t count = 37;
  for (DType dtype : {float32, float64, int32, int64, bfloat16, float16, int8, int16})
    for (Reduction reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMin, Reduction::kMax,
                                Reduction::kProduct}) {
      if (reduction == Reduction::kMean && (!is_floating(dtype) || byte_size(dtype) < 4))
        continue;
      Found found;
      run_ranks(n, [&] {
        Tensor y = all_reduce(input(world().rank(), count, dtype), reduction);
        EXPECT_EQ(y.dtype(), dtype);
        found.put(y.to(float64).to_vector<double>());
      });
      std::vector<double> expected;
      for (int64_t i = 0; i < count; ++i)
        expected.push_back(reduced(reduction, n, i));
      for (int r = 0; r < n; ++r)
        for (int64_t i = 0; i < count; ++i)
          EXPECT_NEAR(found.of(r)[i], expected[i], 1e-6)
              << name(dtype) << ", reduction " << static_cast<int>(reduction) << ", rank " << r;
    }
}

TEST_P(Ranks, GatherScatterAndExchange) {
  const int n = GetParam();
  Found gathered, scattered, exchanged, sent, passed, shifted;
  run_ranks(n, [&] {
    int me = world().rank();
    Tensor x = input(me, 6, float32).reshape({3, 2});
    Tensor all = all_gather(x);
    EXPECT_EQ(all.shape(), (Shape{3 * n, 2}));
    gathered.put(all.to_vector<double>());
    Tensor wide = input(me, 4 * n, float32).reshape({2 * n, 2});
    Tensor part = reduce_scatter(wide);
    EXPECT_EQ(part.shape(), (Shape{2, 2}));
    scattered.put(part.to_vector<double>());
    exchanged.put(all_to_all(wide).to_vector<double>());
    sent.put(broadcast(x * 10, n - 1).to_vector<double>());
    // Around, which is a copy where there are no others; and from the first to the last.
    int next = (me + 1) % n, before = (me + n - 1) % n;
    passed.put(send_receive(x, next, before).to_vector<double>());
    shifted.put(send_receive(x, me + 1 < n ? me + 1 : -1, me - 1).to_vector<double>());
  });
  for (int r = 0; r < n; ++r) {
    for (int from = 0; from < n; ++from)
      for (int64_t i = 0; i < 6; ++i)
        EXPECT_EQ(gathered.of(r)[from * 6 + i], element(from, i));
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(scattered.of(r)[i], reduced(Reduction::kSum, n, 4 * r + i));
    for (int from = 0; from < n; ++from)
      for (int64_t i = 0; i < 4; ++i)
        EXPECT_EQ(exchanged.of(r)[from * 4 + i], element(from, 4 * r + i));
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(sent.of(r)[i], 10 * element(n - 1, i));
      EXPECT_EQ(passed.of(r)[i], element((r + n - 1) % n, i));
      EXPECT_EQ(shifted.of(r)[i], r == 0 ? 0 : element(r - 1, i));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OneToEight, Ranks, testing::Values(1, 2, 3, 4, 8));

TEST(Distributed, DerivativesAreTheTransposedExchanges) {
  constexpr int n = 3;
  Found found;
  run_ranks(n, [&] {
    int me = world().rank();
    Tensor x = input(me, 6, float64).set_requires_grad();
    Tensor weight = input(me + 3, 6 * n, float64) + 2;
    // Each rank's loss weighs what it got by weights of its own.
    Tensor loss =
        (all_gather(x) * weight).sum() + (all_reduce(x) * weight.narrow(0, 0, 6)).sum() +
        (all_reduce(x * x, Reduction::kMean) * weight.narrow(0, 6, 6)).sum() +
        (reduce_scatter(x) * weight.narrow(0, 0, 2)).sum() +
        (all_to_all(x) * weight.narrow(0, 3, 6)).sum() +
        (broadcast(x, 1) * weight.narrow(0, 1, 6)).sum() +
        (send_receive(x, me == 0 ? 2 : -1, me == 2 ? 0 : -1) * weight.narrow(0, 2, 6)).sum();
    loss.backward();
    found.put(x.grad().to_vector<double>());
  });
  auto weight = [](int rank, int64_t i) {
    return element(rank + 3, i) + 2;
  };
  for (int me = 0; me < n; ++me)
    for (int64_t i = 0; i < 6; ++i) {
      double expected = 0;
      for (int r = 0; r < n; ++r) {
        expected += weight(r, 6 * me + i);                     // all_gather
        expected += weight(r, i);                              // all_reduce
        expected += 2 * element(me, i) * weight(r, 6 + i) / n; // mean of squares
        if (me == 1)
          expected += weight(r, 1 + i); // broadcast
      }
      if (me == 0)
        expected += weight(2, 2 + i);                     // send_receive
      expected += weight(static_cast<int>(i / 2), i % 2); // reduce_scatter: row i / 2 went there
      expected += weight(static_cast<int>(i / 2), 3 + 2 * me + i % 2); // all_to_all
      EXPECT_NEAR(found.of(me)[i], expected, 1e-12) << "rank " << me << ", element " << i;
    }
}

// Ranks ask for values in different orders, and some of them for none.
TEST(Distributed, RunInTheOrderOfRecording) {
  constexpr int n = 4;
  Found found;
  run_ranks(n, [&] {
    int me = world().rank();
    Tensor x = input(me, 5, float32), a = all_reduce(x), b = all_gather(a * 2 + me),
           c = all_reduce(b.sum() * x, Reduction::kMax);
    if (me == 0)
      c.eval();
    if (me == 1)
      b.eval();
    if (me == 2)
      a.eval();
    // Nobody keeps this one; the others count on it.
    if (me == 3)
      (void)all_reduce(x + 1);
    else
      EXPECT_EQ(all_reduce(x + 1).to_vector<float>()[0], reduced(Reduction::kSum, n, 0) + n);
    found.put(c.to_vector<double>());
  });
  for (int r = 1; r < n; ++r)
    EXPECT_EQ(found.of(r), found.of(0));
}

// Where a run of one rank's waits for the other ranks, theirs must not stand behind it.
TEST(Distributed, RanksComputeOnADeviceThatTheyShare) {
  constexpr int64_t kLarge = 1 << 20; // small runs take place on their caller's thread
  Tensor shared = ones({kLarge}).eval();
  ASSERT_EQ(shared.device(), Device("cpu"));
  Found found;
  run_ranks(4, [&] {
    std::vector<double> values;
    for (bool in_scope : {false, true}) {
      DeviceScope scope(in_scope ? Device("cpu") : current_device());
      for (int step = 0; step < 5; ++step) {
        Tensor x = in_scope ? ones({kLarge}) : shared;
        Tensor y = all_reduce(x * (world().rank() + 1 + step));
        EXPECT_EQ(y.device(), Device("cpu"));
        values.push_back((y + 1).sum().item<float>() / kLarge);
      }
    }
    found.put(values);
  });
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(found.of(rank),
              (std::vector<double>{11, 15, 19, 23, 27, 11, 15, 19, 23, 27})); // 10 + 4 step + 1
}

TEST(Distributed, GroupsAreSplit) {
  constexpr int n = 6;
  Found found;
  run_ranks(n, [&] {
    int me = world().rank();
    Group half = world().split(me % 2, -me, "half");
    EXPECT_EQ(half.size(), 3);
    EXPECT_EQ(half.rank(), 2 - me / 2);
    Group pair = world().split(me < 2 ? 0 : -1);
    EXPECT_EQ(pair.defined(), me < 2);
    Tensor x = full({2}, me);
    Tensor sums = all_reduce(x, Reduction::kSum, half);
    if (pair.defined())
      sums = sums + all_reduce(x, Reduction::kMax, pair) * 100;
    found.put(sums.to_vector<double>());
  });
  for (int r = 0; r < n; ++r)
    EXPECT_EQ(found.of(r)[0], (r % 2 ? 9 : 6) + (r < 2 ? 100 : 0));
}

// Two ranks with half a batch each are one process with all of it.
TEST(Distributed, DataParallelIsOneProcess) {
  auto make = [] {
    return nn::Sequential(nn::Linear(6, 32), nn::Tanh(), nn::Linear(32, 4));
  };
  nn::Sequential start = make();
  Tensor inputs = randn({8, 6}), targets = randint(0, 4, {8});
  inputs.eval();
  targets.eval();
  auto train = [&](nn::Sequential model, Device device, int64_t first, int64_t count,
                   std::optional<int64_t> bucket) {
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
    std::optional<DataParallel> replicas;
    if (bucket)
      replicas.emplace(model.parameters(), world(), DataParallelOptions{.bucket_bytes = *bucket});
    Tensor x = inputs.narrow(0, first, count).to(device),
           t = targets.narrow(0, first, count).to(device);
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      // Gradients of two parts of the batch add up before they travel.
      for (int64_t half = 0; half < 2; ++half)
        (cross_entropy(model(x.narrow(0, half * count / 2, count / 2)),
                       t.narrow(0, half * count / 2, count / 2)) /
         2)
            .backward();
      if (replicas)
        replicas->reduce_gradients();
      optimizer.step();
    }
    std::vector<double> result;
    for (const Tensor &parameter : model.parameters())
      for (double x : parameter.to_vector<double>())
        result.push_back(x);
    return result;
  };
  std::vector<double> expected = train(nn::clone(start), Device(), 0, 8, std::nullopt);
  for (int64_t bucket : {64, 1 << 20}) {
    Found found;
    run_ranks(2, [&] {
      int me = world().rank();
      // Only rank 0 has the values to start from.
      nn::Sequential model = nn::to(start, current_device());
      if (me == 1)
        for (Tensor parameter : model.parameters()) {
          NoGrad no_grad;
          parameter.zero_();
        }
      found.put(train(model, current_device(), 4 * me, 4, bucket));
    });
    EXPECT_EQ(found.of(0), found.of(1));
    ASSERT_EQ(found.of(0).size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(found.of(0)[i], expected[i], 1e-5 * (1 + std::abs(expected[i])));
  }
}

TEST(Distributed, ShardedParametersAreDataParallel) {
  constexpr int n = 4;
  nn::Sequential start(nn::Linear(5, 7), nn::ReLU(), nn::Linear(7, 3)); // 66 elements: 4 x 17
  Tensor inputs = randn({8, 5}).eval(), targets = randint(0, 3, {8}).eval();
  auto train = [&](bool sharded) {
    Found found;
    run_ranks(n, [&] {
      int me = world().rank();
      nn::Sequential model = nn::to(start, current_device());
      Tensor x = inputs.narrow(0, 2 * me, 2).to(current_device()),
             t = targets.narrow(0, 2 * me, 2).to(current_device());
      std::optional<ShardedParameters> shards;
      std::optional<DataParallel> replicas;
      if (sharded)
        shards.emplace(model.parameters());
      else
        replicas.emplace(model.parameters());
      optim::AdamW optimizer(sharded ? shards->shards() : model.parameters(), {.lr = 1e-2});
      if (sharded) {
        int64_t moments = 0;
        for (const auto &[name, tensor] : optimizer.state())
          moments += tensor.numel();
        EXPECT_LE(moments, 2 * 17 + 2);
      }
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        cross_entropy(model(x), t).backward();
        sharded ? shards->reduce_gradients() : replicas->reduce_gradients();
        optimizer.step();
        if (sharded)
          shards->gather();
      }
      std::vector<double> result;
      for (const Tensor &parameter : model.parameters())
        for (double value : parameter.to_vector<double>())
          result.push_back(value);
      found.put(result);
    });
    for (int r = 1; r < n; ++r)
      EXPECT_EQ(found.of(r), found.of(0));
    return found.of(0);
  };
  EXPECT_EQ(train(true), train(false));
}

// Gradients of a small model do not wait for its whole backward, nor do they travel one by one.
TEST(Distributed, BucketsFollowFromTheParameters) {
  run_ranks(2, [] {
    std::vector<Tensor> parameters;
    for (int i = 0; i < 16; ++i) {
      parameters.push_back(ones({64, 1024}));
      parameters.back().set_requires_grad();
    }
    DataParallel replicas(parameters);
    Tensor sum = zeros({});
    for (const Tensor &each : parameters)
      sum = sum + each.sum();
    sum.backward();
    replicas.reduce_gradients();
    EXPECT_EQ(parameters[0].grad().to_vector<float>()[0], 1);
  });
  int exchanges = 0;
  for (const Evaluation &each : recent_evaluations())
    exchanges += each.exchange.find(" of gradients of ") != std::string::npos &&
                 each.exchanged_bytes == 1 << 20;
  EXPECT_EQ(exchanges, 2 * 4);
}

TEST(Distributed, WhatDiffersIsAnErrorOfAllRanks) {
  std::mutex mutex;
  std::map<int, std::string> errors;
  std::string all = what_of([&] {
    run_ranks(2, [&] {
      int me = world().rank();
      Tensor w = ones({3}).eval();
      std::string error = what_of([&] {
        Tensor y = me == 0 ? all_reduce(w) : all_gather(w);
        (void)y.to_vector<float>();
      });
      // What does not depend on it goes on.
      EXPECT_EQ((w * 2).sum().item<float>(), 6);
      std::lock_guard lock(mutex);
      errors[me] = error;
    });
  });
  for (int r = 0; r < 2; ++r)
    for (const char *part : {"all_reduce", "all_gather", "distributed_test.cpp:"})
      EXPECT_NE(errors[r].find(part), std::string::npos) << errors[r];
  EXPECT_EQ(all.find("nothing was thrown"), std::string::npos); // the job is over
}

TEST(Distributed, AFailedRankEndsTheOthersAndStepsGoBack) {
  std::map<int, std::vector<float>> kept;
  std::mutex mutex;
  std::string error = what_of([&] {
    run_ranks(2, [&] {
      int me = world().rank();
      Tensor w = ones({3}).eval();
      if (me == 1)
        throw Error(ErrorKind::kValue, "this rank has had enough");
      NoGrad no_grad;
      w.sub_(all_reduce(w * 2) * 0.5);
      std::string failure = what_of([&] { (void)w.to_vector<float>(); });
      EXPECT_NE(failure.find("this rank has had enough"), std::string::npos) << failure;
      std::lock_guard lock(mutex);
      kept[me] = w.to_vector<float>();
    });
  });
  EXPECT_EQ(error.find("nothing was thrown"), std::string::npos);
  EXPECT_EQ(kept[0], (std::vector<float>{1, 1, 1}));
}

TEST(Distributed, BadInputIsRefusedWhereItIsGiven) {
  EXPECT_NE(what_of([] { (void)all_reduce(ones({2})); }).find("init()"), std::string::npos);
  EXPECT_NE(what_of([] { run_ranks(9, [] {}); }).find("cpu:9"), std::string::npos);
  run_ranks(2, [] {
    for (const std::string &error :
         {what_of([] { (void)reduce_scatter(ones({3, 2})); }),
          what_of([] { (void)all_to_all(scalar(1.f)); }),
          what_of([] { (void)all_reduce(arange(3), Reduction::kMean); }),
          what_of([] { (void)broadcast(ones({2}), 5); }),
          what_of([] { (void)send_receive(ones({2}), 2, -1); }),
          what_of([] { (void)send_receive(ones({2}), -1, world().rank()); })}) {
      EXPECT_EQ(error.find("nothing was thrown"), std::string::npos);
      EXPECT_NE(error.find("distributed_test.cpp"), std::string::npos) << error;
      EXPECT_NE(error.find("x is "), std::string::npos) << error;
    }
    EXPECT_NE(what_of([] {
                (void)broadcast(ones({2}), 5);
              }).find("broadcast(from 5, float32 x 2): the group has the ranks 0 to 1"),
              std::string::npos);
    Tensor x = ones({2}).set_requires_grad();
    Tensor y = all_reduce(x, Reduction::kMax).sum();
    std::string error = what_of([&] { y.backward(); });
    EXPECT_NE(error.find("only sums and means"), std::string::npos) << error;
  });
}

TEST(Distributed, ARankThatIsAloneMaySendToItself) {
  run_ranks(1, [] {
    Tensor x = arange(3).to(float32).set_requires_grad(), y = send_receive(x, 0, 0);
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 1, 2}));
    (y * y).sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 2, 4}));
    EXPECT_NE(what_of([&] { (void)broadcast(x, 1); }).find("the group has rank 0 alone"),
              std::string::npos);
    EXPECT_NE(what_of([&] { (void)send_receive(x, 0, -1); }).find("float32 x 3"),
              std::string::npos);
  });
}

TEST(Distributed, ExplainShowsThem) {
  run_ranks(1, [] {
    Tensor x = ones({1000}).eval();
    Tensor y = (all_reduce(x * 2) + 1).eval();
    EXPECT_EQ(y.to_vector<float>()[0], 3);
  });
  bool found = false;
  for (const Evaluation &each : recent_evaluations())
    found =
        found || each.exchange.find("weft.all_reduce (frontend/distributed/distributed_test.cpp") !=
                     std::string::npos;
  EXPECT_TRUE(found);
}

} // namespace
} // namespace weft::distributed
