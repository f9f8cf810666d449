// Memory planning as plain data, without MLIR: steps that read and write values. The algorithms of
// this folder work on it; Extract.h makes one from a plan.program.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

struct PlanProblem {
  enum class Kind : uint8_t {
    Arena,    // to be placed in the arena
    Output,   // a buffer that the caller binds
    Input,    // never written
    Donated,  // an input that may be written once it is dead
    Constant, // never written
  };
  struct Value {
    int64_t bytes = 0;
    Kind kind = Kind::Arena;
    bool returned = false; // live to the end
    int32_t extent = 0;    // inputs and outputs: of which sizes that vary `bytes` is the largest
                           // product; 0: of none
    bool kept = false; // a donated input that must hold what it held when a run ends at an index
                       // check: it is written after them all
  };
  struct Step {
    llvm::SmallVector<int32_t, 4> reads, writes; // values
    llvm::SmallVector<std::pair<int32_t, int32_t>>
        inPlace; // (index into writes, index into reads) that may share a buffer
    llvm::SmallVector<int32_t, 0> checks =
        {};                  // of indices that may end the run; of equal ones the first decides
    double cost = 0;         // what it takes to run, in bytes of memory traffic
    bool repeatable = false; // run again on the same values it writes the same ones
  };

  std::vector<Value> values;
  std::vector<Step>
      steps; // a legal order; each value is written by at most one step, before its readers
  bool files = false; // values may wait in files (Recompute.h)
};

// A permutation of the steps.
struct StepOrder {
  std::string name;
  std::vector<int32_t> steps;
};

// From the first step that touches a value to the last one, both included, by position in an order.
struct Lifetime {
  int32_t value = -1;
  int32_t begin = 0;
  int32_t end = 0;
  int64_t bytes = 0; // rounded up to the alignment
};

} // namespace weft::compiler
