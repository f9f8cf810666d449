// plan-pieces: large gradients that are never whole. A product that only the update of a weight
// reads is computed some rows at a time, and the update follows on these rows: the same sums, the
// same elementwise operations, in a buffer of the size of a piece.
#include "compiler/claim/Provider.h"
#include "compiler/pipeline/CallUser.h"
#include "compiler/pipeline/Report.h"
#include "compiler/plan/Extract.h"
#include "compiler/plan/Limits.h"
#include "compiler/plan/Passes.h"
#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/core/alignment.h"

namespace weft::compiler {

using namespace mlir;

namespace {

using Shape = ArrayRef<int64_t>;

RankedTensorType tensorOf(Attribute type) {
  return cast<RankedTensorType>(cast<TypeAttr>(type).getValue());
}

bool hasShape(Type type, Shape shape) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getShape() == shape;
}

// A type of that shape with fewer rows; others as they are.
Type cutType(Type type, Shape shape, int64_t rows) {
  if (!hasShape(type, shape))
    return type;
  SmallVector<int64_t> cut(shape);
  cut[0] = rows;
  return RankedTensorType::get(cut, cast<RankedTensorType>(type).getElementType());
}

ir::FusionOp fusionOf(plan::KernelOp kernel) {
  auto fusions = kernel.getBody().front().getOps<ir::FusionOp>();
  return fusions.empty() ? ir::FusionOp() : *fusions.begin();
}

// Whether some rows of every result are computed of the same rows of operands of that shape, and of
// others that have no rows.
bool worksByRows(plan::KernelOp kernel, Shape shape) {
  ir::FusionOp fusion = fusionOf(kernel);
  if (!fusion ||
      !llvm::all_of(fusion->getResultTypes(), [&](Type type) { return hasShape(type, shape); }))
    return false;
  for (Operation &op : fusion.getBody().front().without_terminator()) {
    if (auto constant = dyn_cast<ir::ConstantOp>(op)) {
      auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (hasShape(constant.getType(), shape) && !(value && value.isSplat()))
        return false;
      continue;
    }
    if (auto broadcast = dyn_cast<ir::BroadcastOp>(op)) {
      auto from = ir::typeOf(broadcast.getInput());
      bool hasRows = from.getRank() == int64_t(shape.size()) && from.getDimSize(0) != 1;
      if (hasRows && hasShape(broadcast.getType(), shape))
        return false;
      continue;
    }
    auto weft = dyn_cast<ir::WeftOp>(op);
    if (!weft || weft.kind() != ir::Kind::Elementwise || ir::indexBounds(&op))
      return false;
  }
  return true;
}

// A kernel for pieces of so many rows.
plan::KernelOp cutKernel(plan::KernelOp kernel, Shape shape, int64_t rows) {
  OpBuilder builder(kernel);
  auto cut = cast<plan::KernelOp>(builder.clone(*kernel));
  cut.setSymName((kernel.getSymName() + "_rows" + Twine(rows)).str());
  SmallVector<Type> inputs, results;
  for (Type type : kernel.getArgumentTypes())
    inputs.push_back(cutType(type, shape, rows));
  for (Type type : kernel.getResultTypes())
    results.push_back(cutType(type, shape, rows));
  cut.setFunctionType(builder.getFunctionType(inputs, results));
  auto retype = [&](Value value) {
    value.setType(cutType(value.getType(), shape, rows));
  };
  for (Value argument : cut.getBody().getArguments())
    retype(argument);
  cut.walk([&](Operation *op) {
    if (op == cut)
      return;
    if (auto constant = dyn_cast<ir::ConstantOp>(op);
        constant && hasShape(constant.getType(), shape)) {
      auto value = cast<DenseElementsAttr>(constant.getValue());
      constant.setValueAttr(
          value.resizeSplat(cast<ShapedType>(cutType(constant.getType(), shape, rows))));
    }
    for (Value result : op->getResults())
      retype(result);
    for (Region &region : op->getRegions())
      for (Value argument : region.getArguments())
        retype(argument);
  });
  return cut;
}

struct PlanPieces : PassWrapper<PlanPieces, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanPieces)
  PlanPieces(const ProviderSet *providers, CompileReport *report)
      : providers_(providers), report_(report) {}
  PlanPieces(const PlanPieces &other)
      : PassWrapper(other), providers_(other.providers_), report_(other.report_) {}
  StringRef getArgument() const override {
    return "plan-pieces";
  }
  StringRef getDescription() const override {
    return "Computes large gradients in pieces, each of which updates its part of the weight";
  }

  Option<int64_t> least{*this, "least", llvm::cl::desc("bytes of the smallest gradient"),
                        llvm::cl::init(kLeastInPieces)};
  Option<int64_t> most{*this, "most", llvm::cl::desc("bytes of a piece"),
                       llvm::cl::init(kPieceBytes)};
  Option<bool> printReport{*this, "report", llvm::cl::desc("prints what stays whole, and why"),
                           llvm::cl::init(false)};

  void runOnOperation() override {
    program_ = findProgram(getOperation());
    if (!program_ || !providers_)
      return;
    kernels_.emplace(getOperation());
    RefusalCollector refusals("plan");
    for (auto call :
         llvm::make_early_inc_range(program_.getBody().front().getOps<plan::LibraryCallOp>()))
      if (std::optional<ClaimRefusal> refusal = cut(call))
        refusals.add(refusal->reason, call, refusal->explanation);
    DenseSet<Attribute> launched;
    program_.walk(
        [&](plan::LaunchOp launch) { launched.insert(launch.getKernelAttr().getAttr()); });
    for (Operation *kernel : replaced_)
      if (!launched.contains(cast<plan::KernelOp>(kernel).getSymNameAttr()))
        kernel->erase();
    refusals.flush(report_, printReport);
  }

