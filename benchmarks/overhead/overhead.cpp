// What recording and replaying cost, without the work itself: tensors of two elements. One JSON object a line.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>

#include "weft/weft.h"

namespace {

using weft::Tensor;
using Clock = std::chrono::steady_clock;

double microseconds(const std::function<void()> &work) {
  auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// The best of several rounds: the machine's other work only ever adds.
double best(int rounds, const std::function<double()> &round) {
  double least = round();
  for (int i = 1; i < rounds; ++i) least = std::min(least, round());
  return least;
}

void report(const char *name, double value) {
  std::printf("{\"suite\": \"overhead\", \"case\": \"%s\", \"impl\": \"weft\", \"metric\": \"time\", \"unit\": \"us\", \"value\": %.4f, "
              "\"threads\": 1, \"batch\": 1}\n",
              name, value);
  std::fflush(stdout);
}

constexpr int kPairs = 1000; // of ops: long enough that a cut's own cost is spread

Tensor chain(Tensor y, const Tensor &a) {
  for (int i = 0; i < kPairs; ++i) {
    y = y + a;
    y = y * a;
  }
  return y;
}

} // namespace

int main() {
  Tensor x = weft::tensor({1.f, 2.f}), a = weft::tensor({0.5f, 0.5f});
  constexpr int kRounds = 9;
  const double ops = 2.0 * kPairs;

  Tensor warm = chain(x, a).eval();
  double hit = 1e30, record_only = 1e30;
  for (int i = 0; i < kRounds; ++i) {
    Tensor y;
    double record = microseconds([&] { y = chain(x, a); });
    double evaluate = microseconds([&] { y.eval(); });
    double run = weft::recent_evaluations().back().run_ms * 1000;
    record_only = std::min(record_only, record / ops);
    hit = std::min(hit, (record + evaluate - run) / ops);
  }
  report("record, per op", record_only);
  report("record + cache hit, per op", hit);

  Tensor w = weft::tensor({1.f, 2.f}).set_requires_grad();
  report("record with history and backward, per forward op", best(kRounds, [&] {
           double time = microseconds([&] { weft::sum(chain(w, a)).backward(); });
           w.grad().eval();
           w.zero_grad();
           return time / ops;
         }));

  auto replay = weft::jit([](const Tensor &t) { return weft::tanh(t) + 1; });
  replay(x);
  constexpr int kCalls = 2000;
  report("jit replay of a two-op program", best(kRounds, [&] {
           return microseconds([&] {
                    for (int i = 0; i < kCalls; ++i) replay(x);
                  }) /
                  kCalls;
         }));
  report("record, hit and run of a two-op program", best(kRounds, [&] {
           return microseconds([&] {
                    for (int i = 0; i < kCalls; ++i) (weft::tanh(x) + 1).eval();
                  }) /
                  kCalls;
         }));
}
