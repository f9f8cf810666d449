#include "backends/cuda/compile/GpuCodegen.h"

#include "backends/cuda/compile/KernelPlan.h"
#include "compiler/math/Expand.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

namespace weft::backends::cuda {

namespace LLVM = mlir::LLVM;

static constexpr const char *kTriple = "nvptx64-nvidia-cuda";
// Kernels are straight code with short loops; ptxas optimises again.
static constexpr const char *kPipeline =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse<memssa>,simplifycfg)";

// GPUs that code is made for, and the PTX that their drivers take.
struct Architecture {
  const char *name;
  int capability;
  const char *features;
};
static constexpr Architecture kArchitectures[] = {
    {"sm_80", 80, "+ptx70"}, {"sm_86", 86, "+ptx71"}, {"sm_89", 89, "+ptx78"}, {"sm_90", 90, "+ptx78"}};

static const Architecture *find(llvm::StringRef name) {
  for (const Architecture &architecture : kArchitectures)
    if (name == architecture.name) return &architecture;
  return nullptr;
}

absl::Status checkArchitecture(llvm::StringRef name) {
  if (find(name)) return absl::OkStatus();
  std::string known;
  for (const Architecture &architecture : kArchitectures) known += std::string(known.empty() ? "" : ", ") + architecture.name;
  return absl::InvalidArgumentError(("there is no code generation for the GPU architecture '" + name + "'; known: " + known).str());
}

std::string newestArchitecture(int capability) {
  const char *best = kArchitectures[0].name;
  for (const Architecture &architecture : kArchitectures)
    if (architecture.capability <= capability) best = architecture.name;
  return best;
}

void registerGpuDialects(mlir::MLIRContext &context) {
  if (context.getLoadedDialect<mlir::NVVM::NVVMDialect>()) return;
  mlir::DialectRegistry registry;
  mlir::registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<mlir::NVVM::NVVMDialect>();
}

// Makes an entry point of the function: threads a block, and which pointers nothing else writes through.
static void makeEntry(mlir::ModuleOp module, llvm::StringRef symbol, const Geometry &geometry, llvm::ArrayRef<int64_t> readOnly) {
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
  mlir::Builder b(module.getContext());
  function.setLinkage(LLVM::Linkage::External);
  function->setAttr(mlir::NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(mlir::NVVM::NVVMDialect::getReqntidAttrName(), b.getDenseI32ArrayAttr({static_cast<int32_t>(geometry.threads)}));
  for (int64_t i : readOnly) {
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
    function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), b.getUnitAttr());
  }
}

mlir::FailureOr<GpuKernel> buildGpuKernel(ir::FusionOp fusion, llvm::StringRef symbol, mlir::ModuleOp into,
                                          const compiler::CodegenOptions &options) {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(fusion.getLoc());
  auto kernel = compiler::startKernel(fusion, symbol, *module, options);
  if (mlir::failed(kernel)) return mlir::failure();
  KernelPlan plan(*kernel);
  Geometry body, finish;
  auto schedule = [&] {
    switch (kernel->domain.shape()) {
    case FusionDomain::Shape::Elementwise: return scheduleElementwise(plan, body);
    case FusionDomain::Shape::Rows: return plan.hasRows ? scheduleRows(plan, body) : scheduleColumns(plan, body);
    case FusionDomain::Shape::Total: return scheduleTotals(plan, body);
    case FusionDomain::Shape::Nest: return scheduleNest(plan, body);
    case FusionDomain::Shape::Empty: return scheduleEmpty(plan, body);
    case FusionDomain::Shape::Alone: break;
    }
    mlir::Operation *op = kernel->outputs.front().getDefiningOp();
    if (mlir::isa<ir::MatmulOp>(op)) return scheduleMatmul(plan, body);
    if (mlir::isa<ir::IndexAddOp, ir::ScatterAddOp>(op)) return scheduleScatter(plan, body);
    return mlir::LogicalResult(op->emitOpError(kNoSchedule));
  };
  if (mlir::failed(schedule()) || (!plan.partials.empty() && mlir::failed(scheduleFinish(plan, finish)))) return mlir::failure();
  kernel->tensors.erase();
  if (mlir::failed(compiler::stageDone(*module, options, "loops"))) return mlir::failure();
  compiler::expandMath(*module);
  if (mlir::failed(compiler::stageDone(*module, options, "math"))) return mlir::failure();
  if (mlir::failed(compiler::convertToLlvm(*module, mlir::NVVM::NVVMDialect::getDialectNamespace())))
    return fusion.emitError("codegen: conversion to the llvm dialect fails");

  llvm::SmallVector<int64_t> readOnly;
  for (int64_t i = 0; i < kernel->numInputs(); ++i)
    if (llvm::none_of(kernel->info.inPlace, [&](auto pair) { return pair.second == i; })) readOnly.push_back(i);
  GpuKernel result;
  auto add = [&](const std::string &name, const Geometry &geometry) {
    makeEntry(*module, name, geometry, readOnly);
    result.entries.push_back({name, geometry.blocks, geometry.threads});
  };
  kernel->info.count = body.blocks;
  add(kernel->info.symbol, body);
  if (!kernel->info.finish.empty()) add(kernel->info.finish, finish);
  if (mlir::failed(compiler::stageDone(*module, options, "llvm"))) return mlir::failure();
  compiler::estimate(*kernel);
  result.info = kernel->info;
  into.getBody()->getOperations().splice(into.getBody()->end(), module->getBody()->getOperations());
  return result;
}

static absl::Status failed(const llvm::Twine &message) { return absl::InternalError(message.str()); }

static absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> makeMachine(const Architecture &architecture) {
  static const bool once = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)once;
  std::string error;
  llvm::Triple triple(kTriple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) return failed("this LLVM has no code generator for " + llvm::Twine(kTriple) + ": " + error);
  llvm::TargetOptions options;
  // A multiplication and an addition stay two roundings, as on the CPU.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(triple, architecture.name, architecture.features, options,
                                                                           std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine) return failed("LLVM has no target machine for " + llvm::Twine(architecture.name));
  return machine;
}

absl::StatusOr<std::string> emitPtx(mlir::ModuleOp module, llvm::StringRef architecture, const compiler::CodegenOptions &options) {
  if (absl::Status status = checkArchitecture(architecture); !status.ok()) return status;
  auto machine = makeMachine(*find(architecture));
  if (!machine.ok()) return machine.status();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> ir = mlir::translateModuleToLLVMIR(module, context, "weft", /*disableVerification=*/!options.verify);
  if (!ir) return failed("translation of the kernels to LLVM IR fails");
  ir->setTargetTriple(llvm::Triple(kTriple));
  ir->setDataLayout((*machine)->createDataLayout());

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine->get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, kPipeline)) return failed("LLVM pipeline: " + llvm::toString(std::move(error)));
  passes.run(*ir, modules);
  if (options.verify && llvm::verifyModule(*ir, &llvm::errs())) return failed("LLVM's verifier rejects the optimised kernels");
  if (options.dump) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    ir->print(stream, nullptr);
    options.dump("ll", text);
  }
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream out(ptx);
  llvm::legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, out, nullptr, llvm::CodeGenFileType::AssemblyFile, /*DisableVerify=*/true))
    return failed("LLVM cannot write PTX");
  codegen.run(*ir);
  if (options.dump) options.dump("ptx", ptx);
  return std::string(ptx);
}

} // namespace weft::backends::cuda
