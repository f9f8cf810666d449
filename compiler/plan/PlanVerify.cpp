// plan-verify: proves that every instruction reads what was written for it. It knows nothing of
// lifetimes or packings: it follows the instructions and remembers, for each byte range, which
// value it holds.
#include <map>

#include "compiler/plan/Extract.h"
#include "compiler/plan/IndexChecks.h"
#include "compiler/plan/Passes.h"
#include "compiler/plan/Pieces.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

using namespace mlir;

namespace {

constexpr int64_t kNever = -1;

class Checker {
public:
  explicit Checker(plan::ProgramOp program) : program_(program), kernels_(program->getParentOp()) {}

  LogicalResult run() {
    Block &block = program_.getBody().front();
    findLastReads(block);
    findLastCheck(block);
    for (BlockArgument argument : program_.getArguments())
      if (failed(hold(argument, nullptr)))
        return failure();
    for (Operation &op : block) {
      ++time_;
      if (isa<plan::ConstantOp>(op)) {
        if (failed(hold(op.getResult(0), nullptr)))
          return failure();
      } else if (auto exit = dyn_cast<plan::ReturnOp>(op)) {
        for (Value value : exit.getValues())
          if (failed(expectHeld(value, exit)))
            return failure();
      } else if (auto instruction = dyn_cast<plan::InstructionOp>(op)) {
        if (failed(check(instruction)))
          return failure();
      }
    }
    return success();
  }

private:
  struct Range {
    int64_t end;
    Value value;
  };
  struct Place {
    Value root;
    int64_t begin, end;
  };

  static Place placeOf(Value value) {
    int64_t offset;
    Value root = plan::viewRoot(value, offset);
    return {root, offset, offset + plan::bytesOf(value)};
  }

  // What a part is a part of: whoever reads it reads that value.
  static Value wholeOf(Value value) {
    for (auto view = value.getDefiningOp<plan::ViewOp>(); view && view->hasAttr(plan::kPartAttr);
         view = value.getDefiningOp<plan::ViewOp>())
      value = view.getSource();
    return value;
  }

  void findLastReads(Block &block) {
    int64_t time = 0;
    for (Operation &op : block) {
      ++time;
      if (auto instruction = dyn_cast<plan::InstructionOp>(op))
        for (Value value : instruction.getReads())
          lastRead_[wholeOf(value)] = time;
      if (auto exit = dyn_cast<plan::ReturnOp>(op))
        for (Value value : exit.getValues())
          lastRead_[value] = time;
    }
  }
  int64_t lastRead(Value value) const {
    auto it = lastRead_.find(value);
    return it == lastRead_.end() ? kNever : it->second;
  }

  LogicalResult expectHeld(Value read, Operation *op) {
    Value value = wholeOf(read);
    Place place = placeOf(value);
    if (place.begin == place.end)
      return success();
    auto &ranges = held_[place.root];
    auto it = ranges.find(place.begin);
    if (it != ranges.end() && it->second.value == value && it->second.end == place.end)
      return success();
    InFlightDiagnostic error = op->emitOpError()
                               << "reads bytes " << place.begin << " to " << place.end
                               << " of a buffer which do not hold the value meant";
    error.attachNote(value.getLoc()) << "this value; it was never written, or overwritten since";
    return error;
  }

  // From now on the bytes of `value` hold it. `writer` is null for inputs and constants.
  LogicalResult hold(Value value, Operation *writer) {
    Place place = placeOf(value);
    if (place.begin == place.end)
      return success();
    auto &ranges = held_[place.root];
    auto it = ranges.lower_bound(place.begin);
    if (it != ranges.begin() && std::prev(it)->second.end > place.begin)
      --it;
    while (it != ranges.end() && it->first < place.end) {
      Value old = it->second.value;
      bool inPlace = lastRead(old) == time_ && it->first == place.begin &&
                     it->second.end == place.end && allowsInPlace(writer, value, old);
      if (lastRead(old) >= time_ && !inPlace) {
        InFlightDiagnostic error = writer->emitOpError()
                                   << "writes bytes " << place.begin << " to " << place.end
                                   << " of a buffer, which hold a value that is still needed";
        error.attachNote(old.getLoc()) << "this value";
        return error;
      }
      it = ranges.erase(it);
    }
    ranges[place.begin] = {place.end, value};
    return success();
  }

