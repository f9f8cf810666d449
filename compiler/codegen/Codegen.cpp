// The stages of buildKernel: fusion -> linalg on tensors -> loops over vectors -> math expanded ->
// llvm dialect.
#include "compiler/codegen/Codegen.h"
#include "compiler/codegen/AttentionTiles.h"

#include "compiler/codegen/KernelPasses.h"
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/MatmulSchedule.h"
#include "compiler/codegen/Schedule.h"
#include "compiler/codegen/StorageTypes.h"
#include "compiler/math/Expand.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/CallRule.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

using namespace mlir;

// action.operator()<Dialects...>(), with all that a kernel's stages are made of.
template <typename Action> static void withCodegenDialects(Action action) {
  action.template
  operator()<ir::WeftDialect, arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
             linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect,
             scf::SCFDialect, tensor::TensorDialect, vector::VectorDialect>();
}

void insertCodegenDialects(DialectRegistry &registry) {
  withCodegenDialects([&]<typename... Dialects>() { registry.insert<Dialects...>(); });
}

void registerCodegenDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  withCodegenDialects([&]<typename... Dialects>() { context.loadDialect<Dialects...>(); });
}

LogicalResult stageDone(ModuleOp module, const CodegenOptions &options, StringRef stage) {
  if (failed(runKernelPasses(module, stage, options.remarks)))
    return failure();
  if (options.dump) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream);
    options.dump(stage, text);
  }
  if (options.verify && failed(verify(module)))
    return module.emitError("codegen: the verifier fails after ") << stage;
  return success();
}

// Whether `op` is x minus the largest of x over some dims, as softmax has it: at most 0, or NaN.
static bool isBelowMaximum(Operation *op) {
  auto difference = dyn_cast_or_null<ir::SubOp>(op);
  auto full =
      difference ? difference->getOperand(1).getDefiningOp<ir::BroadcastOp>() : ir::BroadcastOp();
  auto kept = full ? full->getOperand(0).getDefiningOp<ir::ReshapeOp>() : ir::ReshapeOp();
  auto largest = kept ? kept->getOperand(0).getDefiningOp<ir::ReduceMaxOp>() : ir::ReduceMaxOp();
  if (!largest || largest->getOperand(0) != difference->getOperand(0))
    return false;
  // The reduced dims have come back as dims of size 1, each at its own place.
  auto from = ir::typeOf(largest->getOperand(0));
  SmallVector<int64_t> expected(from.getShape());
  for (int64_t dim : largest.getDims())
    expected[dim] = 1;
  return ArrayRef<int64_t>(expected) == ir::shapeOf(kept->getResult(0));
}

// Whether the loops are the dims of operand 0, in order, of which the op's `dims` are folded and
// the others are the result's.
static bool loopsOverOperand(ir::WeftOp op, linalg::GenericOp generic) {
  auto folded = op->getAttrOfType<DenseI64ArrayAttr>("dims").asArrayRef();
  int64_t rank = ir::typeOf(op->getOperand(0)).getRank();
  SmallVector<int64_t> kept, reduced;
  for (int64_t dim = 0; dim < rank; ++dim)
    (llvm::is_contained(folded, dim) ? reduced : kept).push_back(dim);
  SmallVector<unsigned> found;
  generic.getReductionDims(found);
  auto maps = generic.getIndexingMapsArray();
  auto inOrder = AffineMap::getMultiDimMapWithTargets(
      static_cast<unsigned>(rank), SmallVector<unsigned>(kept.begin(), kept.end()),
      generic.getContext());
  return static_cast<int64_t>(generic.getNumLoops()) == rank && maps.size() > 1 &&
         maps.front().isIdentity() && maps.back() == inOrder && llvm::equal(found, reduced);
}

