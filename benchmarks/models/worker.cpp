// The Weft side of `infer` and `train`: a contestant with cases (benchmarks/common/contestant.h).
//
// Usage: worker infer|infer-jit|train|bfloat16|jit; infer-jit: the network is one jit function;
// bfloat16: training under Autocast; jit: the step is one jit function, in which gradients end. Or:
// worker losses train|bfloat16 CASE, which prints the loss of each of 200 steps over 20 batches in
// turn; images are of ten classes, by chance.
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/common/suite.h"
#include "benchmarks/models/char_gpt_step.h"
#include "benchmarks/models/model_case.h"

namespace {

using namespace weft;
using namespace weft::benchmarks;

constexpr int kLosses = 200, kLossBatches = 20, kLossClasses = 10;

std::optional<DType> lower_of(const std::string &mode) {
  return mode == "bfloat16" ? std::optional(bfloat16) : std::nullopt;
}

// A training step that gives its loss, always of the same batch.
std::function<Tensor()> training(const std::string &mode, const std::string &name) {
  std::optional<DType> lower = lower_of(mode);
  if (name.starts_with("char_gpt")) {
    auto held = std::make_shared<CharGptStep>(ModelName(name).batch, lower);
    return [held] {
      return held->run();
    };
  }
  auto held = std::make_shared<ModelCase>(name, lower);
  return [held] {
    return held->step(held->inputs());
  };
}

void print_losses(const std::string &mode, const std::string &name) {
  std::function<Tensor()> step;
  if (name.starts_with("char_gpt")) {
    step = training(mode, name);
  } else {
    auto held = std::make_shared<ModelCase>(name, lower_of(mode));
    struct Batch {
      std::vector<Tensor> inputs;
      Tensor labels;
    };
    std::vector<Batch> batches;
    for (int i = 0; i < kLossBatches; ++i) {
      Batch batch{models::find(ModelName(name).model).example(ModelName(name).batch), {}};
      if (held->is_classifier())
        batch.labels = randint(0, kLossClasses, {ModelName(name).batch});
      eval(batch.inputs);
      batches.push_back(std::move(batch));
    }
    step = [held, batches, i = 0]() mutable {
      const Batch &batch = batches[static_cast<size_t>(i++ % kLossBatches)];
      return held->step(batch.inputs, batch.labels);
    };
  }
  for (int i = 0; i < kLosses; ++i)
    std::cout << step().item<float>() << std::endl;
}

std::function<void()> make(const std::string &mode, const std::string &name) {
  if (mode == "train" || mode == "bfloat16")
    return [step = training(mode, name)] {
      step().item<float>();
    };
  if (name.starts_with("char_gpt")) // its step takes no arguments
    return nullptr;
  auto held = std::make_shared<ModelCase>(name);
  if (mode == "infer" || mode == "infer-jit") {
    held->module().eval();
    if (mode == "infer-jit")
      held->jit_forward();
    return [held] {
      held->infer();
    };
  }
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
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "losses") {
    print_losses(words[1], words[2]);
    return 0;
  }
  std::string mode = words.size() == 1 ? words[0] : "";
  if (mode != "infer" && mode != "infer-jit" && mode != "train" && mode != "bfloat16" &&
      mode != "jit") {
    std::fprintf(stderr,
                 "usage: %s infer|infer-jit|train|bfloat16|jit, or losses train|bfloat16 CASE\n",
                 argv[0]);
    return 2;
  }
  return serve_cases([&](const std::string &name) { return make(mode, name); });
}
