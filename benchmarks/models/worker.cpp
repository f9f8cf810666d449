// The Weft side of `infer` and `train`: a contestant with cases (benchmarks/common/contestant.h).
// Usage: worker infer|train|jit; jit: the step is one jit function, in which gradients end.
#include <cstdio>
#include <memory>
#include <string>

#include "benchmarks/common/suite.h"
#include "benchmarks/models/model_case.h"

namespace {

using namespace weft;
using namespace weft::benchmarks;

std::function<void()> make(const std::string &mode, const std::string &name) {
  auto held = std::make_shared<ModelCase>(name);
  if (mode == "infer") {
    held->module().eval();
    return [held] {
      held->infer();
    };
  }
  if (mode == "train")
    return [held] {
      held->step(held->inputs()).item<float>();
    };
  auto step = jit([held](const std::vector<Tensor> &given) {
    Tensor loss = held->step(given);
    held->optimizer().zero_grad();
    return loss;
  });
  return [held, step]() mutable {
    step(held->inputs()).item<float>();
  };
}

} // namespace

int main(int argc, char **argv) {
  std::string mode = argc == 2 ? argv[1] : "";
  if (mode != "infer" && mode != "train" && mode != "jit") {
    std::fprintf(stderr, "usage: %s infer|train|jit\n", argv[0]);
    return 2;
  }
  return serve_cases([&](const std::string &name) { return make(mode, name); });
}