// What schedules read of lowerings, which the rule of an op of another dialect may not give.
static LogicalResult checkLowered(ir::WeftOp op, ArrayRef<Value> values) {
  if (values.size() != op->getNumResults())
    return op->emitOpError("is at fault in its rule: its lowering gives ")
           << values.size() << " values for " << op->getNumResults() << " results";
  for (auto [result, value] : llvm::zip(op->getResults(), values)) {
    auto type = ir::typeOf(result);
    auto given = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
    if (!given || given.getShape() != type.getShape() ||
        given.getElementType() != type.getElementType())
      return op->emitOpError("is at fault in its rule: its lowering gives ")
             << (given ? ir::spell(given) : "no tensor") << " for a result of " << ir::spell(type);
    auto generic = value.getDefiningOp<linalg::GenericOp>();
    if (op.kind() == ir::Kind::Reduction &&
        !(generic && generic.getNumDpsInits() == 1 &&
          generic.getDpsInits()[0].getDefiningOp<arith::ConstantOp>()))
      return op->emitOpError("is at fault in its rule: a reduction's lowering is "
                             "ir::reductionGeneric, a linalg.generic that starts from a constant");
    if (op.kind() == ir::Kind::Reduction && !ir::isOwn(op) && !loopsOverOperand(op, generic))
      return op->emitOpError(
          "is at fault in its rule: a reduction's loops are the dims of operand 0 "
          "in order, of which `dims` are folded; by its statement or its "
          "lowering they are not");
  }
  return success();
}

// The fusion as a function on tensors. `lowered` gets the tensor of each value of the body.
static LogicalResult lowerToLinalg(KernelBuilder &kernel) {
  OpBuilder b(kernel.module.getContext());
  b.setInsertionPointToEnd(kernel.module.getBody());
  Block &body = kernel.fusion.getBody().front();
  SmallVector<Type> results;
  for (Value output : kernel.outputs)
    results.push_back(output.getType());
  auto function = kernel.tensors =
      func::FuncOp::create(b, kernel.fusion.getLoc(), kernel.info.symbol + "_tensors",
                           b.getFunctionType(body.getArgumentTypes(), results));
  b.setInsertionPointToStart(function.addEntryBlock());
  for (auto [from, to] : llvm::zip(body.getArguments(), function.getArguments()))
    kernel.lowered[from] = to;
  for (Operation &op : body.without_terminator()) {
    auto weft = dyn_cast<ir::WeftOp>(op);
    if (!weft)
      return op.emitOpError("has no lowering to linalg; a weft.fusion holds weft ops only");
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(kernel.lowered.lookup(operand));
    if (weft.kind() == ir::Kind::Composite) {
      // Its schedule reads the op itself.
      for (Value result : op.getResults())
        kernel.lowered[result] = tensor::EmptyOp::create(b, op.getLoc(), ir::shapeOf(result),
                                                         getElementTypeOrSelf(result.getType()));
      continue;
    }
    auto values = ir::callRule(&op, "lowering", [&] { return weft.lowerToLinalg(b, operands); });
    if (failed(values))
      return op.emitOpError("has no lowering to linalg: ")
             << (weft.missingRule(ir::RuleKind::Lowering).empty()
                     ? "its rule failed"
                     : weft.missingRule(ir::RuleKind::Lowering));
    if (!ir::isOwn(&op) && failed(checkLowered(weft, *values)))
      return failure();
    for (auto [result, value] : llvm::zip(op.getResults(), *values))
      kernel.lowered[result] = value;
    if (isa<ir::ExpOp>(op) && isBelowMaximum(op.getOperand(0).getDefiningOp()))
      kernel.generic(&op).walk(
          [&](math::ExpOp exp) { exp->setAttr(ir::kNonPositiveAttr, b.getUnitAttr()); });
  }
  SmallVector<Value> returned;
  for (Value output : kernel.outputs)
    returned.push_back(kernel.lowered.lookup(output));
  func::ReturnOp::create(b, kernel.fusion.getLoc(), returned);
  return success();
}

