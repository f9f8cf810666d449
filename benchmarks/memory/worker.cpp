// The Weft side of the suite `memory`: trains a model of the library for a few steps, and says what
// the process took at most, above what it had before the model was made.
//
// Usage: worker CASE, where CASE is MODEL_training_BATCH or MODEL_jit_BATCH (the step as one jit
// function, in which gradients end with it).
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "weft/models/registry.h"
#include "weft/weft.h"

namespace {

using namespace weft;

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

int train(const std::string &name) {
  size_t batch_at = name.rfind('_'), mode_at = name.rfind('_', batch_at - 1);
  models::Record record = models::find(name.substr(0, mode_at));
  std::string mode = name.substr(mode_at + 1, batch_at - mode_at - 1);
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
  std::function<Tensor(const std::vector<Tensor> &)> run = step;
  if (mode == "jit")
    run = jit([&](const std::vector<Tensor> &given) {
      Tensor loss = step(given);
      optimizer.zero_grad();
      return loss;
    });
  float loss = 0;
  for (int i = 0; i < 4; ++i) {
    loss = run(inputs).item<float>();
    if (std::getenv("WEFT_MEMORY_STEPS"))
      std::fprintf(stderr, "step %d: loss %g, now %lld, most %lld MB\n", i, loss,
                   (long long)(status_bytes("VmRSS") - before) >> 20,
                   (long long)(status_bytes("VmHWM") - before) >> 20);
  }
  std::cout << status_bytes("VmHWM") - before << std::endl;
  return loss == loss ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " MODEL_training|jit_BATCH\n";
    return 2;
  }
  try {
    return train(argv[1]);
  } catch (const std::exception &error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 1;
  }
}
