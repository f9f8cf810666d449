// Trajectories of optimizers, gradient clipping and the cosine schedule against PyTorch's, from the
// same gradients.
#include "tests/golden/golden_file.h"
#include "weft/optim/optim.h"

namespace weft::golden {
namespace {

class OptimizersTest : public testing::Test {
protected:
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> made;
    for (int i = 0; i < 2; ++i)
      made.push_back(file_["start." + std::to_string(i)].clone().requires_grad_());
    return made;
  }
  Tensor gradient(int i, int64_t step) const {
    return file_["grads." + std::to_string(i)].select(0, step);
  }
  int64_t steps() const {
    return file_["grads.0"].size(0);
  }

  // Steps with the golden gradients; before each, rate(step) where given.
  template <typename Optimizer, typename Options>
  void check(const std::string &name, Options options,
             std::function<double(int64_t)> rate = nullptr) {
    std::vector<Tensor> tensors = parameters();
    Optimizer optimizer(tensors, options);
    for (int64_t step = 0; step < steps(); ++step) {
      optimizer.zero_grad();
      if (rate)
        optimizer.set_lr(rate(step));
      for (int i = 0; i < 2; ++i)
        tensors[i].set_grad(gradient(i, step));
      optimizer.step();
      for (int i = 0; i < 2; ++i)
        EXPECT_LT(relative_distance(tensors[i].detach(),
                                    file_[name + "." + std::to_string(i)].select(0, step)),
                  2e-6)
            << name << ", parameter " << i << " after step " << step;
    }
  }

  GoldenFile file_{"optim.safetensors"};
};

TEST_F(OptimizersTest, Sgd) {
  check<optim::SGD>("sgd", optim::SGDOptions{.lr = 0.1});
  check<optim::SGD>("sgd_momentum", optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  check<optim::SGD>("sgd_momentum_decay",
                    optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05});
  check<optim::SGD>("sgd_nesterov",
                    optim::SGDOptions{.lr = 0.1, .momentum = 0.8, .nesterov = true});
  check<optim::SGD>("sgd_dampening",
                    optim::SGDOptions{.lr = 0.1, .momentum = 0.8, .dampening = 0.3});
}

TEST_F(OptimizersTest, AdamW) {
  check<optim::AdamW>("adamw", optim::AdamWOptions{.lr = 1e-2});
  check<optim::AdamW>(
      "adamw_options",
      optim::AdamWOptions{
          .lr = 3e-2, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1});
}

TEST_F(OptimizersTest, Others) {
  check<optim::SGD>(
      "sgd_nesterov_decay",
      optim::SGDOptions{.lr = 0.1, .momentum = 0.8, .weight_decay = 0.05, .nesterov = true});
  check<optim::Adam>("adam", optim::AdamOptions{.lr = 1e-2});
  check<optim::Adam>(
      "adam_options",
      optim::AdamOptions{
          .lr = 3e-2, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1});
  check<optim::RMSprop>("rmsprop", optim::RMSpropOptions{});
  check<optim::RMSprop>("rmsprop_options", optim::RMSpropOptions{.lr = 1e-2,
                                                                 .alpha = 0.9,
                                                                 .eps = 1e-4,
                                                                 .weight_decay = 0.1,
                                                                 .momentum = 0.8,
                                                                 .centered = true});
  check<optim::Adagrad>("adagrad", optim::AdagradOptions{.lr = 0.1});
  check<optim::Adagrad>("adagrad_options", optim::AdagradOptions{.lr = 0.1,
                                                                 .lr_decay = 0.05,
                                                                 .weight_decay = 0.1,
                                                                 .initial_accumulator = 0.2,
                                                                 .eps = 1e-6});
  check<optim::Lion>("lion", optim::LionOptions{.lr = 1e-2, .weight_decay = 0.1});
}

TEST_F(OptimizersTest, Schedules) {
  auto schedule = [&](const std::string &name, std::function<double(int64_t)> rate) {
    std::vector<double> rates = file_[name + ".rates"].to_vector<double>();
    for (size_t step = 0; step < rates.size(); ++step)
      EXPECT_NEAR(rate(step), rates[step], 1e-12) << name << " " << step;
    check<optim::SGD>(name, optim::SGDOptions{.lr = 0.2}, rate);
  };
  schedule("sgd_linear", [](int64_t step) {
    return optim::linear_lr(step, {.lr = 0.2, .start_share = 0.25, .total = 5});
  });
  schedule("sgd_step", [](int64_t step) {
    return optim::step_lr(step, {.lr = 0.2, .every = 4, .gamma = 0.3});
  });
  schedule("sgd_exponential", [](int64_t step) { return optim::exponential_lr(step, 0.2, 0.8); });
}

TEST_F(OptimizersTest, ExponentialMovingAverage) {
  std::vector<Tensor> tensors = parameters();
  optim::SGD optimizer(tensors, {.lr = 0.1});
  optim::ExponentialMovingAverage average({tensors[0]}, 0.9);
  for (int64_t step = 0; step < steps(); ++step) {
    for (int i = 0; i < 2; ++i)
      tensors[i].set_grad(gradient(i, step));
    optimizer.step();
    average.update();
    EXPECT_LT(relative_distance(average.averages()[0], file_["ema.0"].select(0, step)), 2e-6)
        << step;
  }
  Tensor last = tensors[0].detach().clone(), mean = average.averages()[0].clone();
  average.swap();
  EXPECT_EQ(relative_distance(tensors[0].detach(), mean), 0);
  EXPECT_EQ(relative_distance(average.averages()[0], last), 0);
}

TEST_F(OptimizersTest, CosineSchedule) {
  // PyTorch's eta_min as a share of the highest rate.
  optim::CosineOptions options{.lr = 0.2, .total = steps(), .final_share = 0.01 / 0.2};
  std::vector<double> rates = file_["sgd_cosine.rates"].to_vector<double>();
  for (size_t step = 0; step < rates.size(); ++step)
    EXPECT_NEAR(optim::cosine_lr(step, options), rates[step], 1e-12) << step;
  check<optim::SGD>("sgd_cosine", optim::SGDOptions{.lr = 0.2},
                    [&](int64_t step) { return optim::cosine_lr(step, options); });
}

TEST_F(OptimizersTest, ClipGradNorm) {
  for (auto [name, limit] : {std::pair("clip", 1.0), std::pair("clip_loose", 100.0)}) {
    std::vector<Tensor> tensors = parameters();
    for (int i = 0; i < 2; ++i)
      tensors[i].set_grad(gradient(i, 0));
    Tensor norm = optim::clip_grad_norm(tensors, limit);
    EXPECT_NEAR(norm.item<double>(), file_[std::string(name) + ".norm"].item<double>(), 1e-5)
        << name;
    for (int i = 0; i < 2; ++i)
      EXPECT_LT(
          relative_distance(tensors[i].grad(), file_[std::string(name) + "." + std::to_string(i)]),
          1e-6)
          << name << " " << i;
  }
}

} // namespace
} // namespace weft::golden