LogicalResult convertToLlvm(ModuleOp module, StringRef machineDialect, bool halfConversions) {
  MLIRContext *context = module.getContext();
  if (failed(lowerStorageTypes(module, halfConversions)))
    return failure();
  {
    RewritePatternSet patterns(context);
    populateSCFToControlFlowConversionPatterns(patterns);
    ConversionTarget target(*context);
    target.addIllegalDialect<scf::SCFDialect>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(module, target, std::move(patterns))))
      return failure();
  }
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  LLVMTypeConverter types(context, options);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns, /*approximateLog1p=*/false);
  populateVectorToLLVMConversionPatterns(types, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  populateFuncToLLVMConversionPatterns(types, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  if (!machineDialect.empty())
    target.addLegalDialect(machineDialect);
  return applyFullConversion(module, target, std::move(patterns));
}

// weft_kernel: unpacks its arguments and calls the function that the schedule emitted.
static void wrap(KernelBuilder &kernel, StringRef symbol, ArrayRef<int64_t> readOnly) {
  auto inner = kernel.module.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
  std::string innerName = (symbol + "_body").str();
  inner.setSymName(innerName);
  inner.setLinkage(LLVM::Linkage::Internal);
  OpBuilder b(inner);
  Location loc = inner.getLoc();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i64 = b.getI64Type();
  auto type =
      LLVM::LLVMFunctionType::get(b.getI32Type(), {pointer, pointer, pointer, pointer, i64, i64});
  b.setInsertionPointToEnd(kernel.module.getBody());
  auto outer = LLVM::LLVMFuncOp::create(b, loc, symbol, type);
  Block *entry = outer.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  int64_t buffers = inner.getNumArguments() - 4 - kernel.numInts();
  SmallVector<Value> args;
  auto load = [&](Type type, Value base, int64_t bytes) -> Value {
    Value at = LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), base,
                                   ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)});
    return LLVM::LoadOp::create(b, loc, type, at);
  };
  auto loadPointer = [&](Value base, int64_t bytes) {
    return load(pointer, base, bytes);
  };
  for (int64_t i = 0; i < buffers; ++i)
    args.push_back(loadPointer(entry->getArgument(1), i * 8));
  Value none = LLVM::ZeroOp::create(b, loc, pointer);
  args.push_back(kernel.info.partialsBytes ? loadPointer(entry->getArgument(1), buffers * 8)
                                           : none);
  // env->scratch stands after two 32-bit fields.
  args.push_back(kernel.info.threadScratchBytes ? loadPointer(entry->getArgument(0), 8) : none);
  args.append({entry->getArgument(4), entry->getArgument(5)});
  for (int64_t i = 0; i < kernel.numInts(); ++i)
    args.push_back(load(i64, entry->getArgument(2), i * 8));
  Value result = LLVM::CallOp::create(b, loc, inner, args).getResult();
  LLVM::ReturnOp::create(b, loc, result);
  for (int64_t i : readOnly)
    inner.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
  for (int64_t i = buffers; i < buffers + 2; ++i)
    inner.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
}

// Of attention's two products, or the five of its derivative, over the scores that are not hidden.
static double attentionOperations(Operation *op) {
  auto sizesOf = [&](int64_t i) {
    return ir::shapeOf(op->getOperand(i));
  };
  double features = static_cast<double>(sizesOf(0).back()),
         width = static_cast<double>(sizesOf(2).back()),
         scores = static_cast<double>(sizesOf(2).end()[-2]);
  for (int64_t size : sizesOf(0).drop_back())
    scores *= static_cast<double>(size);
  bool isForward = isa<ir::AttentionOp>(op);
  auto causal = op->getAttrOfType<BoolAttr>("causal");
  if (causal && causal.getValue())
    scores /= 2;
  return 2 * scores * (isForward ? features + width : 3 * features + 2 * width);
}

// Time per element and the traffic, from which the size of the pieces follows. Rough: it only has
// to tell tiny from large.
double estimate(KernelBuilder &kernel) {
  double bytes = 0, flops = 0, work = 0;
  auto sizeOf = [](Value value) {
    return static_cast<double>(ir::typeOf(value).getNumElements());
  };
  auto bytesOf = [&](Value value) {
    return sizeOf(value) * memoryBytes(ir::typeOf(value).getElementType());
  };
  for (Value input : kernel.fusion.getInputs())
    bytes += bytesOf(input);
  for (Value output : kernel.outputs)
    bytes += bytesOf(output);
  for (Operation *op : kernel.ops) {
    double operations = ir::isAttention(op) ? attentionOperations(op) : ir::operationsOf(op);
    bool isFloatProduct =
        ir::isAttention(op) || (cast<ir::WeftOp>(op).kind() == ir::Kind::Contraction &&
                                isa<FloatType>(getElementTypeOrSelf(op->getResult(0))));
    flops += operations;
    work += operations / (isFloatProduct ? kMatmulPace : 1);
  }
  kernel.info.bytes = bytes;
  kernel.info.flops = flops;
  return std::max(bytes / kBytesPerNanosecond, work / kOperationsPerNanosecond) + 1;
}

static void noteSize(KernelBuilder &kernel, const ir::Dim &size) {
  kernel.info.sizes.push_back({size.symbol.str(), size.size});
}

static void noteLengths(KernelBuilder &kernel, Operation *attention) {
  ir::Dim keys = ir::keyCount(attention);
  auto length = keys.isStatic()                     ? KeyLength::kStatic
                : keys == ir::queryCount(attention) ? KeyLength::kAsQueries
                                                    : KeyLength::kOwn;
  Builder builder(attention->getContext());
  attention->setAttr(kLengthsAttr, builder.getI64IntegerAttr(static_cast<int64_t>(length)));
  if (!ir::leadingDim(attention).isStatic()) {
    attention->setAttr(kMatricesAttr, builder.getUnitAttr());
    noteSize(kernel, ir::queryCount(attention));
  }
  if (length == KeyLength::kOwn)
    noteSize(kernel, keys);
}

