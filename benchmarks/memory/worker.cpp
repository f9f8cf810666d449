// The Weft side of the suite `memory`: trains a model of the library for a few steps.
//
// Usage: worker MODE CASE, where CASE is MODEL_BATCH and MODE one of
//   training  as a user's loop
//   jit       the step as one jit function, in which gradients end
//   half      the same with half of the memory that it plans
//   files     as half, where values may wait in files
//   estimate  nothing is trained
// Prints one line: the most bytes that the process took above what it had before the model was
// made, those that estimate_memory() says (0 for training), the seconds of the fastest step, and
// what is live over one more step: seconds since its beginning, bytes, and so on. Of an estimate:
// what the step takes beside its inputs and state, and all that it takes.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/common/child_process.h"
#include "benchmarks/models/model_case.h"
#include "weft/weft.h"

namespace {

using namespace weft;

constexpr int kSteps = 4;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of this process, in bytes: "VmRSS" what it has, "VmHWM" the most it has had.
int64_t status_bytes(const std::string &key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":"))
      return std::atoll(line.c_str() + key.size() + 1) * 1024;
  return 0;
}

// What a process of its own says, so that this one has not traced the step.
std::pair<int64_t, int64_t> estimated(const std::string &self, const std::string &name) {
  std::istringstream stream(benchmarks::output_of("'" + self + "' estimate " + name));
  std::pair<int64_t, int64_t> result;
  stream >> result.first >> result.second;
  return result;
}

int64_t bytes_of(const std::vector<Tensor> &tensors) {
  int64_t bytes = 0;
  for (const Tensor &tensor : tensors)
    bytes += tensor.numel() * byte_size(tensor.dtype());
  return bytes;
}

// What a step does not make: parameters, buffers, what the optimizer keeps, the batch.
int64_t bytes_beside(benchmarks::ModelCase &model) {
  std::vector<Tensor> tensors = model.module().parameters();
  for (const nn::NamedTensors &named : {model.module().named_buffers(), model.optimizer().state()})
    for (const auto &[name, tensor] : named)
      tensors.push_back(tensor);
  return bytes_of(tensors) + bytes_of(model.inputs());
}

// Does a step, and prints what is live over it: `beside`, and what the plan of its largest
// evaluation says. The process has all memory of the step before it begins, and keeps it for the
// next one, so that what it has says nothing. The plan knows no times: its instructions stand
// equally far from each other.
void print_over_a_step(const std::function<void()> &step, int64_t beside) {
  uint64_t known = statistics().evaluations;
  step();
  Evaluation largest;
  for (Evaluation &evaluation : recent_evaluations())
    if (evaluation.number > known && evaluation.planned_peak_bytes > largest.planned_peak_bytes)
      largest = std::move(evaluation);
  const std::vector<int64_t> &live = largest.live_bytes;
  for (size_t i = 0; i < live.size(); ++i)
    std::cout << " "
              << 1e-3 * largest.run_ms * static_cast<double>(i) /
                     static_cast<double>(std::max<size_t>(live.size() - 1, 1))
              << " " << beside + live[i];
}

// What runs need anyhow: threads, and the pages of the compiler's and the libraries' code.
void warm_up() {
  Tensor image = ones({2, 8, 16, 16}), weight = ones({8, 8, 3, 3}).set_requires_grad();
  Tensor rows = ones({64, 64}), columns = ones({64, 64}).set_requires_grad();
  Tensor loss = conv2d(image, weight).relu().mean() + rows.matmul(columns).sum();
  loss.backward();
  eval({loss, weight.grad(), columns.grad()});
}

int train(const std::string &self, const std::string &mode, const std::string &name) {
  bool halves = mode == "half" || mode == "files";
  int64_t estimate = mode == "jit" || halves ? estimated(self, name).second : 0;
  unsetenv("WEFT_MEMORY_FOLDER");
  if (mode == "files")
    setenv("WEFT_MEMORY_FOLDER", "/var/tmp", 1); // on a disk, as a rule
  if (halves) {
    std::string limit = std::to_string(estimated(self, name).first / 2);
    setenv("WEFT_MEMORY_LIMIT", limit.c_str(), 1);
    estimate = estimated(self, name).second;
  }
  warm_up();
  int64_t before = status_bytes("VmRSS");

  benchmarks::ModelCase model(name);
  const std::vector<Tensor> &inputs = model.inputs();
  auto whole = [&](const std::vector<Tensor> &given) {
    Tensor loss = model.step(given);
    model.optimizer().zero_grad();
    return loss;
  };
  if (mode == "estimate") {
    MemoryEstimate estimate = estimate_memory(whole, inputs);
    std::cout << estimate.arena + estimate.outputs << " " << estimate.peak() << std::endl;
    return 0;
  }
  std::function<Tensor(const std::vector<Tensor> &)> run = [&](const std::vector<Tensor> &given) {
    return model.step(given);
  };
  if (mode != "training")
    run = jit(whole);
  double fastest = 0;
  for (int i = 0; i < kSteps; ++i) {
    Clock::time_point start = Clock::now();
    float loss = run(inputs).item<float>();
    double seconds = seconds_since(start);
    fastest = i == 0 ? seconds : std::min(fastest, seconds);
    if (loss != loss)
      throw std::runtime_error("the loss is no number");
  }
  std::cout << status_bytes("VmHWM") - before << " " << estimate << " " << fastest;
  print_over_a_step([&] { run(inputs).item<float>(); }, bytes_beside(model));
  std::cout << std::endl;
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string mode = argc == 3 ? argv[1] : "";
  if (mode != "training" && mode != "jit" && mode != "half" && mode != "files" &&
      mode != "estimate") {
    std::cerr << "usage: " << argv[0] << " training|jit|half|files|estimate MODEL_BATCH\n";
    return 2;
  }
  // Each process compiles all that it runs: where the warm-up's programs came from the disk, the
  // pages of the compiler's code, 31 MB, would count as the model's.
  setenv("WEFT_CACHE_DIR", "off", 1);
  try {
    return train(argv[0], mode, argv[2]);
  } catch (const std::exception &error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 1;
  }
}
