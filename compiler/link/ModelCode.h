// The data that a compiled object exports: weft_model_code of runtime/aot/weft_model.h.
#pragma once

#include <string>

#include "mlir/IR/BuiltinOps.h"
#include "runtime/executable/program.h"
#include "llvm/ADT/ArrayRef.h"

namespace weft::compiler {

struct ModelCode {
  std::string name;    // a C identifier
  std::string program; // runtime::serialize()
  std::vector<std::string> kernels;
  std::vector<std::string> libraryFinders; // C functions
  std::vector<int32_t> parameters;
  std::string executableMaker; // a C function; empty where the kernels are the host's
  std::string deviceCode;      // what it takes
  bool isMain = false;         // also names the model for the archive's main()
};

// Adds the globals to a module of kernels, and makes the kernels internal, so that objects of
// several models link together.
void addModelCode(mlir::ModuleOp module, const ModelCode &code);

// The C header of the model. archives: what it is linked with beside the runtime's.
std::string modelHeader(llvm::StringRef name, const runtime::Program &program,
                        llvm::ArrayRef<int32_t> parameters, llvm::StringRef archives);

// The name as a C identifier; empty when nothing of it is left.
std::string cIdentifier(llvm::StringRef name);

} // namespace weft::compiler
