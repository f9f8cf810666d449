// A random program as data: it can be made, run on any backend, made smaller, and printed as C++
// that a user could paste.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::fuzz {

// One call of the public API. Its result is known by the step's place in the program; a call that
// writes or evaluates a tensor gives that tensor.
struct Step {
  std::string call;           // a row of the table of calls (calls.h)
  std::vector<int> args = {}; // places of earlier steps
  std::vector<std::vector<int64_t>> numbers =
      {}; // the call's other arguments: shapes, dims, scalars in thousandths
};

struct Program {
  uint64_t seed = 0; // of the random tensors inside, and what it was drawn from
  std::vector<Step> steps;
  std::vector<int> outputs; // what is asked for at the end, in one evaluation
};

// The program in C++: lines of a function body.
std::string to_cpp(const Program &program);

} // namespace weft::fuzz
