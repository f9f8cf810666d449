// Where an attribute varies, an op that takes it as an operand does the same: a slice is an
// index_select of start + step * iota, an insert_slice selects between its base and the update at
// iota - start, a generator's advance is an addition. They move the same elements, so that the
// values are the same bit for bit.
#include "frontend/compile/symbolic_module.h"

#include <map>
#include <optional>

#include "compiler/fusion/WriteInPlace.h"
#include "compiler/graph/Simplify.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Composites.h"
#include "frontend/compile/joined_rows.h"
#include "frontend/compile/leading_sizes.h"
#include "frontend/compile/limits.h"
#include "frontend/compile/refusal.h"
#include "frontend/compile/varying_dims.h"
#include "mlir/IR/Verifier.h"
#include "runtime/core/status.h"
#include "llvm/ADT/MapVector.h"

namespace weft::recorder {
namespace {

using ir::Val;

// The scalars that stand for the elements of an attribute, null where one does not vary.
using Varying = llvm::SmallVector<mlir::Value, 4>;

class Rewriter {
public:
  Rewriter(mlir::func::FuncOp main, const Generalization &general,
           const std::vector<IntPosition> &positions, bool writes_rows)
      : main_(main), general_(general), positions_(positions), builder_(main.getContext()) {
    if (writes_rows)
      writes_.emplace(main.getBody().front());
  }

  absl::Status run() {
    std::vector<mlir::Operation *> ops;
    for (mlir::Operation &op : main_.getBody().front().without_terminator())
      ops.push_back(&op);
    WEFT_RETURN_IF_ERROR(add_arguments(ops));
    WEFT_RETURN_IF_ERROR(name_sizes(ops));
    for (mlir::Operation *&op : ops)
      if (auto mean = mlir::dyn_cast_if_present<ir::ReduceMeanOp>(op)) {
        WEFT_RETURN_IF_ERROR(rewrite_mean(mean, op));
      } else if (auto normal = mlir::dyn_cast_if_present<ir::RandomNormalOp>(op)) {
        rewrite_normal(normal, op);
      } else if (auto norm = mlir::dyn_cast_if_present<ir::BatchNormOp>(op)) {
        WEFT_RETURN_IF_ERROR(rewrite_batch_norm(norm, op));
      }
    std::map<uint32_t, Varying> varying; // by op
    for (size_t p = 0; p < positions_.size(); ++p) {
      const IntPosition &position = positions_[p];
      int32_t scalar = general_.classes[p] - static_cast<int32_t>(general_.sizes.size());
      if (general_.classes[p] == Generalization::kConstant || scalar < 0)
        continue;
      Varying &elements = varying[position.op];
      if (elements.size() <= position.at)
        elements.resize(position.at + 1);
      elements[position.at] = arguments_[scalar];
    }
    for (uint32_t i = 0; i < ops.size(); ++i)
      if (auto slice = mlir::dyn_cast_if_present<ir::SliceOp>(ops[i]); slice && takes_rows(slice))
        WEFT_RETURN_IF_ERROR(fix_starts(slice, varying[i]));
    for (uint32_t i = 0; i < ops.size(); ++i)
      if (auto insert = mlir::dyn_cast_if_present<ir::InsertSliceOp>(ops[i]);
          insert && !varying.contains(i))
        insert_rows(insert, ops[i]);
    for (auto &[index, elements] : varying) {
      mlir::Operation *op = ops[index];
      builder_.setInsertionPoint(op);
      mlir::Value replacement;
      if (auto slice = mlir::dyn_cast<ir::SliceOp>(op)) {
        elements.resize(slice.getStarts().size());
        ir::Dims from = dimsOf(slice.getInput()), to = dimsOf(slice);
        for (size_t d = 0; d < to.size(); ++d)
          if (elements[d] && !from[d].isStatic() && from[d] == to[d])
            return cannot(op, "weft.slice has a start and a size that vary");
        replacement = rewrite(slice, elements);
      } else if (auto insert = mlir::dyn_cast<ir::InsertSliceOp>(op)) {
        elements.resize(insert.getStarts().size());
        if (ir::hasNamedDims(insert.getType()))
          return cannot(op, "weft.insert_slice has a start and a size that vary");
        WEFT_ASSIGN_OR_RETURN(replacement, rewrite(insert, elements));
      } else if (auto advance = mlir::dyn_cast<ir::RandomAdvanceOp>(op)) {
        replacement = advanced(op->getLoc(), advance.getState(), elements[0]);
      } else if (auto constant = mlir::dyn_cast<ir::ConstantOp>(op)) {
        replacement = ir::broadcastTo(Val(builder_, op->getLoc(), elements[0]), dimsOf(constant));
      } else {
        return cannot(op,
                      op->getName().getStringRef().str() + " has an attribute that cannot vary");
      }
      op->getResult(0).replaceAllUsesWith(replacement);
      op->erase();
    }
    return absl::OkStatus();
  }

private:
  // As a SizeOf: the size as an argument.
  auto sizes() const {
    return [this](llvm::StringRef symbol) -> mlir::Value {
      for (size_t s = 0; s < general_.scalars.size(); ++s)
        if (general_.scalars[s].kind == IntPosition::Kind::kSize &&
            general_.sizes[general_.classes[general_.scalars[s].position]].name == symbol)
          return arguments_[s];
      return nullptr;
    };
  }

