#include "benchmarks/overhead/small_programs.h"

#include <string>
#include <thread>

#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

constexpr int kThreads = 8;
constexpr int kPrograms = 4000; // a round, of all threads together
// From next to no computing to some 30 us.
constexpr int64_t kElements[] = {1024, 4096, 16384};

// As many programs as it is told, each of which is recorded, found, run and read.
void evaluate(const Tensor &x, int programs) {
  volatile float sink = 0;
  for (int i = 0; i < programs; ++i)
    sink = tanh(x * x + 0.5).sum().item<float>();
  (void)sink;
}

double seconds(const std::vector<Tensor> &xs, int count) {
  double start = now();
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] { evaluate(xs[static_cast<size_t>(i)], kPrograms / count); });
  for (std::thread &thread : threads)
    thread.join();
  return now() - start;
}

} // namespace

void small_programs(Report &report, int rounds, int threads) {
  for (int64_t elements : kElements) {
    std::vector<Tensor> xs;
    for (int i = 0; i < kThreads; ++i)
      xs.push_back(rand({elements}));
    eval(xs);
    evaluate(xs[0], 2);
    std::vector<double> one, many;
    for (int round = 0; round < rounds; ++round) {
      one.push_back(kPrograms / seconds(xs, 1));
      many.push_back(kPrograms / seconds(xs, kThreads));
    }
    std::string name = "programs_of_" + std::to_string(elements) + "_elements_by_";
    report.add({"overhead", name + "1_thread", "weft", "rate", "1/s", median(one), threads, 1});
    report.add({"overhead", name + "8_threads", "weft", "rate", "1/s", median(many), threads, 1});
  }
}

} // namespace weft::benchmarks
