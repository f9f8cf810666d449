// The Weft side of the suite `train`: a contestant (benchmarks/common/contestant.h).
//
// Usage: worker [NETWORK [float32|bfloat16|float16]] BATCH, where NETWORK is char_gpt or a model of
// the library. With "losses" in front of NETWORK it prints the loss of each of 200 steps instead.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "benchmarks/common/report.h"
#include "benchmarks/train/char_gpt_step.h"
#include "benchmarks/train/model_step.h"
#include "weft/weft.h"

namespace {

using namespace weft::benchmarks;

std::function<weft::Tensor()> make_step(const std::string &network,
                                        std::optional<weft::DType> lower, int64_t batch) {
  if (network != "char_gpt")
    return make_model_step(network, batch, lower);
  auto step = std::make_shared<CharGptStep>(batch, lower);
  return [step] { return step->run(); };
}

int run(std::vector<std::string> words) {
  bool losses = !words.empty() && words[0] == "losses";
  if (losses)
    words.erase(words.begin());
  std::string network = words.size() > 1 ? words[0] : "char_gpt",
              precision = words.size() > 2 ? words[1] : "float32";
  std::optional<weft::DType> lower;
  if (precision == "bfloat16")
    lower = weft::bfloat16;
  else if (precision == "float16")
    lower = weft::float16;
  else if (precision != "float32")
    throw std::invalid_argument("there is no precision '" + precision + "'");
  int64_t batch = words.empty() ? 16 : std::atoll(words.back().c_str());
  double start = now();
  std::function<weft::Tensor()> step = make_step(network, lower, batch);
  if (losses) {
    for (int i = 0; i < 200; ++i)
      std::cout << step().item<float>() << std::endl;
    return 0;
  }
  for (int i = 0; i < 3; ++i)
    step().item<float>();
  std::cout << "ready " << now() - start << std::endl;
  std::string word;
  int64_t n = 0;
  while (std::cin >> word >> n) {
    start = now();
    weft::Tensor loss;
    for (int64_t i = 0; i < n; ++i)
      loss = step();
    loss.item<float>(); // waits for all of them
    std::cout << now() - start << std::endl;
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception &error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 1;
  }
}
