// The Weft side of the suite `cnn`: a contestant with cases (benchmarks/common/contestant.h).
#include "benchmarks/cnn/cases.h"
#include "benchmarks/common/suite.h"

int main() {
  return weft::benchmarks::serve_cases(weft::benchmarks::make_cnn_case);
}
