#include "compiler/codegen/MatmulProduct.h"

#include "compiler/codegen/Limits.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace weft::compiler {

using namespace mlir;

MatmulProduct::MatmulProduct(KernelBuilder &kernel, ir::MatmulOp op)
    : kernel_(kernel), f_(kernel, kernel.info.symbol), generic_(kernel.generic(op)) {
  left_ = generic_.getDpsInputs()[0];
  right_ = generic_.getDpsInputs()[1];
  auto type = ir::typeOf(op.getResult());
  element_ = type.getElementType();
  result_.assign(type.getShape().begin(), type.getShape().end());
  batches_ = generic_.getStaticLoopRanges();
  k_ = batches_.pop_back_val();
  n_ = batches_.pop_back_val();
  m_ = batches_.pop_back_val();
  batchCount_ = ShapedType::getNumElements(batches_);
}

MatmulParts matmulParts(int64_t k) {
  int64_t count = std::max<int64_t>(1, llvm::divideCeil(k, kMostDepth)),
          depth = count == 1 ? k : roundUp(llvm::divideCeil(k, count), kLanes);
  return {std::max<int64_t>(1, llvm::divideCeil(k, std::max<int64_t>(depth, 1))), depth};
}

SmallVector<Index> MatmulProduct::positionIn(Value side, bool transposed, const Index &row,
                                             const Index &column) {
  ArrayRef<int64_t> shape = ir::shapeOf(side);
  int64_t rank = shape.size() - 2, missing = batch_.size() - rank;
  SmallVector<Index> position;
  for (int64_t i = 0; i < rank; ++i)
    position.push_back(shape[i] == 1 ? Index::of(0) : batch_[missing + i]);
  position.push_back(transposed ? column : row);
  position.push_back(transposed ? row : column);
  return position;
}

Value MatmulProduct::multiplyAdd(Value a, Value b, Value sum) {
  if (element_.isF64() || element_.isF32())
    return f_.e.make<math::FmaOp>(f_.e.broadcast(a), b, sum);
  return f_.e.body(generic_, {}, {a, b, sum}, nullptr);
}

} // namespace weft::compiler
