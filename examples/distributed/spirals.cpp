// A small network learns to tell three spirals apart, on one rank or on several.
//
//   spirals                                     one process
//   tools/launch.sh -n 4 spirals replicas       each rank has the model and a part of each batch
//   tools/launch.sh -n 4 spirals shards         and a part of the optimizer's state
//
// All three print the same losses, but for the last digits.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "weft/distributed/distributed.h"
#include "weft/weft.h"

namespace {

constexpr int64_t kBatch = 96, kSteps = 60;

// Points [count, 2] of three arms, and which arm each is of.
std::pair<weft::Tensor, weft::Tensor> spirals(int64_t count) {
  weft::Tensor arm = weft::arange(count).to(weft::float32).remainder(3.0),
               along = weft::rand({count}) * 2 + 0.2,
               angle = along * 2 + arm * (2 * M_PI / 3) + weft::randn({count}) * 0.1;
  return {weft::stack({along * cos(angle), along * sin(angle)}, 1), arm.to(weft::int64)};
}

int run(const char *mode) {
  namespace distributed = weft::distributed;
  bool replicated = std::strcmp(mode, "replicas") == 0, sharded = std::strcmp(mode, "shards") == 0;
  int rank = 0, ranks = 1;
  if (replicated || sharded) {
    distributed::Group world = distributed::init();
    rank = world.rank();
    ranks = world.size();
  }
  weft::manual_seed(1); // on all ranks: the same data and the same first weights
  weft::nn::Sequential model(weft::nn::Linear(2, 64), weft::nn::Tanh(), weft::nn::Linear(64, 64),
                             weft::nn::Tanh(), weft::nn::Linear(64, 3));
  std::optional<distributed::DataParallel> replicas;
  std::optional<distributed::ShardedParameters> shards;
  if (replicated)
    replicas.emplace(model.parameters());
  if (sharded)
    shards.emplace(model.parameters());
  weft::optim::Adam optimizer(sharded ? shards->shards() : model.parameters(), {.lr = 1e-2});
  for (int64_t step = 1; step <= kSteps; ++step) {
    auto [points, arms] = spirals(kBatch);
    int64_t rows = kBatch / ranks;
    weft::Tensor loss = cross_entropy(model(points.narrow(0, rank * rows, rows)),
                                      arms.narrow(0, rank * rows, rows));
    model.zero_grad();
    loss.backward();
    if (replicas)
      replicas->reduce_gradients();
    if (shards)
      shards->reduce_gradients();
    optimizer.step();
    if (shards)
      shards->gather();
    if (ranks > 1)
      loss = distributed::all_reduce(loss.detach(), distributed::Reduction::kMean);
    if (step % 10 == 0) {
      float value = loss.item<float>(); // of all ranks: each takes part
      if (rank == 0)
        std::printf("step %2lld  loss %.6f\n", static_cast<long long>(step), value);
    }
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return run(argc > 1 ? argv[1] : "alone");
  } catch (const weft::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
