// The suite `ops`: single operators, Weft, its peers and a memcpy of the same bytes taking turns on the same machine.
#include "benchmarks/common/suite.h"
#include "benchmarks/ops/cases.h"

int main(int argc, char **argv) {
  using namespace weft::benchmarks;
  return run_suite({"ops", op_case_names(), /*seconds_per_turn=*/0.04, /*rounds=*/7}, argc, argv);
}
