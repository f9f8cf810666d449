#include "tools/scale/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <vector>

namespace weft::scale {
namespace {

constexpr Network kNetwork{3e-6, 2e-9};

// Messages one by one: a rank sends one at a time, each when what it sends is there.
class Messages {
public:
  explicit Messages(int ranks) : free_(static_cast<size_t>(ranks)) {}
  // When it has arrived.
  double send(int from, double ready, double bytes) {
    double &free = free_[static_cast<size_t>(from)];
    free = std::max(free, ready) + kNetwork.seconds_per_message + bytes * kNetwork.seconds_per_byte;
    return free;
  }

private:
  std::vector<double> free_;
};

// Each rank passes to its neighbour what it has got in the round before.
double simulated_ring(int n, double part, int rounds) {
  Messages messages(n);
  std::vector<double> there(static_cast<size_t>(n), 0.0);
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> next(there.size());
    for (int rank = 0; rank < n; ++rank)
      next[static_cast<size_t>((rank + 1) % n)] =
          messages.send(rank, there[static_cast<size_t>(rank)], part);
    there = next;
  }
  return *std::max_element(there.begin(), there.end());
}

// First messages to all; then, if there is more, each phase's parts to all, when all of the phase
// before have come.
double simulated_direct(int n, const std::vector<double> &phases) {
  Messages messages(n);
  std::vector<double> there(static_cast<size_t>(n), 0.0);
  for (double part : phases) {
    std::vector<double> next(there.size());
    for (int distance = 1; distance < n; ++distance)
      for (int rank = 0; rank < n; ++rank) {
        double arrives = messages.send(rank, there[static_cast<size_t>(rank)], part);
        double &last = next[static_cast<size_t>((rank + distance) % n)];
        last = std::max(last, arrives);
      }
    there = next;
  }
  return *std::max_element(there.begin(), there.end());
}

TEST(Model, ClosedFormsAreWhatMessagesTake) {
  const double a = kNetwork.seconds_per_message, b = kNetwork.seconds_per_byte;
  for (int n : {1, 2, 3, 4, 8, 64}) {
    const double s = 1 << 20;
    auto time = [&](Collective kind, double bytes, Algorithm algorithm) {
      return seconds_of(kind, bytes, n, kNetwork, algorithm);
    };
    auto near = [&](double x, double y) {
      EXPECT_NEAR(x, y, 1e-9 * std::max(x, y) + 1e-18) << n << " ranks";
    };
    double ring = time(Collective::kAllReduce, s, Algorithm::kRing);
    near(ring, 2 * (n - 1) * a + 2.0 * (n - 1) / n * s * b);
    near(ring, time(Collective::kReduceScatter, s, Algorithm::kRing) +
                   time(Collective::kAllGather, s / n, Algorithm::kRing));
    if (n == 1)
      continue;
    near(ring, simulated_ring(n, s / n, 2 * (n - 1)));
    near(time(Collective::kAllGather, s, Algorithm::kRing), simulated_ring(n, s, n - 1));
    near(time(Collective::kAllReduce, s, Algorithm::kDirect),
         simulated_direct(n, {kFirstBytes, s / n, s / n}));
    near(time(Collective::kReduceScatter, s, Algorithm::kDirect),
         simulated_direct(n, {kFirstBytes, s / n}));
    near(time(Collective::kAllGather, s, Algorithm::kDirect),
         simulated_direct(n, {kFirstBytes, s}));
    near(time(Collective::kSendReceive, s, Algorithm::kDirect),
         simulated_direct(n, {kFirstBytes}) + a + s * b);
    // A small call is its first messages.
    near(time(Collective::kAllReduce, 1000, Algorithm::kDirect),
         simulated_direct(n, {kFirstBytes}));
  }
}

TEST(Model, FindsAlphaAndBeta) {
  std::vector<Sample> samples;
  for (double bytes = 64; bytes < 1e8; bytes *= 8)
    samples.push_back(
        {bytes, seconds_of(Collective::kAllReduce, bytes, 4, kNetwork, Algorithm::kDirect)});
  Network found = fit(samples, 4);
  EXPECT_NEAR(found.seconds_per_message, kNetwork.seconds_per_message, 1e-12);
  EXPECT_NEAR(found.seconds_per_byte, kNetwork.seconds_per_byte, 1e-15);
  EXPECT_EQ(fit({}, 4).seconds_per_byte, 0);
}

Part program(double seconds, std::vector<Need> needs = {}) {
  return {.seconds = seconds, .needs = std::move(needs)};
}
// Takes so many seconds over kWire.
constexpr Network kWire{0, 1};
Part gradients(double seconds) {
  Part part;
  part.is_exchange = part.of_gradients = true;
  part.bytes = seconds;
  return part;
}
Timeline run(const std::vector<Part> &step, double host = 0) {
  // Two ranks' ring sends as many bytes as the operand has.
  return timeline_of(
      step, {.ranks = 2, .network = kWire, .algorithm = Algorithm::kRing, .host_seconds = host});
}

TEST(Model, StepsOverlapAsTheirPartsDo) {
  // forward and backward | exchange | more backward | exchange | update of both
  //   device   0--5  5---8              12-13
  //   exchange    5------9 9---12
  std::vector<Part> step{program(5), gradients(4), program(3), gradients(3),
                         program(1, {{1, 0}, {3, 0}})};
  Timeline found = run(step);
  EXPECT_DOUBLE_EQ(found.seconds, 13);
  EXPECT_DOUBLE_EQ(found.exposed, 4);
  EXPECT_DOUBLE_EQ(found.exchange, 7);
  EXPECT_DOUBLE_EQ(found.computed, 9);
  EXPECT_DOUBLE_EQ(run(step, 2).seconds, 15);
  // What the next step alone waits for is hidden behind its first program.
  std::vector<Part> late{program(5), gradients(4), program(1, {{1, 1}})};
  EXPECT_DOUBLE_EQ(run(late).seconds, 6);
  EXPECT_DOUBLE_EQ(run(late).exposed, 0);
  // No step is shorter than its exchanges.
  EXPECT_DOUBLE_EQ(run({program(1), gradients(4)}).seconds, 4);
}

TEST(Model, BucketsAreMergedAndCut) {
  std::vector<Part> step{program(5), gradients(4), program(3), gradients(3),
                         program(1, {{1, 0}, {3, 0}})};
  std::vector<Part> one = with_buckets(step, 100), many = with_buckets(step, 2);
  ASSERT_EQ(one.size(), 4u); // with the last of them
  EXPECT_EQ(one[2].bytes, 7);
  EXPECT_DOUBLE_EQ(run(one).seconds, 16);
  ASSERT_EQ(many.size(), 7u);
  EXPECT_EQ(many[1].bytes + many[2].bytes, 4);
  EXPECT_DOUBLE_EQ(run(many).seconds, 13);
  EXPECT_EQ(many.back().needs.size(), 4u);
}

TEST(Model, PartsOfMemory) {
  Model model{.parameter_bytes = 1200, .moments = 2, .largest_layer_bytes = 100};
  double whole = memory_of(model, Form::kReplicated, 4).held();
  EXPECT_EQ(whole, 3600);
  EXPECT_EQ(memory_of(model, Form::kShardedOptimizer, 4).held(), 1200 + 300 + 600);
  EXPECT_EQ(memory_of(model, Form::kShardedParameters, 4).held() / whole, 0.25);
  EXPECT_EQ(memory_of(model, Form::kShardedParameters, 4).most(), 900 + 300 + 100 + 200);
  EXPECT_EQ(memory_of(model, Form::kReplicated, 4096).most(), 4800);
}

} // namespace
} // namespace weft::scale