FailureOr<KernelBuilder> startKernel(ir::FusionOp fusion, StringRef symbol, ModuleOp module,
                                     const CodegenOptions &options) {
  KernelBuilder kernel;
  kernel.fusion = fusion;
  kernel.module = module;
  kernel.info.symbol = symbol.str();
  kernel.choices = Choices(fusion);
  FailureOr<KernelSizes> sizes = kernelSizes(fusion);
  if (failed(sizes))
    return failure();
  kernel.sizes = std::move(*sizes);
  if (kernel.sizes)
    noteSize(kernel, kernel.sizes.counted);
  for (Operation &op : fusion.getBody().front().without_terminator())
    if (ir::isAttention(&op) && ir::variesInLength(&op))
      noteLengths(kernel, &op);
  if (!kernel.sizes.named.empty())
    forgetNames(fusion);
  for (Operation &op : fusion.getBody().front().without_terminator())
    kernel.ops.push_back(&op);
  for (Value output : fusion.getBody().front().getTerminator()->getOperands())
    kernel.outputs.push_back(output);
  for (Operation *op : kernel.ops)
    if (Refusal refusal = FusionDomain::fusible(op); refusal != Refusal::None)
      return op->emitOpError("cannot be in a kernel: ") << refusalText(refusal);

  if (failed(lowerToLinalg(kernel)) || failed(stageDone(module, options, "linalg")))
    return failure();

  FusionRefusal why;
  auto domain = FusionDomain::analyze(kernel.ops, kernel.outputs, why);
  if (!domain)
    return (why.op ? why.op->emitOpError("does not belong in this fusion: ")
                   : fusion.emitOpError("is no kernel: "))
           << refusalText(why.reason);
  kernel.domain = std::move(*domain);
  return std::move(kernel);
}

// Bytes of the vectors that code for the machine is made of.
static int64_t vectorBytes(const TargetInfo &target) {
  bool isWide = llvm::is_contained(llvm::split(target.features, ','), "+avx512f");
  return isWide ? kWideVectorBytes : kNarrowVectorBytes;
}

static LogicalResult schedule(KernelBuilder &kernel) {
  switch (kernel.domain.shape()) {
  case FusionDomain::Shape::Elementwise:
  case FusionDomain::Shape::Rows:
  case FusionDomain::Shape::Total:
    return scheduleRows(kernel);
  case FusionDomain::Shape::Nest:
    return scheduleNest(kernel);
  case FusionDomain::Shape::Alone:
    if (auto matmul = kernel.outputs.front().getDefiningOp<ir::MatmulOp>()) {
      auto done = scheduleFewRows(kernel, matmul, kernel.vectorBytes);
      return done ? *done : scheduleMatmul(kernel, matmul, kernel.vectorBytes);
    }
    for (Operation *op : kernel.ops) {
      if (auto attention = dyn_cast<ir::AttentionOp>(op))
        return scheduleAttention(kernel, attention, kernel.vectorBytes);
      if (auto gradient = dyn_cast<ir::AttentionGradientOp>(op))
        return scheduleAttentionGradient(kernel, gradient, kernel.vectorBytes);
    }
    [[fallthrough]];
  case FusionDomain::Shape::Empty:
    return scheduleAlone(kernel);
  }
  llvm_unreachable("all shapes have a schedule");
}

