// Files of one kernel, in the folder `kernels` of a program's dump: NAME.mlir is the fusion,
// NAME.STAGE.mlir what codegen made of it, NAME.ll and NAME.s (or what the assembly is called) the
// code.
#pragma once

#include <string>

#include "compiler/codegen/Codegen.h"
#include "dialects/plan/ir/Plan.h"

namespace weft::compiler {

class KernelDump {
public:
  // An empty folder: nothing is written.
  KernelDump(llvm::StringRef folder, llvm::StringRef name, llvm::StringRef assembly)
      : folder_(folder), name_(name), assembly_(assembly) {}

  // The fusion.
  void write(mlir::Operation *kernel) const;
  // For codegen; it holds a copy of this.
  DumpHook hook() const;

private:
  void write(llvm::StringRef stage, llvm::StringRef text) const;

  std::string folder_, name_, assembly_;
};

} // namespace weft::compiler
