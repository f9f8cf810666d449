// Records a function apart from the rest: what it reads, what it writes, what it returns. Private
// to this folder.
#pragma once

#include <unordered_map>

#include "frontend/recorder/slice.h"
#include "frontend/tensor/impl.h"

namespace weft::recorder {

// Throws: a value is asked for while a function is being traced.
[[noreturn]] void refuse_evaluation(const Trace &trace, const EvaluateRequest &request);

// What one recording of a function gives. All values are still recorded ops; nothing was written
// for good.
struct TraceResult {
  std::vector<Var> placeholders; // stand for the inputs
  std::vector<Var> outputs;      // what the function returned
  // Storages from before that the function wrote, with their new values.
  std::vector<std::pair<Tensor, Var>> written;
  // Leaves from before whose gradient the function made or replaced.
  std::vector<std::pair<GradRef, Var>> gradients;
  // Values of storages from before that were read, and of those storages.
  std::unordered_map<Value *, Tensor> captured;
  std::vector<ValueRef> held;
  Slice slice; // of everything above
};

// `what` is "jit" or "trace". effects: written storages and gradients are results too; otherwise
// they are only put back.
TraceResult record_trace(const char *what, const ErasedFunction &function,
                         const std::vector<const TypeInfo *> &inputs, bool effects,
                         Location location);

} // namespace weft::recorder
