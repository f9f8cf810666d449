// What a weft::Program holds. Private to this folder.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frontend/recorder/program_cache.h"
#include "frontend/recorder/values.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "weft/jit.h"

namespace weft::recorder {

struct ProgramImpl {
  std::mutex mutex; // of the module and its context
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<const TypeInfo *> inputs, outputs;
  // Under the recorder's lock.
  std::shared_ptr<CompiledProgram> compiled;
  std::string compiled_for; // the backend, and which passes were registered
};

// An empty program with a context of its own.
std::shared_ptr<ProgramImpl> make_program();

// Reads text or bytecode; `name` is what errors call it. Throws kFile with what the parser says.
std::shared_ptr<ProgramImpl> parse_program(llvm::StringRef source, const std::string &name,
                                           Location location);
// Fills inputs and outputs from @main. Throws kFile where the module has none of tensors of static
// shape.
void describe_types(ProgramImpl &program, const std::string &name, Location location);
std::string bytecode_of(ProgramImpl &program);
// Throws kState for none.
ProgramImpl &checked_program(const std::shared_ptr<ProgramImpl> &impl,
                             Location location = Location::current());

} // namespace weft::recorder
