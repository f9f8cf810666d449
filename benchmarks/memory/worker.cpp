// The Weft side of the suite `memory`: trains a model of the library for a few steps.
//
// Usage: worker MODE CASE, where CASE is MODEL_BATCH and MODE one of
//   training  as a user's loop
//   jit       the step as one jit function, in which gradients end
//   half      the same with half of the memory that it plans
//   estimate  nothing is trained
// Prints one line: the most bytes that the process took above what it had before the model was made,
// those that estimate_memory() says (0 for training), and the seconds of the fastest step. Of an
// estimate: what the step takes beside its inputs and state, and all that it takes.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "benchmarks/common/child_process.h"
#include "weft/models/registry.h"
#include "weft/weft.h"

namespace {

using namespace weft;

constexpr int kSteps = 4;

// Of this process, in bytes: "VmRSS" what it has, "VmHWM" the most it has had.
int64_t status_bytes(const std::string &key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":"))
      return std::atoll(line.c_str() + key.size() + 1) * 1024;
  return 0;
}

// A figure that each model has a gradient of: the loss that its kind is trained with, or the mean
// square of its first result. peers.py has the same.
Tensor loss_of(const std::string &kind, const std::vector<Tensor> &results,
               const std::vector<Tensor> &inputs) {
  const Tensor &out = results[0];
  if (kind == "image classifier")
    return nn::cross_entropy(out, zeros({out.size(0)}, int64));
  if (kind == "language model")
    return nn::cross_entropy(out.reshape({-1, out.size(-1)}), inputs[0].reshape({-1}));
  return (out * out).mean();
}

// What a process of its own says, so that this one has not traced the step.
std::pair<int64_t, int64_t> estimated(const std::string &self, const std::string &name) {
  std::istringstream stream(benchmarks::output_of("'" + self + "' estimate " + name));
  std::pair<int64_t, int64_t> result;
  stream >> result.first >> result.second;
  return result;
}

int train(const std::string &self, const std::string &mode, const std::string &name) {
  int64_t estimate = mode == "jit" || mode == "half" ? estimated(self, name).second : 0;
  if (mode == "half") {
    std::string limit = std::to_string(estimated(self, name).first / 2);
    setenv("WEFT_MEMORY_LIMIT", limit.c_str(), 1);
    estimate = estimated(self, name).second;
  }
  size_t batch_at = name.rfind('_');
  models::Record record = models::find(name.substr(0, batch_at));
  int64_t batch = std::atoll(name.c_str() + batch_at + 1);
  // What runs need anyhow: threads, the compiler.
  (ones({64, 64}).matmul(ones({64, 64})) + 1).sum().item<float>();
  int64_t before = status_bytes("VmRSS");

  manual_seed(1);
  models::AnyModel model = record.make();
  optim::SGD optimizer(model.module().parameters(), {.lr = 1e-3, .momentum = 0.9});
  std::vector<Tensor> inputs = record.example(batch);
  eval(inputs);
  auto step = [&](const std::vector<Tensor> &given) {
    optimizer.zero_grad();
    Tensor loss = loss_of(record.kind, model(given), given);
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto whole = [&](const std::vector<Tensor> &given) {
    Tensor loss = step(given);
    optimizer.zero_grad();
    return loss;
  };
  if (mode == "estimate") {
    MemoryEstimate estimate = estimate_memory(whole, inputs);
    std::cout << estimate.arena + estimate.outputs << " " << estimate.peak() << std::endl;
    return 0;
  }
  std::function<Tensor(const std::vector<Tensor> &)> run = step;
  if (mode != "training")
    run = jit(whole);
  double fastest = 0;
  for (int i = 0; i < kSteps; ++i) {
    auto start = std::chrono::steady_clock::now();
    float loss = run(inputs).item<float>();
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fastest = i == 0 ? seconds.count() : std::min(fastest, seconds.count());
    if (loss != loss)
      throw std::runtime_error("the loss is no number");
  }
  std::cout << status_bytes("VmHWM") - before << " " << estimate << " " << fastest << std::endl;
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string mode = argc == 3 ? argv[1] : "";
  if (mode != "training" && mode != "jit" && mode != "half" && mode != "estimate") {
    std::cerr << "usage: " << argv[0] << " training|jit|half|estimate MODEL_BATCH\n";
    return 2;
  }
  try {
    return train(argv[0], mode, argv[2]);
  } catch (const std::exception &error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 1;
  }
}
