#include "tools/scale/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>
#include <thread>

#include "weft/distributed/distributed.h"
#include "weft/weft.h"

namespace weft::scale {
namespace {

using namespace distributed;

// What explain says of a training is what the model reads, with the order of parts and what they
// wait for.
TEST(Plan, IsReadFromWhatExplainSays) {
  double bytes = 0;
  run_ranks(2, [&] {
    nn::Sequential model(nn::Linear(64, 512), nn::ReLU(), nn::Linear(512, 512));
    std::vector<Tensor> parameters = model.parameters();
    DataParallel replicas(parameters, world(), {.bucket_bytes = 1 << 20});
    optim::SGD optimizer(parameters, {.lr = 0.01});
    Tensor x = ones({4, 64}).eval();
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      model(x).square().mean().backward();
      replicas.reduce_gradients();
      optimizer.step();
      synchronize();
    }
    if (world().rank() == 0)
      for (const Tensor &each : parameters)
        bytes += static_cast<double>(each.nbytes());
  });
  std::stringstream lines("weft: no evaluation\n");
  lines << "[0] weft is a word\n";
  for (const Evaluation &each : recent_evaluations())
    lines << (each.device == "cpu:1" ? "[0] " : "[1] ") << each.to_string() << "\n";
  MeasuredStep step = read_step(lines);
  EXPECT_GE(step.steps, 3u);
  double exchanged = 0;
  std::vector<size_t> exchanges, needed;
  for (size_t i = 0; i < step.parts.size(); ++i)
    if (const Part &part = step.parts[i]; part.is_exchange) {
      EXPECT_TRUE(part.of_gradients);
      EXPECT_EQ(part.kind, Collective::kAllReduce);
      exchanged += part.bytes;
      exchanges.push_back(i);
    } else {
      for (Need need : part.needs) {
        EXPECT_EQ(need.steps_ago, i < need.part ? 1u : 0u);
        needed.push_back(need.part);
      }
    }
  EXPECT_EQ(exchanged, bytes);
  EXPECT_GE(exchanges.size(), 2u);
  std::sort(needed.begin(), needed.end());
  EXPECT_EQ(needed, exchanges);
  EXPECT_GT(step.seconds, 0);
  EXPECT_LE(step.computed + step.exposed, step.seconds * 1.001);
}

TEST(Plan, NoStepIsAnError) {
  std::stringstream lines("[0] weft #1 eval a.cpp:1 | 5 ops -> 1 kernels\n");
  EXPECT_THROW((void)read_step(lines), std::runtime_error);
}

// Between steps a rank holds what the model says, and what the largest program computed in.
TEST(Plan, MemoryIsWhatRanksHold) {
  constexpr int kRanks = 4, kLayers = 12;
  constexpr int64_t kWidth = 128, kLayer = kWidth * (kWidth + 1) * 4;
  const Model model{.parameter_bytes = kLayers * kLayer, .largest_layer_bytes = kLayer};
  for (Form form : {Form::kShardedParameters, Form::kShardedOptimizer, Form::kReplicated}) {
    const double expected = memory_of(model, form, kRanks).held();
    std::vector<double> held(kRanks);
    run_ranks(kRanks, [&] {
      int64_t before = memory_statistics(current_device()).live_bytes;
      auto live = [&] {
        return static_cast<double>(memory_statistics(current_device()).live_bytes - before);
      };
      nn::Sequential net;
      for (int i = 0; i < kLayers; ++i)
        net.append(nn::Linear(kWidth, kWidth));
      std::optional<ShardedLayers> layers;
      std::optional<ShardedParameters> shards;
      std::optional<DataParallel> replicas;
      std::vector<Tensor> trained;
      if (form == Form::kShardedParameters)
        trained = layers.emplace(net.layers()).shards();
      else if (form == Form::kShardedOptimizer)
        trained = shards.emplace(net.parameters()).shards();
      else
        replicas.emplace(trained = net.parameters());
      optim::AdamW optimizer(trained);
      Tensor x = ones({2, kWidth}).eval();
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        (layers ? (*layers)(x) : net(x)).square().mean().backward();
        if (layers)
          layers->reduce_gradients();
        else if (shards)
          shards->reduce_gradients();
        else
          replicas->reduce_gradients();
        optimizer.step();
        if (shards)
          shards->gather();
      }
      optimizer.zero_grad();
      eval(optimizer.parameters());
      synchronize();
      // What a run has read goes a moment after it.
      for (int tries = 0; tries < 50 && live() > 1.01 * expected; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      held[static_cast<size_t>(world().rank())] = live();
      barrier();
    });
    int64_t scratch = 0;
    for (const Evaluation &each : recent_evaluations())
      scratch = std::max(scratch, each.planned_peak_bytes - each.output_bytes);
    for (double bytes : held) {
      EXPECT_GE(bytes, 0.99 * expected);
      EXPECT_LE(bytes, 1.01 * expected + static_cast<double>(scratch));
    }
    std::printf("held, predicted: %.0f, with scratch of %.0f at most, measured: %.0f\n", expected,
                static_cast<double>(scratch), held[0]);
  }
}

} // namespace
} // namespace weft::scale
