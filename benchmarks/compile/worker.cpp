// The Weft side of the suite `compile`: how long a model's first call takes longer than its next.
// Usage: worker infer|train MODEL_BATCH. Prints the seconds of both, and how many ops the first one
// recorded.
#include <algorithm>
#include <functional>
#include <iostream>
#include <string>

#include "benchmarks/common/report.h"
#include "benchmarks/models/model_case.h"

int main(int argc, char **argv) {
  using namespace weft;
  using namespace weft::benchmarks;
  std::string mode = argc == 3 ? argv[1] : "";
  if (mode != "infer" && mode != "train") {
    std::cerr << "usage: " << argv[0] << " infer|train MODEL_BATCH\n";
    return 2;
  }
  try {
    ModelCase model(argv[2]);
    eval(model.module().parameters());
    std::function<void()> work = [&] {
      model.step(model.inputs()).item<float>();
    };
    if (mode == "infer") {
      model.module().eval();
      work = [&] {
        model.infer();
      };
    }
    double first = 0, least = 0;
    uint64_t ops = 0, before = statistics().recorded_ops;
    for (int i = 0; i < 4; ++i) {
      double start = now();
      work();
      double seconds = now() - start;
      (i == 0 ? first : least) = i < 2 ? seconds : std::min(least, seconds);
      ops = i == 0 ? statistics().recorded_ops - before : ops;
    }
    std::cout << first << " " << least << " " << ops << std::endl;
    return 0;
  } catch (const std::exception &error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 1;
  }
}
