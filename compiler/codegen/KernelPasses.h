// Passes of users on the IR of one kernel, between the stages of code generation: registered from
// C++ or by a plugin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/pipeline/PassHooks.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace weft::compiler {

// What a pass sees. The module holds the functions of one kernel, beside nothing else. The first
// form of a kernel, one linalg op for each weft op, is no stage: schedules know its ops one by one.
enum class KernelStage {
  Loops, // scf loops over vectors, memref loads and stores, arith; functions of math as ops
  Math,  // the same, with functions of math expanded to arithmetic
  Llvm,  // the llvm dialect, with the entry that the runtime calls (runtime/abi/weft_runtime.h)
};

// Runs after the stage in each kernel that is made from now on, in the order of registration, for
// the backends whose kernels have these stages, in memory and ahead of time. The pass is on
// builtin.module, or on an op in it. Kernels are made on several threads at once, each with a pass
// of its own.
//
// The pass leaves the names and types of functions alone; what the kernel computes is its own
// affair: Weft no longer vouches for bits. Calls that it adds must end in the kernel itself
// (memcpy, memmove and memset excepted): no library is linked. The module is verified after it. A
// kernel that it breaks is an error that names the pass. Its warnings and remarks are notes of
// explain.
//
// name and version are part of the keys of programs and kernels; an empty version keeps programs
// off the disk. From any thread. InvalidArgument without a factory or a name, AlreadyExists for the
// second of a name and a version after one stage.
absl::Status registerKernelPass(KernelStage stage, PassFactory factory, std::string name,
                                std::string version);
// Forgets them; for tests.
void clearRegisteredKernelPasses();

// 0 while there are none; another number after each change. For keys of kernels.
uint64_t registeredKernelPassesGeneration();
// Runs those of the stage of that name ("loops", "math", "llvm"); costs nothing where there are
// none. A failure has diagnostics. remarks: gets their warnings and remarks; null is allowed.
mlir::LogicalResult runKernelPasses(mlir::ModuleOp kernel, llvm::StringRef stage,
                                    std::vector<std::string> *remarks);

} // namespace weft::compiler
