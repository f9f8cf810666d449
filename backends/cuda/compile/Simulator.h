// For tests without a GPU: runs GPU kernels on the host. The code is the same down to the llvm
// dialect; there, what asks for the thread, the block, a shuffle or a barrier, or rounds to
// bfloat16 by a GPU's instruction, becomes a call into the simulator, which runs each thread of a
// block as a coroutine.
//
// It finds what a GPU only shows now and then: barriers and shuffles that not all threads reach
// together, accesses that SimulatedMemory refuses, blocks that no GPU takes, and results that
// depend on the order in which threads run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/compile/GpuCodegen.h"
#include "backends/cuda/compile/SimulatedMemory.h"
#include "mlir/IR/BuiltinOps.h"

namespace llvm::orc {
class LLJIT;
}

namespace weft::backends::cuda {

class Simulator {
public:
  ~Simulator();
  // Takes the module that buildGpuKernel filled. Null on failure, with the reason in `error`.
  static std::unique_ptr<Simulator> create(mlir::ModuleOp module, const GpuKernel &kernel,
                                           std::string &error);

  // Runs one entry over its grid, and again on what was there before: blocks, and threads between
  // synchronisations, from the first to the last, and from the last to the first. Empty, or what is
  // wrong. `arguments` are pointers in the host's memory, and behind them the count that an
  // entry of sizes that vary takes.
  std::string launch(const std::string &symbol, llvm::ArrayRef<void *> arguments);

private:
  Simulator() = default;
  std::string findShared(const std::string &entry, std::vector<MemoryRange> &ranges);
  std::vector<MemoryRange> operands(llvm::ArrayRef<void *> arguments, int64_t count,
                                    bool isFinish) const;

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  GpuKernel kernel_;
  // What the threads of an entry's blocks share.
  struct Shared {
    std::string symbol;
    int64_t bytes, unit;
  };
  std::map<std::string, std::vector<Shared>> shared_;
};

} // namespace weft::backends::cuda
