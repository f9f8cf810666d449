// Training runs of many kinds, as users write them, against the losses that PyTorch has for the
// same numbers (tests/golden/ make_golden_programs.py): each step of a loop finds the program of
// the step before.
#include <cmath>

#include "tests/programs/training_run.h"
#include "weft/models/vae.h"
#include "weft/nn/nn.h"

namespace weft::tests {
namespace {

using golden::relative_distance;

const golden::GoldenFile &file() {
  static const golden::GoldenFile file("programs.safetensors");
  return file;
}

TEST(Networks, AVariationalAutoencoder) {
  TrainingRun run{file(), "vae"};
  models::Vae model = run.started(models::Vae({.inputs = 64, .hidden = 32, .latent = 4}));
  Tensor xs = run["x"], noises = run["noise"];
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  run.train(optimizer, [&](int64_t step) {
    Tensor x = xs[step];
    return models::vae_loss(model(x, noises[step]), x);
  });
}

struct CharLstm : nn::Module {
  nn::Embedding embed = child("embed", nn::Embedding(12, 8));
  nn::LSTM lstm = child("lstm", nn::LSTM(8, 16, {.num_layers = 2, .batch_first = true}));
  nn::Linear head = child("head", nn::Linear(16, 12));
};

// The state goes on from batch to batch without its history; the first step has none, and is one
// program more.
TEST(Networks, ACharacterLstmThatKeepsItsState) {
  TrainingRun run{.file = file(),
                  .name = "char_lstm",
                  .most_compiles = 3,
                  .clip = 1,
                  .not_recorded = "it assigns the state that goes on from batch to batch"};
  CharLstm model = run.started(CharLstm());
  Tensor ids = run["ids"], hidden, cell;
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  auto read = [&](const Tensor &hidden, const Tensor &cell, int64_t step) {
    auto [y, h, c] = model.lstm(model.embed(ids[step].narrow(1, 0, 10)), hidden, cell);
    return std::tuple(
        h.detach(), c.detach(),
        nn::cross_entropy(model.head(y), ids[step].narrow(1, 1, 10), {.label_smoothing = 0.1}));
  };
  run.train(optimizer, [&](int64_t step) {
    Tensor loss;
    std::tie(hidden, cell, loss) = read(hidden, cell, step);
    return loss;
  });
  EXPECT_LT(relative_distance(hidden, run["hidden"]), 1e-3);
  EXPECT_LT(relative_distance(cell, run["cell"]), 1e-3);
  // A step that is given the state, and returns it, is recorded.
  ThreeWays{.written = written_by(optimizer), .calls = 3, .fed_back = 2}.compare(
      [&](const Tensor &hidden, const Tensor &cell) {
        auto all = read(hidden, cell, 0);
        optimizer.zero_grad();
        std::get<2>(all).backward();
        optimizer.step();
        return all;
      },
      hidden, cell);
}

struct GraphNet : nn::Module {
  nn::Linear message = child("message", nn::Linear(12, 6)),
             update = child("update", nn::Linear(12, 6)), head = child("head", nn::Linear(6, 3));
};

TEST(Networks, MessagesAlongTheEdgesOfAGraph) {
  TrainingRun run{.file = file(), .name = "graph", .most_compiles = 1};
  GraphNet model = run.started(GraphNet());
  Tensor x = run["x"], source = run["source"], target = run["target"], labels = run["labels"];
  Tensor of_graph = run["of_graph"];
  int64_t nodes = x.size(0), edges = source.size(0);
  optim::AdamW optimizer(model.parameters(), {.lr = 2e-2});
  run.train(optimizer, [&](int64_t) {
    Tensor h = x;
    for (int i = 0; i < 2; ++i) {
      Tensor messages =
          relu(model.message(cat({index_select(h, 0, source), h.index({target})}, 1)));
      Tensor arrived =
          scatter_add(zeros({nodes, 6}), 0, target.unsqueeze(1).expand({-1, 6}), messages);
      Tensor degree = clamp(scatter_add(zeros({nodes}), 0, target, ones({edges})), 1);
      h = tanh(model.update(cat({h, arrived / degree.unsqueeze(1)}, 1)));
    }
    Tensor pooled = index_put(zeros({4, 6}), {of_graph}, h, true);
    return nn::cross_entropy(model.head(pooled), labels);
  });
}

struct Denoiser : nn::Module {
  nn::Linear up = child("up", nn::Linear(10, 32)), middle = child("middle", nn::Linear(32, 32)),
             down = child("down", nn::Linear(32, 2));
  Tensor operator()(const Tensor &x, const Tensor &t) const {
    Tensor angles = t.unsqueeze(1).to(float32) * exp(arange(4, float32) * (-std::log(100.0) / 4));
    Tensor h = gelu(up(cat({x, sin(angles), cos(angles)}, 1)));
    return down(h + gelu(middle(h)));
  }
};

TEST(Networks, ADiffusionModelAndItsSamples) {
  TrainingRun run{.file = file(), .name = "diffusion", .most_compiles = 3};
  Denoiser model = run.started(Denoiser());
  Tensor xs = run["x"], ts = run["t"], noises = run["noise"], kept = run["kept"];
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  optim::ExponentialMovingAverage average(model.parameters(), 0.9);
  // The step's programs and the average's.
  run.train(
      optimizer,
      [&](int64_t step) {
        Tensor share = kept.index({ts[step]}).unsqueeze(1);
        Tensor noisy = sqrt(share) * xs[step] + sqrt(1 - share) * noises[step];
        return nn::mse(model(noisy, ts[step]), noises[step]);
      },
      [&] { average.update(); });
  average.swap();
  NoGrad no_grad;
  Tensor sample = nn::init::copy_of(run["begin"]);
  std::vector<float> levels = kept.to_vector<float>();
  eval({sample});
  auto denoise = [&](const Tensor &sample, int64_t level) {
    double now = levels[static_cast<size_t>(level)],
           next = level > 0 ? levels[static_cast<size_t>(level - 1)] : 1.0;
    Tensor predicted = model(sample, full({16}, level));
    Tensor clean = (sample - std::sqrt(1 - now) * predicted) / std::sqrt(now);
    return std::sqrt(next) * clean + std::sqrt(1 - next) * predicted;
  };
  Compiles compiles;
  for (int64_t level = static_cast<int64_t>(levels.size()) - 1; level >= 0; --level) {
    sample = denoise(sample, level);
    sample.eval();
  }
  EXPECT_LE(compiles.count(), 1u) << "levels are numbers that change, not programs";
  EXPECT_LT(relative_distance(sample, run["sample"]), 2e-3);
  ThreeWays{.fed_back = 1}.compare(denoise, run["begin"], int64_t(2));
}

struct Mlp : nn::Module {
  Mlp(int64_t inputs, int64_t width, int64_t outputs)
      : up(child("up", nn::Linear(inputs, width))),
        middle(child("middle", nn::Linear(width, width))),
        down(child("down", nn::Linear(width, outputs))) {}
  nn::Linear up, middle, down;
  Tensor operator()(const Tensor &x) const {
    return down(tanh(middle(tanh(up(x)))));
  }
};

TEST(Networks, ACriticWhoseGradientIsPartOfItsLoss) {
  TrainingRun run{.file = file(), .name = "critic", .most_compiles = 4, .tolerance = 5e-4};
  Mlp model = run.started(Mlp(3, 16, 1));
  Tensor real = run["real"], fake = run["fake"], share = run["share"];
  optim::RMSprop optimizer(model.parameters(), {.lr = 1e-2});
  // The point between is computed when it becomes one to differentiate by: two programs, each in
  // two forms.
  run.train(optimizer, [&](int64_t step) {
    Tensor between =
        (share[step] * real[step] + (1 - share[step]) * fake[step]).detach().requires_grad_();
    Tensor gradient = grad({model(between).sum()}, {between}, true)[0];
    Tensor penalty = (sqrt(gradient.square().sum(1)) - 1).square().mean();
    return model(fake[step]).mean() - model(real[step]).mean() + 10 * penalty;
  });
}

TEST(Networks, ADifferentialEquationAsALoss) {
  TrainingRun run{.file = file(), .name = "physics", .most_compiles = 3};
  Mlp model = run.started(Mlp(1, 12, 1));
  Tensor at = run["at"];
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  // `at` and `zero` are computed when they become points to differentiate by.
  run.train(optimizer, [&](int64_t) {
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
  TrainingRun run{file(), "meta"};
  Mlp model = run.started(Mlp(1, 10, 1));
  Tensor xs = run["x"], ys = run["y"];
  auto through = [](const std::vector<Tensor> &w, const Tensor &x) {
    return linear(tanh(linear(tanh(linear(x, w[0], w[1])), w[2], w[3])), w[4], w[5]);
  };
  optim::SGD optimizer(model.parameters(), {.lr = 5e-2, .momentum = 0.9});
  run.train(optimizer, [&](int64_t step) {
    Tensor total = zeros({});
    for (int64_t task = 0; task < 4; ++task) {
      Tensor x = xs[step][task], y = ys[step][task];
      std::vector<Tensor> weights = model.parameters();
      for (int i = 0; i < 3; ++i) {
        std::vector<Tensor> gradients =
            grad({nn::mse(through(weights, x[0]), y[0])}, weights, true);
        for (size_t k = 0; k < weights.size(); ++k)
          weights[k] = weights[k] - 0.1 * gradients[k];
      }
      total = total + nn::mse(through(weights, x[1]), y[1]);
    }
    return total / 4;
  });
}

} // namespace
} // namespace weft::tests
