// Training runs of many kinds, as users write them, against the losses that PyTorch has for the same numbers (tests/golden/
// make_golden_programs.py): each step of a loop finds the program of the step before.
#include <cmath>

#include "tests/golden/golden_file.h"
#include "weft/nn/nn.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

using golden::GoldenFile;
using golden::relative_distance;

const GoldenFile &file() {
  static const GoldenFile file("programs.safetensors");
  return file;
}
const Tensor &given(const std::string &key) { return file()[key]; }

// Where a step reads its part of a tensor, x[step], there are two programs: the second one serves all parts.
struct Training {
  std::string run;
  uint64_t most_compiles = 2; // of all steps
  double tolerance = 1e-4;    // of a loss, relative: the same steps in float32, in another order of additions
  double clip = 0;
};

// Takes as many steps as the golden run has; after(step) may do what a user does after one.
void train(
    const Training &training, optim::Optimizer &optimizer, const std::function<Tensor(int64_t)> &loss_of,
    const std::function<void()> &after = [] {}) {
  std::vector<double> expected = file()[training.run + ".losses"].to_vector<double>();
  Statistics before = statistics();
  for (size_t step = 0; step < expected.size(); ++step) {
    Tensor loss = loss_of(static_cast<int64_t>(step));
    optimizer.zero_grad();
    loss.backward();
    if (training.clip > 0) optim::clip_grad_norm(optimizer.parameters(), training.clip);
    optimizer.step();
    after();
    ASSERT_NEAR(loss.item<float>(), expected[step], training.tolerance * std::abs(expected[step])) << "step " << step;
  }
  synchronize();
  EXPECT_LE(statistics().compiles - before.compiles, training.most_compiles);
}

template <typename M> M started(M model, const std::string &run) {
  model.load_state(file().under(run + ".start"));
  return model;
}

struct Vae : nn::Module {
  nn::Linear up = child("up", nn::Linear(64, 32)), mean = child("mean", nn::Linear(32, 4)), spread = child("spread", nn::Linear(32, 4));
  nn::Linear down = child("down", nn::Linear(4, 32)), out = child("out", nn::Linear(32, 64));
};

TEST(Networks, AVariationalAutoencoder) {
  Vae model = started(Vae(), "vae");
  Tensor xs = given("vae.x"), noises = given("vae.noise");
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  train({.run = "vae"}, optimizer, [&](int64_t step) {
    Tensor x = xs[step];
    Tensor h = silu(model.up(x)), mean = model.mean(h), spread = model.spread(h);
    Tensor logits = model.out(silu(model.down(mean + noises[step] * exp(0.5 * spread))));
    Tensor divergence = -0.5 * (1 + spread - mean.square() - exp(spread)).sum();
    return (nn::binary_cross_entropy_with_logits(logits, x, Reduction::kSum) + divergence) / 16;
  });
}

struct CharLstm : nn::Module {
  nn::Embedding embed = child("embed", nn::Embedding(12, 8));
  nn::LSTM lstm = child("lstm", nn::LSTM(8, 16, {.num_layers = 2, .batch_first = true}));
  nn::Linear head = child("head", nn::Linear(16, 12));
};

// The state goes on from batch to batch without its history; the first step has none, and is one program more.
TEST(Networks, ACharacterLstmThatKeepsItsState) {
  CharLstm model = started(CharLstm(), "char_lstm");
  Tensor ids = given("char_lstm.ids"), hidden, cell;
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  train({.run = "char_lstm", .most_compiles = 3, .clip = 1}, optimizer, [&](int64_t step) {
    auto [y, h, c] = model.lstm(model.embed(ids[step].narrow(1, 0, 10)), hidden, cell);
    hidden = h.detach(), cell = c.detach();
    return nn::cross_entropy(model.head(y), ids[step].narrow(1, 1, 10), {.label_smoothing = 0.1});
  });
  EXPECT_LT(relative_distance(hidden, given("char_lstm.hidden")), 1e-3);
  EXPECT_LT(relative_distance(cell, given("char_lstm.cell")), 1e-3);
}

struct GraphNet : nn::Module {
  nn::Linear message = child("message", nn::Linear(12, 6)), update = child("update", nn::Linear(12, 6)),
             head = child("head", nn::Linear(6, 3));
};

TEST(Networks, MessagesAlongTheEdgesOfAGraph) {
  GraphNet model = started(GraphNet(), "graph");
  Tensor x = given("graph.x"), source = given("graph.source"), target = given("graph.target"), labels = given("graph.labels");
  Tensor of_graph = given("graph.of_graph");
  int64_t nodes = x.size(0), edges = source.size(0);
  optim::AdamW optimizer(model.parameters(), {.lr = 2e-2});
  train({.run = "graph", .most_compiles = 1}, optimizer, [&](int64_t) {
    Tensor h = x;
    for (int i = 0; i < 2; ++i) {
      Tensor messages = relu(model.message(cat({index_select(h, 0, source), h.index({target})}, 1)));
      Tensor arrived = scatter_add(zeros({nodes, 6}), 0, target.unsqueeze(1).expand({-1, 6}), messages);
      Tensor degree = clamp(scatter_add(zeros({nodes}), 0, target, ones({edges})), 1);
      h = tanh(model.update(cat({h, arrived / degree.unsqueeze(1)}, 1)));
    }
    Tensor pooled = index_put(zeros({4, 6}), {of_graph}, h, true);
    return nn::cross_entropy(model.head(pooled), labels);
  });
}

