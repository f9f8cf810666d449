#include "compiler/shard/Passes.h"

#include "compiler/graph/Slice.h"
#include "compiler/shard/Shard.h"
#include "dialects/weft/ir/SignatureAttributes.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_SHARDPASS
#include "compiler/shard/Passes.h.inc"

namespace {

constexpr StringLiteral kAxes = "weft.axes";

RankedTensorType partType(RankedTensorType whole, ArrayRef<int32_t> axes, ArrayRef<MeshAxis> mesh) {
  SmallVector<int64_t> shape(whole.getShape());
  return RankedTensorType::get(partSizes(shape, axes, mesh), whole.getElementType());
}

class ShardPass : public impl::ShardPassBase<ShardPass> {
public:
  using ShardPassBase::ShardPassBase;

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main || failed(readMesh()) || failed(checkOps(main)))
      return signalPassFailure();
    Block &body = main.getBody().front();
    OpBuilder builder(&getContext());
    auto made = std::make_unique<Block>();
    builder.setInsertionPointToEnd(made.get());
    Sharder sharder(builder, axes_);
    SmallVector<Type> inputs, outputs;
    ir::SignatureAttributes attributes(main);
    for (BlockArgument argument : body.getArguments()) {
      FailureOr<Axes> axes =
          axesOf(main, argument.getType(), main.getArgAttr(argument.getArgNumber(), kAxes));
      if (failed(axes))
        return signalPassFailure();
      inputs.push_back(partType(ir::typeOf(argument), *axes, axes_));
      sharder.give(argument, {made->addArgument(inputs.back(), argument.getLoc()), *axes});
      attributes.argument(argument.getArgNumber()).erase(kAxes);
    }
    if (failed(sharder.run(body)))
      return signalPassFailure();
    Operation *end = body.getTerminator();
    SmallVector<Value> results;
    for (auto [i, result] : llvm::enumerate(end->getOperands())) {
      FailureOr<Axes> axes =
          axesOf(main, result.getType(), main.getResultAttr(static_cast<unsigned>(i), kAxes));
      if (failed(axes))
        return signalPassFailure();
      results.push_back(sharder.reshard(end->getLoc(), sharder.at(result), *axes));
      outputs.push_back(results.back().getType());
      attributes.result(i).erase(kAxes);
    }
    func::ReturnOp::create(builder, end->getLoc(), results);
    main.getBody().push_back(made.release());
    main.getBody().front().erase();
    main.setFunctionType(builder.getFunctionType(inputs, outputs));
  }

private:
  // What weft-import accepts, but for sizes that are names.
  LogicalResult checkOps(func::FuncOp main) {
    for (BlockArgument argument : main.getArguments())
      if (!ir::typeOf(argument).hasStaticShape())
        return main.emitError() << "argument " << argument.getArgNumber() << " is "
                                << argument.getType() << "; sizes that vary are not cut";
    for (Operation &op : main.getBody().front().without_terminator())
      if (!isa<ir::WeftOp>(op) || isa<ir::LeafOp>(op))
        return op.emitError() << "is no op that a slice has; only those are cut";
    return success();
  }

  LogicalResult readMesh() {
    axes_.clear();
    for (auto [i, text] : llvm::enumerate(mesh)) {
      auto [name, count] = StringRef(text).split('=');
      MeshAxis &axis = axes_.emplace_back();
      axis.name = axis.group = name.str();
      if (name.empty() || count.getAsInteger(10, axis.ranks) || axis.ranks < 1)
        return getOperation().emitError()
               << "'" << text << "' is no axis of a mesh; one is NAME=RANKS";
      axis.rank = i < place.size() ? place[i] : 0;
      if (axis.rank < 0 || axis.rank >= axis.ranks)
        return getOperation().emitError() << "there is no place " << axis.rank << " on the axis '"
                                          << name << "' of " << axis.ranks << " ranks";
    }
    return success();
  }

  FailureOr<Axes> axesOf(func::FuncOp main, Type type, Attribute given) {
    auto shape = cast<RankedTensorType>(type).getShape();
    Axes axes(shape.size(), kWhole);
    auto names = dyn_cast_if_present<ArrayAttr>(given);
    if (!given)
      return axes;
    if (!names || names.size() != shape.size())
      return main.emitError() << kAxes << " has the name of an axis, or \"\", for each dim of "
                              << type;
    for (auto [dim, attribute] : llvm::enumerate(names)) {
      auto name = dyn_cast<StringAttr>(attribute);
      if (name && name.empty())
        continue;
      auto *axis = llvm::find_if(
          axes_, [&](const MeshAxis &each) { return name && each.name == name.getValue(); });
      if (axis == axes_.end())
        return main.emitError() << "the mesh has no axis " << attribute;
      auto number = static_cast<int32_t>(axis - axes_.begin());
      if (llvm::is_contained(axes, number))
        return main.emitError() << "the axis " << attribute << " stands twice";
      if (!divides(*axis, shape[dim]))
        return main.emitError() << "dim " << dim << " of " << type << " has no " << axis->ranks
                                << " equal parts";
      axes[dim] = number;
    }
    return axes;
  }

  SmallVector<MeshAxis> axes_;
};

} // namespace
} // namespace weft::compiler
