#include "backends/cuda/compile/GpuCodegen.h"

#include "backends/cuda/compile/KernelPlan.h"
#include "backends/cuda/compile/RoundToBFloat16.h"
#include "backends/cuda/compile/WidenExtrema.h"
#include "compiler/codegen/LlvmPasses.h"
#include "compiler/math/Expand.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/Support/TargetSelect.h"

namespace weft::backends::cuda {

namespace LLVM = mlir::LLVM;

static constexpr const char *kTriple = "nvptx64-nvidia-cuda";
// GPUs that code is made for, and the PTX that their drivers take.
struct Architecture {
  const char *name;
  int capability;
  const char *features;
};
static constexpr Architecture kArchitectures[] = {{"sm_80", 80, "+ptx70"},
                                                  {"sm_86", 86, "+ptx71"},
                                                  {"sm_89", 89, "+ptx78"},
                                                  {"sm_90", 90, "+ptx78"}};

static const Architecture *find(llvm::StringRef name) {
  for (const Architecture &architecture : kArchitectures)
    if (name == architecture.name)
      return &architecture;
  return nullptr;
}

absl::Status checkArchitecture(llvm::StringRef name) {
  if (find(name))
    return absl::OkStatus();
  std::string known;
  for (const Architecture &architecture : kArchitectures)
    known += std::string(known.empty() ? "" : ", ") + architecture.name;
  return absl::InvalidArgumentError(
      ("there is no code generation for the GPU architecture '" + name + "'; known: " + known)
          .str());
}

std::string newestArchitecture(int capability) {
  const char *best = kArchitectures[0].name;
  for (const Architecture &architecture : kArchitectures)
    if (architecture.capability <= capability)
      best = architecture.name;
  return best;
}

void registerGpuDialects(mlir::MLIRContext &context) {
  if (context.getLoadedDialect<mlir::NVVM::NVVMDialect>())
    return;
  mlir::DialectRegistry registry;
  mlir::registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<mlir::NVVM::NVVMDialect>();
}

// Makes an entry point of the function: threads a block, and which pointers nothing else writes
// through.
static void makeEntry(mlir::ModuleOp module, llvm::StringRef symbol, const Geometry &geometry,
                      llvm::ArrayRef<int64_t> readOnly) {
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
  mlir::Builder b(module.getContext());
  function.setLinkage(LLVM::Linkage::External);
  function->setAttr(mlir::NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(mlir::NVVM::NVVMDialect::getReqntidAttrName(),
                    b.getDenseI32ArrayAttr({static_cast<int32_t>(geometry.threads)}));
  for (int64_t i : readOnly) {
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
    function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), b.getUnitAttr());
  }
}

using Schedule = mlir::LogicalResult (*)(KernelPlan &, Geometry &);
// Of an op that is a kernel of its own; null for none.
static Schedule scheduleOf(mlir::Operation *op) {
  if (mlir::isa<ir::MatmulOp>(op))
    return scheduleMatmul;
  if (!ir::isOwn(op))
    return nullptr;
  ir::Kind kind = mlir::cast<ir::WeftOp>(op).kind();
  if (kind == ir::Kind::Scatter)
    return scheduleScatter;
  return kind == ir::Kind::Scan ? scheduleScan : nullptr;
}

mlir::Operation *unscheduled(ir::FusionOp fusion) {
  mlir::Block &body = fusion.getBody().front();
  llvm::SmallVector<mlir::Operation *> ops;
  for (mlir::Operation &op : body.without_terminator())
    ops.push_back(&op);
  llvm::SmallVector<mlir::Value> outputs(body.getTerminator()->getOperands());
  compiler::FusionRefusal why;
  auto domain = FusionDomain::analyze(ops, outputs, why);
  if (!domain || domain->shape() != FusionDomain::Shape::Alone)
    return nullptr;
  mlir::Operation *op = outputs.front().getDefiningOp();
  return scheduleOf(op) ? nullptr : op;
}

