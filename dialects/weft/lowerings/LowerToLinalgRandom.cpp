// Random ops: Philox (Philox.h) as a tensor of words [groups of 16 blocks, 4 words, 16 blocks],
// whose row-major order is that of the elements. A vector of 16 blocks thus gives four vectors of
// neighbours.
//
// Words stay in the low halves of 64-bit lanes from the first round to the last. The high halves
// may hold anything: only a product's low 32 bits of each factor are read (x86's vpmuludq reads no
// others, so that the masks cost nothing), and nothing is narrowed between rounds.
#include "dialects/weft/lowerings/LowerToLinalg.h"

#include "dialects/weft/reference/Philox.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace weft::ir {

using namespace mlir;

using Values = SmallVector<Value>;

namespace {
struct Words {
  OpBuilder &b;
  Location loc;
  Value c64(uint64_t n) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(static_cast<int64_t>(n)));
  }
  Value low(Value x) {
    return arith::TruncIOp::create(b, loc, b.getI32Type(), x);
  }
  Value high(Value x) {
    return arith::ShRUIOp::create(b, loc, x, c64(32));
  }
  Value mul(Value x, uint64_t n) {
    return arith::MulIOp::create(b, loc, arith::AndIOp::create(b, loc, x, c64(0xFFFFFFFFu)),
                                 c64(n));
  }
  Value add(Value x, Value y) {
    return arith::AddIOp::create(b, loc, x, y);
  }
  Value exclusive(Value x, Value y) {
    return arith::XOrIOp::create(b, loc, x, y);
  }
};
} // namespace

// The word of each (group, word, block in the group), i32. Of two streams i64: that of stream 1 is
// the lower half. Both are of one loop, so that what they share is there once.
static Value philoxWords(OpBuilder &b, Location loc, Value state, int64_t offset, int64_t groups,
                         unsigned streams) {
  auto type = RankedTensorType::get({groups, 4, 16}, b.getIntegerType(32 * streams));
  auto element = [&](int64_t i) {
    return AffineMap::get(3, 0, {b.getAffineConstantExpr(i)}, b.getContext());
  };
  return parallelGeneric(
      b, loc, type, {state, state}, {element(0), element(1)},
      [&](OpBuilder &inner, Location at, ValueRange args) -> Value {
        Words w{inner, at};
        auto position = [&](int64_t dim) -> Value {
          return arith::IndexCastOp::create(inner, at, inner.getI64Type(),
                                            linalg::IndexOp::create(inner, at, dim));
        };
        Value first = w.add(args[1], w.c64(offset));
        Value block = w.add(w.add(first, arith::MulIOp::create(inner, at, position(0), w.c64(16))),
                            position(2));
        Values c;
        for (unsigned stream = 0; stream < streams; ++stream)
          c.append({block, w.high(block), w.c64(stream), w.c64(0)});
        Value high = w.high(args[0]);
        auto index = [&](int64_t n) -> Value {
          return arith::ConstantIndexOp::create(inner, at, n);
        };
        // A loop, not ten copies: they would take most of the time to compile what draws.
        auto rounds = scf::ForOp::create(
            inner, at, index(0), index(kPhiloxRounds), index(1), c,
            [&](OpBuilder &step, Location, Value round, ValueRange c) {
              Words w{step, at};
              round = arith::IndexCastOp::create(step, at, step.getI64Type(), round);
              auto key = [&](Value word, uint64_t increment) {
                return w.add(word, arith::MulIOp::create(step, at, round, w.c64(increment)));
              };
              Value first = key(args[0], 0x9E3779B9u), second = key(high, 0xBB67AE85u);
              Values next;
              for (; !c.empty(); c = c.drop_front(4)) {
                Value a = w.mul(c[0], 0xD2511F53u), d = w.mul(c[2], 0xCD9E8D57u);
                next.append({w.exclusive(w.exclusive(w.high(d), c[1]), first), d,
                             w.exclusive(w.exclusive(w.high(a), c[3]), second), a});
              }
              scf::YieldOp::create(step, at, next);
            });
        Value word = linalg::IndexOp::create(inner, at, 1);
        auto chosen = [&](unsigned stream) {
          ValueRange words = ValueRange(rounds.getResults()).slice(4 * stream, 4);
          Value result = words[3];
          for (int64_t i = 2; i >= 0; --i) {
            Value is = arith::CmpIOp::create(inner, at, arith::CmpIPredicate::eq, word,
                                             arith::ConstantIndexOp::create(inner, at, i));
            result = arith::SelectOp::create(inner, at, is, words[i], result);
          }
          return result;
        };
        if (streams == 1)
          return w.low(chosen(0));
        return arith::OrIOp::create(
            inner, at, arith::ShLIOp::create(inner, at, chosen(0), w.c64(32)),
            arith::AndIOp::create(inner, at, chosen(1), w.c64(0xFFFFFFFFu)));
      });
}

