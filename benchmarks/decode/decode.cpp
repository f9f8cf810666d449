// The suite `decode`: language models that go on behind a cache, Weft and its peers taking turns.
#include "benchmarks/common/suite.h"
#include "benchmarks/decode/cases.h"

int main(int argc, char **argv) {
  using namespace weft::benchmarks;
  return run_suite(
      {"decode", decode_case_names(), /*seconds_per_turn=*/1, /*rounds=*/5, decode_case_batch},
      argc, argv);
}
