// A kernel linked into this process, with memory to run on: what tuning measures.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/Kernel.h"
#include "compiler/link/Jit.h"
#include "dialects/weft/ir/Weft.h"
#include "runtime/abi/weft_runtime.h"

namespace weft::compiler {

// Operands and results of a fusion: floats between 0.5 and 1, integers of 0, which are indices of
// anything.
class KernelMemory {
public:
  explicit KernelMemory(ir::FusionOp fusion);
  // Of all operands and results.
  static int64_t bytesOf(ir::FusionOp fusion);

  std::vector<void *> buffers() const;
  // The results' bytes, one after the other.
  std::vector<char> results() const;
  // A results' buffer keeps nothing of an earlier run.
  void clearResults();

private:
  struct Free {
    void operator()(void *memory) const;
  };
  std::vector<std::unique_ptr<void, Free>> memory_;
  std::vector<int64_t> bytes_;
  size_t inputs_;
};

class TimedKernel {
public:
  // For this machine. `pins`: choices beside those that the fusion pins.
  static absl::StatusOr<TimedKernel> make(ir::FusionOp fusion, llvm::ArrayRef<ScheduleChoice> pins);

  // All pieces on this thread.
  absl::Status run(KernelMemory &memory);
  // Nanoseconds of a run, the least of as many as fit into `nanoseconds`, and at least one.
  double time(KernelMemory &memory, double nanoseconds);

  const KernelInfo &info() const {
    return info_;
  }

private:
  KernelInfo info_;
  std::shared_ptr<JitCode> code_;
  weft_kernel body_ = nullptr, finish_ = nullptr;
  std::vector<char> partials_, scratch_;
};

} // namespace weft::compiler
