// weft-split-prepare: one walk forward marks values that depend on stable arguments and constants
// only, one backward decides which of them @main still computes. A value that others than such ops
// read is computed ahead if that pays; else the question goes to its operands. Weak: each value is
// judged by itself, so that two values that pay only together stay.
#include "compiler/backend/CompileReport.h"
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

#define GEN_PASS_DEF_SPLITPREPAREPASS
#include "compiler/prepare/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral kPrepareName = "prepare";

int64_t bytesOf(mlir::Value value) {
  auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  if (!type.hasStaticShape())
    return -1;
  return type.getNumElements() * byte_size(ir::dtypeOf(type.getElementType()));
}

ir::Kind kindOf(mlir::Operation *op) {
  return mlir::cast<ir::WeftOp>(op).kind();
}

// Ops that cost nothing beside what reads them: they move no data, or are folded into the reads of
// any kernel.
bool isFree(mlir::Operation *op) {
  return kindOf(op) == ir::Kind::Creation ||
         mlir::isa<ir::ReshapeOp, ir::BroadcastOp, ir::SliceOp>(op);
}

// Ops that a kernel computes in passing, while it reads their operands.
bool isCheap(mlir::Operation *op) {
  return kindOf(op) == ir::Kind::Elementwise || mlir::isa<ir::TransposeOp>(op);
}