  // Gives each value its largest sizes, and the names of those that vary.
  absl::Status name_sizes(std::vector<mlir::Operation *> &ops) {
    if (general_.sizes.empty())
      return absl::OkStatus();
    llvm::MapVector<mlir::Value, ir::Dims> dims;
    for (size_t p = 0; p < positions_.size(); ++p) {
      const IntPosition &position = positions_[p];
      int32_t c = general_.classes[p];
      if (position.kind != IntPosition::Kind::kSize || c == Generalization::kConstant)
        continue;
      mlir::Operation *op = ops[position.op];
      mlir::Value value = position.value & kResult ? op->getResult(position.value & ~kResult)
                                                   : op->getOperand(position.value);
      auto [it, fresh] = dims.insert({value, {}});
      if (fresh)
        it->second = dimsOf(value);
      const Generalization::Size &size = general_.sizes[c];
      it->second[position.at] = ir::namedDim(builder_.getStringAttr(size.name), size.high);
    }
    for (auto &[value, shape] : dims)
      value.setType(type_with(value, shape));
    llvm::DenseSet<mlir::Operation *> varying; // their attributes go by the dims that they have
    for (size_t p = 0; p < positions_.size(); ++p)
      if (positions_[p].kind != IntPosition::Kind::kSize &&
          general_.classes[p] != Generalization::kConstant)
        varying.insert(ops[positions_[p].op]);
    llvm::SmallVector<mlir::NamedAttribute> ranges;
    for (const Generalization::Size &size : general_.sizes)
      if (size.is_free())
        ranges.push_back(
            builder_.getNamedAttr(size.name, builder_.getDenseI64ArrayAttr({size.low, size.high})));
    main_->getParentOp()->setAttr("weft.sizes", builder_.getDictionaryAttr(ranges));
    WEFT_RETURN_IF_ERROR(takes_joined_rows(main_) ? join_rows(main_, ops, varying, sizes())
                                                  : bring_to_front(main_, ops, varying));
    for (mlir::Operation *op : ops)
      if (op)
        WEFT_RETURN_IF_ERROR(adjust(op));
    mlir::Block &block = main_.getBody().front();
    main_.setFunctionType(builder_.getFunctionType(block.getArgumentTypes(),
                                                   block.getTerminator()->getOperandTypes()));
    return absl::OkStatus();
  }

