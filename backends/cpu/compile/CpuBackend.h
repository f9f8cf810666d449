// The CPU: kernels compiled by LLVM, matrix products and the like by oneDNN.
#pragma once

#include "compiler/backend/Backend.h"
#include "compiler/link/KernelCompiler.h"
#include "compiler/link/RunsPhases.h"

namespace weft::backends::cpu {

// Registered as "cpu", and as "cpu-unfused" with fusing off: every op is a kernel of its own, with
// the same results bit for bit.
class CpuBackend : public compiler::Backend, public compiler::RunsPhases {
public:
  struct Defaults {
    const char *name = "cpu";
    bool fuse = true;
  };
  explicit CpuBackend(Defaults defaults) : defaults_(defaults) {}

  llvm::StringRef name() const override {
    return defaults_.name;
  }
  llvm::StringRef device() const override {
    return "cpu";
  }
  void registerDialects(mlir::DialectRegistry &registry) const override;
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  compile(mlir::ModuleOp module, const compiler::CompileOptions &options,
          compiler::CompileReport *report) override;
  absl::StatusOr<compiler::PhaseRun> phases(const compiler::CompileOptions &options) override;
  std::string usualProcessor() const override {
    return "sapphirerapids"; // AVX-512, with products of bf16 numbers
  }
  compiler::StableUse stableUse() const override;
  std::string targetKey(const compiler::CompileOptions &options) const override;
  std::string whyNotCachable(const compiler::CompileOptions &options) const override;
  std::optional<std::string> serialize(const runtime::Executable &executable) const override;
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  load(llvm::ArrayRef<char> blob) const override;
  absl::StatusOr<std::vector<std::string>>
  compileAheadOfTime(mlir::ModuleOp module, const compiler::AotOptions &options) override;

private:
  // `kernels` gets those that are made.
  using Kernels = std::vector<std::shared_ptr<const compiler::CompiledKernel>>;
  absl::StatusOr<compiler::PhaseRun> phases(const compiler::CompileOptions &options,
                                            std::shared_ptr<Kernels> kernels);
  compiler::CompileOptions effective(const compiler::CompileOptions &options) const;
  Defaults defaults_;
};

} // namespace weft::backends::cpu
