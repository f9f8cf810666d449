// Where an attribute varies, an op that takes it as an operand does the same: a slice is an index_select of start + step * iota, an
// insert_slice selects between its base and the update at iota - start, a generator's advance is an addition. They move the same
// elements, so that the values are the same bit for bit.
#include "frontend/recorder/symbolic_module.h"

#include <map>

#include "dialects/weft/ir/Weft.h"
#include "frontend/recorder/structure.h"

namespace weft::recorder {
namespace {

using ir::Val;

// The scalars that stand for the elements of an attribute, null where one does not vary.
using Varying = llvm::SmallVector<mlir::Value, 4>;

class Rewriter {
public:
  Rewriter(mlir::func::FuncOp main, const Generalization &general, const std::vector<IntPosition> &positions)
      : main_(main), general_(general), positions_(positions), builder_(main.getContext()) {}

  absl::Status run() {
    std::vector<mlir::Operation *> ops;
    for (mlir::Operation &op : main_.getBody().front().without_terminator()) ops.push_back(&op);
    if (absl::Status status = add_arguments(ops); !status.ok()) return status;
    // By op: its varying attributes.
    std::map<uint32_t, std::map<uint16_t, Varying>> varying;
    for (size_t p = 0; p < positions_.size(); ++p) {
      const IntPosition &position = positions_[p];
      int32_t scalar = general_.classes[p] - static_cast<int32_t>(general_.sizes.size());
      if (general_.classes[p] == Generalization::kConstant || scalar < 0) continue;
      Varying &elements = varying[position.op][position.kind == IntPosition::Kind::kConstant ? uint16_t(0) : position.value];
      if (elements.size() <= position.at) elements.resize(position.at + 1);
      elements[position.at] = arguments_[scalar];
    }
    for (auto &[index, attributes] : varying) {
      mlir::Operation *op = ops[index];
      builder_.setInsertionPoint(op);
      mlir::Value replacement;
      auto starts = attributes.find(static_cast<uint16_t>(VaryingAttribute::kStarts));
      if (auto slice = mlir::dyn_cast<ir::SliceOp>(op)) {
        starts->second.resize(slice.getStarts().size());
        replacement = rewrite(slice, starts->second);
      } else if (auto insert = mlir::dyn_cast<ir::InsertSliceOp>(op)) {
        starts->second.resize(insert.getStarts().size());
        absl::StatusOr<mlir::Value> made = rewrite(insert, starts->second);
        if (!made.ok()) return made.status();
        replacement = *made;
      } else if (auto advance = mlir::dyn_cast<ir::RandomAdvanceOp>(op)) {
        replacement = rewrite(advance, attributes.begin()->second[0]);
      } else if (auto constant = mlir::dyn_cast<ir::ConstantOp>(op)) {
        replacement = ir::broadcastTo(Val(builder_, op->getLoc(), attributes.begin()->second[0]), ir::dimsOf(typeOf(constant)));
      } else {
        return absl::UnimplementedError(op->getName().getStringRef().str() + " has an attribute that cannot vary");
      }
      op->getResult(0).replaceAllUsesWith(replacement);
      op->erase();
    }
    return absl::OkStatus();
  }

private:
  static mlir::RankedTensorType typeOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }

  absl::Status add_arguments(llvm::ArrayRef<mlir::Operation *> ops) {
    for (size_t s = 0; s < general_.scalars.size(); ++s) {
      mlir::Type element = builder_.getI64Type();
      if (general_.scalars[s].kind == IntPosition::Kind::kConstant) {
        element = typeOf(ops[positions_[general_.scalars[s].position].op]->getResult(0)).getElementType();
        for (size_t p = 0; p < positions_.size(); ++p)
          if (general_.classes[p] == static_cast<int32_t>(general_.sizes.size() + s) &&
              typeOf(ops[positions_[p].op]->getResult(0)).getElementType() != element)
            return absl::UnimplementedError("constants of two dtypes vary alike");
      }
      unsigned index = main_.getNumArguments();
      if (mlir::failed(main_.insertArgument(index, mlir::RankedTensorType::get({}, element), {}, main_.getLoc())))
        return absl::InternalError("@main takes no further argument");
      arguments_.push_back(main_.getArgument(index));
    }
    return absl::OkStatus();
  }

  Val scalar(mlir::Location loc, mlir::Value value, llvm::ArrayRef<int64_t> shape) {
    return ir::broadcast(Val(builder_, loc, value), shape);
  }

