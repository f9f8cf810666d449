// For tests and benchmarks: compiles a weft.fusion, links it in this process and runs it on host
// tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/Codegen.h"
#include "compiler/link/Jit.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/HostTensor.h"
#include "runtime/abi/weft_runtime.h"

namespace weft::compiler {

class TestKernel {
public:
  // Stages that the build dumped, by name.
  std::vector<std::pair<std::string, std::string>> dumps;
  std::string dump(llvm::StringRef stage) const;

  // Null on failure, with the diagnostics in `error`.
  static std::unique_ptr<TestKernel> build(ir::FusionOp fusion, std::string &error,
                                           bool dump = false,
                                           const TargetInfo &target = TargetInfo::host());

  KernelInfo info;
  weft_kernel body = nullptr, finish = nullptr;

  // Runs the kernel on `inputs`, its pieces cut into `parts` ranges as several threads would; the
  // results, zeros before. Buffers stand at odd element offsets, with guards around them that must
  // survive. `shared`: pairs of info.inPlace that use one buffer.
  int32_t run(llvm::ArrayRef<ir::HostTensor> inputs, std::vector<ir::HostTensor> &outputs,
              int64_t parts = 1, llvm::ArrayRef<std::pair<int64_t, int64_t>> shared = {});
  // Calls the kernel on raw buffers (inputs, outputs), one thread.
  int32_t call(llvm::ArrayRef<void *> buffers, int64_t parts = 1);

private:
  std::shared_ptr<JitCode> code_;
  std::vector<mlir::RankedTensorType> outputs_;
  int64_t inputs_ = 0;
};

} // namespace weft::compiler
