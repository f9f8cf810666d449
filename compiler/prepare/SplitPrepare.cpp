// weft-split-prepare: one walk forward marks values that depend on stable arguments and constants
// only, one backward decides which of them @main still computes. A value that others than such ops
// read is computed ahead if that pays; else the question goes to its operands. Weak: each value is
// judged by itself, so that two values that pay only together stay.
#include "compiler/backend/CompileReport.h"
#include "compiler/fusion/NarrowMatrix.h"
#include "compiler/graph/Slice.h"
#include "compiler/prepare/Passes.h"
#include "compiler/prepare/PrepareLimits.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/SignatureAttributes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_SPLITPREPAREPASS
#include "compiler/prepare/Passes.h.inc"

namespace {

constexpr StringLiteral kPrepareName = "prepare";

int64_t bytesOf(Value value) {
  auto type = ir::typeOf(value);
  if (!type.hasStaticShape())
    return -1;
  return type.getNumElements() * byte_size(ir::dtypeOf(type.getElementType()));
}

ir::Kind kindOf(Operation *op) {
  return cast<ir::WeftOp>(op).kind();
}

// Ops that cost nothing beside what reads them: they move no data, or are folded into the reads of
// any kernel.
bool isFree(Operation *op) {
  return kindOf(op) == ir::Kind::Creation || isa<ir::ReshapeOp, ir::BroadcastOp, ir::SliceOp>(op);
}

// Ops that a kernel computes in passing, while it reads their operands.
bool isCheap(Operation *op) {
  return kindOf(op) == ir::Kind::Elementwise || isa<ir::TransposeOp>(op);
}

class Split {
public:
  explicit Split(func::FuncOp main) : main_(main), block_(main.getBody().front()) {}

  // How many values are computed ahead; 0 when nothing is split off.
  size_t run() {
    findConstant();
    if (constant_.empty())
      return 0;
    choose();
    if (exported_.empty())
      return 0;
    makePrepare();
    rewriteMain();
    return exported_.size();
  }

private:
  // Ops of constants alone, such as an iota, are neutral: they go along with what needs them.
  void findConstant() {
    bool any = false;
    for (unsigned i = 0; i < main_.getNumArguments(); ++i) {
      if (!isStable(main_, i))
        continue;
      known_.insert(main_.getArgument(i));
      constant_.insert(main_.getArgument(i));
      any = true;
    }
    if (!any) {
      constant_.clear();
      return;
    }
    for (Operation &op : block_.without_terminator()) {
      if (!isa<ir::WeftOp>(op) || !isMemoryEffectFree(&op))
        continue;
      // What is computed ahead serves runs of every size.
      if (llvm::any_of(op.getResultTypes(), ir::hasNamedDims))
        continue;
      if (!llvm::all_of(op.getOperands(), [&](Value operand) { return known_.contains(operand); }))
        continue;
      bool stable = llvm::any_of(op.getOperands(),
                                 [&](Value operand) { return constant_.contains(operand); });
      for (Value result : op.getResults()) {
        known_.insert(result);
        if (stable)
          constant_.insert(result);
      }
    }
  }

  // Whether the user is a product whose kernel computes the op in passing, as part of its matrix.
  static bool converts(Operation *user, Operation *op) {
    auto product = dyn_cast<ir::MatmulOp>(user);
    std::optional<NarrowMatrix> matrix = product ? narrowMatrixOf(product) : std::nullopt;
    return matrix && matrix->contains(op);
  }

