// A transformer on a mesh of ranks. The model is that of one process; rules say by name how its
// parameters are cut: the first of a pair of layers by its outputs, the second by its inputs, so
// that each rank has some heads of the attention and some columns of the network behind it, and the
// embedding and the head by words. Where there are 4 ranks or more, two halves of them share the
// batch as well.
//
//   tensor_parallel                           one process
//   tools/launch.sh -n 4 tensor_parallel      the same training, on a mesh of 2 x 2
//   tools/launch.sh -n 4 tensor_parallel checkpoint.safetensors 30
//   tools/launch.sh -n 2 tensor_parallel checkpoint.safetensors
//                                             30 steps of it, and the rest on other ranks
//
// All print the same losses, but for the last digits.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "weft/distributed/distributed.h"
#include "weft/weft.h"

namespace {

namespace distributed = weft::distributed;
namespace nn = weft::nn;
using weft::Tensor;

constexpr int64_t kBatch = 8, kLength = 16, kWords = 12, kWidth = 32, kHeads = 4, kHidden = 64;
constexpr int kBlocks = 2, kSteps = 60;

struct Block : nn::Module {
  nn::LayerNorm first = child("first", nn::LayerNorm(kWidth));
  nn::Linear query = child("query", nn::Linear(kWidth, kWidth));
  nn::Linear key = child("key", nn::Linear(kWidth, kWidth));
  nn::Linear value = child("value", nn::Linear(kWidth, kWidth));
  nn::Linear mixed = child("mixed", nn::Linear(kWidth, kWidth));
  nn::LayerNorm second = child("second", nn::LayerNorm(kWidth));
  nn::Linear up = child("up", nn::Linear(kWidth, kHidden));
  nn::Linear down = child("down", nn::Linear(kHidden, kWidth));

  Tensor operator()(const Tensor &x) const {
    Tensor h = first(x);
    auto by_head = [](const Tensor &y) {
      return y.reshape({kBatch, kLength, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    Tensor y =
        attention(by_head(query(h)), by_head(key(h)), by_head(value(h)), Tensor(), {.causal = true})
            .transpose(1, 2)
            .reshape({kBatch, kLength, kWidth});
    Tensor z = x + mixed(y);
    return z + down(gelu(up(second(z))));
  }
};

struct Model : nn::Module {
  nn::Embedding words = child("words", nn::Embedding(kWords, kWidth));
  nn::Embedding places = child("places", nn::Embedding(kLength, kWidth));
  std::vector<Block> blocks;
  nn::Linear head = child("head", nn::Linear(kWidth, kWords));

  Model() {
    for (int i = 0; i < kBlocks; ++i)
      blocks.push_back(child("block" + std::to_string(i), Block()));
  }
  Tensor operator()(const Tensor &text) const {
    Tensor x = words(text) + places(weft::arange(kLength));
    for (const Block &block : blocks)
      x = block(x);
    return head(x);
  }
};

// Weights are [out, in].
const distributed::ShardingRules kRules = {
    {"words.weight", {"model", ""}},  {"*.query.weight", {"model", ""}},
    {"*.query.bias", {"model"}},      {"*.key.weight", {"model", ""}},
    {"*.key.bias", {"model"}},        {"*.value.weight", {"model", ""}},
    {"*.value.bias", {"model"}},      {"*.mixed.weight", {"", "model"}},
    {"*.up.weight", {"model", ""}},   {"*.up.bias", {"model"}},
    {"*.down.weight", {"", "model"}}, {"head.weight", {"model", ""}},
    {"head.bias", {"model"}},
};

// The state of the training after some steps, of which each rank writes and reads what it has.
struct Checkpoint {
  std::string path;
  Model &model;
  weft::optim::Optimizer &optimizer;

  void save(int step) const {
    nn::NamedTensors tensors{{"random", weft::default_generator().state()}};
    for (const auto &[name, tensor] : model.state())
      tensors.emplace_back("model." + name, tensor);
    for (const auto &[name, tensor] : optimizer.state())
      tensors.emplace_back("optimizer." + name, tensor);
    weft::io::save_safetensors(path, tensors, {{"step", std::to_string(step)}});
  }
  // The step that it was saved after.
  int load() const {
    weft::io::SafeTensors file = weft::io::load_safetensors(path);
    nn::NamedTensors parameters, moments;
    for (const auto &[name, tensor] : file.tensors) {
      if (name.starts_with("model."))
        parameters.emplace_back(name.substr(6), tensor);
      else if (name.starts_with("optimizer."))
        moments.emplace_back(name.substr(10), tensor);
    }
    model.load_state(parameters);
    optimizer.load_state(moments);
    weft::default_generator().set_state(file.at("random"));
    return std::stoi(file.metadata.at("step"));
  }
};

// Trains up to the step, from the checkpoint on where there is one; without a path there is none.
void run(const std::string &path, int last) {
  distributed::Group world = distributed::init();
  int halves = world.size() >= 4 && world.size() % 2 == 0 ? 2 : 1;
  distributed::Mesh mesh({{"data", halves}, {"model", world.size() / halves}});
  weft::manual_seed(1); // on all ranks: the same weights and the same texts
  Model model;
  shard(model, mesh, kRules);
  weft::optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  Checkpoint checkpoint{path, model, optimizer};
  int done = !path.empty() && std::filesystem::exists(path) ? checkpoint.load() : 0;
  for (int step = done + 1; step <= last; ++step) {
    // What is asked for is the word before.
    Tensor text = weft::randint(0, kWords, {kBatch, kLength}), next = text.roll(1, 1);
    text = shard(text, mesh, {"data", ""});
    Tensor loss = cross_entropy(model(text).reshape({kBatch * kLength, kWords}),
                                next.reshape({kBatch * kLength}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 10 == 0) {
      float value = loss.item<float>();
      if (world.rank() == 0)
        std::printf("step %2d  loss %.6f\n", step, value);
    }
  }
  if (!path.empty())
    checkpoint.save(last);
}

} // namespace

int main(int argc, char **argv) {
  try {
    run(argc > 1 ? argv[1] : "", argc > 2 ? std::atoi(argv[2]) : kSteps);
    return 0;
  } catch (const std::exception &error) {
    distributed::end_job(error);
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
