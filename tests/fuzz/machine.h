// Runs random programs through the public API.
#pragma once

#include <string>
#include <vector>

#include "dialects/weft/ir/HostTensor.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/program.h"

namespace weft::fuzz {

// Executes steps one after the other.
class Machine {
public:
  // dry: nothing is computed; shapes and dtypes only.
  explicit Machine(bool dry = false) : dry_(dry) {}
  // Errors: weft::Error, where a call refuses its arguments.
  void apply(const Step &step);
  const Tensors &values() const {
    return values_;
  }
  // Gives a handle up, as a program does whose variable goes out of scope.
  void drop(int place) {
    values_[static_cast<size_t>(place)] = Tensor();
  }

private:
  bool dry_;
  Tensors values_;
};

// One way to run a program.
struct Setup {
  std::string name;
  std::string backend;
  int threads = 1;
  bool eager = false; // every call is computed at once
};

struct Outcome {
  std::string error; // empty: it ran
  std::vector<ir::HostTensor> outputs;
};

// Whether a kernel that fusing made and codegen refused is an error, though the program runs: it has
// become several.
inline bool whole_kernels = false;

// Sets the process up, runs, and reads the outputs.
Outcome run(const Program &program, const Setup &setup);

// A random program; the same seed gives the same one as long as the table of calls stays the same.
Program generate(uint64_t seed);

} // namespace weft::fuzz
