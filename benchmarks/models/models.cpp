// The suites `infer` and `train`: every model of the library, Weft and its peers taking turns.
// Usage: models infer|train, and what every suite takes (benchmarks/common/suite.h).
#include <cstdio>
#include <string>

#include "benchmarks/common/suite.h"
#include "benchmarks/models/model_case.h"

int main(int argc, char **argv) {
  using namespace weft::benchmarks;
  std::string suite = argc > 1 ? argv[1] : "";
  if (suite != "infer" && suite != "train") {
    std::fprintf(stderr, "usage: %s infer|train ...\n", argv[0]);
    return 2;
  }
  std::vector<std::string> cases = suite == "infer" ? inference_cases() : training_cases();
  if (suite == "train")
    cases.insert(cases.begin(), "char_gpt_16"); // of examples/char_gpt
  return run_suite({suite, cases,
                    /*seconds_per_turn=*/0.5, /*rounds=*/5,
                    [](const std::string &name) { return ModelName(name).batch; }},
                   argc - 1, argv + 1);
}
