// Networks on images, trained as users write them, against the losses that PyTorch has
// (tests/golden/make_golden_architectures.py).
#include "tests/programs/training_run.h"
#include "weft/nn/nn.h"

namespace weft::tests {
namespace {

const golden::GoldenFile &file() {
  static const golden::GoldenFile file("architectures.safetensors");
  return file;
}

// PyTorch counts the batches that a normalization has seen; weft's does not.
template <typename M> M started(const std::string &run, M model) {
  auto state = file().under(run + ".start");
  std::erase_if(state,
                [](const auto &entry) { return entry.first.ends_with("num_batches_tracked"); });
  model.load_state(state);
  return model;
}

nn::Sequential block(int64_t in, int64_t out) {
  return nn::Sequential(nn::Conv2d(in, out, 3, {.padding = 1}), nn::GroupNorm(2, out), nn::SiLU());
}

struct UNet : nn::Module {
  nn::Sequential enter = child("enter", block(2, 8)), down = child("down", block(8, 12)),
                 deep = child("deep", block(12, 16));
  nn::ConvTranspose2d up = child("up", nn::ConvTranspose2d(16, 12, 2, {.stride = 2}));
  nn::Sequential join = child("join", block(24, 12)), leave = child("leave", block(20, 8));
  nn::Conv2d head = child("head", nn::Conv2d(8, 1, 1));
  Tensor operator()(const Tensor &x) const {
    Tensor a = enter(x), b = down(max_pool2d(a, 2)), c = deep(avg_pool2d(b, 2));
    Tensor d = join(cat({up(c), b}, 1));
    Tensor e = resize(d, {a.size(2), a.size(3)}, {.mode = Resize::kBilinear});
    return head(leave(cat({e, a}, 1)));
  }
};

TEST(ImageNetworks, AUNetThatSegments) {
  TrainingRun run{.file = file(), .name = "unet", .most_compiles = 3};
  UNet model = run.started(UNet());
  optim::AdamW optimizer(model.parameters(), {.lr = 5e-3});
  run.train(optimizer, [&](int64_t step) {
    Tensor y = run["y"][step], logits = model(run["x"][step]).select(1, 0), p = sigmoid(logits);
    Tensor dice = 1 - 2 * (p * y).sum() / (p.sum() + y.sum() + 1);
    return nn::binary_cross_entropy_with_logits(logits, y) + dice;
  });
}

struct ViT : nn::Module {
  nn::Parameter token = parameter("token", zeros({1, 1, 16})),
                places = parameter("places", zeros({1, 10, 16}));
  nn::Conv2d patches = child("patches", nn::Conv2d(3, 16, 4, {.stride = 4}));
  nn::TransformerBlock block0 = child("block0", nn::TransformerBlock(16, 4)),
                       block1 = child("block1", nn::TransformerBlock(16, 4));
  nn::LayerNorm norm = child("norm", nn::LayerNorm(16));
  nn::Linear head = child("head", nn::Linear(16, 5));
  // seen: which patches may be looked at, [batch, patches].
  Tensor operator()(const Tensor &images, const Tensor &seen) const {
    Tensor x = patches(images).flatten(2).transpose(1, 2);
    x = cat({token.expand({x.size(0), -1, -1}), x}, 1) + places;
    Tensor mask =
        cat({ones({x.size(0), 1}, boolean), seen}, 1).index({Slice(), None, None, Slice()});
    return head(norm(block1(block0(x, mask), mask)).select(1, 0));
  }
};

TEST(ImageNetworks, AVisionTransformerThatSeesSomePatches) {
  TrainingRun run{.file = file(), .name = "vit", .clip = 1};
  ViT model = run.started(ViT());
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  run.train(optimizer, [&](int64_t step) {
    return nn::cross_entropy(model(run["x"][step], run["seen"][step]), run["y"][step]);
  });
}

struct Dense : nn::Module {
  nn::Conv2d stem = child("stem", nn::Conv2d(3, 8, 3, {.padding = 1, .bias = false}));
  std::vector<nn::BatchNorm2d> norms;
  std::vector<nn::Conv2d> convs;
  nn::Conv2d depth =
      child("depth", nn::Conv2d(24, 24, 3, {.stride = 2, .padding = 1, .groups = 24}));
  nn::Linear squeeze = child("squeeze", nn::Linear(24, 6)),
             excite = child("excite", nn::Linear(6, 24)), head = child("head", nn::Linear(24, 4));
  Dense() {
    for (int64_t i = 0; i < 4; ++i) {
      norms.push_back(child("norm" + std::to_string(i), nn::BatchNorm2d(8 + 4 * i)));
      convs.push_back(child("conv" + std::to_string(i),
                            nn::Conv2d(8 + 4 * i, 4, 3, {.padding = 1, .bias = false})));
    }
  }
  Tensor operator()(const Tensor &images) const {
    Tensor x = stem(images);
    for (size_t i = 0; i < 4; ++i)
      x = cat({x, convs[i](relu(norms[i](x)))}, 1);
    x = hardswish(depth(x));
    Tensor gate = sigmoid(excite(relu(squeeze(x.mean({2, 3})))));
    return head((x * gate.unsqueeze(2).unsqueeze(3)).mean({2, 3}));
  }
};

TEST(ImageNetworks, ADenseNetWithASqueezeAndExciteGate) {
  TrainingRun run{file(), "dense"};
  Dense model = started("dense", Dense());
  for (const auto &[name, buffer] : model.named_buffers())
    run.written.push_back(buffer);
  optim::SGD optimizer(model.parameters(),
                       {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
  run.train(optimizer,
            [&](int64_t step) { return nn::cross_entropy(model(run["x"][step]), run["y"][step]); });
  EXPECT_LT(golden::relative_distance(model.norms[3].running_mean, run["mean"]), 1e-3);
  EXPECT_LT(golden::relative_distance(model.norms[3].running_var, run["var"]), 1e-3);
  model.eval();
  NoGrad no_grad;
  EXPECT_LT(golden::relative_distance(model(run["x"][0]), run["evaluated"]), 1e-3);
  ThreeWays().compare(model, run["x"][0]);
}

struct Twin : nn::Module {
  nn::Conv2d conv = child("conv", nn::Conv2d(1, 6, 3, {.stride = 2}));
  nn::Linear out = child("out", nn::Linear(54, 8));
  Tensor operator()(const Tensor &x) const {
    Tensor y = out(leaky_relu(conv(x), 0.1).flatten(1));
    return y / norm(y, 2, 1, true);
  }
};

TEST(ImageNetworks, TripletsWithTheHardestOfTheBatch) {
  TrainingRun run{file(), "siamese"};
  Twin model = run.started(Twin());
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  Tensor label = run["label"];
  run.train(optimizer, [&](int64_t step) {
    Tensor e = model(run["x"][step]);
    Tensor distance = sqrt((e.unsqueeze(1) - e.unsqueeze(0)).square().sum(2) + 1e-12);
    Tensor same = label.unsqueeze(1) == label.unsqueeze(0);
    Tensor far = where(same, distance, 0.0).max(1),
           near = distance.masked_fill(same, INFINITY).min(1);
    return relu(far - near + 0.3).mean();
  });
}

struct Critic : nn::Module {
  nn::Conv2d conv0 = child("conv0", nn::Conv2d(1, 6, 4, {.stride = 2, .padding = 1})),
             conv1 = child("conv1", nn::Conv2d(6, 8, 3, {.padding = 1}));
  nn::BatchNorm2d norm = child("norm", nn::BatchNorm2d(6));
  nn::Linear out = child("out", nn::Linear(32, 1));
  Tensor operator()(const Tensor &x) const {
    Tensor h = leaky_relu(norm(conv0(x)), 0.2);
    return out(max_pool2d(silu(conv1(h)), 2).flatten(1));
  }
};

struct Maker : nn::Module {
  nn::ConvTranspose2d up = child("up", nn::ConvTranspose2d(5, 6, 4)),
                      conv =
                          child("conv", nn::ConvTranspose2d(6, 1, 4, {.stride = 2, .padding = 1}));
  nn::BatchNorm2d norm = child("norm", nn::BatchNorm2d(6));
  Tensor operator()(const Tensor &z) const {
    return tanh(conv(relu(norm(up(z.unsqueeze(2).unsqueeze(3))))));
  }
};

TEST(ImageNetworks, TwoNetworksByTurnsWithAGradientPenalty) {
  Critic critic = started("gan.critic", Critic());
  Maker maker = started("gan.maker", Maker());
  optim::Adam a(critic.parameters(), {.lr = 5e-3, .beta1 = 0.5, .beta2 = 0.9}),
      b(maker.parameters(), {.lr = 5e-3, .beta1 = 0.5, .beta2 = 0.9});
  auto learn = [&](int64_t step) {
    Tensor real = file()["gan.real"][step], z = file()["gan.z"][step],
           share = file()["gan.share"][step];
    Tensor fake = maker(z);
    Tensor between = (share * real + (1 - share) * fake.detach()).requires_grad_();
    Tensor g = grad({critic(between).sum()}, {between}, true)[0];
    Tensor penalty = (sqrt(g.flatten(1).square().sum(1) + 1e-12) - 1).square().mean();
    Tensor loss = critic(fake.detach()).mean() - critic(real).mean() + 10 * penalty;
    a.zero_grad();
    loss.backward();
    a.step();
    Tensor other = -critic(maker(z)).mean();
    b.zero_grad();
    other.backward();
    b.step();
    return std::pair(loss, other);
  };
  std::vector<double> of_critic = file()["gan.critic_losses"].to_vector<double>(),
                      of_maker = file()["gan.maker_losses"].to_vector<double>();
  Compiles compiles;
  for (size_t i = 0; i < of_critic.size(); ++i) {
    int64_t step = static_cast<int64_t>(i);
    auto [loss, other] = learn(step);
    ASSERT_NEAR(loss.item<float>(), of_critic[i], 2e-3 * std::abs(of_critic[i]) + 1e-3)
        << "step " << step;
    ASSERT_NEAR(other.item<float>(), of_maker[i], 2e-3 * std::abs(of_maker[i]) + 1e-3)
        << "step " << step;
  }
  EXPECT_LE(compiles.count(), 8u);
  ThreeWays ways{.written = written_by(a), .calls = 3};
  for (const Tensor &tensor : written_by(b))
    ways.written.push_back(tensor);
  for (const nn::NamedTensors &buffers : {critic.named_buffers(), maker.named_buffers()})
    for (const auto &[name, buffer] : buffers)
      ways.written.push_back(buffer);
  ways.compare(learn, int64_t(0));
}

struct Small : nn::Module {
  nn::Conv2d conv = child("conv", nn::Conv2d(1, 4, 3, {.padding = 1}));
  nn::BatchNorm2d norm = child("norm", nn::BatchNorm2d(4));
  nn::Linear out = child("out", nn::Linear(64, 3));
  Tensor operator()(const Tensor &x) const {
    return out(max_pool2d(tanh(norm(conv(x))), 2).flatten(1));
  }
};

// Second derivatives through a convolution, batch norm and max pooling.
TEST(ImageNetworks, CurvatureOfALoss) {
  TrainingRun run{file(), "curvature"};
  Small model = started(run.name, Small());
  std::vector<Tensor> parameters = model.parameters();
  // The Hessian's products with a vector, and the derivatives of the gradient's norm.
  auto differentiate = [&] {
    std::vector<Tensor> g = grad({nn::cross_entropy(model(run["x"]), run["y"])}, parameters, true);
    Tensor along = zeros({}), size = zeros({});
    for (size_t k = 0; k < g.size(); ++k) {
      along = along + (g[k] * run["vector" + std::to_string(k)]).sum();
      size = size + g[k].square().sum();
    }
    std::vector<Tensor> products = grad({along}, parameters, {.retain_graph = true}),
                        norms = grad({sqrt(size)}, parameters);
    return std::pair(products, norms);
  };
  Compiles compiles;
  uint64_t known = 0;
  for (int i = 0; i < 3; ++i) {
    auto [products, norms] = differentiate();
    std::vector<Tensor> all = products;
    all.insert(all.end(), norms.begin(), norms.end());
    eval(all);
    for (size_t k = 0; k < products.size(); ++k) {
      // The batch takes away what the convolution's bias adds: its derivatives are rounding errors.
      Tensor product = run["product" + std::to_string(k)],
             of_norm = run["norm" + std::to_string(k)];
      EXPECT_LT((products[k] - product).abs().max().item<double>(),
                1e-4 * product.abs().max().item<double>() + 1e-4)
          << k;
      EXPECT_LT((norms[k] - of_norm).abs().max().item<double>(),
                1e-4 * of_norm.abs().max().item<double>() + 1e-4)
          << k;
    }
    if (i == 1)
      known = compiles.count(); // with the programs that compare
  }
  EXPECT_EQ(compiles.count(), known);
  ThreeWays ways;
  for (const auto &[name, buffer] : model.named_buffers())
    ways.written.push_back(buffer);
  ways.compare(differentiate);
}

} // namespace
} // namespace weft::tests
