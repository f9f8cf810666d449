// Trainings in which more than a network is at stake, as users write them, against the losses that
// PyTorch has (tests/golden/make_golden_learning.py): layers frozen and thawed, penalties on
// derivatives by the inputs, edges and boxes chosen by numbers, codes and fixed points that
// autograd does not see through.
#include <numbers>

#include "tests/programs/training_run.h"
#include "weft/nn/nn.h"

namespace weft::tests {
namespace {

const golden::GoldenFile &file() {
  static const golden::GoldenFile file("learning.safetensors");
  return file;
}

// Linear layers with a function between them.
struct Layers : nn::Module {
  std::vector<nn::Linear> layers;
  std::function<Tensor(const Tensor &)> between;

  explicit Layers(
      const std::vector<int64_t> &sizes,
      std::function<Tensor(const Tensor &)> between = [](const Tensor &x) { return relu(x); })
      : between(std::move(between)) {
    for (size_t i = 0; i + 1 < sizes.size(); ++i)
      layers.push_back(child("layer" + std::to_string(i), nn::Linear(sizes[i], sizes[i + 1])));
  }
  Tensor operator()(const Tensor &x) const {
    Tensor y = layers[0](x);
    for (size_t i = 1; i < layers.size(); ++i)
      y = layers[i](between(y));
    return y;
  }
};

std::vector<Tensor> joined(std::vector<Tensor> parameters, const std::vector<Tensor> &more) {
  parameters.insert(parameters.end(), more.begin(), more.end());
  return parameters;
}

Tensor parameter_from(const Tensor &value) {
  return value.clone().requires_grad_();
}

TEST(Learning, LayersThatThaw) {
  TrainingRun run{.file = file(), .name = "thaw"};
  Layers model = run.started(Layers({6, 10, 10, 4}));
  std::vector<Tensor> weights, biases;
  for (const Tensor &parameter : model.parameters())
    (parameter.ndim() == 2 ? weights : biases).push_back(parameter);
  optim::AdamW first(weights, {.lr = 2e-2, .weight_decay = 0.1});
  optim::Adam second(biases, {.lr = 2e-2});
  auto learn = [&](int64_t step) {
    Tensor loss = nn::cross_entropy(model(run["x"][step]), run["y"][step]);
    first.zero_grad();
    second.zero_grad();
    loss.backward();
    first.step();
    second.step();
    return loss;
  };
  std::vector<double> expected = run["losses"].to_vector<double>();
  ASSERT_GT(expected.size(), 4u) << "the last layer thaws at step 4";
  for (size_t step = 0; step < expected.size(); ++step) {
    for (Tensor parameter : model.layers[0].parameters())
      parameter.requires_grad_(step >= 4);
    for (Tensor parameter : model.layers[1].parameters())
      parameter.requires_grad_(step >= 2);
    ASSERT_NEAR(learn(static_cast<int64_t>(step)).item<double>(), expected[step], 1e-4) << step;
  }
  ThreeWays ways{.written = joined(written_by(first), written_by(second)), .calls = 3};
  ways.compare(learn, int64_t(0));
  for (Tensor parameter : model.layers[1].parameters())
    parameter.requires_grad_(false);
  ways.compare(learn, int64_t(0));
}

struct Aggregation : nn::Module {
  nn::Linear message, mix;
  nn::BatchNorm1d norm;
  Aggregation(int64_t in, int64_t out)
      : message(child("message", nn::Linear(2 * in, in))),
        mix(child("mix", nn::Linear(5 * in, out))), norm(child("norm", nn::BatchNorm1d(out))) {}
  Tensor operator()(const Tensor &x, const Tensor &source, const Tensor &target) const {
    Tensor messages = relu(message(cat({x.index({source}), x.index({target})}, 1)));
    Tensor index = target.unsqueeze(1).expand_as(messages);
    std::vector<Tensor> parts = {x};
    for (const char *kind : {"mean", "amax", "amin"})
      parts.push_back(zeros_like(x).scatter_reduce_(0, index, messages, kind, false));
    parts.push_back(zeros_like(x).index_add_(0, target, messages));
    return relu(norm(mix(cat(parts, 1))));
  }
};

struct Graph : nn::Module {
  Aggregation first = child("first", Aggregation(4, 8)),
              second = child("second", Aggregation(8, 8));
  nn::Linear head = child("head", nn::Linear(8, 3));
};

TEST(Learning, AGraphThatGathersAndScatters) {
  TrainingRun run{.file = file(), .name = "graph"};
  Graph model;
  nn::NamedTensors start;
  for (auto &entry : run.file.under("graph.start"))
    if (!entry.first.ends_with("num_batches_tracked"))
      start.push_back(entry); // which PyTorch counts
  model.load_state(start);
  Tensor x = run["x"], source = run["source"], target = run["target"];
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  run.train(optimizer, [&](int64_t) {
    Tensor h = model.second(model.first(x, source, target), source, target);
    return nn::cross_entropy(model.head(zeros({4, 8}).index_add_(0, run["owner"], h) / 5),
                             run["y"]);
  });
}

TEST(Learning, RelationsWhoseEdgesAMaskTakes) {
  // Beside the step's own: how many edges a relation has is asked for, by a program for each mask.
  TrainingRun run{.file = file(),
                  .name = "relations",
                  .most_compiles = 8,
                  .not_recorded = "a mask asks how many elements it takes"};
  Layers model = run.started(Layers({8, 8, 3}));
  Tensor embedding = parameter_from(run["embedding"]), weights = parameter_from(run["weights"]);
  optim::Adam optimizer(joined(model.parameters(), {embedding, weights}), {.lr = 2e-2});
  run.train(optimizer, [&](int64_t) {
    Tensor out = model.layers[0](embedding);
    for (int64_t r = 0; r < 3; ++r) {
      Tensor mask = run["kind"] == r;
      Tensor messages = matmul(embedding.index({run["source"].index({mask})}), weights[r]);
      out = out.index_add(0, run["target"].index({mask}), messages);
    }
    return nn::cross_entropy(model.layers[1](relu(out)).index({run["known"]}),
                             run["y"].index({run["known"]}));
  });
}

TEST(Learning, AnEquationOfDerivatives) {
  // Beside the step's own: what is differentiated by is computed when it begins to require a
  // gradient, a program for each of the two.
  TrainingRun run{.file = file(), .name = "equation", .most_compiles = 4};
  Layers model = run.started(Layers({2, 12, 12, 1}, [](const Tensor &x) { return tanh(x); }));
  Tensor start = run["start"];
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  run.train(optimizer, [&](int64_t) {
    Tensor x = run["places"].narrow(1, 0, 1).clone().requires_grad_(),
           t = run["places"].narrow(1, 1, 1).abs().requires_grad_();
    Tensor u = model(cat({x, t}, 1)), one = ones_like(u);
    auto first = grad({u}, {x, t}, {.grad_outputs = {one}, .create_graph = true});
    Tensor second = grad({first[0]}, {x}, {.grad_outputs = {one}, .create_graph = true})[0];
    Tensor rest = first[1] + u * first[0] - 0.01 / std::numbers::pi * second;
    return rest.square().mean() +
           nn::mse(model(cat({start, zeros_like(start)}, 1)), -sin(std::numbers::pi * start));
  });
}

TEST(Learning, RaysSampledWhereTheFirstPassSaw) {
  TrainingRun run{.file = file(), .name = "rays", .most_compiles = 3};
  Layers model = run.started(Layers({9, 16, 4}));
  Tensor origin = run["origin"], direction = run["direction"], target = run["target"];
  auto render = [&](const Tensor &z) {
    Tensor x = origin.unsqueeze(1) + direction.unsqueeze(1) * z.unsqueeze(-1);
    Tensor out = model(cat({x, sin(x), cos(x)}, -1));
    Tensor step = cat({z.slice(1, 1) - z.slice(1, 0, -1), full({6, 1}, 1e10)}, 1);
    Tensor opacity = 1 - exp(-softplus(out.select(-1, 0)) * step);
    Tensor through = cumprod(cat({ones({6, 1}), 1 - opacity + 1e-10}, 1), 1).slice(1, 0, -1);
    Tensor weights = opacity * through;
    return std::pair((weights.unsqueeze(-1) * sigmoid(out.slice(-1, 1))).sum(1), weights);
  };
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  run.train(optimizer, [&](int64_t step) {
    Tensor z = 2 + 4 * (arange(8) + run["jitter"][step]) / 8, draws = run["draws"][step];
    auto [coarse, weights] = render(z);
    Tensor density = weights.detach().slice(1, 1, -1) + 1e-5;
    Tensor cdf = cat({zeros({6, 1}), cumsum(density / density.sum(1, true), 1)}, 1);
    Tensor middle = 0.5 * (z.slice(1, 1) + z.slice(1, 0, -1));
    Tensor above = searchsorted(cdf, draws, true);
    Tensor low = clamp(above - 1, 0), high = clamp(above, {}, cdf.size(1) - 1);
    Tensor span = cdf.gather(1, high) - cdf.gather(1, low);
    Tensor share = (draws - cdf.gather(1, low)) / where(span < 1e-5, 1.0, span);
    Tensor fine = middle.gather(1, low) + share * (middle.gather(1, high) - middle.gather(1, low));
    return nn::mse(coarse, target) +
           nn::mse(render(sort(cat({z, fine}, 1), 1).first).first, target);
  });
}

TEST(Learning, CodesThatFollowByAverages) {
  TrainingRun run{.file = file(),
                  .name = "codebook",
                  .most_compiles = 4,
                  .not_recorded = "it assigns what the update after the step reads"};
  Layers model = run.started(Layers({8, 12, 4, 12, 8}));
  Tensor code = run["code"].clone(), sizes = ones({10}), sums = code.clone(), z, nearest;
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  auto encode = [&](int64_t step) {
    Tensor x = run["x"][step];
    Tensor z = model.layers[1](relu(model.layers[0](x)));
    Tensor nearest =
        (z.square().sum(1, true) - 2 * matmul(z, code.t()) + code.square().sum(1)).argmin(1);
    Tensor q = code.index({nearest});
    Tensor passed = z + (q - z).detach();
    Tensor loss = nn::mse(model.layers[3](relu(model.layers[2](passed))), x) + 0.25 * nn::mse(z, q);
    return std::tuple(z, nearest, loss);
  };
  auto follow = [&](const Tensor &z, const Tensor &nearest) {
    NoGrad no_grad;
    Tensor chosen = one_hot(nearest, 10).to(float32);
    sizes.mul_(0.9).add_(chosen.sum(0) * 0.1);
    sums.mul_(0.9).add_(matmul(chosen.t(), z) * 0.1);
    code.copy_(sums / clamp(sizes, 1e-3).unsqueeze(1));
  };
  run.train(
      optimizer,
      [&](int64_t step) {
        Tensor loss;
        std::tie(z, nearest, loss) = encode(step);
        return loss;
      },
      [&] { follow(z, nearest); });
  EXPECT_LT(golden::relative_distance(code, run["last"]), 1e-4);
  ThreeWays{.written = joined(written_by(optimizer), {code, sizes, sums}), .calls = 3}.compare([&] {
    auto [z, nearest, loss] = encode(0);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    follow(z, nearest);
    return std::pair(loss, nearest);
  });
}

Tensor overlap(const Tensor &a, const Tensor &b) {
  auto area = [](const Tensor &box) {
    return (box.slice(-1, 2) - box.slice(-1, 0, 2)).prod(-1);
  };
  Tensor inside =
      clamp(minimum(a.slice(-1, 2), b.slice(-1, 2)) - maximum(a.slice(-1, 0, 2), b.slice(-1, 0, 2)),
            0.0)
          .prod(-1);
  return inside / (area(a) + area(b) - inside + 1e-9);
}

TEST(Learning, BoxesMatchedAndThinnedOut) {
  TrainingRun run{.file = file(), .name = "boxes"};
  Layers model = run.started(Layers({6, 24, 60}));
  Tensor centre = run["centre"], size = run["size"], valid = run["valid"];
  Tensor given = cat({centre - size / 2, centre + size / 2}, -1);
  auto predict = [&](int64_t step) {
    Tensor p = model(run["x"][step]).view({3, 12, 5});
    Tensor c = sigmoid(p.slice(-1, 0, 2)), s = exp(clamp(p.slice(-1, 2, 4), {}, 2.0)) * 0.2;
    return std::pair(cat({c - s / 2, c + s / 2}, -1), p.select(-1, 4));
  };
  optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9, .nesterov = true});
  run.train(optimizer, [&](int64_t step) {
    auto [predicted, score] = predict(step);
    Tensor shared = overlap(predicted.unsqueeze(2), given.unsqueeze(1))
                        .masked_fill(!valid.unsqueeze(1), 0.0)
                        .detach();
    Tensor best = shared.max(2), taken = shared.argmax(1);
    Tensor there = zeros({3, 12}).scatter_reduce_(1, taken, valid.to(float32), "amax");
    Tensor chosen = predicted.gather(1, taken.unsqueeze(-1).expand({3, 4, 4}));
    Tensor place = ((1 - overlap(chosen, given)) * valid).sum() / valid.sum();
    Tensor p = sigmoid(score);
    Tensor focal = nn::binary_cross_entropy_with_logits(score, there, Reduction::kNone) *
                   pow(where(there > 0, 1 - p, p), 2);
    return place + focal.masked_fill((best > 0.5).logical_and(there == 0), 0.0).sum() / 3;
  });
  NoGrad no_grad;
  auto [predicted, score] = predict(0);
  Tensor boxes = predicted[0], scores = score[0], alive = ones({12}, boolean);
  auto thin = [&](const Tensor &alive) {
    Tensor best = where(alive, scores, -INFINITY).argmax();
    return std::pair(alive.logical_and(overlap(boxes, boxes.index({best})) < 0.3)
                         .logical_and(arange(12) != best),
                     best);
  };
  std::vector<int64_t> kept;
  while (alive.any().item<bool>()) {
    Tensor best;
    std::tie(alive, best) = thin(alive);
    kept.push_back(best.item<int64_t>());
  }
  EXPECT_EQ(kept, run["kept"].to_vector<int64_t>());
  ThreeWays{.calls = 3, .fed_back = 1}.compare(thin, ones({12}, boolean));
}

