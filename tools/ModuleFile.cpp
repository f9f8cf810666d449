#include "tools/ModuleFile.h"

#include "dialects/weft/ir/DiagnosticCollector.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

namespace weft::tools {

absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> readModule(const std::string &path, mlir::MLIRContext &context) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer = mlir::openInputFile(path, &message);
  if (!buffer) return absl::NotFoundError(message);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  ir::DiagnosticCollector diagnostics(&context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  if (module) return module;
  std::string name = path == "-" ? "stdin" : path;
  return absl::InvalidArgumentError(diagnostics.failure(name + " is no valid program"));
}

} // namespace weft::tools
