// Networks that decide by numbers where rows go (experts, edges, words), and flows, trained as
// users write them, against the losses that PyTorch has
// (tests/golden/make_golden_architectures.py).
#include <numbers>

#include "tests/programs/training_run.h"
#include "weft/nn/nn.h"

namespace weft::tests {
namespace {

const golden::GoldenFile &file() {
  static const golden::GoldenFile file("architectures.safetensors");
  return file;
}

struct Coupling : nn::Module {
  nn::Linear up = child("up", nn::Linear(3, 16)), down = child("down", nn::Linear(16, 6));
  std::pair<Tensor, Tensor> operator()(const Tensor &x, const Tensor &mask) const {
    auto parts = down(tanh(up(x * mask))).chunk(2, 1);
    Tensor s = tanh(parts[0]) * (1 - mask);
    return {x * exp(s) + parts[1] * (1 - mask), s.sum(1)};
  }
  Tensor inverse(const Tensor &y, const Tensor &mask) const {
    auto parts = down(tanh(up(y * mask))).chunk(2, 1);
    return (y - parts[1] * (1 - mask)) * exp(-tanh(parts[0]) * (1 - mask));
  }
};

struct Flow : nn::Module {
  std::vector<Coupling> layers = {child("layer0", Coupling()), child("layer1", Coupling()),
                                  child("layer2", Coupling())};
};

TEST(RoutingNetworks, AFlowThatCanBeTurnedBack) {
  TrainingRun run{file(), "flow"};
  Flow model = run.started(Flow());
  Tensor masks = run["masks"];
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  auto through = [&](const Tensor &x) {
    Tensor z = x, volume = zeros({16});
    for (size_t i = 0; i < 3; ++i) {
      auto [next, more] = model.layers[i](z, masks[i]);
      z = next;
      volume = volume + more;
    }
    return std::pair(z, volume);
  };
  run.train(optimizer, [&](int64_t step) {
    auto [z, volume] = through(run["x"][step]);
    return (0.5 * z.square().sum(1) + 1.5 * std::log(2 * std::numbers::pi) - volume).mean();
  });
  NoGrad no_grad;
  auto there_and_back = [&](const Tensor &x) {
    Tensor back = through(x).first;
    for (size_t i = 3; i-- > 0;)
      back = model.layers[i].inverse(back, masks[i]);
    return back;
  };
  Tensor x = run["x"][0];
  EXPECT_LT(golden::relative_distance(there_and_back(x), x), 1e-5);
  ThreeWays().compare(there_and_back, x);
}

struct Field : nn::Module {
  nn::Linear up = child("up", nn::Linear(3, 24)), down = child("down", nn::Linear(24, 2));
  Tensor operator()(const Tensor &t, const Tensor &x) const {
    return down(tanh(up(cat({x, t.expand({x.size(0), 1})}, 1))));
  }
};

TEST(RoutingNetworks, APathThroughALearnedField) {
  TrainingRun run{.file = file(), .name = "ode", .most_compiles = 6};
  Field model = run.started(Field());
  optim::RMSprop optimizer(model.parameters(), {.lr = 5e-3});
  run.train(optimizer, [&](int64_t step) {
    int64_t n = 2 + step % 3;
    double h = 1.0 / static_cast<double>(n);
    Tensor z = run["x"][step];
    for (int64_t i = 0; i < n; ++i) {
      Tensor t = scalar(static_cast<double>(i) * h);
      Tensor a = model(t, z), b = model(t + h / 2, z + h / 2 * a),
             c = model(t + h / 2, z + h / 2 * b), d = model(t + h, z + h * c);
      z = z + h / 6 * (a + 2 * b + 2 * c + d);
    }
    return nn::smooth_l1_loss(z, run["y"][step]);
  });
}

struct Experts : nn::Module {
  nn::Linear gate = child("gate", nn::Linear(6, 4, {.bias = false}));
  nn::Parameter up = parameter("up", zeros({4, 6, 12})),
                down = parameter("down", zeros({4, 12, 6}));
};

TEST(RoutingNetworks, TheTwoBestOfFourExpertsForEachRow) {
  TrainingRun run{file(), "experts"};
  Experts model = run.started(Experts());
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  constexpr int64_t kRoom = 6;
  run.train(optimizer, [&](int64_t step) {
    Tensor x = run["x"][step], share = model.gate(x).softmax(1);
    Tensor first = share.argmax(1),
           second = share.masked_fill(one_hot(first, 4) == 1, -1.0).argmax(1);
    Tensor expert = stack({first, second}, 1), value = gather(share, 1, expert);
    value = value / value.sum(1, true);
    Tensor flat = expert.t().flatten(), chosen = one_hot(flat, 4);
    Tensor place = (chosen.cumsum(0) * chosen).sum(1) - 1;
    Tensor slot = where(place < kRoom, flat * kRoom + place, 4 * kRoom);
    Tensor buffer = index_put(zeros({4 * kRoom + 1, 6}), {slot}, cat({x, x}))
                        .narrow(0, 0, 4 * kRoom)
                        .reshape({4, kRoom, 6});
    Tensor out = matmul(relu(matmul(buffer, model.up)), model.down).reshape({4 * kRoom, 6});
    out = cat({out, zeros({1, 6})}).index({slot}) * value.t().flatten().unsqueeze(1);
    Tensor result = index_put(zeros({10, 6}), {arange(20) % 10}, out, true);
    Tensor spread = 4 * (one_hot(first, 4).to(float32).mean(0) * share.mean(0)).sum();
    return nn::mse(result, run["y"][step]) + 0.01 * spread;
  });
}

struct Gat : nn::Module {
  nn::Linear w = child("w", nn::Linear(5, 8, {.bias = false})),
             head = child("head", nn::Linear(8, 3));
  nn::Parameter a = parameter("a", zeros({8})), b = parameter("b", zeros({8}));
};

TEST(RoutingNetworks, AttentionOverTheEdgesOfAGraph) {
  TrainingRun run{.file = file(), .name = "gat", .most_compiles = 1};
  Gat model = run.started(Gat());
  Tensor x = run["x"], source = run["source"], target = run["target"], labels = run["labels"];
  optim::Adam optimizer(model.parameters(), {.lr = 2e-2});
  run.train(optimizer, [&](int64_t) {
    Tensor h = model.w(x);
    Tensor score = leaky_relu(
        (h * model.a).sum(1).index({source}) + (h * model.b).sum(1).index({target}), 0.2);
    Tensor weight = exp(score - score.detach().max());
    Tensor total = scatter_add(zeros({14}), 0, target, weight);
    Tensor arrived = (weight / total.index({target})).unsqueeze(1) * h.index({source});
    h = index_put(zeros({14, 8}), {target}, arrived, true);
    return nn::cross_entropy(model.head(elu(h)), labels);
  });
}

struct Words : nn::Module {
  nn::Embedding inner = child("inner", nn::Embedding(300, 8)),
                outer = child("outer", nn::Embedding(300, 8));
};

TEST(RoutingNetworks, WordsAmongOthers) {
  TrainingRun run{file(), "words"};
  Words model = run.started(Words());
  optim::Adagrad optimizer(model.parameters(), {.lr = 0.1});
  run.train(optimizer, [&](int64_t step) {
    Tensor c = model.inner(run["center"][step]);
    Tensor near = (c * model.outer(run["context"][step])).sum(1);
    Tensor far = matmul(model.outer(run["other"][step]), c.unsqueeze(2)).squeeze(2);
    return -(log_sigmoid(near) + log_sigmoid(-far).sum(1)).mean();
  });
}

} // namespace
} // namespace weft::tests
