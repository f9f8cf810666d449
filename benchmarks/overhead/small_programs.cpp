#include "benchmarks/overhead/small_programs.h"

#include <functional>
#include <string>
#include <thread>

#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

constexpr int kThreads = 8;
constexpr int kPrograms = 4000; // a round, of all threads together
// From next to no computing to some 30 us.
constexpr int64_t kElements[] = {1024, 4096, 16384};
constexpr int64_t kWidth = 64; // of the network: so many numbers are a row

// Computes something of x and reads it.
using Evaluate = std::function<void(const Tensor &x)>;

Tensor reduced(const Tensor &x) {
  return tanh(x * x + 0.5).sum();
}

struct Mlp : nn::Module {
  nn::Linear up = child("up", nn::Linear(kWidth, kWidth));
  nn::Linear down = child("down", nn::Linear(kWidth, 8));
  Tensor operator()(const Tensor &x) {
    return down(relu(up(x.reshape({-1, kWidth}))));
  }
};

double seconds(const Evaluate &evaluate, const std::vector<Tensor> &xs, int count) {
  double start = now();
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < kPrograms / count; ++k)
        evaluate(xs[static_cast<size_t>(i)]);
    });
  for (std::thread &thread : threads)
    thread.join();
  return now() - start;
}

void measure(Report &report, const std::string &what, const Evaluate &evaluate,
             const std::vector<Tensor> &xs, int rounds, int threads) {
  // Until programs are compiled, and what is prepared of weights is there.
  for (int i = 0; i < 8; ++i)
    evaluate(xs[0]);
  std::vector<double> one, many;
  for (int round = 0; round < rounds; ++round) {
    one.push_back(kPrograms / seconds(evaluate, xs, 1));
    many.push_back(kPrograms / seconds(evaluate, xs, kThreads));
  }
  std::string name = what + "_of_" + std::to_string(xs[0].size()) + "_elements_by_";
  report.add({"overhead", name + "1_thread", "weft", "rate", "1/s", median(one), threads, 1});
  report.add({"overhead", name + "8_threads", "weft", "rate", "1/s", median(many), threads, 1});
}

} // namespace

void small_programs(Report &report, int rounds, int threads) {
  volatile float sink = 0;
  for (int64_t elements : kElements) {
    std::vector<Tensor> xs;
    for (int i = 0; i < kThreads; ++i)
      xs.push_back(rand({elements}));
    eval(xs);
    auto jitted = jit(reduced);
    Mlp mlp;
    Program network = trace(mlp, {xs[0]});
    auto of = [&](const std::string &what, const Evaluate &evaluate) {
      measure(report, what, evaluate, xs, rounds, threads);
    };
    // Recorded, found, run and read.
    of("programs", [&](const Tensor &x) { sink = reduced(x).item<float>(); });
    of("jitted", [&](const Tensor &x) { sink = jitted(x).item<float>(); });
    // What a server does: its threads share the weights.
    of("networks", [&](const Tensor &x) { sink = *network.run({x})[0].data<float>(); });
  }
  (void)sink;
}

} // namespace weft::benchmarks
