#include "backends/cuda/compile/CudaCompile.h"

#include "backends/cuda/compile/Limits.h"
#include "dialects/weft/ir/Weft.h"
#include "runtime/core/status.h"
#include "llvm/ADT/StringSet.h"

namespace weft::backends::cuda {

using namespace mlir;

static absl::Status refusal(Operation *op, const Twine &why) {
  std::string where;
  if (auto file = dyn_cast<FileLineColLoc>(op->getLoc()))
    where = (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ": ").str();
  return absl::UnimplementedError((where + op->getName().getStringRef() + " " + why).str());
}

compiler::KernelMaker kernelMaker(StringRef architecture) {
  return kernelMaker(architecture, ("cuda " + architecture).str(), nullptr);
}

compiler::KernelMaker kernelMaker(StringRef architecture, StringRef key, KernelHook built) {
  auto make =
      [architecture = architecture.str(),
       built](ir::FusionOp fusion, StringRef symbol,
              const compiler::CodegenOptions &options) -> absl::StatusOr<compiler::CompiledKernel> {
    if (Operation *op = unscheduled(fusion))
      return refusal(op, kNoSchedule);
    OwningOpRef<ModuleOp> code = ModuleOp::create(UnknownLoc::get(fusion.getContext()));
    FailureOr<GpuKernel> kernel = buildGpuKernel(fusion, symbol, *code, options);
    if (failed(kernel))
      return absl::InternalError("GPU code generation failed");
    if (built)
      WEFT_RETURN_IF_ERROR(built(*code, *kernel));
    WEFT_ASSIGN_OR_RETURN(std::string ptx, emitPtx(*code, architecture, options));
    KernelModule module{std::move(ptx), kernel->entries};
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
                            ArrayRef<plan::KernelOp> ops,
                            StringRef dumpFolder) -> compiler::MadeKernels {
    // Asked here, where ops have their locations: kernels are made without.
    for (plan::KernelOp kernel : ops)
      for (auto fusion : kernel.getBody().front().getOps<ir::FusionOp>()) {
        if (Operation *op = unscheduled(fusion))
          return refusal(op, kNoSchedule);
        if (OfOneSize one = ofOneSize(fusion); one.op)
          return refusal(one.op, one.why);
      }
    return compiler::KernelCompiler::instance().compile(ops, maker, options, dumpFolder, *kernels);
  };
  return request;
}

absl::StatusOr<CompiledProgram> compileProgram(ModuleOp module,
                                               const compiler::CompileOptions &options,
                                               const compiler::KernelMaker &maker,
                                               const compiler::ProviderSet *providers,
                                               compiler::CompileReport *report) {
  auto kernels = std::make_shared<Kernels>();
  compiler::CompileRequest request = compileRequest(options, maker, providers, kernels);
  CompiledProgram result;
  WEFT_ASSIGN_OR_RETURN(
      runtime::Program program,
      compiler::compileToProgram(module, options, request, report, &result.sizes));
  result.program = std::move(program);
  StringSet<> known;
  for (const auto &kernel : *kernels) {
    if (!known.insert(kernel->info.symbol).second)
      continue;
    if (report)
      report->codeBytes += int64_t(kernel->object.size());
    WEFT_ASSIGN_OR_RETURN(auto modules,
                          read_modules({reinterpret_cast<const std::byte *>(kernel->object.data()),
                                        kernel->object.size()}));
    for (KernelModule &one : modules)
      result.modules.push_back(std::move(one));
  }
  return result;
}

} // namespace weft::backends::cuda