FailureOr<Values> RandomUniformOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = getType();
  int64_t n = type.getNumElements(), groups = philoxBlocks(n) / 16;
  if (n == 0)
    return Values{tensor::EmptyOp::create(b, getLoc(), type.getShape(), type.getElementType())};
  // As many bits as the result's significand holds: all is exact.
  int bits = uniformBits(dtypeOf(type.getElementType()));
  unsigned streams = bits > 32 ? 2 : 1;
  Type word = b.getIntegerType(32 * streams);
  Value words = philoxWords(b, getLoc(), operands[0], getOffset(), groups, streams);
  words = tensor::CollapseShapeOp::create(b, getLoc(), RankedTensorType::get({groups * 64}, word),
                                          words, ArrayRef<ReassociationIndices>{{0, 1, 2}});
  words = tensor::ExtractSliceOp::create(b, getLoc(), RankedTensorType::get({n}, word), words,
                                         ArrayRef<OpFoldResult>{b.getIndexAttr(0)},
                                         ArrayRef<OpFoldResult>{b.getIndexAttr(n)},
                                         ArrayRef<OpFoldResult>{b.getIndexAttr(1)});
  auto shaped = RankedTensorType::get(type.getShape(), word);
  if (type.getRank() == 0)
    words = tensor::CollapseShapeOp::create(b, getLoc(), shaped, words,
                                            ArrayRef<ReassociationIndices>{});
  else if (type.getRank() > 1)
    words = tensor::ExpandShapeOp::create(
        b, getLoc(), shaped, words,
        ArrayRef{ReassociationIndices(llvm::to_vector<2>(llvm::seq<int64_t>(0, type.getRank())))});
  return Values{parallelGeneric(
      b, getLoc(), type, words, {}, [&](OpBuilder &inner, Location at, ValueRange args) -> Value {
        Type element = type.getElementType(),
             computed = element.isF64() ? element : inner.getF32Type();
        Value upper = arith::ShRUIOp::create(
            inner, at, args[0],
            arith::ConstantOp::create(
                inner, at, inner.getIntegerAttr(word, static_cast<int64_t>(32 * streams) - bits)));
        Value number = arith::SIToFPOp::create(inner, at, computed, upper);
        number = arith::MulFOp::create(
            inner, at, number,
            arith::ConstantOp::create(inner, at,
                                      inner.getFloatAttr(computed, std::ldexp(1.0, -bits))));
        return ScalarEmitter(inner, at).cast(number, element);
      })};
}

FailureOr<Values> RandomAdvanceOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = getType();
  return Values{parallelGeneric(
      b, getLoc(), type, operands, {},
      [&](OpBuilder &inner, Location at, ValueRange args) -> Value {
        Value isCounter = arith::CmpIOp::create(inner, at, arith::CmpIPredicate::eq,
                                                linalg::IndexOp::create(inner, at, 0),
                                                arith::ConstantIndexOp::create(inner, at, 1));
        Value moved = arith::AddIOp::create(
            inner, at, args[0],
            arith::ConstantOp::create(inner, at, inner.getI64IntegerAttr(getAmount())));
        return arith::SelectOp::create(inner, at, isCounter, moved, args[0]);
      })};
}

} // namespace weft::ir
