// What a weft::Program holds. Private to this folder.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frontend/recorder/program_cache.h"
#include "frontend/recorder/values.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace weft::recorder {

// On a weft.constant: the name that a captured tensor has in its module.
inline constexpr llvm::StringLiteral kParameterName = "weft.parameter";

struct ProgramImpl {
  std::mutex mutex; // of the module and its context
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<const TypeInfo *> inputs, outputs;
  // Under the recorder's lock.
  std::shared_ptr<CompiledProgram> compiled;
  std::string compiled_for; // the backend
};

} // namespace weft::recorder
