// Optimizers beside PyTorch's numbers, and what their states hold.
#include <cmath>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/optim/optim.h"
#include "weft/weft.h"

namespace weft::optim {
namespace {

using testing_support::message_of;

// Parameters after 1, 5 and 12 steps of PyTorch 2.15 on the CPU: [1, -2, 0.5] in float32, with the
// gradient sin(1.7 step + 2.3 element), steps from 0, and foreach = False.
struct Trained {
  const char *name;
  std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor> &)> make;
  std::vector<float> expected;
};

template <typename Opt, typename Options> auto maker(const Options &options) {
  return [options](const std::vector<Tensor> &parameters) -> std::unique_ptr<Optimizer> {
    return std::make_unique<Opt>(parameters, options);
  };
}

const std::vector<Trained> &trained() {
  static const std::vector<Trained> all = {
      {"SGD, maximize",
       maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .maximize = true}),
       {0.99000001f, -1.9054295f, 0.3956309f, 1.0099185f, -1.6494181f, 0.17247283f, 0.70816898f,
        -0.94545096f, -0.04288489f}},
      {"RMSprop, maximize",
       maker<RMSprop>(RMSpropOptions{.lr = 0.01, .maximize = true}),
       {1.f, -1.9f, 0.40000001f, 1.0415159f, -1.9361333f, 0.3987132f, 1.030009f, -1.9433534f,
        0.42115605f}},
      {"Adagrad, maximize",
       maker<Adagrad>(AdagradOptions{.lr = 0.1, .lr_decay = 0.1, .maximize = true}),
       {1.f, -1.9f, 0.40000001f, 1.0425979f, -1.9420151f, 0.40703866f, 1.0402957f, -1.9534464f,
        0.42537716f}},
      {"Adam, amsgrad",
       maker<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.05, .amsgrad = true}),
       {0.90000004f, -2.0999999f, 0.60000002f, 0.77234548f, -2.0410635f, 0.67852831f, 0.69590563f,
        -1.9388849f, 0.67621845f}},
      {"Adam, maximize",
       maker<Adam>(AdamOptions{.lr = 0.1, .maximize = true}),
       {1.f, -1.9f, 0.40000001f, 1.1059014f, -1.9044602f, 0.30739164f, 1.1432357f, -1.9093113f,
        0.27858472f}},
      {"Adam, decoupled",
       maker<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.2, .decoupled_weight_decay = true}),
       {0.98000002f, -2.0599999f, 0.58999997f, 0.80367291f, -1.8970399f, 0.63322496f, 0.66446191f,
        -1.6436177f, 0.57673049f}},
      {"AdamW, amsgrad",
       maker<AdamW>(AdamWOptions{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.6, .amsgrad = true}),
       {0.99900001f, -2.098f, 0.5995f, 0.91207421f, -2.0762382f, 0.66765577f, 0.88669497f,
        -2.0546579f, 0.670865f}},
      {"AdamW, maximize",
       maker<AdamW>(AdamWOptions{.lr = 0.1, .maximize = true}),
       {0.99900001f, -1.898f, 0.39950001f, 1.1006238f, -1.8948077f, 0.30547863f, 1.1300629f,
        -1.886351f, 0.2746326f}},
      {"NAdam",
       maker<NAdam>(NAdamOptions{}),
       {1.f, -2.0021131f, 0.50211287f, 0.99904776f, -2.0016854f, 0.50262547f, 0.99946022f,
        -2.0018356f, 0.50236964f}},
      {"NAdam, all options",
       maker<NAdam>(NAdamOptions{.lr = 0.1,
                                 .beta1 = 0.8,
                                 .beta2 = 0.95,
                                 .eps = 1e-3,
                                 .weight_decay = 0.2,
                                 .momentum_decay = 0.3}),
       {0.89072353f, -2.1095061f, 0.60970008f, 0.77795929f, -1.9378628f, 0.59213942f, 0.67503703f,
        -1.6611203f, 0.48336068f}},
      {"NAdam, decoupled",
       maker<NAdam>(NAdamOptions{
           .lr = 0.05, .weight_decay = 0.2, .decoupled_weight_decay = true, .maximize = true}),
       {0.99000001f, -1.9271774f, 0.44217741f, 0.97385126f, -1.8607306f, 0.41137284f, 0.89667279f,
        -1.7289176f, 0.38829142f}},
      {"NAdam, momentum_decay 0",
       maker<NAdam>(NAdamOptions{.lr = 0.05, .momentum_decay = 0}),
       {1.f, -2.0528212f, 0.55282134f, 0.9761982f, -2.0421324f, 0.56564486f, 0.98654085f,
        -2.0459092f, 0.55924946f}},
      {"NAdam, beta1 0",
       maker<NAdam>(NAdamOptions{.lr = 0.05, .beta1 = 0, .beta2 = 0.9}),
       {1.f, -2.05f, 0.55000001f, 0.98083848f, -2.0427871f, 0.56783146f, 1.006862f, -2.0504887f,
        0.54870415f}},
      {"RAdam",
       maker<RAdam>(RAdamOptions{.lr = 0.1}),
       {1.f, -2.0745704f, 0.59936911f, 0.93023705f, -2.0717256f, 0.66534114f, 0.92919147f,
        -2.0718954f, 0.66654384f}},
      {"RAdam, all options",
       maker<RAdam>(
           RAdamOptions{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.2}),
       {0.98000002f, -2.0345705f, 0.58936912f, 0.84129208f, -1.8688458f, 0.5977152f, 0.7908985f,
        -1.7718991f, 0.56668729f}},
      {"RAdam, decoupled",
       maker<RAdam>(RAdamOptions{
           .lr = 0.05, .weight_decay = 0.2, .decoupled_weight_decay = true, .maximize = true}),
       {0.99000001f, -1.9427148f, 0.44531545f, 0.98491395f, -1.8673376f, 0.39540821f, 0.91849613f,
        -1.7403855f, 0.36796078f}},
      {"RAdam, beta2 too small",
       maker<RAdam>(RAdamOptions{.lr = 0.05, .beta2 = 0.6}),
       {1.f, -2.0372853f, 0.54968452f, 0.96511853f, -2.0358629f, 0.58267051f, 0.95237178f,
        -2.0341401f, 0.59312171f}},
  };
  return all;
}

