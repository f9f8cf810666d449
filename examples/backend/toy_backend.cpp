// The backend itself, and the plugin that registers it: WEFT_PLUGINS=./toy.so WEFT_BACKEND=toy
// program
#include "compiler/backend/Backend.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/plugin/Plugin.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "toy_compiler.h"

namespace toy {
namespace {

namespace compiler = weft::compiler;

class ToyBackend : public compiler::Backend {
public:
  llvm::StringRef name() const override {
    return "toy";
  }
  // Its executables take and give the host's buffers.
  llvm::StringRef device() const override {
    return "cpu";
  }
  void registerDialects(mlir::DialectRegistry &registry) const override {
    registry.insert<weft::ir::WeftDialect, mlir::func::FuncDialect>();
  }

  absl::StatusOr<std::shared_ptr<weft::runtime::Executable>>
  compile(mlir::ModuleOp module, const compiler::CompileOptions &options,
          compiler::CompileReport *report) override {
    compiler::CompileReport scratch;
    compiler::CompileReport &filled = report ? *report : scratch;
    weft::ir::DiagnosticCollector diagnostics(module.getContext());
    // Weft's own phases, with the passes that users registered around them and the dumps that they
    // asked for. Nobody claims composites here: they become simpler ops, most of which the device
    // has kernels for. Nothing is computed ahead of runs.
    compiler::CompileOptions phases = options;
    phases.prepare = false;
    compiler::Pipeline pipeline(phases, nullptr, &filled);
    if (mlir::failed(pipeline.run(module, compiler::Phase::Import, compiler::Phase::Claim)))
      return absl::InternalError(diagnostics.failure("compilation failed"));
    absl::StatusOr<std::shared_ptr<ToyExecutable>> executable =
        toy::compile(module, options, filled);
    if (!executable.ok())
      return executable.status();
    return std::shared_ptr<weft::runtime::Executable>(*std::move(executable));
  }

  std::string targetKey(const compiler::CompileOptions &) const override {
    return "toy 1.0";
  }
  std::string whyNotCachable(const compiler::CompileOptions &) const override {
    return "the toy backend writes no files";
  }
};

void registerAll(compiler::PluginRegistrar &registrar) {
  registrar.registerBackend("toy", [] { return std::make_unique<ToyBackend>(); });
}

} // namespace
} // namespace toy

extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {weft::compiler::kPluginApiVersion, "toy", "1.0", toy::registerAll};
}
