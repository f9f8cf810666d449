// The suite `cnn`: networks of convolutions, Weft and its peers taking turns on the same machine.
#include "benchmarks/cnn/cases.h"
#include "benchmarks/common/suite.h"

int main(int argc, char **argv) {
  using namespace weft::benchmarks;
  return run_suite({"cnn", cnn_case_names(), /*seconds_per_turn=*/1, /*rounds=*/5, cnn_case_batch},
                   argc, argv);
}
