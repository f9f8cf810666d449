// The Weft side of the suite `train`: a contestant (benchmarks/common/contestant.h).
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "benchmarks/common/report.h"
#include "benchmarks/train/char_gpt_step.h"
#include "weft/weft.h"

int main(int argc, char **argv) {
  using namespace weft::benchmarks;
  int64_t batch = argc > 1 ? std::atoll(argv[1]) : 16;
  double start = now();
  CharGptStep step(batch);
  for (int i = 0; i < 3; ++i)
    step.run().item<float>();
  std::cout << "ready " << now() - start << std::endl;
  std::string word;
  int64_t n = 0;
  while (std::cin >> word >> n) {
    start = now();
    weft::Tensor loss;
    for (int64_t i = 0; i < n; ++i)
      loss = step.run();
    loss.item<float>(); // waits for all of them
    std::cout << now() - start << std::endl;
  }
}
