#include "backends/cuda/compile/GpuFunction.h"

#include "backends/cuda/compile/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace weft::backends::cuda {

using namespace mlir;

// LLVM's numbers of the address spaces.
static constexpr int64_t kGlobal = 1, kShared = 3;

static MemRefType bufferType(int64_t count, Type element, int64_t space) {
  Builder b(element.getContext());
  return MemRefType::get({count}, compiler::memoryType(element), MemRefLayoutAttrInterface(),
                         b.getI64IntegerAttr(space));
}

GpuFunction::GpuFunction(KernelBuilder &kernel, StringRef name, Geometry geometry, int64_t width)
    : KernelFunction(kernel), geometry(geometry) {
  e.width = width;
  e.bufferAlignment = kAccessBytes;
  builder.setInsertionPointToEnd(kernel.module.getBody());
  SmallVector<Type> types;
  auto add = [&](Value tensor) {
    auto type = ir::typeOf(tensor);
    types.push_back(bufferType(type.getNumElements(), type.getElementType(), kGlobal));
  };
  for (Value input : kernel.fusion.getInputs())
    add(input);
  for (Value output : kernel.outputs)
    add(output);
  types.push_back(bufferType(kernel.info.partialsBytes, builder.getI8Type(), kGlobal));
  types.push_back(bufferType(1, builder.getI32Type(), kGlobal));
  if (kernel.sizes)
    types.push_back(builder.getI64Type());
  function = func::FuncOp::create(builder, e.loc, name, builder.getFunctionType(types, {}));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  auto index = [&](Value i32) -> Value {
    return arith::IndexCastUIOp::create(builder, e.loc, builder.getIndexType(), i32);
  };
  thread = index(NVVM::ThreadIdXOp::create(builder, e.loc, builder.getI32Type()));
  block = index(NVVM::BlockIdXOp::create(builder, e.loc, builder.getI32Type()));
  flag_ = entry->getArgument(kernel.numInputs() + kernel.outputs.size() + 1);
  if (kernel.sizes)
    count_ = index(entry->getArguments().back());
  for (auto [i, argument] : llvm::enumerate(kernel.arguments()))
    e.setBuffer(kernel.lowered.lookup(argument), {entry->getArgument(i), static_cast<int64_t>(i)});
  e.onFailure = [this](Value bad) {
    if (guard_)
      bad = e.make<arith::AndIOp>(bad, guard_);
    when(bad, [&] {
      Value one = arith::ConstantOp::create(builder, e.loc, builder.getI32IntegerAttr(1));
      memref::StoreOp::create(builder, e.loc, one, flag_, ValueRange{e.constantIndex(0)});
    });
  };
}

Value GpuFunction::gridThread() {
  return e.add(e.mul(block, geometry.threads), thread);
}

compiler::Number GpuFunction::count() {
  return count_ ? compiler::Number(count_) : compiler::Number(geometry.count);
}

Value GpuFunction::isPiece(Value number) {
  if (!count_ && geometry.count == geometry.blocks * geometry.perBlock)
    return nullptr;
  return e.compare(arith::CmpIPredicate::slt, number, count());
}

Value GpuFunction::lessThan(Value value, int64_t bound) {
  return e.compare(arith::CmpIPredicate::slt, value, bound);
}

Index GpuFunction::vectorAt(const Index &number) {
  Index first = e.space.scale(number, e.width);
  return e.width == 1 ? first : e.space.add(first, e.space.lane(e.width));
}

Value GpuFunction::below(Value &number, int64_t count) {
  Value guard = lessThan(number, count);
  number = e.minSigned(number, count - 1);
  return guard;
}

Value GpuFunction::isZero(Value value) {
  return e.compare(arith::CmpIPredicate::eq, value, 0);
}

Value GpuFunction::accumulate(linalg::GenericOp reduction, ArrayRef<Index> position,
                              Value accumulator, Value guard) {
  setGuard(guard);
  Value next = KernelFunction::accumulate(reduction, position, accumulator, nullptr);
  setGuard(nullptr);
  return guard ? e.make<arith::SelectOp>(guard, next, accumulator) : next;
}