  // Of the checks that are not equal to earlier ones. Counts as run() does.
  void findLastCheck(Block &block) {
    IndexChecks checks;
    DenseSet<int32_t> known;
    int64_t time = 0;
    for (Operation &op : block) {
      ++time;
      SmallVector<int32_t, 0> found;
      if (auto call = dyn_cast<plan::LibraryCallOp>(op))
        found = checks.of(call);
      auto launch = dyn_cast<plan::LaunchOp>(op);
      if (auto kernel =
              launch ? kernels_.lookup<plan::KernelOp>(launch.getKernel()) : plan::KernelOp())
        found = checks.of(launch, kernel);
      for (int32_t check : found)
        if (known.insert(check).second)
          lastCheck_ = time;
    }
  }

  bool allowsInPlace(Operation *writer, Value output, Value input) {
    auto instruction = dyn_cast_or_null<plan::InstructionOp>(writer);
    // A copy onto itself moves nothing.
    if (!instruction || isa<plan::CopyOp>(writer))
      return bool(instruction);
    OperandRange reads = instruction.getReads();
    if (llvm::count(reads, input) != 1)
      return false;
    auto i = int32_t(std::distance(reads.begin(), llvm::find(reads, input)));
    OperandRange writes = instruction.getWritesMutable();
    auto o = int32_t(std::distance(writes.begin(), llvm::find(writes, output)));
    return llvm::is_contained(inPlacePairs(instruction, kernels_), std::pair(o, i));
  }

  LogicalResult check(plan::InstructionOp op) {
    for (Value value : op.getReads())
      if (failed(expectHeld(value, op)))
        return failure();
    MutableOperandRange writes = op.getWritesMutable();
    for (OpOperand &operand : writes) {
      Value value = operand.get(), root = placeOf(value).root;
      auto argument = dyn_cast<BlockArgument>(root);
      if (argument && !program_.getArgAttr(argument.getArgNumber(), plan::kDonatableAttr))
        return op.emitOpError() << "writes input " << argument.getArgNumber()
                                << ", which is not donatable";
      if (argument && program_.getArgAttr(argument.getArgNumber(), plan::kKeptAttr) &&
          time_ <= lastCheck_)
        return op.emitOpError()
               << "writes input " << argument.getArgNumber()
               << ", which is kept, before the last instruction that may end the run";
      if (root.getDefiningOp<plan::ConstantOp>())
        return op.emitOpError("writes a constant");
      if (!written_.insert(value).second)
        return op.emitOpError(
            "writes a buffer value that another instruction writes; each has one writer");
      if (failed(hold(value, op)))
        return failure();
    }
    // Two results of one instruction that overlap: the first is no longer held.
    for (OpOperand &operand : writes)
      if (failed(expectHeld(operand.get(), op)))
        return failure();
    return success();
  }

  plan::ProgramOp program_;
  SymbolTable kernels_;
  int64_t time_ = 0;
  int64_t lastCheck_ = kNever;
  DenseMap<Value, int64_t> lastRead_;
  DenseSet<Value> written_;
  DenseMap<Value, std::map<int64_t, Range>> held_; // by root, by begin; ranges do not overlap
};

struct PlanVerify : PassWrapper<PlanVerify, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanVerify)
  StringRef getArgument() const override {
    return "plan-verify";
  }
  StringRef getDescription() const override {
    return "Proves that no two live values share bytes";
  }

  void runOnOperation() override {
    for (plan::ProgramOp program : getOperation().getOps<plan::ProgramOp>())
      if (failed(Checker(program).run()))
        return signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> createPlanVerifyPass() {
  return std::make_unique<PlanVerify>();
}

} // namespace weft::compiler