  // Ops whose attributes hold sizes; and those that no kernel computes where the size varies,
  // before anything is compiled for nothing.
  absl::Status adjust(mlir::Operation *op) {
    auto named = [](mlir::Value value, int64_t dim) {
      return !dimsOf(value)[dim].isStatic();
    };
    std::string name = name_of(op);
    if (auto constant = mlir::dyn_cast<ir::ConstantOp>(op);
        constant && ir::hasNamedDims(constant.getType())) {
      auto elements = mlir::dyn_cast<mlir::SplatElementsAttr>(constant.getValue());
      if (!elements)
        return cannot(op, "a constant has a size that varies");
      // The op itself becomes the scalar, so that ops keep their numbers.
      ir::Dims dims = dimsOf(constant);
      auto scalar = mlir::RankedTensorType::get({}, elements.getElementType());
      constant.getResult().setType(scalar);
      constant.setValueAttr(elements.resizeSplat(scalar));
      builder_.setInsertionPointAfter(op);
      auto broadcast = ir::BroadcastOp::create(builder_, op->getLoc(),
                                               ir::tensorOf(dims, scalar.getElementType()),
                                               constant.getResult());
      constant.getResult().replaceAllUsesExcept(broadcast.getResult(), broadcast);
    } else if (auto slice = mlir::dyn_cast<ir::SliceOp>(op)) {
      llvm::SmallVector<int64_t> limits(slice.getLimits());
      for (size_t d = 0; d < limits.size(); ++d) {
        bool from = named(slice.getInput(), d), to = named(slice, d);
        if (from != to || !from || dimsOf(slice.getInput())[d] != dimsOf(slice)[d])
          continue; // fix_starts
        if (slice.getStarts()[d] != 0 || slice.getSteps()[d] != 1)
          return cannot(op, "weft.slice takes a part of a dimension whose size varies");
        limits[d] = mlir::ShapedType::kDynamic;
      }
      slice.setLimits(limits);
    } else if (!has_kernels(op)) {
      for (mlir::Value value : llvm::concat<mlir::Value>(llvm::to_vector(op->getOperands()),
                                                         llvm::to_vector(op->getResults())))
        if (ir::hasNamedDims(value.getType()))
          return cannot(op, name + " has no kernel for sizes that vary");
    } else if (ir::isOwn(op) && mlir::cast<ir::WeftOp>(op).kind() == ir::Kind::Scan &&
               named(op->getResult(0),
                     mlir::cast<mlir::IntegerAttr>(op->getAttr("dim")).getInt())) {
      return cannot(op, name + " goes along a size that varies");
    } else if (ir::decomposesBySize(op)) {
      return cannot(op, name + " of " + ir::spell(typeOf(op->getResult(0)).getElementType()) +
                            " adds up in another order for some of its sizes; of float32 it does "
                            "not");
    }
    return absl::OkStatus();
  }

  // Whether each named dim of an operand or a result is a dim of the op's statement as it is: rules
  // of another dialect may count on the size that the type has, as a mirror's does.
  static bool keeps_named_dims(mlir::Operation *op) {
    if (mlir::cast<ir::WeftOp>(op).kind() == ir::Kind::Elementwise)
      return true;
    std::optional<ir::IndexStatement> statement = ir::statementOf(op);
    auto keeps = [](mlir::TypeRange types, llvm::ArrayRef<ir::Positions> all) {
      for (auto [type, positions] : llvm::zip_equal(types, all))
        for (auto [dim, position] :
             llvm::zip_equal(dimsOf(mlir::cast<mlir::RankedTensorType>(type)), positions))
          if (!dim.isStatic() && (position.terms.empty() || !position.is(position.terms[0].dim)))
            return false;
      return true;
    };
    return statement && keeps(op->getOperandTypes(), statement->operands) &&
           keeps(op->getResultTypes(), statement->results);
  }

  // What is known to have a form for sizes that vary: the others depend on sizes in ways of their
  // own (a library's algorithms, indices).
  static bool has_kernels(mlir::Operation *op) {
    if (!ir::isOwn(op) && !keeps_named_dims(op))
      return false;
    switch (mlir::cast<ir::WeftOp>(op).kind()) {
    case ir::Kind::Creation:
    case ir::Kind::Elementwise:
    case ir::Kind::Movement:
    case ir::Kind::Reduction:
    case ir::Kind::Gather:
    case ir::Kind::Scan:
    case ir::Kind::Random:
    case ir::Kind::Scatter:
      return true;
    case ir::Kind::Contraction:
      return mlir::isa<ir::MatmulOp>(op);
    case ir::Kind::Composite:
      return ir::isOwn(op) && !mlir::isa<ir::CholeskyOp, ir::SolveTriangularOp, ir::LuOp>(op);
    default:
      return false;
    }
  }