  mlir::Value rewrite(ir::SliceOp slice, const Varying &starts) {
    mlir::Location loc = slice.getLoc();
    auto input = typeOf(slice.getInput()), result = typeOf(slice);
    // First what does not vary, so that less is selected from.
    llvm::SmallVector<int64_t> first(slice.getStarts()), limits(slice.getLimits()), steps(slice.getSteps());
    bool whole = true;
    for (int64_t d = 0; d < input.getRank(); ++d) {
      if (starts[d]) first[d] = 0, limits[d] = input.getDimSize(d), steps[d] = 1;
      whole &= first[d] == 0 && steps[d] == 1 && limits[d] == input.getDimSize(d);
    }
    mlir::Value value = slice.getInput();
    if (!whole) value = ir::SliceOp::create(builder_, loc, value, first, limits, steps);
    for (int64_t d = 0; d < input.getRank(); ++d) {
      if (!starts[d]) continue;
      int64_t n = result.getDimSize(d), step = slice.getSteps()[d];
      Val start = scalar(loc, starts[d], {n});
      Val indices = n == 1 ? start : start + ir::iota(start, {n}, 0, builder_.getI64Type()) * double(step);
      value = ir::IndexSelectOp::create(builder_, loc, value, indices.value(), d);
    }
    return value;
  }

  absl::StatusOr<mlir::Value> rewrite(ir::InsertSliceOp insert, const Varying &starts) {
    mlir::Location loc = insert.getLoc();
    auto base = typeOf(insert.getBase()), update = typeOf(insert.getUpdate());
    llvm::SmallVector<int64_t> first(insert.getStarts()), limits, steps(insert.getSteps());
    bool whole = true;
    for (int64_t d = 0; d < base.getRank(); ++d) {
      if (starts[d] && steps[d] != 1) return absl::UnimplementedError("weft.insert_slice with a step has a start that varies");
      if (starts[d]) first[d] = 0;
      int64_t n = starts[d] ? base.getDimSize(d) : update.getDimSize(d);
      limits.push_back(steps[d] < 0 ? std::max<int64_t>(first[d] + n * steps[d], -1)
                                    : std::min(first[d] + n * steps[d], base.getDimSize(d)));
      whole &= first[d] == 0 && steps[d] == 1 && n == base.getDimSize(d);
    }
    // What the update may replace: all of the dims whose start varies, the update's part of the others.
    Val part(builder_, loc, insert.getBase());
    if (!whole) part = part.at(ir::SliceOp::create(builder_, loc, part.value(), first, limits, steps));
    llvm::SmallVector<int64_t> shape(part.shape());
    Val selected = part.at(insert.getUpdate()), inside;
    for (int64_t d = 0; d < base.getRank(); ++d) {
      if (!starts[d]) continue;
      int64_t size = base.getDimSize(d), n = update.getDimSize(d);
      auto offset = [&](llvm::ArrayRef<int64_t> dims, int64_t along) {
        return ir::iota(part, dims, along, builder_.getI64Type()) - scalar(loc, starts[d], dims);
      };
      Val here = offset({size}, 0);
      Val index = ir::maximum(here.at(ir::MinimumOp::create(builder_, loc, here.value(), here.constant(n - 1).value())), here.constant(0));
      selected = selected.at(ir::IndexSelectOp::create(builder_, loc, selected.value(), index.value(), d));
      Val there = offset(shape, d);
      Val low = ir::compare("ge", there, there.constant(0)), high = ir::compare("lt", there, there.constant(n));
      Val both = low.at(ir::AndOp::create(builder_, loc, low.value(), high.value()));
      inside = inside ? inside.at(ir::AndOp::create(builder_, loc, inside.value(), both.value())) : both;
    }
    Val result = ir::select(inside, selected, part);
    if (!whole) result = result.at(ir::InsertSliceOp::create(builder_, loc, base, insert.getBase(), result.value(), first, steps));
    return result.value();
  }

  mlir::Value rewrite(ir::RandomAdvanceOp advance, mlir::Value amount) {
    Val state(builder_, advance.getLoc(), advance.getState());
    // {key, counter} + {0, amount}: iota is {0, 1}.
    return (state + ir::iota(state, {2}, 0, builder_.getI64Type()) * scalar(advance.getLoc(), amount, {2})).value();
  }

  mlir::func::FuncOp main_;
  const Generalization &general_;
  const std::vector<IntPosition> &positions_;
  mlir::OpBuilder builder_;
  llvm::SmallVector<mlir::Value> arguments_;
};

} // namespace

absl::Status make_symbolic(mlir::ModuleOp module, const Generalization &general, const std::vector<IntPosition> &positions) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  if (!main) return absl::InternalError("the slice has no @main");
  if (!general.sizes.empty()) return absl::UnimplementedError("sizes vary");
  return Rewriter(main, general, positions).run();
}

} // namespace weft::recorder
