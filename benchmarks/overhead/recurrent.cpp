#include "benchmarks/overhead/recurrent.h"

#include <map>
#include <memory>
#include <thread>

#include "benchmarks/common/contestant.h"
#include "benchmarks/common/report.h"
#include "weft/nn/nn.h"
#include "weft/optim/optim.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

constexpr int64_t kLength = 50, kBatch = 16, kHidden = 128, kClasses = 64;
constexpr int kSteps = 10; // a round
constexpr const char *kCase = "lstm_step";

struct Net : nn::Module {
  nn::Embedding embedding = child("embedding", nn::Embedding(kClasses, kHidden));
  nn::LSTM lstm = child("lstm", nn::LSTM(kHidden, kHidden, {.batch_first = true}));
  nn::Linear head = child("head", nn::Linear(kHidden, kClasses));
  Tensor loss(const Tensor &inputs, const Tensor &targets) const {
    return cross_entropy(head(lstm(embedding(inputs)).output).reshape({-1, kClasses}),
                         targets.reshape({-1}));
  }
};

// Those that have the step, ready for it.
std::vector<std::unique_ptr<Contestant>> started(const std::vector<std::string> &commands) {
  std::vector<std::unique_ptr<Contestant>> ready;
  for (const std::string &command : commands) {
    std::unique_ptr<Contestant> peer = start_contestant(command);
    peer->wait_ready();
    if (peer->choose(kCase))
      ready.push_back(std::move(peer));
    else
      std::fprintf(stderr, "  %s has no %s: %s\n", peer->impl().c_str(), kCase,
                   peer->reason().c_str());
  }
  return ready;
}

} // namespace

void recurrent(Report &report, int rounds, int threads, const std::vector<std::string> &commands) {
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
  std::vector<std::unique_ptr<Contestant>> peers = started(commands);
  std::vector<double> recorded;
  std::map<std::string, std::vector<double>> whole; // of a step, by contestant
  for (int round = 0; round <= rounds; ++round) {
    for (bool replay : {false, true}) {
      std::this_thread::sleep_for(kBetweenTurns);
      double before = 0, start = now();
      for (int i = 0; i < kSteps; ++i) {
        double begin = now();
        Tensor loss = replay ? jitted(inputs, targets) : step(inputs, targets);
        before += now() - begin;
        loss.item<float>();
      }
      if (round == 0)
        continue; // compiles
      whole[replay ? "weft-jit" : "weft"].push_back((now() - start) / kSteps);
      if (!replay)
        recorded.push_back(before / kSteps);
    }
    for (auto &peer : peers) {
      std::this_thread::sleep_for(kBetweenTurns);
      double seconds = peer->run(kSteps) / kSteps;
      if (round > 0)
        whole[peer->impl()].push_back(seconds);
    }
  }
  std::vector<std::string> impls = {"weft", "weft-jit"};
  for (auto &peer : peers)
    impls.push_back(peer->impl());
  for (const std::string &impl : impls)
    report.add({"overhead", kCase, impl, "time", "ms", 1e3 * median(whole[impl]), threads, kBatch});
  report.add({"overhead", "lstm_step_before_it_runs", "weft", "time", "ms", 1e3 * median(recorded),
              threads, kBatch});
  for (const char *own : {"weft", "weft-jit"})
    for (auto &peer : peers)
      std::fprintf(stderr, "  %s / %s: %.2f\n", own, peer->impl().c_str(),
                   median(whole[own]) / median(whole[peer->impl()]));
}

} // namespace weft::benchmarks