  absl::Status add_arguments(llvm::ArrayRef<mlir::Operation *> ops) {
    for (size_t s = 0; s < general_.scalars.size(); ++s) {
      mlir::Type element = builder_.getI64Type();
      if (general_.scalars[s].kind == IntPosition::Kind::kConstant) {
        element =
            typeOf(ops[positions_[general_.scalars[s].position].op]->getResult(0)).getElementType();
        for (size_t p = 0; p < positions_.size(); ++p)
          if (general_.classes[p] == static_cast<int32_t>(general_.sizes.size() + s) &&
              typeOf(ops[positions_[p].op]->getResult(0)).getElementType() != element)
            return absl::UnimplementedError("constants of two dtypes vary alike");
      }
      unsigned index = main_.getNumArguments();
      if (mlir::failed(main_.insertArgument(index, mlir::RankedTensorType::get({}, element), {},
                                            main_.getLoc())))
        return absl::InternalError("@main takes no further argument");
      arguments_.push_back(main_.getArgument(index));
    }
    return absl::OkStatus();
  }

  // Whether it takes a number of elements of a dim whose size varies, or the other way round, or as
  // many as another size says.
  static bool takes_rows(const ir::Dim &from, const ir::Dim &to) {
    return !(from.isStatic() && to.isStatic()) && from != to;
  }
  static bool takes_rows(ir::SliceOp slice) {
    return llvm::any_of(llvm::zip_equal(dimsOf(slice.getInput()), dimsOf(slice)),
                        [](auto pair) { return takes_rows(std::get<0>(pair), std::get<1>(pair)); });
  }

  static bool gathers_many(const ir::Dims &taken, size_t dim) {
    int64_t row = 1, elements = 1;
    for (auto [i, each] : llvm::enumerate(taken)) {
      elements *= each.size;
      row *= i > dim ? each.size : 1;
    }
    return row < kCompileLimits.short_row && elements > kCompileLimits.gathered_elements;
  }