private:
  // Whether the launch may write a parameter of the product's shape in place.
  bool updates(plan::LaunchOp launch, plan::KernelOp kernel, Shape shape) {
    for (auto [buffer, type] : llvm::zip(launch.getInputs(), kernel.getArgumentTypes())) {
      auto argument = dyn_cast<BlockArgument>(buffer);
      if (argument && hasShape(type, shape) &&
          program_.getArgAttr(argument.getArgNumber(), plan::kDonatableAttr))
        return true;
    }
    return false;
  }

  const Provider *providerOf(plan::LibraryCallOp call) const {
    for (const std::shared_ptr<const Provider> &provider : providers_->providers())
      if (provider->name() == call.getCallee())
        return provider.get();
    return nullptr;
  }

  // Nothing to say of a call that is none of a large gradient, or that was cut.
  std::optional<ClaimRefusal> cut(plan::LibraryCallOp call) {
    if (call.getOutputs().size() != 1)
      return std::nullopt;
    Value product = call.getOutputs().front();
    RankedTensorType type = tensorOf(call.getTypes().getValue().back());
    if (plan::bytesOf(product) < least || type.getRank() == 0)
      return std::nullopt;
    plan::LaunchOp update;
    plan::KernelOp kernel;
    for (Operation *user : product.getUsers())
      if (auto launch = dyn_cast<plan::LaunchOp>(user); launch && !update) {
        kernel = kernels_->lookup<plan::KernelOp>(launch.getKernel());
        if (kernel && updates(launch, kernel, type.getShape()))
          update = launch;
      }
    if (!update)
      return std::nullopt;
    if (product.getDefiningOp<plan::OutputOp>())
      return ClaimRefusal{
          "gradient-is-held",
          "a handle keeps the gradient; where zero_grad() or the step's end lets it "
          "go, the weight is updated piece by piece and it is never whole"};
    auto uses =
        llvm::count_if(product.getUses(), [&](OpOperand &use) { return use.getOwner() != call; });
    if (!product.getDefiningOp<plan::AllocOp>() || uses != 1)
      return ClaimRefusal{
          "gradient-read-elsewhere",
          "more than the update of its weight reads the gradient, as the norm of all "
          "gradients does: it is whole in memory"};
    auto varies = [](Attribute each) {
      return ir::hasNamedDims(tensorOf(each));
    };
    if (llvm::any_of(call.getTypes(), varies))
      return ClaimRefusal{"varying-sizes", "a product in pieces has one size, and this one's vary"};
    const Provider *provider = providerOf(call);
    if (!provider)
      return ClaimRefusal{"no-rows", "the library computes the gradient whole"};
    SmallVector<RankedTensorType> types(llvm::map_range(call.getTypes(), tensorOf));
    auto piecesOf = [&](int64_t rows) {
      return callUser(
          [&] { return ("rowPieces() of the provider '" + provider->name() + "'").str(); },
          [&] { return provider->rowPieces(types, call.getConfig(), rows); });
    };
    RowsAnswer whole = piecesOf(type.getDimSize(0));
    if (auto *refusal = std::get_if<ClaimRefusal>(&whole))
      return *refusal;
    if (std::holds_alternative<NotMine>(whole))
      return ClaimRefusal{"no-rows", "the library computes the gradient whole"};
    if (!worksByRows(kernel, type.getShape()))
      return ClaimRefusal{"update-not-by-rows", "a row of the updated weight depends on more than "
                                                "this row of the gradient and the weight"};
    int64_t rows = rowsOf(std::get<RowPieces>(whole), kernel, type);
    if (rows == 0)
      return ClaimRefusal{"uneven-rows",
                          "no number of rows divides the gradient into equal pieces of good size"};
    rewrite(call, update, kernel, type, rows, std::get<RowPieces>(piecesOf(rows)));
    return std::nullopt;
  }

  // The most rows that fit a piece, divide the gradient, and begin where buffers may; 0 for none. A
  // piece is as large as it must be where the library cuts no smaller one: 64 rows of [4096, 25088].
  int64_t rowsOf(const RowPieces &pieces, plan::KernelOp kernel, RankedTensorType type) {
    int64_t all = type.getDimSize(0), row = *plan::byteSize(type) / all;
    SmallVector<int64_t> steps;
    for (const RowPieces::Operand &operand : pieces.inputs)
      steps.push_back(operand.step);
    for (TypeRange types :
         {TypeRange(kernel.getArgumentTypes()), TypeRange(kernel.getResultTypes())})
      for (Type each : types)
        if (hasShape(each, type.getShape()))
          steps.push_back(*plan::byteSize(cast<RankedTensorType>(each)) / all);
    int64_t bytes = std::max<int64_t>(most, std::min(pieces.multiple, all) * row);
    for (int64_t count = std::max<int64_t>(2, llvm::divideCeil(all * row, bytes)); count <= all;
         ++count) {
      int64_t rows = all / count;
      if (rows * row < bytes / kLeastShareOfPiece)
        break;
      if (all % count == 0 && rows % pieces.multiple == 0 && llvm::all_of(steps, [&](int64_t step) {
            return rows * step % runtime::kBufferAlignment == 0;
          }))
        return rows;
    }
    return 0;
  }

  void rewrite(plan::LibraryCallOp call, plan::LaunchOp update, plan::KernelOp kernel,
               RankedTensorType type, int64_t rows, const RowPieces &pieces) {
    OpBuilder builder(update);
    int64_t all = type.getDimSize(0);
    Value product = call.getOutputs().front();
    plan::KernelOp &part = parts_[{kernel, rows}];
    if (!part) {
      part = cutKernel(kernel, type.getShape(), rows);
      kernels_->insert(part);
      replaced_.insert(kernel);
    }
    auto bufferOf = [&](int64_t bytes) {
      return plan::BufferType::get(builder.getContext(), bytes);
    };
    SmallVector<Value> inputs, outputs;
    SmallVector<int64_t> steps;
    SmallVector<Type> arguments;
    SmallVector<Attribute> types, strides;
    for (auto [buffer, operand] : llvm::zip(call.getInputs(), pieces.inputs)) {
      inputs.push_back(buffer);
      steps.push_back(operand.step * rows);
      arguments.push_back(bufferOf(operand.bytes));
      types.push_back(TypeAttr::get(operand.type));
      strides.push_back(builder.getDenseI64ArrayAttr(operand.strides));
    }
    Type cut = cutType(type, type.getShape(), rows);
    types.push_back(TypeAttr::get(cut));
    strides.push_back(builder.getDenseI64ArrayAttr({}));
    auto addPiece = [&](Value buffer, Type whole) {
      int64_t bytes = plan::bytesOf(buffer);
      bool hasRows = hasShape(whole, type.getShape());
      steps.push_back(hasRows ? bytes / all * rows : 0);
      arguments.push_back(bufferOf(hasRows ? bytes / all * rows : bytes));
    };
    for (auto [buffer, whole] : llvm::zip(update.getInputs(), kernel.getArgumentTypes()))
      if (buffer != product) {
        inputs.push_back(buffer);
        addPiece(buffer, whole);
      }
    for (auto [buffer, whole] : llvm::zip(update.getOutputs(), kernel.getResultTypes())) {
      outputs.push_back(buffer);
      addPiece(buffer, whole);
    }
    auto local = bufferOf(*plan::byteSize(cast<RankedTensorType>(cut)));
    Value piece = plan::AllocOp::create(builder, product.getLoc(), local);
    steps.push_back(0);
    arguments.push_back(local);
    Location loc = builder.getFusedLoc({call.getLoc(), update.getLoc()});
    auto op = plan::PiecesOp::create(builder, loc, uint64_t(all / rows), inputs, outputs,
                                     ValueRange(piece), steps);
    Block &body = op.getBody().emplaceBlock();
    for (Type argument : arguments)
      body.addArgument(argument, loc);
    builder.setInsertionPointToStart(&body);
    ValueRange read = body.getArguments().take_front(call.getInputs().size());
    ValueRange written = body.getArguments().drop_front(inputs.size()).take_front(outputs.size());
    auto inner = plan::LibraryCallOp::create(
        builder, call.getLoc(), call.getCallee(), read, ValueRange(body.getArguments().back()),
        /*scratch=*/Value(), builder.getArrayAttr(types), pieces.config);
    inner->setAttr(plan::kStridesAttr, builder.getArrayAttr(strides));
    SmallVector<Value> updated;
    size_t next = call.getInputs().size();
    for (Value buffer : update.getInputs())
      updated.push_back(buffer == product ? body.getArguments().back()
                                          : body.getArgument(unsigned(next++)));
    plan::LaunchOp::create(builder, update.getLoc(), part.getSymName(), updated, written, Value(),
                           false);
    update.erase();
    call.erase();
    product.getDefiningOp()->erase();
  }

  const ProviderSet *providers_;
  CompileReport *report_;
  plan::ProgramOp program_;
  std::optional<SymbolTable> kernels_;
  // Layers of one shape share a kernel, and so do their pieces.
  DenseMap<std::pair<Operation *, int64_t>, plan::KernelOp> parts_;
  SetVector<Operation *> replaced_;
};

} // namespace

std::unique_ptr<Pass> createPlanPiecesPass(const ProviderSet *providers, CompileReport *report) {
  return std::make_unique<PlanPieces>(providers, report);
}

} // namespace weft::compiler
