// The Weft side of the suite `decode`: a contestant with cases (benchmarks/common/contestant.h).
#include "benchmarks/common/suite.h"
#include "benchmarks/decode/cases.h"

int main() {
  return weft::benchmarks::serve_cases(weft::benchmarks::make_decode_case);
}