  // Whether computing the value ahead saves more than reading it costs.
  bool pays(Operation *op, Value value) const {
    if (isFree(op))
      return false;
    int64_t bytes = bytesOf(value), operands = 0;
    if (bytes <= 0)
      return false;
    for (Value operand : op->getOperands())
      operands += bytesOf(operand);
    if (bytes > kPrepareLimits.growth * operands + kPrepareLimits.freeBytes)
      return false;
    if (!isCheap(op))
      return true;
    // Where a kernel reads it, it costs next to nothing; where a library or a reduction does, it
    // would be a kernel of its own, also behind a reshape.
    auto readsWhole = [&](Operation *user) {
      return live_.contains(user) && !isa<func::ReturnOp>(user) && !isFree(user) &&
             !isCheap(user) && !converts(user, op);
    };
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto reshape = dyn_cast<ir::ReshapeOp>(user);
      return readsWhole(user) || (reshape && llvm::any_of(reshape->getUsers(), readsWhole));
    });
  }

  void choose() {
    DenseSet<Value> returned; // by @main, maybe as another shape
    Operation *exit = block_.getTerminator();
    live_.insert(exit);
    for (Value value : exit->getOperands())
      returned.insert(value);
    for (Operation &op : llvm::reverse(block_.without_terminator())) {
      if (auto reshape = dyn_cast<ir::ReshapeOp>(op);
          reshape && returned.contains(reshape.getResult()))
        returned.insert(reshape.getInput());
      bool live = false, constant = llvm::any_of(op.getResults(), [&](Value result) {
                           return constant_.contains(result);
                         });
      SmallVector<Value, 1> ahead;
      for (Value result : op.getResults()) {
        if (!llvm::any_of(result.getUsers(), [&](Operation *user) { return live_.contains(user); }))
          continue;
        if (constant && !returned.contains(result) && pays(&op, result))
          ahead.push_back(result);
        else
          live = true;
      }
      // An op that @main computes anyway gives all its results there.
      if (live)
        live_.insert(&op);
      else
        exported_.append(ahead.begin(), ahead.end());
    }
    std::reverse(exported_.begin(), exported_.end());
  }

  void makePrepare() {
    OpBuilder builder(main_->getContext());
    builder.setInsertionPointAfter(main_);
    DenseSet<Operation *> needed;
    DenseSet<unsigned> arguments;
    SmallVector<Value> list(exported_.begin(), exported_.end());
    while (!list.empty()) {
      Value value = list.pop_back_val();
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        arguments.insert(argument.getArgNumber());
      } else if (needed.insert(value.getDefiningOp()).second) {
        llvm::append_range(list, value.getDefiningOp()->getOperands());
      }
    }
    SmallVector<unsigned> sources(arguments.begin(), arguments.end());
    llvm::sort(sources);
    SmallVector<Type> inputs, outputs;
    for (unsigned source : sources)
      inputs.push_back(main_.getArgument(source).getType());
    for (Value value : exported_)
      outputs.push_back(value.getType());
    auto prepare = func::FuncOp::create(builder, main_.getLoc(), kPrepareName,
                                        builder.getFunctionType(inputs, outputs));
    Block *body = prepare.addEntryBlock();
    IRMapping mapping;
    ir::SignatureAttributes attributes(prepare);
    for (auto [i, source] : llvm::enumerate(sources)) {
      mapping.map(main_.getArgument(source), body->getArgument(i));
      attributes.argument(i).set(ir::kSourceAttr, builder.getI64IntegerAttr(source));
    }
    builder.setInsertionPointToEnd(body);
    for (Operation &op : block_.without_terminator())
      if (needed.contains(&op))
        builder.clone(op, mapping);
    SmallVector<Value> results;
    for (Value value : exported_)
      results.push_back(mapping.lookup(value));
    func::ReturnOp::create(builder, main_.getLoc(), results);
  }

  void rewriteMain() {
    Builder builder(main_.getContext());
    unsigned first = main_.getNumArguments();
    SmallVector<unsigned> positions(exported_.size(), first);
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    SmallVector<Location> locations;
    for (auto [i, value] : llvm::enumerate(exported_)) {
      types.push_back(value.getType());
      attributes.push_back(builder.getDictionaryAttr(
          builder.getNamedAttr(ir::kPreparedAttr, builder.getI64IntegerAttr(i))));
      locations.push_back(value.getLoc());
    }
    (void)main_.insertArguments(positions, types, attributes, locations);
    for (auto [i, value] : llvm::enumerate(exported_))
      value.replaceAllUsesWith(main_.getArgument(first + i));
    for (Operation *op = &block_.back(); op;) {
      Operation *previous = op->getPrevNode();
      if (isOpTriviallyDead(op))
        op->erase();
      op = previous;
    }
  }

  func::FuncOp main_;
  Block &block_;
  DenseSet<Value> known_;      // from stable arguments and constants
  DenseSet<Value> constant_;   // of these, from a stable argument
  DenseSet<Operation *> live_; // what @main computes
  SmallVector<Value> exported_;
};

class SplitPreparePass : public impl::SplitPreparePassBase<SplitPreparePass> {
public:
  SplitPreparePass() = default;
  explicit SplitPreparePass(CompileReport *report) : report_(report) {}

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    if (getOperation().lookupSymbol(kPrepareName))
      return;
    Split split(main);
    size_t values = split.run();
    numValues += values;
    if (report_ && values > 0) {
      report_->preparedValues += static_cast<int64_t>(values);
      report_->preparedBytes += bytes(main, values);
    }
  }

private:
  // The last arguments of @main.
  static int64_t bytes(func::FuncOp main, size_t values) {
    int64_t total = 0;
    for (BlockArgument argument : main.getArguments().take_back(values))
      total += bytesOf(argument);
    return total;
  }

  CompileReport *report_ = nullptr;
};

} // namespace

std::unique_ptr<Pass> createSplitPreparePass(CompileReport *report) {
  return std::make_unique<SplitPreparePass>(report);
}

OwningOpRef<ModuleOp> takePrepare(ModuleOp module) {
  auto prepare = module.lookupSymbol<func::FuncOp>(kPrepareName);
  if (!prepare)
    return nullptr;
  OwningOpRef<ModuleOp> own = ModuleOp::create(module.getLoc());
  prepare->remove();
  own->push_back(prepare);
  prepare.setSymName("main");
  return own;
}

} // namespace weft::compiler