struct Denoiser : nn::Module {
  nn::Linear up = child("up", nn::Linear(10, 32)), middle = child("middle", nn::Linear(32, 32)), down = child("down", nn::Linear(32, 2));
  Tensor operator()(const Tensor &x, const Tensor &t) const {
    Tensor angles = t.unsqueeze(1).to(float32) * exp(arange(4, float32) * (-std::log(100.0) / 4));
    Tensor h = gelu(up(cat({x, sin(angles), cos(angles)}, 1)));
    return down(h + gelu(middle(h)));
  }
};

TEST(Networks, ADiffusionModelAndItsSamples) {
  Denoiser model = started(Denoiser(), "diffusion");
  Tensor xs = given("diffusion.x"), ts = given("diffusion.t"), noises = given("diffusion.noise"), kept = given("diffusion.kept");
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  optim::ExponentialMovingAverage average(model.parameters(), 0.9);
  // The step's programs and the average's.
  train(
      {.run = "diffusion", .most_compiles = 3}, optimizer,
      [&](int64_t step) {
        Tensor share = kept.index({ts[step]}).unsqueeze(1);
        Tensor noisy = sqrt(share) * xs[step] + sqrt(1 - share) * noises[step];
        return nn::mse(model(noisy, ts[step]), noises[step]);
      },
      [&] { average.update(); });
  average.swap();
  NoGrad no_grad;
  Tensor sample = nn::init::copy_of(given("diffusion.begin"));
  std::vector<float> levels = kept.to_vector<float>();
  eval({sample});
  synchronize();
  Statistics before = statistics();
  for (int64_t level = static_cast<int64_t>(levels.size()) - 1; level >= 0; --level) {
    double now = levels[static_cast<size_t>(level)], next = level > 0 ? levels[static_cast<size_t>(level - 1)] : 1.0;
    Tensor predicted = model(sample, full({16}, level));
    Tensor clean = (sample - std::sqrt(1 - now) * predicted) / std::sqrt(now);
    sample = std::sqrt(next) * clean + std::sqrt(1 - next) * predicted;
    sample.eval();
  }
  EXPECT_LE(statistics().compiles - before.compiles, 1u) << "levels are numbers that change, not programs";
  EXPECT_LT(relative_distance(sample, given("diffusion.sample")), 2e-3);
}

struct Mlp : nn::Module {
  Mlp(int64_t inputs, int64_t width, int64_t outputs)
      : up(child("up", nn::Linear(inputs, width))), middle(child("middle", nn::Linear(width, width))),
        down(child("down", nn::Linear(width, outputs))) {}
  nn::Linear up, middle, down;
  Tensor operator()(const Tensor &x) const { return down(tanh(middle(tanh(up(x))))); }
};

TEST(Networks, ACriticWhoseGradientIsPartOfItsLoss) {
  Mlp model = started(Mlp(3, 16, 1), "critic");
  Tensor real = given("critic.real"), fake = given("critic.fake"), share = given("critic.share");
  optim::RMSprop optimizer(model.parameters(), {.lr = 1e-2});
  // The point between is computed when it becomes one to differentiate by: two programs, each in two forms.
  train({.run = "critic", .most_compiles = 4, .tolerance = 5e-4}, optimizer, [&](int64_t step) {
    Tensor between = (share[step] * real[step] + (1 - share[step]) * fake[step]).detach().requires_grad_();
    Tensor gradient = grad({model(between).sum()}, {between}, true)[0];
    Tensor penalty = (sqrt(gradient.square().sum(1)) - 1).square().mean();
    return model(fake[step]).mean() - model(real[step]).mean() + 10 * penalty;
  });
}

TEST(Networks, ADifferentialEquationAsALoss) {
  Mlp model = started(Mlp(1, 12, 1), "physics");
  Tensor at = given("physics.at");
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  // `at` and `zero` are computed when they become points to differentiate by.
  train({.run = "physics", .most_compiles = 3}, optimizer, [&](int64_t) {
    Tensor x = at.clone().detach().requires_grad_(), zero = zeros({1, 1}).requires_grad_();
    Tensor u = model(x);
    Tensor first = grad({u.sum()}, {x}, true)[0];
    Tensor second = grad({first.sum()}, {x}, true)[0];
    Tensor begin = model(zero);
    Tensor slope = grad({begin.sum()}, {zero}, true)[0];
    return (second + u).square().mean() + begin.square().sum() + (slope - 1).square().sum();
  });
}

TEST(Networks, AnOptimizerInsideTheLoss) {
  Mlp model = started(Mlp(1, 10, 1), "meta");
  Tensor xs = given("meta.x"), ys = given("meta.y");
  auto run = [](const std::vector<Tensor> &w, const Tensor &x) {
    return linear(tanh(linear(tanh(linear(x, w[0], w[1])), w[2], w[3])), w[4], w[5]);
  };
  optim::SGD optimizer(model.parameters(), {.lr = 5e-2, .momentum = 0.9});
  train({.run = "meta"}, optimizer, [&](int64_t step) {
    Tensor total = zeros({});
    for (int64_t task = 0; task < 4; ++task) {
      Tensor x = xs[step][task], y = ys[step][task];
      std::vector<Tensor> weights = model.parameters();
      for (int i = 0; i < 3; ++i) {
        std::vector<Tensor> gradients = grad({nn::mse(run(weights, x[0]), y[0])}, weights, true);
        for (size_t k = 0; k < weights.size(); ++k) weights[k] = weights[k] - 0.1 * gradients[k];
      }
      total = total + nn::mse(run(weights, x[1]), y[1]);
    }
    return total / 4;
  });
}

} // namespace
} // namespace weft::tests
