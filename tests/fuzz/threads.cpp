#include "tests/fuzz/threads.h"

#include <atomic>
#include <thread>

#include "tests/fuzz/machine.h"
#include "tests/support/Compare.h"

namespace weft::fuzz {
namespace {

bool draws_random_numbers(const Program &program) {
  for (const Step &step : program.steps)
    if (step.call.starts_with("rand") || step.call == "dropout")
      return true;
  return false;
}

// Writes, and gradients that inputs keep, are seen by whoever has the input.
bool leaves_inputs_alone(const Program &program) {
  for (const Step &step : program.steps)
    if (!is_input(step) && step.call != "eval" &&
        (step.call == "backward" || calls().at(step.call).writes))
      return false;
  return true;
}

Tensors inputs_of(const Program &program) {
  Tensors inputs(program.steps.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_input(program.steps[i]))
      inputs[i] = make_input(program.steps[i]);
  return inputs;
}

// As many threads run side by side as wait here.
class Start {
public:
  explicit Start(int threads) : missing_(threads) {}
  void wait() {
    --missing_;
    while (missing_ > 0)
      std::this_thread::yield();
  }

private:
  std::atomic<int> missing_;
};

} // namespace

std::string check_threads(const std::vector<Program> &programs, const std::string &backend) {
  constexpr size_t kThreads = 2;
  std::vector<const Program *> all;
  for (const Program &program : programs)
    if (!draws_random_numbers(program))
      all.push_back(&program);
  // The first half of the list is both threads', of the second half each has every second program.
  auto is_shared = [&](size_t i) {
    return i < all.size() / 2;
  };
  std::vector<Tensors> inputs(all.size());
  for (size_t i = 0; i < all.size(); ++i)
    if (is_shared(i) && leaves_inputs_alone(*all[i]))
      inputs[i] = inputs_of(*all[i]);
  use(backend, 1, false);
  std::vector<std::vector<Outcome>> outcomes(kThreads, std::vector<Outcome>(all.size()));
  Start start(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      start.wait();
      for (size_t i = 0; i < all.size(); ++i)
        if (is_shared(i) || i % kThreads == t)
          outcomes[t][i] = run(*all[i], inputs[i]);
    });
  for (std::thread &thread : threads)
    thread.join();
  std::string wrong;
  for (size_t i = 0; i < all.size() && wrong.empty(); ++i) {
    Outcome alone = run(*all[i]);
    for (size_t t = 0; t < kThreads && wrong.empty(); ++t) {
      if (!is_shared(i) && i % kThreads != t)
        continue;
      std::string different = different_outcome(*all[i], outcomes[t][i], alone);
      if (!different.empty())
        wrong = "on one of two threads, unlike alone: " + different + "\n" + to_cpp(*all[i]);
    }
  }
  use("reference", 1, false);
  return wrong;
}

} // namespace weft::fuzz
