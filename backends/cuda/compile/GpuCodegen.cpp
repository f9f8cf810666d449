#include "backends/cuda/compile/GpuCodegen.h"

#include "backends/cuda/compile/KernelPlan.h"
#include "backends/cuda/compile/RoundToBFloat16.h"
#include "backends/cuda/compile/WidenExtrema.h"
#include "compiler/codegen/LlvmPasses.h"
#include "compiler/math/Expand.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "runtime/core/status.h"
#include "llvm/Support/TargetSelect.h"

namespace weft::backends::cuda {

using namespace mlir;

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

static const Architecture *find(StringRef name) {
  for (const Architecture &architecture : kArchitectures)
    if (name == architecture.name)
      return &architecture;
  return nullptr;
}

absl::Status checkArchitecture(StringRef name) {
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

void registerGpuDialects(MLIRContext &context) {
  if (context.getLoadedDialect<NVVM::NVVMDialect>())
    return;
  DialectRegistry registry;
  registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<NVVM::NVVMDialect>();
}

// Makes an entry point of the function: threads a block, and which pointers nothing else writes
// through.
static void makeEntry(ModuleOp module, StringRef symbol, const Geometry &geometry,
                      ArrayRef<int64_t> readOnly) {
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
  Builder b(module.getContext());
  function.setLinkage(LLVM::Linkage::External);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    b.getDenseI32ArrayAttr({static_cast<int32_t>(geometry.threads)}));
  for (int64_t i : readOnly) {
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
    function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), b.getUnitAttr());
  }
}

static void describeArguments(KernelBuilder &kernel, ArrayRef<int64_t> readOnly,
                              GpuKernel &result) {
  auto add = [&](Value tensor, bool isInput) {
    auto type = ir::typeOf(tensor);
    int64_t unit = compiler::memoryBytes(type.getElementType());
    result.arguments.push_back({.bytes = type.getNumElements() * unit,
                                .unit = unit,
                                .isInput = isInput,
                                .varies = kernel.sizes.named.contains(tensor)});
  };
  for (Value input : kernel.arguments())
    add(input, true);
  for (int64_t i : readOnly)
    result.arguments[i].isCached = true;
  for (Value output : kernel.outputs)
    add(output, false);
  result.arguments.push_back({kernel.info.partialsBytes});
  result.arguments.push_back({sizeof(int32_t), sizeof(int32_t)});
}

using Schedule = LogicalResult (*)(KernelPlan &, Geometry &);
// Of an op that is a kernel of its own; null for none.
static Schedule scheduleOf(Operation *op) {
  if (isa<ir::MatmulOp>(op))
    return scheduleMatmul;
  if (!ir::isOwn(op))
    return nullptr;
  ir::Kind kind = cast<ir::WeftOp>(op).kind();
  if (kind == ir::Kind::Scatter)
    return scheduleScatter;
  return kind == ir::Kind::Scan ? scheduleScan : nullptr;
}

Operation *unscheduled(ir::FusionOp fusion) {
  Block &body = fusion.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  SmallVector<Value> outputs(body.getTerminator()->getOperands());
  compiler::FusionRefusal why;
  auto domain = FusionDomain::analyze(ops, outputs, why);
  if (!domain || domain->shape() != FusionDomain::Shape::Alone)
    return nullptr;
  Operation *op = outputs.front().getDefiningOp();
  return scheduleOf(op) ? nullptr : op;
}

OfOneSize ofOneSize(ir::FusionOp fusion) {
  auto sizes = compiler::kernelSizes(fusion);
  if (failed(sizes))
    return {};
  auto ops = fusion.getBody().front().without_terminator();
  Operation *last = ops.empty() ? fusion.getOperation() : &*std::prev(ops.end());
  if (!sizes->lengthDims.empty())
    return {last, "is in a kernel that is told how long rows are; GPUs have none"};
  if (!sizes->chosen.empty())
    return {last, "reads rows of another number than it has; GPUs have no kernel for that"};
  auto varies = [&](Value value) {
    return sizes->named.contains(value);
  };
  for (Operation &op : ops)
    if (compiler::isReduction(&op) && varies(op.getOperand(0)) && !varies(op.getResult(0)))
      return {&op, "adds up a size that varies, in an order that follows from it on GPUs"};
  return {};
}

FailureOr<GpuKernel> buildGpuKernel(ir::FusionOp fusion, StringRef symbol, ModuleOp into,
                                    const compiler::CodegenOptions &options) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(fusion.getLoc());
  auto kernel = compiler::startKernel(fusion, symbol, *module, options);
  if (failed(kernel))
    return failure();
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
    Operation *op = kernel->outputs.front().getDefiningOp();
    if (Schedule alone = scheduleOf(op))
      return alone(plan, body);
    return LogicalResult(op->emitOpError(kNoSchedule));
  };
  if (failed(schedule()) || (!plan.partials.empty() && failed(scheduleFinish(plan, finish))))
    return failure();
  plan.noteInPlace();
  kernel->tensors.erase();
  if (failed(compiler::stageDone(*module, options, "loops")))
    return failure();
  compiler::expandMath(*module);
  if (failed(compiler::stageDone(*module, options, "math")))
    return failure();
  roundToBFloat16ByInstruction(*module);
  if (failed(compiler::convertToLlvm(*module, NVVM::NVVMDialect::getDialectNamespace())))
    return fusion.emitError("codegen: conversion to the llvm dialect fails");

  SmallVector<int64_t> readOnly;
  for (int64_t i = 0; i < kernel->numInputs(); ++i)
    if (llvm::none_of(kernel->info.inPlace, [&](auto pair) { return pair.second == i; }))
      readOnly.push_back(i);
  GpuKernel result;
  describeArguments(*kernel, readOnly, result);
  auto add = [&](const std::string &name, const Geometry &geometry) {
    makeEntry(*module, name, geometry, readOnly);
    result.entries.push_back(
        {name, geometry.blocks, geometry.threads, kernel->sizes ? geometry.perBlock : kOneSize});
  };
  kernel->info.count = kernel->sizes ? body.count : body.blocks;
  add(kernel->info.symbol, body);
  if (!kernel->info.finish.empty())
    add(kernel->info.finish, finish);
  if (failed(compiler::stageDone(*module, options, "llvm")))
    return failure();
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

absl::StatusOr<std::string> emitPtx(ModuleOp module, StringRef architecture,
                                    const compiler::CodegenOptions &options) {
  WEFT_RETURN_IF_ERROR(checkArchitecture(architecture));
  initializeTarget();
  WEFT_ASSIGN_OR_RETURN(
      auto machine,
      compiler::makeMachine(kTriple, architecture, find(architecture)->features, std::nullopt));
  llvm::LLVMContext context;
  WEFT_ASSIGN_OR_RETURN(auto ir, compiler::translateToLlvm(module, context, *machine, options));
  WEFT_RETURN_IF_ERROR(compiler::optimize(*ir, *machine, options));
  widenExtrema(*ir);
  auto ptx = compiler::emitCode(*ir, *machine, llvm::CodeGenFileType::AssemblyFile);
  if (ptx.ok() && options.dump)
    options.dump(kAssembly, *ptx);
  return ptx;
}

} // namespace weft::backends::cuda
