// Runs random programs through the public API.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dialects/weft/reference/HostTensor.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/program.h"

namespace weft::fuzz {

// Operands of calls, as (step, operand).
using Operands = std::set<std::pair<size_t, size_t>>;

// Where the calls of a program compute.
struct Placement {
  std::vector<Device> devices; // by turns; none: where their operands lie
  Operands copied;             // where there are none: what calls read a copy of
};

// Executes steps one after the other.
class Machine {
public:
  // dry: nothing is computed; shapes and dtypes only. inputs: by place, used instead of those that
  // the steps would make.
  explicit Machine(bool dry = false, Tensors inputs = {}, Placement placement = {})
      : dry_(dry), inputs_(std::move(inputs)), placement_(std::move(placement)) {}
  // Errors: weft::Error, where a call refuses its arguments.
  void apply(const Step &step);
  const Tensors &values() const {
    return values_;
  }
  // All steps. Gives each value up where it is used last, as a program does whose variable goes out
  // of scope; returns the outputs.
  Tensors run(const Program &program);
  // What calls read on another device than it lay on.
  const Operands &moved() const {
    return moved_;
  }

private:
  bool dry_;
  Tensors inputs_, values_;
  Placement placement_;
  Operands moved_;
};

// What each step gives, not computed: shapes and dtypes alone. None where a call refuses its
// arguments.
std::optional<Tensors> dry_values(const Program &program);
// The places whose values nothing reads after a step, by step; outputs are not among them.
std::vector<std::vector<int>> last_uses(const Program &program);
// Sets the process up.
void use(const std::string &backend, int threads, bool eager, int64_t memory_limit = 0,
         bool prepare = true);
// Whether a norm may go into a convolution's weight, which changes bits: where both are one program
// and nothing else reads the convolution, such as a history. It does so where weights are prepared.
bool may_fold_norms(const Program &program);
// A copy of the values, which are computed.
ir::HostTensor host_tensor(const Tensor &tensor);

// One way to run a program.
struct Setup {
  std::string name;
  std::string backend;
  int threads = 1;
  bool eager = false; // every call is computed at once
  // Inputs are made on the first one; calls compute on all of them, by turns. Programs that write
  // to tensors stay on the first one: a moved operand is a copy, which shows no writes.
  std::vector<std::string> devices = {"cpu"};
  int64_t memory_limit = 0; // Config::memory_limit
};

struct Outcome {
  std::string error; // empty: it ran
  std::vector<ir::HostTensor> outputs;
  Operands moved; // between devices
};

// Whether a kernel that fusing made and codegen refused is an error, though the program runs: it
// has become several.
inline bool whole_kernels = false;

// Sets the process up, runs, and reads the outputs. copied: as Placement has it.
Outcome run(const Program &program, const Setup &setup, const Operands &copied = {});
// On what is set up; from these inputs, where given.
Outcome run(const Program &program, const Tensors &inputs = {}, const Placement &placement = {});
// Empty, or what differs.
std::string different_outcome(const Program &program, const Outcome &actual,
                              const Outcome &expected);

// A random program; the same seed gives the same one as long as the table of calls stays the same.
Program generate(uint64_t seed);

} // namespace weft::fuzz
