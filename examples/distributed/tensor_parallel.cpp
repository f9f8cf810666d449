// A transformer whose blocks are cut among ranks: each has some heads of the attention and some
// columns of the network behind it. Of a pair of layers the first is cut by the columns of its
// result, the second by the rows that these meet, and a sum over ranks makes the result whole: two
// all_reduces a block.
//
//   tensor_parallel                           one process
//   tools/launch.sh -n 4 tensor_parallel      the same training, cut in four
//
// Both print the same losses, but for the last digits.
#include <algorithm>
#include <cstdio>

#include "weft/distributed/distributed.h"
#include "weft/weft.h"

namespace {

namespace distributed = weft::distributed;
namespace nn = weft::nn;
using weft::Tensor;

constexpr int64_t kBatch = 8, kLength = 16, kWords = 12, kWidth = 32, kHeads = 4, kHidden = 64;
constexpr int kBlocks = 2, kSteps = 60;

// This rank's part of a dim.
Tensor part(const Tensor &whole, int64_t dim) {
  distributed::Group world = distributed::world();
  int64_t size = whole.size(dim) / world.size();
  return whole.detach().narrow(dim, world.rank() * size, size).clone();
}
// Each rank draws the whole layer, so that all numbers of ranks start from the same weights.
nn::Linear by_columns(const nn::Linear &whole) {
  return nn::Linear(part(whole.weight, 0), part(whole.bias, 0));
}
nn::Linear by_rows(const nn::Linear &whole) {
  return nn::Linear(part(whole.weight, 1));
}

struct Block : nn::Module {
  nn::LayerNorm first = child("first", nn::LayerNorm(kWidth));
  nn::Linear query = child("query", by_columns(nn::Linear(kWidth, kWidth)));
  nn::Linear key = child("key", by_columns(nn::Linear(kWidth, kWidth)));
  nn::Linear value = child("value", by_columns(nn::Linear(kWidth, kWidth)));
  nn::Linear mixed = child("mixed", by_rows(nn::Linear(kWidth, kWidth)));
  nn::LayerNorm second = child("second", nn::LayerNorm(kWidth));
  nn::Linear up = child("up", by_columns(nn::Linear(kWidth, kHidden)));
  nn::Linear down = child("down", by_rows(nn::Linear(kHidden, kWidth)));

  Tensor operator()(const Tensor &x) const {
    Tensor h = first(x);
    int64_t heads = kHeads / distributed::world().size();
    auto by_head = [&](const Tensor &y) {
      return y.reshape({kBatch, kLength, heads, kWidth / kHeads}).transpose(1, 2);
    };
    Tensor y =
        attention(by_head(query(h)), by_head(key(h)), by_head(value(h)), Tensor(), {.causal = true})
            .transpose(1, 2)
            .reshape({kBatch, kLength, heads * (kWidth / kHeads)});
    Tensor z = x + distributed::all_reduce(mixed(y));
    return z + distributed::all_reduce(down(gelu(up(second(z)))));
  }

  // Of what is cut: a rank has the gradient of its own part.
  std::vector<Tensor> cut() const {
    std::vector<Tensor> parameters;
    for (const nn::Linear &layer : {query, key, value, mixed, up, down})
      for (const Tensor &parameter : layer.parameters())
        parameters.push_back(parameter);
    return parameters;
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

void run() {
  distributed::Group world = distributed::init();
  if (kHeads % world.size() != 0)
    throw weft::Error(weft::ErrorKind::kValue, std::to_string(kHeads) +
                                                   " heads do not divide among " +
                                                   std::to_string(world.size()) + " ranks");
  weft::manual_seed(1); // on all ranks: the same weights and the same texts
  Model model;
  std::vector<Tensor> cut, whole;
  for (const Block &block : model.blocks)
    for (const Tensor &parameter : block.cut())
      cut.push_back(parameter);
  for (const Tensor &parameter : model.parameters())
    if (std::none_of(cut.begin(), cut.end(),
                     [&](const Tensor &other) { return other.is_same(parameter); }))
      whole.push_back(parameter);
  weft::optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  for (int step = 1; step <= kSteps; ++step) {
    // What is asked for is the word before.
    Tensor text = weft::randint(0, kWords, {kBatch, kLength}), next = text.roll(1, 1);
    Tensor loss = cross_entropy(model(text).reshape({kBatch * kLength, kWords}),
                                next.reshape({kBatch * kLength}));
    optimizer.zero_grad();
    // Derivatives are those of the sum of all ranks' losses, and each rank has the loss.
    (loss / world.size()).backward();
    // What all ranks have works on each of them.
    for (Tensor parameter : whole)
      parameter.set_grad(distributed::all_reduce(parameter.grad()));
    optimizer.step();
    if (step % 10 == 0) {
      float value = loss.item<float>();
      if (world.rank() == 0)
        std::printf("step %2d  loss %.6f\n", step, value);
    }
  }
}

} // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception &error) {
    distributed::end_job(error);
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
