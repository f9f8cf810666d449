// Which instructions may end a run: launches that look at indices from data, one of which may be
// out of range, and calls that may fail: of users' kernels and of factorizations.
#pragma once

#include <map>
#include <vector>

#include "dialects/plan/ir/Plan.h"

namespace weft::compiler {

// Numbers the checks of a program's instructions. Two that ask the same of the same indices have
// one number: the one that runs first decides for both, such as the lookup in an embedding for its
// gradient.
class IndexChecks {
public:
  llvm::SmallVector<int32_t, 0> of(plan::LaunchOp launch, plan::KernelOp kernel);
  // That a call does not fail says nothing of another one: each counts for itself.
  llvm::SmallVector<int32_t, 0> of(plan::LibraryCallOp call);

private:
  // What a check asks and how its indices are computed, as addresses of names, attributes and
  // types, and as positions.
  using Text = std::vector<uintptr_t>;
  struct Check {
    Text text;
    llvm::SmallVector<unsigned, 2> operands; // of the launch, that the indices are computed from
    // False where they are computed by more ops than are looked at, or not all of them are asked.
    bool known = true;
  };
  static Check describe(mlir::Operation *op);

  llvm::DenseMap<mlir::Operation *, std::vector<Check>> kernels_;
  std::map<Text, int32_t> numbers_;
  int32_t next_ = 0;
};

} // namespace weft::compiler
