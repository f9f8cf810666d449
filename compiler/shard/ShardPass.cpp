#include "compiler/shard/Passes.h"

#include "compiler/graph/Slice.h"
#include "compiler/shard/Shard.h"
#include "dialects/weft/ir/SignatureAttributes.h"

namespace weft::compiler {

#define GEN_PASS_DEF_SHARDPASS
#include "compiler/shard/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral kAxes = "weft.axes";

mlir::RankedTensorType partType(mlir::RankedTensorType whole, llvm::ArrayRef<int32_t> axes,
                                llvm::ArrayRef<MeshAxis> mesh) {
  llvm::SmallVector<int64_t> shape(whole.getShape());
  return mlir::RankedTensorType::get(partSizes(shape, axes, mesh), whole.getElementType());
}

class ShardPass : public impl::ShardPassBase<ShardPass> {
public:
  using ShardPassBase::ShardPassBase;

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main || mlir::failed(readMesh()) || mlir::failed(checkOps(main)))
      return signalPassFailure();
    mlir::Block &body = main.getBody().front();
    mlir::OpBuilder builder(&getContext());
    auto made = std::make_unique<mlir::Block>();
    builder.setInsertionPointToEnd(made.get());
    Sharder sharder(builder, axes_);
    llvm::SmallVector<mlir::Type> inputs, outputs;
    ir::SignatureAttributes attributes(main);
    for (mlir::BlockArgument argument : body.getArguments()) {
      mlir::FailureOr<Axes> axes =
          axesOf(main, argument.getType(), main.getArgAttr(argument.getArgNumber(), kAxes));
      if (mlir::failed(axes))
        return signalPassFailure();
      inputs.push_back(
          partType(mlir::cast<mlir::RankedTensorType>(argument.getType()), *axes, axes_));
      sharder.give(argument, {made->addArgument(inputs.back(), argument.getLoc()), *axes});
      attributes.argument(argument.getArgNumber()).erase(kAxes);
    }
    if (mlir::failed(sharder.run(body)))
      return signalPassFailure();
    mlir::Operation *end = body.getTerminator();
    llvm::SmallVector<mlir::Value> results;
    for (auto [i, result] : llvm::enumerate(end->getOperands())) {
      mlir::FailureOr<Axes> axes =
          axesOf(main, result.getType(), main.getResultAttr(static_cast<unsigned>(i), kAxes));
      if (mlir::failed(axes))
        return signalPassFailure();
      results.push_back(sharder.reshard(end->getLoc(), sharder.at(result), *axes));
      outputs.push_back(results.back().getType());
      attributes.result(i).erase(kAxes);
    }
    mlir::func::ReturnOp::create(builder, end->getLoc(), results);
    main.getBody().push_back(made.release());
    main.getBody().front().erase();
    main.setFunctionType(builder.getFunctionType(inputs, outputs));
  }

private:
  // What weft-import accepts, but for sizes that are names.
  mlir::LogicalResult checkOps(mlir::func::FuncOp main) {
    for (mlir::BlockArgument argument : main.getArguments())
      if (!mlir::cast<mlir::RankedTensorType>(argument.getType()).hasStaticShape())
        return main.emitError() << "argument " << argument.getArgNumber() << " is "
                                << argument.getType() << "; sizes that vary are not cut";
    for (mlir::Operation &op : main.getBody().front().without_terminator())
      if (!mlir::isa<ir::WeftOp>(op) || mlir::isa<ir::LeafOp>(op))
        return op.emitError() << "is no op that a slice has; only those are cut";
    return mlir::success();
  }

  mlir::LogicalResult readMesh() {
    axes_.clear();
    for (auto [i, text] : llvm::enumerate(mesh)) {
      auto [name, count] = llvm::StringRef(text).split('=');
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
    return mlir::success();
  }

  mlir::FailureOr<Axes> axesOf(mlir::func::FuncOp main, mlir::Type type, mlir::Attribute given) {
    auto shape = mlir::cast<mlir::RankedTensorType>(type).getShape();
    Axes axes(shape.size(), kWhole);
    auto names = mlir::dyn_cast_if_present<mlir::ArrayAttr>(given);
    if (!given)
      return axes;
    if (!names || names.size() != shape.size())
      return main.emitError() << kAxes << " has the name of an axis, or \"\", for each dim of "
                              << type;
    for (auto [dim, attribute] : llvm::enumerate(names)) {
      auto name = mlir::dyn_cast<mlir::StringAttr>(attribute);
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

  llvm::SmallVector<MeshAxis> axes_;
};

} // namespace
} // namespace weft::compiler
