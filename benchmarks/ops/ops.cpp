// The suite `ops`: single operators, Weft, its peers, oneDNN and a memcpy of the same bytes taking
// turns on the same machine.
#include "benchmarks/common/suite.h"
#include "benchmarks/ops/cases.h"

int main(int argc, char **argv) {
  using namespace weft::benchmarks;
  Suite suite{"ops", op_case_names(), /*seconds_per_turn=*/0.04, /*rounds=*/7};
  suite.group = [](const std::string &name) {
    return op_case_group(name);
  };
  suite.judge = "torch-compile";
  return run_suite(suite, argc, argv);
}
