// Squares of lanes that are transposed in registers, in as few instructions as x86 needs: each step
// below is one instruction for each vector.
//
// Within 128 bits two registers interleave their elements; whole 128 bits go from two registers to
// another two. So the elements of each 128 bits change places with as many rows first, then blocks
// of 128 bits do. Either part is the same step again and again. Of 4 rows of 4 elements:
//
//   a0 a1 a2 a3     a0 c0 a1 c1     a0 b0 c0 d0
//   b0 b1 b2 b3 ->  a2 c2 a3 c3 ->  a1 b1 c1 d1
//   c0 c1 c2 c3     b0 d0 b1 d1     a2 b2 c2 d2
//   d0 d1 d2 d3     b2 d2 b3 d3     a3 b3 c3 d3
#include "compiler/codegen/Schedule.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

namespace weft::compiler {

using namespace mlir;

static constexpr int64_t kBlockBits = 128;

static bool isSplat(Value v) {
  DenseElementsAttr constant;
  return v.getDefiningOp<vector::BroadcastOp>() ||
         (matchPattern(v, m_Constant(&constant)) && constant.isSplat());
}

static Value shuffle(ElementEmitter &e, Value a, Value b, function_ref<int64_t(int64_t)> lane) {
  if (a == b && isSplat(a)) // rows that are not there
    return a;
  SmallVector<int64_t> lanes;
  for (int64_t i = 0, n = cast<VectorType>(a.getType()).getNumElements(); i < n; ++i)
    lanes.push_back(lane(i));
  return e.make<vector::ShuffleOp>(a, b, lanes);
}

void transposeLanes(ElementEmitter &e, MutableArrayRef<Value> v) {
  auto type = cast<VectorType>(v.front().getType());
  int64_t lanes = v.size(),
          bits = std::max<int64_t>(8, type.getElementType().getIntOrFloatBitWidth()),
          inBlock = std::min(lanes, kBlockBits / bits), blocks = lanes / inBlock;
  SmallVector<Value> to(lanes);
  for (int64_t step = 1; step < inBlock; step *= 2) {
    for (int64_t row = 0; row < lanes; ++row) {
      int64_t first = row / inBlock * inBlock, pair = row % inBlock / 2,
              half = row % 2 * inBlock / 2;
      to[row] = shuffle(e, v[first + pair], v[first + pair + inBlock / 2], [&](int64_t lane) {
        return lane / inBlock * inBlock + half + lane % inBlock / 2 + lane % 2 * lanes;
      });
    }
    llvm::copy(to, v.begin());
  }
  if (blocks == 1)
    return;
  // Instruction selection looks from each shuffle through all that it reads, for one that does the
  // work of several: there is none here, and the search was a third of what attention took to
  // compile. Narrower floats have no fence, since StorageTypes.cpp stores them as integers.
  bool isFloat = type.getElementType().isF32() || type.getElementType().isF64();
  for (Value &each : v)
    if (isFloat && !isSplat(each))
      each = LLVM::CallIntrinsicOp::create(e.b, e.loc, type,
                                           e.b.getStringAttr("llvm.arithmetic.fence"), each)
                 .getResult(0);
  // Row r of each group of `inBlock` belongs to one transpose of blocks.
  for (int64_t step = 1; step < blocks; step *= 2) {
    for (int64_t row = 0; row < lanes; ++row) {
      int64_t group = row / inBlock, odd = group / (blocks / 2), from = group % (blocks / 2) * 2;
      to[row] = shuffle(e, v[from * inBlock + row % inBlock],
                        v[(from + 1) * inBlock + row % inBlock], [&](int64_t lane) {
                          int64_t block = 2 * (lane / inBlock) + odd;
                          return block % blocks * inBlock + block / blocks * lanes + lane % inBlock;
                        });
    }
    llvm::copy(to, v.begin());
  }
}

} // namespace weft::compiler