TEST(Learning, AnEquilibriumDifferentiatedAtTheFixedPoint) {
  TrainingRun run{.file = file(), .name = "equilibrium"};
  Layers cell = run.started(Layers({8, 8}));
  nn::Linear head(8, 3);
  head.load_state(run.file.under("equilibrium.head.start"));
  optim::Adam optimizer(joined(cell.parameters(), head.parameters()), {.lr = 1e-2});
  auto next = [&](const Tensor &z, const Tensor &x) {
    return tanh(0.5 * cell(z) + x);
  };
  auto settle = [&](const Tensor &x, auto &&settled) {
    NoGrad no_grad;
    Tensor z = zeros({6, 8});
    for (int i = 0; i < 30; ++i) {
      Tensor last = z;
      z = next(z, x);
      if (settled(i, z - last))
        break;
    }
    return z;
  };
  auto learn = [&](int64_t step, const Tensor &z) {
    Tensor x = run["x"][step];
    Tensor start = z.detach().requires_grad_();
    Tensor out = next(start, x);
    Tensor loss = nn::cross_entropy(head(out), run["y"][step]);
    std::vector<Tensor> direct =
        grad({loss}, joined({out}, head.parameters()), {.retain_graph = true});
    Tensor adjoint = direct[0];
    for (int i = 0; i < 10; ++i)
      adjoint =
          direct[0] + grad({out}, {start}, {.grad_outputs = {adjoint}, .retain_graph = true})[0];
    optimizer.zero_grad();
    std::vector<Tensor> parameters = head.parameters();
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i].set_grad(direct[1 + i]);
    out.backward(adjoint);
    optimizer.step();
    return loss;
  };
  std::vector<double> expected = run["losses"].to_vector<double>();
  Compiles compiles;
  for (size_t i = 0; i < expected.size(); ++i) {
    auto step = static_cast<int64_t>(i);
    Tensor z = settle(run["x"][step], [](int, const Tensor &change) {
      return change.norm().item<float>() < 1e-4f;
    });
    ASSERT_NEAR(learn(step, z).item<double>(), expected[i], 1e-4) << step;
  }
  // The first iteration from zeros, the others, the step: each for its first slice of the data and
  // for all further ones.
  EXPECT_LE(compiles.count(), 8u);
  ThreeWays{.written = written_by(optimizer), .calls = 3}.compare(
      [&] { return learn(0, settle(run["x"][0], [](int i, const Tensor &) { return i == 7; })); });
}

} // namespace
} // namespace weft::tests