class Split {
public:
  explicit Split(mlir::func::FuncOp main) : main_(main), block_(main.getBody().front()) {}

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
    for (mlir::Operation &op : block_.without_terminator()) {
      if (!mlir::isa<ir::WeftOp>(op) || !mlir::isMemoryEffectFree(&op))
        continue;
      // What is computed ahead serves runs of every size.
      if (llvm::any_of(op.getResultTypes(), ir::hasNamedDims))
        continue;
      if (!llvm::all_of(op.getOperands(),
                        [&](mlir::Value operand) { return known_.contains(operand); }))
        continue;
      bool stable = llvm::any_of(op.getOperands(),
                                 [&](mlir::Value operand) { return constant_.contains(operand); });
      for (mlir::Value result : op.getResults()) {
        known_.insert(result);
        if (stable)
          constant_.insert(result);
      }
    }
  }

  // Whether computing the value ahead saves more than reading it costs.
  bool pays(mlir::Operation *op, mlir::Value value) const {
    if (isFree(op))
      return false;
    int64_t bytes = bytesOf(value), operands = 0;
    if (bytes <= 0)
      return false;
    for (mlir::Value operand : op->getOperands())
      operands += bytesOf(operand);
    if (bytes > kPrepareLimits.growth * operands + kPrepareLimits.freeBytes)
      return false;
    if (!isCheap(op))
      return true;
    // Where a kernel reads it, it costs next to nothing; where a library or a reduction does, it
    // would be a kernel of its own, also behind a reshape.
    auto readsWhole = [&](mlir::Operation *user) {
      return live_.contains(user) && !mlir::isa<mlir::func::ReturnOp>(user) && !isFree(user) &&
             !isCheap(user);
    };
    return llvm::any_of(value.getUsers(), [&](mlir::Operation *user) {
      auto reshape = mlir::dyn_cast<ir::ReshapeOp>(user);
      return readsWhole(user) || (reshape && llvm::any_of(reshape->getUsers(), readsWhole));
    });
  }

  void choose() {
    llvm::DenseSet<mlir::Value> returned; // by @main, maybe as another shape
    mlir::Operation *exit = block_.getTerminator();
    live_.insert(exit);
    for (mlir::Value value : exit->getOperands())
      returned.insert(value);
    for (mlir::Operation &op : llvm::reverse(block_.without_terminator())) {
      if (auto reshape = mlir::dyn_cast<ir::ReshapeOp>(op);
          reshape && returned.contains(reshape.getResult()))
        returned.insert(reshape.getInput());
      bool live = false, constant = llvm::any_of(op.getResults(), [&](mlir::Value result) {
                           return constant_.contains(result);
                         });
      llvm::SmallVector<mlir::Value, 1> ahead;
      for (mlir::Value result : op.getResults()) {
        if (!llvm::any_of(result.getUsers(),
                          [&](mlir::Operation *user) { return live_.contains(user); }))
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
    mlir::OpBuilder builder(main_->getContext());
    builder.setInsertionPointAfter(main_);
    llvm::DenseSet<mlir::Operation *> needed;
    llvm::DenseSet<unsigned> arguments;
    llvm::SmallVector<mlir::Value> list(exported_.begin(), exported_.end());
    while (!list.empty()) {
      mlir::Value value = list.pop_back_val();
      if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
        arguments.insert(argument.getArgNumber());
      } else if (needed.insert(value.getDefiningOp()).second) {
        llvm::append_range(list, value.getDefiningOp()->getOperands());
      }
    }
    llvm::SmallVector<unsigned> sources(arguments.begin(), arguments.end());
    llvm::sort(sources);
    llvm::SmallVector<mlir::Type> inputs, outputs;
    for (unsigned source : sources)
      inputs.push_back(main_.getArgument(source).getType());
    for (mlir::Value value : exported_)
      outputs.push_back(value.getType());
    auto prepare = mlir::func::FuncOp::create(builder, main_.getLoc(), kPrepareName,
                                              builder.getFunctionType(inputs, outputs));
    mlir::Block *body = prepare.addEntryBlock();
    mlir::IRMapping mapping;
    ir::SignatureAttributes attributes(prepare);
    for (auto [i, source] : llvm::enumerate(sources)) {
      mapping.map(main_.getArgument(source), body->getArgument(i));
      attributes.argument(i).set(ir::kSourceAttr, builder.getI64IntegerAttr(source));
    }
    builder.setInsertionPointToEnd(body);
    for (mlir::Operation &op : block_.without_terminator())
      if (needed.contains(&op))
        builder.clone(op, mapping);
    llvm::SmallVector<mlir::Value> results;
    for (mlir::Value value : exported_)
      results.push_back(mapping.lookup(value));
    mlir::func::ReturnOp::create(builder, main_.getLoc(), results);
  }

  void rewriteMain() {
    mlir::Builder builder(main_.getContext());
    unsigned first = main_.getNumArguments();
    llvm::SmallVector<unsigned> positions(exported_.size(), first);
    llvm::SmallVector<mlir::Type> types;
    llvm::SmallVector<mlir::DictionaryAttr> attributes;
    llvm::SmallVector<mlir::Location> locations;
    for (auto [i, value] : llvm::enumerate(exported_)) {
      types.push_back(value.getType());
      attributes.push_back(builder.getDictionaryAttr(
          builder.getNamedAttr(ir::kPreparedAttr, builder.getI64IntegerAttr(i))));
      locations.push_back(value.getLoc());
    }
    (void)main_.insertArguments(positions, types, attributes, locations);
    for (auto [i, value] : llvm::enumerate(exported_))
      value.replaceAllUsesWith(main_.getArgument(first + i));
    for (mlir::Operation *op = &block_.back(); op;) {
      mlir::Operation *previous = op->getPrevNode();
      if (mlir::isOpTriviallyDead(op))
        op->erase();
      op = previous;
    }
  }

  mlir::func::FuncOp main_;
  mlir::Block &block_;
  llvm::DenseSet<mlir::Value> known_;      // from stable arguments and constants
  llvm::DenseSet<mlir::Value> constant_;   // of these, from a stable argument
  llvm::DenseSet<mlir::Operation *> live_; // what @main computes
  llvm::SmallVector<mlir::Value> exported_;
};

class SplitPreparePass : public impl::SplitPreparePassBase<SplitPreparePass> {
public:
  SplitPreparePass() = default;
  explicit SplitPreparePass(CompileReport *report) : report_(report) {}
  SplitPreparePass(const SplitPreparePass &other)
      : SplitPreparePassBase(other), report_(other.report_) {}

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
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
  static int64_t bytes(mlir::func::FuncOp main, size_t values) {
    int64_t total = 0;
    for (mlir::BlockArgument argument : main.getArguments().take_back(values))
      total += bytesOf(argument);
    return total;
  }

  CompileReport *report_ = nullptr;
};

} // namespace

std::unique_ptr<mlir::Pass> createSplitPreparePass(CompileReport *report) {
  return std::make_unique<SplitPreparePass>(report);
}

mlir::OwningOpRef<mlir::ModuleOp> takePrepare(mlir::ModuleOp module) {
  auto prepare = module.lookupSymbol<mlir::func::FuncOp>(kPrepareName);
  if (!prepare)
    return nullptr;
  mlir::OwningOpRef<mlir::ModuleOp> own = mlir::ModuleOp::create(module.getLoc());
  prepare->remove();
  own->push_back(prepare);
  prepare.setSymName("main");
  return own;
}

} // namespace weft::compiler
