// The step of a program, from what WEFT_EXPLAIN=1 says of it while it runs.
#pragma once

#include <istream>
#include <vector>

#include "tools/scale/model.h"

namespace weft::scale {

// A step as it ran, the mean of several.
struct MeasuredStep {
  std::vector<Part> parts;
  size_t steps = 0;     // that were seen
  double seconds = 0;   // from one to the next
  double computed = 0;  // programs
  double exposed = 0;   // no program ran, and an exchange did
  double host() const { // neither did
    return seconds - computed - exposed;
  }
};

// Of the longest stretch of evaluations that repeats itself, has exchanges, and compiles nothing.
// Lines that are no evaluations, or another rank's than 0, are passed over. Throws
// std::runtime_error where there is no such stretch.
MeasuredStep read_step(std::istream &lines);

} // namespace weft::scale
