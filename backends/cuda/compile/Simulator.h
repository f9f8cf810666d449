// For tests without a GPU: runs GPU kernels on the host. The code is the same down to the llvm
// dialect; there, what asks for the thread, the block, a shuffle or a barrier, or rounds to
// bfloat16 by a GPU's instruction, becomes a call into the simulator, which runs each thread of a
// block as a coroutine.
//
// It finds what a GPU only shows now and then: barriers and shuffles that not all threads reach,
// and results that depend on the order in which threads run (compare a run with its `reversed`
// one).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/device/cuda_code.h"
#include "mlir/IR/BuiltinOps.h"

namespace llvm::orc {
class LLJIT;
}

namespace weft::backends::cuda {

class Simulator {
public:
  ~Simulator();
  // Takes the module that buildGpuKernel filled. Null on failure, with the reason in `error`.
  static std::unique_ptr<Simulator> create(mlir::ModuleOp module,
                                           llvm::ArrayRef<KernelEntry> entries, std::string &error);

  // Runs one entry over its grid; empty, or what is wrong. `arguments` are pointers in the host's
  // memory. `reversed`: blocks, and threads between synchronisations, from the last to the first.
  std::string launch(const std::string &symbol, llvm::ArrayRef<void *> arguments,
                     bool reversed = false);

private:
  Simulator() = default;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::vector<KernelEntry> entries_;
};

} // namespace weft::backends::cuda