mlir::FailureOr<GpuKernel> buildGpuKernel(ir::FusionOp fusion, llvm::StringRef symbol,
                                          mlir::ModuleOp into,
                                          const compiler::CodegenOptions &options) {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(fusion.getLoc());
  auto kernel = compiler::startKernel(fusion, symbol, *module, options);
  if (mlir::failed(kernel))
    return mlir::failure();
  KernelPlan plan(*kernel);
  Geometry body, finish;
  auto schedule = [&] {
    switch (kernel->domain.shape()) {
    case FusionDomain::Shape::Elementwise:
      return readsTransposed(plan) ? scheduleTransposed(plan, body)
                                   : scheduleElementwise(plan, body);
    case FusionDomain::Shape::Rows:
      return plan.hasRows ? scheduleRows(plan, body) : scheduleColumns(plan, body);
    case FusionDomain::Shape::Total:
      return scheduleTotals(plan, body);
    case FusionDomain::Shape::Nest:
      return scheduleNest(plan, body);
    case FusionDomain::Shape::Empty:
      return scheduleEmpty(plan, body);
    case FusionDomain::Shape::Alone:
      break;
    }
    mlir::Operation *op = kernel->outputs.front().getDefiningOp();
    if (Schedule alone = scheduleOf(op))
      return alone(plan, body);
    return mlir::LogicalResult(op->emitOpError(kNoSchedule));
  };
  if (mlir::failed(schedule()) ||
      (!plan.partials.empty() && mlir::failed(scheduleFinish(plan, finish))))
    return mlir::failure();
  kernel->tensors.erase();
  if (mlir::failed(compiler::stageDone(*module, options, "loops")))
    return mlir::failure();
  compiler::expandMath(*module);
  if (mlir::failed(compiler::stageDone(*module, options, "math")))
    return mlir::failure();
  roundToBFloat16ByInstruction(*module);
  if (mlir::failed(
          compiler::convertToLlvm(*module, mlir::NVVM::NVVMDialect::getDialectNamespace())))
    return fusion.emitError("codegen: conversion to the llvm dialect fails");

  llvm::SmallVector<int64_t> readOnly;
  for (int64_t i = 0; i < kernel->numInputs(); ++i)
    if (llvm::none_of(kernel->info.inPlace, [&](auto pair) { return pair.second == i; }))
      readOnly.push_back(i);
  GpuKernel result;
  auto add = [&](const std::string &name, const Geometry &geometry) {
    makeEntry(*module, name, geometry, readOnly);
    result.entries.push_back({name, geometry.blocks, geometry.threads});
  };
  kernel->info.count = body.blocks;
  add(kernel->info.symbol, body);
  if (!kernel->info.finish.empty())
    add(kernel->info.finish, finish);
  if (mlir::failed(compiler::stageDone(*module, options, "llvm")))
    return mlir::failure();
  compiler::estimate(*kernel);
  kernel->noteChoices();
  result.info = kernel->info;
  into.getBody()->getOperations().splice(into.getBody()->end(), module->getBody()->getOperations());
  return result;
}

static void initializeTarget() {
  static const bool once = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)once;
}

absl::StatusOr<std::string> emitPtx(mlir::ModuleOp module, llvm::StringRef architecture,
                                    const compiler::CodegenOptions &options) {
  if (absl::Status status = checkArchitecture(architecture); !status.ok())
    return status;
  initializeTarget();
  auto machine =
      compiler::makeMachine(kTriple, architecture, find(architecture)->features, std::nullopt);
  if (!machine.ok())
    return machine.status();
  llvm::LLVMContext context;
  auto ir = compiler::translateToLlvm(module, context, **machine, options);
  if (!ir.ok())
    return ir.status();
  if (absl::Status status = compiler::optimize(**ir, **machine, options); !status.ok())
    return status;
  widenExtrema(**ir);
  auto ptx = compiler::emitCode(**ir, **machine, llvm::CodeGenFileType::AssemblyFile);
  if (ptx.ok() && options.dump)
    options.dump(kAssembly, *ptx);
  return ptx;
}

} // namespace weft::backends::cuda
