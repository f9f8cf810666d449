// Registers "refusing", for the test of the suite itself: reference evaluation, but for exp, and
// for add in int8.
#include "compiler/backend/Backend.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::tests {
namespace {

class RefusingBackend : public compiler::Backend {
public:
  llvm::StringRef name() const override {
    return "refusing";
  }
  llvm::StringRef device() const override {
    return "cpu";
  }
  void registerDialects(mlir::DialectRegistry &registry) const override {
    (*compiler::findBackend("reference"))->registerDialects(registry);
  }
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  compile(mlir::ModuleOp module, const compiler::CompileOptions &options,
          compiler::CompileReport *report) override {
    bool refused = false;
    module.walk([&](mlir::Operation *op) {
      refused |= mlir::isa<ir::ExpOp>(op);
      if (mlir::isa<ir::AddOp>(op))
        refused |= mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType())
                       .getElementType()
                       .isSignlessInteger(8);
    });
    if (refused)
      return absl::UnimplementedError("not on this device");
    return (*compiler::findBackend("reference"))->compile(module, options, report);
  }
  std::string targetKey(const compiler::CompileOptions &) const override {
    return "";
  }
  std::string whyNotCachable(const compiler::CompileOptions &) const override {
    return "it is for tests";
  }
};

const compiler::BackendRegistration registration("refusing", [] {
  return std::make_unique<RefusingBackend>();
});

} // namespace
} // namespace weft::tests
