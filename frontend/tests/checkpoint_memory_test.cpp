// weft::checkpoint takes less memory: in one program with its backward, in programs of their own,
// jitted, nested, ahead of time; with the same bits.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

namespace weft {
namespace {

// Nothing is computed again but what is asked for.
class CheckpointMemory : public testing::Test {
protected:
  void SetUp() override {
    before_ = config();
    Config changed = before_;
    changed.memory_limit = std::numeric_limits<int64_t>::max();
    set_config(changed);
  }
  void TearDown() override {
    set_config(before_);
  }
  Config before_;
};

constexpr int64_t kRows = 4096, kSize = 64, kLayers = 12;
constexpr int64_t kBatch = kRows * kSize * 4; // bytes

enum class Way { kNone, kEach, kNested };

struct Block : nn::Module {
  nn::LayerNorm norm = child("norm", nn::LayerNorm(kSize));
  nn::Linear up = child("up", nn::Linear(kSize, 2 * kSize)),
             down = child("down", nn::Linear(2 * kSize, kSize));
  nn::Dropout dropout = child("dropout", nn::Dropout(0.1));
  Tensor operator()(const Tensor &x) const {
    return x + dropout(down(gelu(up(norm(x)))));
  }
};

struct Deep : nn::Module {
  explicit Deep(Way way) : way(way) {
    for (int64_t i = 0; i < kLayers; ++i)
      blocks.push_back(child("block" + std::to_string(i), Block()));
  }
  Tensor operator()(const Tensor &x) const {
    Tensor y = x;
    if (way == Way::kNested)
      for (size_t first = 0; first < blocks.size(); first += 4)
        y = checkpoint([&, first](Tensor given) {
          for (size_t i = first; i < first + 4; ++i)
            given = checkpoint(blocks[i])(given);
          return given;
        })(y);
    else
      for (const Block &block : blocks)
        y = way == Way::kEach ? checkpoint(block)(y) : block(y);
    return y;
  }
  Way way;
  std::vector<Block> blocks;
};

struct Figures {
  std::vector<float> losses, weights;
  int64_t peak = 0;   // of the evaluation that takes the most
  int64_t output = 0; // of the one that leaves the most
};

enum class When { kPlain, kJit, kLossFirst };

Figures train(Way way, When when) {
  size_t known = recent_evaluations().empty() ? 0 : recent_evaluations().back().number;
  manual_seed(5);
  Deep model(way);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  Tensor x = randn({kRows, kSize}).eval(), target = randn({kRows, kSize}).eval();
  auto step = [=](const Tensor &given) mutable {
    optimizer.zero_grad();
    Tensor loss = mse_loss(model(given), target);
    if (when == When::kLossFirst)
      loss.item<float>();
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  };
  auto program = jit(step);
  Figures figures;
  for (int i = 0; i < 3; ++i)
    figures.losses.push_back((when == When::kJit ? program(x) : step(x)).item<float>());
  for (const Evaluation &evaluation : recent_evaluations())
    if (evaluation.number > known) {
      figures.peak = std::max(figures.peak, evaluation.planned_peak_bytes);
      figures.output = std::max(figures.output, evaluation.output_bytes);
    }
  for (const auto &[name, parameter] : model.named_parameters()) {
    std::vector<float> values = parameter.to_vector<float>();
    figures.weights.insert(figures.weights.end(), values.begin(), values.end());
  }
  return figures;
}

TEST_F(CheckpointMemory, ATrainingStepTakesLess) {
  for (When when : {When::kPlain, When::kJit}) {
    Figures kept = train(Way::kNone, when), each = train(Way::kEach, when),
            nested = train(Way::kNested, when);
    EXPECT_EQ(each.losses, kept.losses);
    EXPECT_EQ(each.weights, kept.weights);
    EXPECT_EQ(nested.losses, kept.losses);
    EXPECT_EQ(nested.weights, kept.weights);
    // A block keeps more than 5 times its input.
    EXPECT_LT(each.peak, kept.peak / 2) << kept.peak << " bytes are kept";
    EXPECT_LT(nested.peak, each.peak);
  }
}

struct Gpt : nn::Module {
  explicit Gpt(bool checkpointed) : checkpointed(checkpointed) {
    for (int64_t i = 0; i < 3; ++i)
      blocks.push_back(child("block" + std::to_string(i),
                             nn::TransformerBlock(64, 4, {.dropout = 0.1, .causal = true})));
  }
  Tensor operator()(const Tensor &ids) const {
    Tensor x = tokens(ids) + places(arange(ids.shape()[1]));
    for (const nn::TransformerBlock &block : blocks)
      x = checkpointed ? checkpoint(block)(x) : block(x);
    return head(norm(x));
  }
  bool checkpointed;
  nn::Embedding tokens = child("tokens", nn::Embedding(65, 64)),
                places = child("places", nn::Embedding(128, 64));
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm norm = child("norm", nn::LayerNorm(64));
  nn::Linear head = child("head", nn::Linear(64, 65));
};

// A residual block of convolutions.
struct Residual : nn::Module {
  nn::Conv2d first = child("first", nn::Conv2d(16, 16, 3, {.padding = 1})),
             second = child("second", nn::Conv2d(16, 16, 3, {.padding = 1}));
  nn::BatchNorm2d norm1 = child("norm1", nn::BatchNorm2d(16)),
                  norm2 = child("norm2", nn::BatchNorm2d(16));
  Tensor operator()(const Tensor &x) {
    return relu(x + norm2(second(relu(norm1(first(x))))));
  }
};

struct ResNet : nn::Module {
  explicit ResNet(bool checkpointed) : checkpointed(checkpointed) {
    for (int64_t i = 0; i < 4; ++i)
      blocks.push_back(child("block" + std::to_string(i), Residual()));
  }
  Tensor operator()(const Tensor &images) {
    Tensor x = stem(images);
    for (Residual &block : blocks)
      x = checkpointed ? checkpoint(block)(x) : block(x);
    return head(x.mean({2, 3}));
  }
  bool checkpointed;
  nn::Conv2d stem = child("stem", nn::Conv2d(3, 16, 3, {.padding = 1}));
  std::vector<Residual> blocks;
  nn::Linear head = child("head", nn::Linear(16, 10));
};

// Losses, then all that the model keeps, after some steps on x.
template <typename Model> std::vector<float> learned(Model model, const Tensor &x, int64_t classes) {
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  std::vector<float> numbers;
  for (int i = 0; i < 4; ++i) {
    Tensor logits = model(x), labels = arange(logits.numel() / classes).remainder(classes);
    Tensor loss = cross_entropy(logits.reshape({-1, classes}), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    numbers.push_back(loss.item<float>());
  }
  for (const auto &[name, tensor] : model.state()) {
    std::vector<float> values = tensor.to(DType::kFloat32).template to_vector<float>();
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

TEST_F(CheckpointMemory, NetworksLearnTheSameBits) {
  auto gpt = [](bool checkpointed) {
    manual_seed(21);
    Tensor ids = (arange(int64_t(8 * 128)) * 7).remainder(65).reshape({8, 128});
    return learned(Gpt(checkpointed), ids, 65);
  };
  EXPECT_EQ(gpt(true), gpt(false));
  auto resnet = [](bool checkpointed) {
    manual_seed(22);
    return learned(ResNet(checkpointed), randn({8, 3, 24, 24}).eval(), 10);
  };
  EXPECT_EQ(resnet(true), resnet(false));
}

// What the first program leaves for the second one: an input a block instead of all that it saves.
TEST_F(CheckpointMemory, AForwardThatIsComputedFirstLeavesItsInputs) {
  Figures kept = train(Way::kNone, When::kLossFirst), each = train(Way::kEach, When::kLossFirst);
  EXPECT_EQ(each.losses, kept.losses);
  EXPECT_EQ(each.weights, kept.weights);
  EXPECT_GT(kept.output, 3 * kLayers * kBatch);
  EXPECT_LE(each.output, (kLayers + 2) * kBatch);
  EXPECT_LT(each.peak, kept.peak / 2);
}

TEST_F(CheckpointMemory, IsSeenInAnEstimate) {
  auto arena = [](Way way) {
    Deep model(way);
    model.eval();
    Tensor x = randn({kRows, kSize}).eval();
    auto gradient = [&](const Tensor &given) {
      Tensor input = given.detach().set_requires_grad();
      return grad({model(input).square().sum()}, {input})[0];
    };
    MemoryEstimate estimate = estimate_memory(gradient, {x});
    return estimate.outputs + estimate.arena;
  };
  int64_t kept = arena(Way::kNone), each = arena(Way::kEach);
  EXPECT_LT(each, kept * 2 / 3);
  EXPECT_GT(each, kLayers * kBatch);
}

// The plan of an executable has the instructions of both times.
TEST_F(CheckpointMemory, OfAModelCompiledAheadOfTime) {
  auto size_of = [](Way way) {
    Deep model(way);
    model.eval();
    Program program = trace(
        [&](const Tensor &given) {
          Tensor input = given.detach().set_requires_grad();
          return grad({model(input).square().sum()}, {input})[0];
        },
        {zeros({16, kSize})});
    std::string path = testing::TempDir() + "/checkpoint.mlir";
    program.compile({.emit = Emit::plan, .output = path, .embed_weights = false});
    return std::filesystem::file_size(path);
  };
  EXPECT_GT(size_of(Way::kEach), size_of(Way::kNone));
}

} // namespace
} // namespace weft