TEST(Optimizer, TrainsAsPyTorchs) {
  for (bool reload : {false, true})
    for (const Trained &each : trained()) {
      SCOPED_TRACE(each.name);
      Tensor parameter = tensor({1.f, -2.f, 0.5f}).requires_grad_();
      std::unique_ptr<Optimizer> optimizer = each.make({parameter});
      std::vector<float> seen;
      for (int step = 0; step < 12; ++step) {
        std::vector<float> gradient;
        for (int i = 0; i < 3; ++i)
          gradient.push_back(static_cast<float>(std::sin(1.7 * step + 2.3 * i)));
        parameter.set_grad(Tensor::from(gradient));
        optimizer->step();
        if (reload) {
          nn::NamedTensors state = optimizer->state();
          optimizer = each.make({parameter});
          optimizer->load_state(state);
        }
        if (step == 0 || step == 4 || step == 11)
          for (float value : parameter.to_vector<float>())
            seen.push_back(value);
      }
      for (size_t i = 0; i < each.expected.size(); ++i)
        EXPECT_NEAR(seen[i], each.expected[i], 1e-6) << "value " << i << ", reload " << reload;
    }
}

TEST(Optimizer, StatesHaveThesePartsEach) {
  auto names = [](const Optimizer &optimizer) {
    std::string all;
    for (const auto &[name, tensor] : optimizer.state())
      all += name + " ";
    return all;
  };
  std::vector<Tensor> one = {tensor({1.f}).requires_grad_()};
  EXPECT_EQ(names(Adam(one)), "lr step exp_avg.0 exp_avg_sq.0 ");
  EXPECT_EQ(names(Adam(one, {.amsgrad = true})),
            "lr step exp_avg.0 exp_avg_sq.0 max_exp_avg_sq.0 ");
  EXPECT_EQ(names(NAdam(one)), "lr step exp_avg.0 exp_avg_sq.0 ");
  EXPECT_EQ(names(RAdam(one)), "lr step exp_avg.0 exp_avg_sq.0 ");
  for (const auto &call : std::vector<std::function<void()>>{
           [&] { NAdam(one, {.momentum_decay = -1}); }, [&] { NAdam(one, {.beta1 = 1}); },
           [&] { RAdam(one, {.beta2 = -0.1}); }, [&] { RAdam(one, {.eps = -1}); }})
    EXPECT_NE(message_of(call, ErrorKind::kValue), "");
}

} // namespace
} // namespace weft::optim