// Where vectors of `kernel`, as it was scheduled, should end instead of running on: a pooling's, a
// slice's or a padded image's at the end of each row, so that what they read is contiguous or
// strided and no lane computes its position by a division. The atom that lanes lie along, and its
// inner part; 0 for none. Lanes that are folded into a sum stay where they are, or its bits would
// depend on what feeds it.
static std::pair<int32_t, int64_t> whereVectorsEnd(KernelBuilder &kernel) {
  const FusionDomain &domain = kernel.domain;
  if (kernel.periods.empty() || kernel.sizes)
    return {0, 0};
  // Random numbers come in blocks that several vectors share.
  if (llvm::any_of(kernel.ops, [](Operation *op) { return isa<ir::RandomUniformOp>(op); }))
    return {0, 0};
  int32_t along = -1;
  if (domain.shape() == FusionDomain::Shape::Elementwise && !domain.inner().empty() &&
      transposedAtom(kernel) < 0)
    along = domain.inner().back();
  if (domain.shape() == FusionDomain::Shape::Nest)
    along = keptInnermost(kernel);
  if (along < 0)
    return {0, 0};
  bool expensive = llvm::any_of(kernel.ops, isCheaperToKeep);
  int64_t extent = domain.atoms()[along], period = extent;
  SmallVector<int64_t> legal = {extent};
  for (int64_t candidate : kernel.periods) {
    if (candidate < 2 || extent % candidate != 0)
      continue;
    legal.push_back(candidate);
    bool fills = static_cast<double>(candidate) >=
                 kLeastFilled * static_cast<double>(roundUp(candidate, kLanes));
    if (candidate >= kLeastPeriod && (fills || !expensive))
      period = std::min(period, candidate);
  }
  period = kernel.choices.number("vectors_end", period, legal);
  return {along, period < extent ? period : 0};
}

// Schedules the kernel; once more, with vectors that end elsewhere, where what that shows is worth
// it.
static LogicalResult scheduleTwice(KernelBuilder &kernel) {
  KernelBuilder before = kernel;
  if (failed(schedule(kernel)))
    return failure();
  auto [along, period] = whereVectorsEnd(kernel);
  if (period == 0)
    return success();
  for (Operation &op : llvm::make_early_inc_range(*kernel.module.getBody()))
    if (&op != kernel.tensors)
      op.erase();
  ScheduleChoice ending = kernel.choices.made().back();
  kernel = std::move(before);
  kernel.choices.keep(std::move(ending));
  kernel.domain.cut(along, period);
  return schedule(kernel);
}

FailureOr<KernelInfo> buildKernel(ir::FusionOp fusion, StringRef symbol, ModuleOp into,
                                  const TargetInfo &target, const CodegenOptions &options) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(fusion.getLoc());
  FailureOr<KernelBuilder> started = startKernel(fusion, symbol, *module, options);
  if (failed(started))
    return failure();
  KernelBuilder &kernel = *started;
  kernel.vectorBytes = vectorBytes(target);
  if (failed(scheduleTwice(kernel)))
    return failure();
  kernel.tensors.erase();
  if (failed(stageDone(*module, options, "loops")))
    return failure();
  expandMath(*module);
  if (failed(stageDone(*module, options, "math")))
    return failure();
  bool halfConversions = llvm::is_contained(llvm::split(target.features, ','), "+f16c");
  if (failed(convertToLlvm(*module, {}, halfConversions)))
    return fusion.emitError("codegen: conversion to the llvm dialect fails");

  // Inputs that no output may share a buffer with are read only, as far as the kernel can tell.
  SmallVector<int64_t> readOnly;
  for (int64_t i = 0; i < kernel.numInputs(); ++i)
    if (llvm::none_of(kernel.info.inPlace, [&](auto pair) { return pair.second == i; }))
      readOnly.push_back(i);
  wrap(kernel, kernel.info.symbol, readOnly);
  if (!kernel.info.finish.empty())
    wrap(kernel, kernel.info.finish, readOnly);
  if (failed(stageDone(*module, options, "llvm")))
    return failure();
  double total = estimate(kernel);
  // One with sizes runs with fewer pieces, too: the grain says from which size on it is worth
  // another thread.
  bool isFine = !kernel.sizes && total > kGrainNanoseconds;
  kernel.info.grain = std::max<int64_t>(
      1, static_cast<int64_t>((isFine ? kFineGrainNanoseconds : kGrainNanoseconds) / total *
                              kernel.info.count));
  if (!kernel.sizes && kernel.info.count > 1) {
    int64_t count = kernel.info.count, grain = std::min(kernel.info.grain, count);
    SmallVector<int64_t> legal = {1, grain, count};
    for (int64_t by : {2, 4}) {
      legal.push_back(std::min(count, grain * by));
      legal.push_back(std::max<int64_t>(1, grain / by));
    }
    int64_t chosen = kernel.choices.number("grain", grain, legal);
    kernel.info.grain = chosen == grain ? kernel.info.grain : chosen;
  }
  kernel.noteChoices();
  if (kernel.sizes)
    kernel.info.grain = roundUp(kernel.info.grain, kernel.rangeUnit);
  into.getBody()->getOperations().splice(into.getBody()->end(), module->getBody()->getOperations());
  return std::move(kernel.info);
}

} // namespace weft::compiler