// The value of the thread whose number in the warp differs by that one bit. Values of other sizes
// travel as 32-bit words.
Value GpuFunction::shuffle(Value value, int64_t distance) {
  Type type = value.getType(), word = builder.getI32Type();
  auto constant = [&](int64_t i) -> Value {
    return arith::ConstantOp::create(builder, e.loc, builder.getIntegerAttr(word, i));
  };
  auto exchange = [&](Value v) -> Value {
    return NVVM::ShflOp::create(builder, e.loc, word, constant(-1), v, constant(distance),
                                constant(kWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
  };
  unsigned bits = type.getIntOrFloatBitWidth();
  Type integer = builder.getIntegerType(bits);
  if (type != integer)
    value = arith::BitcastOp::create(builder, e.loc, integer, value);
  if (bits < 32) {
    value = arith::TruncIOp::create(builder, e.loc, integer,
                                    exchange(arith::ExtUIOp::create(builder, e.loc, word, value)));
  } else if (bits == 32) {
    value = exchange(value);
  } else {
    Value shift = arith::ConstantOp::create(builder, e.loc, builder.getI64IntegerAttr(32));
    Value low = exchange(arith::TruncIOp::create(builder, e.loc, word, value));
    Value high = exchange(arith::TruncIOp::create(
        builder, e.loc, word, arith::ShRUIOp::create(builder, e.loc, value, shift)));
    Value upper = arith::ShLIOp::create(
        builder, e.loc, arith::ExtUIOp::create(builder, e.loc, integer, high), shift);
    value = arith::OrIOp::create(builder, e.loc, upper,
                                 arith::ExtUIOp::create(builder, e.loc, integer, low));
  }
  return type == integer ? value : Value(arith::BitcastOp::create(builder, e.loc, type, value));
}

SmallVector<Value> GpuFunction::foldGroup(ArrayRef<linalg::GenericOp> reductions,
                                          ArrayRef<Value> values, int64_t threads) {
  SmallVector<Value> sums;
  for (auto [reduction, value] : llvm::zip(reductions, values)) {
    Value sum = foldLanes(reduction, value);
    for (int64_t distance = std::min(threads, kWarp) / 2; distance >= 1; distance /= 2)
      sum = combine(reduction, sum, shuffle(sum, distance));
    sums.push_back(sum);
  }
  int64_t warps = threads / kWarp;
  if (warps <= 1)
    return sums;
  // One value a warp, added up in order by every thread.
  SmallVector<Value> buffers;
  for (Value sum : sums)
    buffers.push_back(shared(warps, sum.getType()));
  Index lane, warp;
  std::tie(warp, lane) = e.space.divide(threadIndex(), kWarp);
  when(isZero(e.scalarIndex(lane)), [&] {
    for (auto [buffer, sum] : llvm::zip(buffers, sums))
      e.store(buffer, sum, warp, nullptr);
  });
  barrier();
  for (auto [i, reduction] : llvm::enumerate(reductions)) {
    // Loaded by ops of their own: what is in a shared buffer changes.
    auto part = [&](int64_t w) -> Value {
      Value raw =
          memref::LoadOp::create(builder, e.loc, buffers[i], ValueRange{e.constantIndex(w)});
      if (raw.getType() == sums[i].getType())
        return raw;
      Value zero = arith::ConstantOp::create(builder, e.loc,
                                             cast<TypedAttr>(builder.getZeroAttr(raw.getType())));
      return arith::CmpIOp::create(builder, e.loc, arith::CmpIPredicate::ne, raw, zero);
    };
    Value total = part(0);
    for (int64_t w = 1; w < warps; ++w)
      total = combine(reduction, total, part(w));
    sums[i] = total;
  }
  // Before the buffers are written again.
  barrier();
  return sums;
}

void GpuFunction::barrier() {
  NVVM::Barrier0Op::create(builder, e.loc);
}

Value GpuFunction::shared(int64_t count, Type element) {
  auto type = bufferType(count, element, kShared);
  std::string name = (function.getName() + "_shared_" + Twine(sharedBuffers_++)).str();
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(kernel.module.getBody());
    memref::GlobalOp::create(builder, e.loc, name, builder.getStringAttr("private"), type,
                             builder.getUnitAttr(), /*constant=*/false,
                             builder.getI64IntegerAttr(kAccessBytes));
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&function.getBody().front());
  return memref::GetGlobalOp::create(builder, e.loc, type, name);
}

LogicalResult GpuFunction::finish() {
  builder.setInsertionPointToEnd(&function.getBody().front());
  func::ReturnOp::create(builder, e.loc);
  unsigned partials = kernel.numInputs() + kernel.outputs.size();
  function.getArgument(partials).setType(
      bufferType(kernel.info.partialsBytes, builder.getI8Type(), kGlobal));
  function.setType(builder.getFunctionType(function.getBody().front().getArgumentTypes(), {}));
  if (e.failed())
    return kernel.fusion.emitError("codegen: ") << e.error();
  return success();
}

} // namespace weft::backends::cuda