  // Where it begins in such a dim is a scalar, too, if all that it takes is there at each size. Of
  // two sizes that vary it is: they are those of a slice that was recorded, and checked then.
  absl::Status fix_starts(ir::SliceOp slice, Varying &starts) {
    ir::Dims from = dimsOf(slice.getInput()), to = dimsOf(slice);
    starts.resize(from.size());
    builder_.setInsertionPoint(slice);
    for (auto [d, dim] : llvm::enumerate(from)) {
      if (!takes_rows(dim, to[d]) || starts[d])
        continue;
      int64_t start = slice.getStarts()[d],
              last = start + (to[d].size - 1) * slice.getSteps()[d];
      auto size = llvm::find_if(general_.sizes, [&](const Generalization::Size &each) {
        return !dim.isStatic() && each.name == dim.symbol.getValue();
      });
      int64_t least = dim.isStatic() ? dim.size : size == general_.sizes.end() ? 0 : size->low;
      bool is_checked = !dim.isStatic() && !to[d].isStatic();
      if (is_checked && gathers_many(to, d))
        return cannot(slice, "weft.slice takes a part of a dimension whose size varies, many "
                             "elements that do not lie in rows");
      if (dim.isStatic() && std::max(start, last) >= least)
        return cannot(slice, "weft.slice takes elements up to the largest size of the range, " +
                                 std::to_string(to[d].size) + ", of a dimension that has " +
                                 std::to_string(least));
      if (!is_checked && std::max(start, last) >= least)
        return too_few_elements(slice);
      auto type = mlir::RankedTensorType::get({}, builder_.getI64Type());
      starts[d] = ir::ConstantOp::create(
          builder_, slice.getLoc(),
          mlir::DenseElementsAttr::get(type, llvm::ArrayRef<int64_t>(start)));
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
    llvm::SmallVector<int64_t> first(slice.getStarts()), limits(slice.getLimits()),
        steps(slice.getSteps());
    bool whole = true;
    for (int64_t d = 0; d < input.getRank(); ++d) {
      if (starts[d])
        first[d] = 0, steps[d] = 1,
        limits[d] = dimsOf(input)[d].isStatic() ? input.getDimSize(d) : mlir::ShapedType::kDynamic;
      whole &= first[d] == 0 && steps[d] == 1 &&
               (limits[d] == input.getDimSize(d) || mlir::ShapedType::isDynamic(limits[d]));
    }
    mlir::Value value = slice.getInput();
    if (!whole)
      value = ir::SliceOp::create(builder_, loc, value, first, limits, steps);
    for (int64_t d = 0; d < input.getRank(); ++d) {
      if (!starts[d])
        continue;
      ir::Dim n = dimsOf(result)[d];
      Val start = ir::broadcastTo(Val(builder_, loc, starts[d]), {n}), indices = start;
      if (!n.isOne()) {
        auto numbers = ir::tensorOf({n}, builder_.getI64Type());
        indices = start + start.at(ir::IotaOp::create(builder_, loc, numbers, 0)) *
                              double(slice.getSteps()[d]);
      }
      value = choose(value, indices, d);
    }
    return value;
  }

  absl::StatusOr<mlir::Value> rewrite(ir::InsertSliceOp insert, const Varying &starts) {
    mlir::Location loc = insert.getLoc();
    if (writes_ && writes_->contains(insert))
      return compiler::putPart(builder_, insert, starts);
    auto base = typeOf(insert.getBase()), update = typeOf(insert.getUpdate());
    llvm::SmallVector<int64_t> first(insert.getStarts()), limits, steps(insert.getSteps());
    ir::Dims sizes = dimsOf(update);
    bool whole = true;
    for (int64_t d = 0; d < base.getRank(); ++d) {
      if (starts[d] && steps[d] != 1)
        return cannot(insert, "weft.insert_slice with a step has a start that varies");
      if (!starts[d] && !sizes[d].isStatic())
        return cannot(insert, "weft.insert_slice has a start and another dim's size that vary");
      if (starts[d])
        first[d] = 0;
      int64_t n = starts[d] ? base.getDimSize(d) : update.getDimSize(d);
      limits.push_back(steps[d] < 0 ? std::max<int64_t>(first[d] + n * steps[d], -1)
                                    : std::min(first[d] + n * steps[d], base.getDimSize(d)));
      whole &= first[d] == 0 && steps[d] == 1 && n == base.getDimSize(d);
    }
    // What the update may replace: all of the dims whose start varies, the update's part of the
    // others.
    Val part(builder_, loc, insert.getBase());
    if (!whole)
      part = part.at(ir::SliceOp::create(builder_, loc, part.value(), first, limits, steps));
    Val selected = part.at(insert.getUpdate()), inside;
    for (int64_t d = 0; d < base.getRank(); ++d) {
      if (!starts[d])
        continue;
      Val place = iota(builder_, loc, dimsOf(part)[d], 0), number = count(insert, sizes, {d});
      if (!number && !sizes[d].isStatic())
        return cannot(insert, "weft.insert_slice has a size that varies and is no argument");
      place = place - scalar(loc, starts[d], place.shape());
      Val each =
          number ? ir::broadcastTo(number, dimsOf(part)[d]) : place.constant(double(sizes[d].size));
      place_along(d, place, each, dimsOf(part), selected, inside);
    }
    Val result = ir::select(inside, selected, part);
    if (!whole)
      result = result.at(
          ir::InsertSliceOp::create(builder_, loc, base, insert.getBase(), result, first, steps));
    return result.value();
  }

  // Of a value with these dims each element along dim d is the one at its place of `count` ones of
  // `selected`, if it is inside of them.
  void place_along(int64_t d, Val place, Val count, const ir::Dims &dims, Val &selected,
                   Val &inside) {
    PlacesInside part = inside_of(place, count);
    selected = choose(selected, part.place, d);
    ir::Dims along(dims.size(), ir::Dim(1));
    along[d] = dims[d];
    Val here = ir::broadcastTo(ir::reshapeTo(part.is_inside, along), dims);
    inside = inside ? inside.make<ir::AndOp>(inside.value(), here.value()) : here;
  }

  // How many elements these dims have together. Null where none of them varies.
  Val count(mlir::Operation *op, const ir::Dims &dims, llvm::ArrayRef<int64_t> of) {
    ir::Dims counted;
    for (int64_t dim : of)
      counted.push_back(dims[dim]);
    if (llvm::all_of(counted, [](const ir::Dim &dim) { return dim.isStatic(); }))
      return Val();
    return count_of(builder_, op->getLoc(), counted, sizes());
  }

  // The op has become that of the first of these values.
  static void replace(mlir::Operation *&op, mlir::ValueRange values) {
    op->replaceAllUsesWith(values);
    std::exchange(op, values.front().getDefiningOp())->erase();
  }

  // The count of a mean over sizes that vary is an argument, too: a sum divided by it.
  absl::Status rewrite_mean(ir::ReduceMeanOp mean, mlir::Operation *&op) {
    builder_.setInsertionPoint(op);
    Val number = count(op, dimsOf(mean.getInput()), mean.getDims());
    if (!number)
      return absl::OkStatus();
    mlir::Type element = typeOf(mean).getElementType();
    if (!element.isF32() && !element.isF64())
      return cannot(op, "weft.reduce_mean of 16-bit floats over a size that varies");
    Val sum(builder_, op->getLoc(),
            ir::ReduceSumOp::create(builder_, op->getLoc(), mean.getInput(), mean.getDims()));
    Val result = sum / ir::broadcastTo(ir::cast(number, element), dimsOf(sum.type()));
    replace(op, result.value());
    return absl::OkStatus();
  }

  // Rows in place of some of others, where the number of one or of both varies, as in the gradient
  // of as many rows of a table: each row is one of these, or stays.
  void insert_rows(ir::InsertSliceOp insert, mlir::Operation *&op) {
    ir::Dims base = dimsOf(insert.getBase()), update = dimsOf(insert.getUpdate());
    int64_t d = -1;
    for (int64_t dim = 0; dim < static_cast<int64_t>(base.size()); ++dim) {
      if (base[dim] == update[dim] && insert.getStarts()[dim] == 0 && insert.getSteps()[dim] == 1)
        continue;
      if (d >= 0 || insert.getSteps()[dim] != 1)
        return;
      d = dim;
    }
    if (d < 0 || (base[d].isStatic() && update[d].isStatic()))
      return;
    builder_.setInsertionPoint(op);
    mlir::Location loc = op->getLoc();
    Val was(builder_, loc, insert.getBase()), number = count(op, update, {d});
    if (!number && !update[d].isStatic())
      return;
    Val place = iota(builder_, loc, base[d], 0) - double(insert.getStarts()[d]);
    Val each = number ? ir::broadcastTo(number, base[d]) : place.constant(double(update[d].size));
    Val chosen = was.at(insert.getUpdate()), inside;
    place_along(d, place, each, base, chosen, inside);
    replace(op, ir::select(inside, chosen, was).value());
  }

  // A batch_norm in training counts the elements of a channel: the decomposition's sum of ones is
  // an argument, too.
  absl::Status rewrite_batch_norm(ir::BatchNormOp norm, mlir::Operation *&op) {
    ir::Dims extents = dimsOf(norm.getInput());
    builder_.setInsertionPoint(op);
    Val number = count(op, extents, ir::allButChannels(static_cast<int64_t>(extents.size())));
    if (!number)
      return absl::OkStatus();
    mlir::Operation *before = op->getPrevNode();
    auto results = norm.decompose(builder_);
    if (mlir::failed(results))
      return cannot(op, "weft.batch_norm has no decomposition");
    auto made = before ? llvm::make_range(std::next(before->getIterator()), op->getIterator())
                       : llvm::make_range(op->getBlock()->begin(), op->getIterator());
    for (mlir::Operation &each : llvm::make_early_inc_range(made)) {
      auto sum = mlir::dyn_cast<ir::ReduceSumOp>(each);
      if (!sum || !compiler::splatOf(sum.getInput()).is(1))
        continue;
      builder_.setInsertionPoint(sum);
      Val elements = ir::cast(number, typeOf(sum).getElementType());
      sum.getResult().replaceAllUsesWith(ir::broadcastTo(elements, dimsOf(sum)).value());
      sum.erase();
    }
    replace(op, *results);
    return absl::OkStatus();
  }

  // Normal samples are made of two streams of uniform ones. The second begins behind the first, at
  // a place that is an argument where the size varies.
  void rewrite_normal(ir::RandomNormalOp normal, mlir::Operation *&op) {
    mlir::RankedTensorType type = typeOf(normal);
    ir::Dims dims = dimsOf(type);
    builder_.setInsertionPoint(op);
    Val elements = count(op, dims, llvm::to_vector(llvm::seq<int64_t>(type.getRank())));
    if (!elements)
      return;
    Val blocks = (elements + 63) / 64 * 16; // as random_blocks() of starting_values.h
    bool isWide = type.getElementType().isF64();
    mlir::RankedTensorType computed =
        ir::tensorOf(dims, isWide ? builder_.getF64Type() : builder_.getF32Type());
    auto stream = [&](mlir::Value state) {
      return elements.at(ir::RandomUniformOp::create(builder_, op->getLoc(), computed, state,
                                                     normal.getOffset()));
    };
    Val first = stream(normal.getState()),
        second = stream(advanced(op->getLoc(), normal.getState(), blocks.value())),
        result = ir::cast(ir::normalOf(first, second), type.getElementType());
    replace(op, result.value());
  }

  mlir::Value advanced(mlir::Location loc, mlir::Value place, mlir::Value amount) {
    Val state(builder_, loc, place);
    // {key, counter} + {0, amount}: iota is {0, 1}.
    return (state + ir::iota(state, {2}, 0, builder_.getI64Type()) * scalar(loc, amount, {2}))
        .value();
  }

  mlir::func::FuncOp main_;
  const Generalization &general_;
  const std::vector<IntPosition> &positions_;
  std::optional<compiler::PartWrites> writes_; // that become index_puts
  mlir::OpBuilder builder_;
  llvm::SmallVector<mlir::Value> arguments_;
};

// An op's own rule may refuse a name where the numbers fitted: then which op, and what it says.
absl::Status verify_sizes(mlir::ModuleOp module, mlir::func::FuncOp main) {
  std::string first;
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    if (first.empty() && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      first = diagnostic.str();
    return mlir::success();
  });
  if (mlir::succeeded(mlir::verify(module)))
    return absl::OkStatus();
  std::string whole = first; // of what no op alone shows
  for (mlir::Operation &op : main.getBody().front()) {
    first.clear();
    if (mlir::succeeded(mlir::verify(&op)))
      continue;
    // "weft.concat: the size of dimension 0 ..." is the op's; sentences that quote it are MLIR's.
    bool is_own = !first.empty() && first.front() != '\'';
    return cannot(&op, is_own ? first
                              : op.getName().getStringRef().str() +
                                    " gives sizes that do not follow from those that it takes");
  }
  return absl::UnimplementedError("sizes that vary do not fit an op: " + whole);
}

} // namespace

absl::Status make_symbolic(mlir::ModuleOp module, const Generalization &general,
                           const std::vector<IntPosition> &positions, bool writes_rows) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  if (!main)
    return absl::InternalError("the slice has no @main");
  WEFT_RETURN_IF_ERROR(Rewriter(main, general, positions, writes_rows).run());
  return general.sizes.empty() ? absl::OkStatus() : verify_sizes(module, main);
}

} // namespace weft::recorder
