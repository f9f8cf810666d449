#include "benchmarks/overhead/recurrent.h"

#include "benchmarks/common/report.h"
#include "weft/nn/nn.h"
#include "weft/optim/optim.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

constexpr int64_t kLength = 50, kBatch = 16, kHidden = 128, kClasses = 64;
constexpr int kSteps = 10; // a round

struct Net : nn::Module {
  nn::Embedding embedding = child("embedding", nn::Embedding(kClasses, kHidden));
  nn::LSTM lstm = child("lstm", nn::LSTM(kHidden, kHidden, {.batch_first = true}));
  nn::Linear head = child("head", nn::Linear(kHidden, kClasses));
  Tensor loss(const Tensor &inputs, const Tensor &targets) const {
    return cross_entropy(head(lstm(embedding(inputs)).output).reshape({-1, kClasses}),
                         targets.reshape({-1}));
  }
};

} // namespace

void recurrent(Report &report, int rounds, int threads) {
  Net net;
  optim::AdamW optimizer(net.parameters());
  Tensor inputs = randint(0, kClasses, {kBatch, kLength}),
         targets = randint(0, kClasses, {kBatch, kLength});
  eval({inputs, targets});
  auto step = [&](const Tensor &x, const Tensor &y) {
    Tensor loss = net.loss(x, y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto jitted = jit(step);
  std::vector<double> recorded, whole[2];
  for (int round = 0; round <= rounds; ++round)
    for (bool replay : {false, true}) {
      double before = 0, start = now();
      for (int i = 0; i < kSteps; ++i) {
        double begin = now();
        Tensor loss = replay ? jitted(inputs, targets) : step(inputs, targets);
        before += now() - begin;
        loss.item<float>();
      }
      if (round == 0)
        continue; // compiles
      whole[replay].push_back((now() - start) / kSteps);
      if (!replay)
        recorded.push_back(before / kSteps);
    }
  report.add(
      {"overhead", "lstm_step", "weft", "time", "ms", 1e3 * median(whole[0]), threads, kBatch});
  report.add({"overhead", "lstm_step_before_it_runs", "weft", "time", "ms", 1e3 * median(recorded),
              threads, kBatch});
  report.add(
      {"overhead", "lstm_step_jit", "weft", "time", "ms", 1e3 * median(whole[1]), threads, kBatch});
}

} // namespace weft::benchmarks
