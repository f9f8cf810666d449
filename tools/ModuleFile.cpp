#include "tools/ModuleFile.h"

#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

namespace weft::tools {
namespace {

constexpr const char *kDumps =
    "of what WEFT_DUMP_DIR writes, the files of the phases before it are programs: 00-import.mlir "
    "to 40-fuse.mlir";

// What a module without @main is instead.
absl::Status noMain(const std::string &name, mlir::ModuleOp module) {
  bool isKernel = false;
  for (mlir::Operation &op : *module.getBody()) {
    llvm::StringRef kind = op.getName().getStringRef();
    if (kind == "plan.program")
      return absl::InvalidArgumentError(name +
                                        " is a plan, the end of a compilation, and no program; " +
                                        kDumps);
    isKernel |= kind == "plan.kernel";
  }
  if (isKernel)
    return absl::InvalidArgumentError(name + " is the dump of a kernel, and no program; " + kDumps);
  return absl::InvalidArgumentError(
      name + " has no func.func @main to compile; rename the function to compile");
}

} // namespace

absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> readModule(const std::string &path,
                                                             mlir::MLIRContext &context) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer = mlir::openInputFile(path, &message);
  if (!buffer)
    return absl::NotFoundError(message);
  std::string name = path == "-" ? "stdin" : path;
  if (ir::inspectBytecode(buffer->getBuffer()) == ir::BytecodeState::Damaged)
    return absl::InvalidArgumentError(name + " " + ir::kDamagedBytecode);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  ir::DiagnosticCollector diagnostics(&context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  // One of several entries is a module in the module.
  if (module && !module->lookupSymbol<mlir::func::FuncOp>("main") &&
      module->getOps<mlir::ModuleOp>().empty())
    return noMain(name, *module);
  if (module)
    return module;
  message = diagnostics.failure(name + " is no valid program");
  // A kernel's stages have ops of MLIR's own.
  if (message.find("not found for custom op") != std::string::npos)
    message = llvm::StringRef(message).rtrim().str() + "; a program holds weft ops; " + kDumps;
  return absl::InvalidArgumentError(message);
}

} // namespace weft::tools
