// The cases of the suite `ops`: single operators and short chains through the public API. peers.py
// has the same, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/ops/problems.h"
#include "weft/tensor.h"

namespace weft::benchmarks {

// A case that is ready to run: its inputs are in memory.
struct OpCase {
  std::vector<Tensor> inputs;
  // What is measured: records the ops and gives their results.
  std::function<std::vector<Tensor>()> run;
  // Bytes that any implementation must read and write; what a memcpy of `limit` moves.
  int64_t bytes = 0;
  // Nearly all of them are read: `limit` reads the inputs where they lie, and writes nothing.
  bool reads = false;
};

const std::vector<std::string> &op_case_names();

// These throw std::runtime_error for a name that is not among them.
OpCase make_op_case(const std::string &name);
// elementwise, reduction (with pooling), order (sort, topk), norm, movement, matmul, skinny
// (products of few rows or columns), attention, float64 or convolution.
std::string op_case_group(const std::string &name);
LibraryProblem op_case_problem(const std::string &name);

} // namespace weft::benchmarks
