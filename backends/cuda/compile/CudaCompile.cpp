#include "backends/cuda/compile/CudaCompile.h"

#include "backends/cuda/compile/Limits.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/StringSet.h"

namespace weft::backends::cuda {

static absl::Status refusal(mlir::Operation *op) {
  std::string where;
  if (auto file = mlir::dyn_cast<mlir::FileLineColLoc>(op->getLoc()))
    where = (file.getFilename().getValue() + ":" + llvm::Twine(file.getLine()) + ": ").str();
  return absl::UnimplementedError((where + op->getName().getStringRef() + " " + kNoSchedule).str());
}

compiler::KernelMaker kernelMaker(llvm::StringRef architecture) {
  return kernelMaker(architecture, ("cuda " + architecture).str(), nullptr);
}

compiler::KernelMaker kernelMaker(llvm::StringRef architecture, llvm::StringRef key,
                                  KernelHook built) {
  auto make =
      [architecture = architecture.str(),
       built](ir::FusionOp fusion, llvm::StringRef symbol,
              const compiler::CodegenOptions &options) -> absl::StatusOr<compiler::CompiledKernel> {
    if (mlir::Operation *op = unscheduled(fusion))
      return refusal(op);
    mlir::OwningOpRef<mlir::ModuleOp> code =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(fusion.getContext()));
    mlir::FailureOr<GpuKernel> kernel = buildGpuKernel(fusion, symbol, *code, options);
    if (mlir::failed(kernel))
      return absl::InternalError("GPU code generation failed");
    if (built)
      if (absl::Status status = built(*code, *kernel); !status.ok())
        return status;
    absl::StatusOr<std::string> ptx = emitPtx(*code, architecture, options);
    if (!ptx.ok())
      return ptx.status();
    KernelModule module{*std::move(ptx), kernel->entries};
    return compiler::CompiledKernel{kernel->info, write_modules({&module, 1})};
  };
  return {.key = key.str(),
          .assembly = kAssembly,
          .operandAlignment = kAccessBytes,
          .prepare = registerGpuDialects,
          .make = make};
}

compiler::CompileRequest compileRequest(const compiler::CompileOptions &options,
                                        const compiler::KernelMaker &maker,
                                        const compiler::ProviderSet *providers,
                                        std::shared_ptr<Kernels> kernels) {
  compiler::CompileRequest request;
  request.providers = providers;
  request.target = maker.key;
  request.operandAlignment = maker.operandAlignment;
  request.makeKernels = [options, maker, kernels = std::move(kernels)](
                            llvm::ArrayRef<plan::KernelOp> ops,
                            llvm::StringRef dumpFolder) -> compiler::MadeKernels {
    // Asked here, where ops have their locations: kernels are made without.
    for (plan::KernelOp kernel : ops)
      for (auto fusion : kernel.getBody().front().getOps<ir::FusionOp>())
        if (mlir::Operation *op = unscheduled(fusion))
          return refusal(op);
    return compiler::KernelCompiler::instance().compile(ops, maker, options, dumpFolder, *kernels);
  };
  return request;
}

absl::StatusOr<CompiledProgram> compileProgram(mlir::ModuleOp module,
                                               const compiler::CompileOptions &options,
                                               const compiler::KernelMaker &maker,
                                               const compiler::ProviderSet *providers,
                                               compiler::CompileReport *report) {
  auto kernels = std::make_shared<Kernels>();
  compiler::CompileRequest request = compileRequest(options, maker, providers, kernels);
  absl::StatusOr<runtime::Program> program =
      compiler::compileToProgram(module, options, request, report);
  if (!program.ok())
    return program.status();
  CompiledProgram result{*std::move(program), {}};
  llvm::StringSet<> known;
  for (const auto &kernel : *kernels) {
    if (!known.insert(kernel->info.symbol).second)
      continue;
    if (report)
      report->codeBytes += int64_t(kernel->object.size());
    auto modules = read_modules(
        {reinterpret_cast<const std::byte *>(kernel->object.data()), kernel->object.size()});
    if (!modules.ok())
      return modules.status();
    for (KernelModule &one : *modules)
      result.modules.push_back(std::move(one));
  }
  return result;
}

} // namespace weft::backends::cuda
