// A small network learns to tell three spirals apart, on one rank or on several.
//
//   spirals                                     one process
//   tools/launch.sh -n 4 spirals replicas       each rank has the model and a part of each batch
//   tools/launch.sh -n 4 spirals shards         and a part of the optimizer's state
//   tools/launch.sh -n 4 spirals layers         and a part of the parameters
//
// All print the same losses, but for the last digits.
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>

#include "weft/distributed/distributed.h"
#include "weft/weft.h"

namespace {

constexpr int64_t kPoints = 450, kBatch = 96, kEpochs = 12;

// Points [count, 2] of three arms, and which arm each is of.
std::pair<weft::Tensor, weft::Tensor> spirals(int64_t count) {
  weft::Tensor arm = weft::arange(count).to(weft::float32).remainder(3.0),
               along = weft::rand({count}) * 2 + 0.2,
               angle = along * 2 + arm * (2 * M_PI / 3) + weft::randn({count}) * 0.1;
  return {weft::stack({along * cos(angle), along * sin(angle)}, 1), arm.to(weft::int64)};
}

void run(std::string_view mode) {
  namespace distributed = weft::distributed;
  int rank = 0, ranks = 1;
  if (mode != "alone") {
    distributed::Group world = distributed::init();
    rank = world.rank();
    ranks = world.size();
  }
  weft::manual_seed(1); // on all ranks: the same data and the same first weights
  auto [points, arms] = spirals(kPoints);
  weft::data::DataLoader loader(
      weft::data::TensorDataset(points, arms),
      {.batch_size = kBatch, .shuffle = true, .drop_last = true, .rank = rank, .ranks = ranks});
  weft::nn::Sequential model(weft::nn::Linear(2, 64), weft::nn::Tanh(), weft::nn::Linear(64, 64),
                             weft::nn::Tanh(), weft::nn::Linear(64, 3));
  std::optional<distributed::DataParallel> replicas;
  std::optional<distributed::ShardedParameters> shards;
  std::optional<distributed::ShardedLayers> layers;
  std::vector<weft::Tensor> parameters = model.parameters();
  if (mode == "replicas") {
    replicas.emplace(parameters);
  } else if (mode == "shards") {
    shards.emplace(parameters);
    parameters = shards->shards();
  } else if (mode == "layers") {
    layers.emplace(model.layers());
    parameters = layers->shards();
  }
  weft::optim::Adam optimizer(parameters, {.lr = 1e-2});
  for (int64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    weft::Tensor loss;
    for (auto [input, target] : loader) {
      loss = cross_entropy(layers ? (*layers)(input) : model(input), target);
      optimizer.zero_grad();
      loss.backward();
      if (replicas)
        replicas->reduce_gradients();
      if (shards)
        shards->reduce_gradients();
      if (layers)
        layers->reduce_gradients();
      optimizer.step();
      if (shards)
        shards->gather();
    }
    if (ranks > 1)
      loss = distributed::all_reduce(loss.detach(), distributed::Reduction::kMean);
    if (epoch % 2 == 0) {
      float value = loss.item<float>(); // of all ranks: each takes part
      if (rank == 0)
        std::printf("epoch %2lld  loss %.6f\n", static_cast<long long>(epoch), value);
    }
  }
}

} // namespace

int main(int argc, char **argv) {
  try {
    run(argc > 1 ? argv[1] : "alone");
    return 0;
  } catch (const std::exception &error) {
    weft::distributed::end_job(error); // the other ranks get it, too
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
