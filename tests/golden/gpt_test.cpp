// A training curve: a small GPT, from PyTorch's initial weights, on PyTorch's batches, with AdamW.
#include "tests/golden/golden_file.h"
#include "weft/nn/nn.h"
#include "weft/optim/optim.h"

namespace weft::golden {
namespace {

// As in make_golden.py.
constexpr int64_t kWidth = 32, kHeads = 4, kLayers = 2, kContext = 32;

struct Gpt : nn::Module {
  explicit Gpt(int64_t vocabulary)
      : tok(child("tok", nn::Embedding(vocabulary, kWidth))),
        pos(child("pos", nn::Embedding(kContext, kWidth))),
        norm(child("norm", nn::LayerNorm(kWidth))),
        head(child("head", nn::Linear(kWidth, vocabulary, {.bias = false}))) {
    for (int64_t i = 0; i < kLayers; ++i)
      blocks.push_back(child("blocks_" + std::to_string(i),
                             nn::TransformerBlock(kWidth, kHeads, {.causal = true})));
  }
  Tensor operator()(const Tensor &tokens) const {
    Tensor x = tok(tokens) + pos.weight;
    for (const nn::TransformerBlock &block : blocks)
      x = block(x);
    return head(norm(x));
  }

  nn::Embedding tok, pos;
  nn::LayerNorm norm;
  nn::Linear head;
  std::vector<nn::TransformerBlock> blocks;
};

TEST(GptTest, FiftyStepsOfAdamWFollowPyTorch) {
  GoldenFile file("gpt.safetensors");
  Gpt model(file["start.head.weight"].size(0));
  nn::NamedTensors start;
  for (auto &[key, tensor] : file.under("start")) {
    // A module's name has no dot: blocks.0 is blocks_0.
    std::string name = key.starts_with("blocks.") ? "blocks_" + key.substr(7) : key;
    start.emplace_back(name, tensor);
  }
  model.load_state(start);
  optim::AdamW optimizer(
      model.parameters(),
      {.lr = 3e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});

  // Batches come from the host, as a loader's do: a slice of one tensor would be another program
  // each step.
  std::vector<int32_t> windows = file["windows"].to_vector<int32_t>();
  int64_t batch = file["windows"].size(1), length = file["windows"].size(2);
  std::vector<double> golden = file["losses"].to_vector<double>();
  ASSERT_EQ(golden.size(), 50u);
  std::vector<Tensor> losses;
  for (size_t step = 0; step < golden.size(); ++step) {
    std::span<const int32_t> values(windows.data() + step * batch * length, batch * length);
    Tensor window = Tensor::from<int32_t>(values, {batch, length});
    Tensor tokens = window.narrow(1, 0, kContext), targets = window.narrow(1, 1, kContext);
    Tensor loss = nn::cross_entropy(model(tokens), targets);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.detach());
  }
  for (size_t step = 0; step < golden.size(); ++step)
    EXPECT_NEAR(losses[step].item<double>() / golden[step], 1, 1e-4) << "step " << step;
  EXPECT_LT(relative_distance(model.head.weight.detach(), file["end.head.weight"]), 1e-3);
}

} // namespace
} // namespace weft::golden
