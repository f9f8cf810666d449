// A concat of n inputs is a kernel of n operands, whose code finds the input of each element.
// Compile time grows with n squared, registers with n; and if the inputs are free to compute again
// (slices of one matrix), the kernel has more ops than the limit. A tree of concats writes and
// reads its inner nodes once more, where they do not fuse.
#include "compiler/fusion/SplitWide.h"

#include "compiler/fusion/FusionLimits.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"

namespace weft::compiler {

using namespace mlir;

void splitWideConcats(Block &block) {
  SmallVector<ir::ConcatOp> wide;
  for (auto concat : block.getOps<ir::ConcatOp>())
    if (static_cast<int64_t>(concat.getInputs().size()) > limits::kMaxConcatInputs)
      wide.push_back(concat);
  for (ir::ConcatOp concat : wide) {
    OpBuilder builder(concat);
    SmallVector<Value> parts(concat.getInputs());
    while (static_cast<int64_t>(parts.size()) > limits::kMaxConcatInputs) {
      SmallVector<Value> next;
      ArrayRef<Value> left(parts);
      while (!left.empty()) {
        ArrayRef<Value> some = left.take_front(limits::kMaxConcatInputs);
        left = left.drop_front(some.size());
        next.push_back(some.size() == 1
                           ? some.front()
                           : ir::ConcatOp::create(builder, concat.getLoc(), some, concat.getDim())
                                 .getResult());
      }
      parts = std::move(next);
    }
    concat->setOperands(parts);
  }
}

} // namespace weft::compiler
