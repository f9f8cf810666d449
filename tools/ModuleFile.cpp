#include "tools/ModuleFile.h"

#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

namespace weft::tools {

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
  if (module)
    return module;
  return absl::InvalidArgumentError(diagnostics.failure(name + " is no valid program"));
}

} // namespace weft::tools
