// Compiling ahead of time: a module becomes files that run without a compiler, LLVM or Weft.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backend/CompileOptions.h"
#include "compiler/backend/CompileReport.h"
#include "compiler/claim/RuntimeLibrary.h"
#include "compiler/link/Compile.h"
#include "compiler/link/KernelCompiler.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/core/dtype.h"

namespace weft::compiler {

class ProviderSet;

enum class Emit {
  Weft,          // the slice after the fuse phase, as text
  Plan,          // the planned program and its kernels, as text
  Llvm,          // LLVM IR; of kernels for another device than the host, one module after another
  Assembly,      // of the target, likewise
  Object,        // a relocatable object and its C header (runtime/aot/weft_model.h)
  SharedLibrary, // the object and the runtime in one library, with the header
  Executable,    // with a main() that reads and writes .npy files
};
// "weft", "plan", "llvm", "asm", "obj", "so", "exe"; nullopt for another name.
std::optional<Emit> parseEmit(llvm::StringRef name);

// The value of a parameter, an argument or a constant of @main with the attribute
// weft.parameter = "name", or the first value of a state. Row-major bytes that the caller keeps.
struct AotWeight {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  llvm::ArrayRef<char> bytes;
};

// Kernels that run on another device than the host: what a backend gives to have them compiled
// ahead of time.
struct DeviceKernels {
  KernelMaker maker;
  // The kernels, in order, as the bytes that executableMaker takes.
  std::function<absl::StatusOr<std::string>(llvm::ArrayRef<CompiledKernel>)> pack;
  std::string executableMaker; // a weft_executable_maker (runtime/aot/weft_model.h)
  std::vector<std::string>
      archives; // what defines it: the first that exists, relative to the runtime's folder
};

struct AotOptions {
  // compile.cpu may name several processors, the best first, as "x86-64-v4,x86-64-v3": the model
  // takes the first that its machine can run.
  CompileOptions compile;
  Emit emit = Emit::Executable;
  std::string output; // the file to write; "-" writes text to stdout
  std::string name;   // of the model in C, an identifier; empty: the output's name, made one
  std::vector<AotWeight> weights; // instead of values that the module has
  // true: weights and first values of state go into the object. false: they go into
  // OUTPUT.safetensors, which weft_model_open() or --weights is given. Those without a value are
  // always read when the model is opened.
  bool embedWeights = true;
  // Who may claim ops; null for nobody.
  const ProviderSet *providers = nullptr;
  // What may be linked to call libraries: of the backend's own, and of users' providers.
  std::vector<RuntimeLibrary> libraries;
  // What calls of libraries work in, where they run on this machine; null for others.
  ScratchBytes scratchBytes;
  // As in CompileRequest (compiler/link/Compile.h).
  ChooseSchedules chooseSchedules;
  // Null: kernels are the host's.
  const DeviceKernels *device = nullptr;
  // What libraries and executables are linked with beside: objects or archives that define
  // weft_kernel_plugin (runtime/abi/weft_custom.h) where the program calls kernels of users.
  std::vector<std::string> link;
  // The folder of libweft_aot.a; empty: WEFT_RUNTIME_DIR, or what is found from the folder of this
  // program upwards.
  std::string runtimeFolder;
  // Is told in a sentence what compiles and is most likely not meant; null: nobody is.
  std::function<void(const std::string &what)> warn;
};

struct AotResult {
  std::vector<std::string> files;     // what was written, the output first
  std::vector<CompileReport> reports; // one for each entry
};

// The module is consumed. It has a function @main, or holds a module with one for each entry of the
// model, named as the entry is: what entries hold under one name, they share. Arguments with
// weft.state (dialects/weft/state) are what the model keeps between runs, and a result with
// weft.writes is the new value of one; of other arguments it is an output. Constants that have
// weft.parameter, and large ones, are weights like such arguments, with the constant's value where
// options.weights has none. InvalidArgument for a
// module, name or weight that does not fit (the message says which), NotFound for a missing runtime
// archive or linker, Internal for a failed phase or link, with its messages.
absl::StatusOr<AotResult> compileAheadOfTime(mlir::ModuleOp module, const AotOptions &options);

} // namespace weft::compiler
