#include "compiler/plan/IndexChecks.h"

#include "compiler/plan/Extract.h"
#include "compiler/plan/Limits.h"
#include "dialects/weft/ir/IndexBounds.h"

namespace weft::compiler {

using namespace mlir;

namespace {

uintptr_t address(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

// Where the same numbers come from, in another order or number or in a narrower type.
Value source(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto cast = dyn_cast<ir::CastOp>(op)) {
      auto width = [](Value x) {
        Type element = ir::typeOf(x).getElementType();
        return element.isInteger() ? element.getIntOrFloatBitWidth() : 0;
      };
      bool wider = width(cast.getInput()) > 0 && width(cast.getInput()) < width(cast);
      if (!wider)
        break;
    } else if (!isa<ir::ReshapeOp, ir::BroadcastOp, ir::TransposeOp>(op)) {
      break;
    }
    value = op->getOperand(0);
  }
  return value;
}

// Whether a kernel may look at some of the op's indices only: what it stores needs a part of the
// op's result, by a slice or by indices, or nothing of it.
bool mayLookAtSome(Operation *op) {
  SmallVector<Operation *> readers{op};
  SmallPtrSet<Operation *, 8> known{op};
  for (size_t i = 0; i < readers.size(); ++i) {
    for (Value result : readers[i]->getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType());
          type && type.hasStaticShape() && type.getNumElements() == 0)
        return true;
    for (Operation *user : readers[i]->getUsers()) {
      auto reader = dyn_cast<ir::WeftOp>(user);
      if (!reader || user->hasTrait<OpTrait::IsTerminator>() || !known.insert(user).second)
        continue;
      ir::Kind kind = reader.kind();
      bool readsAll = kind == ir::Kind::Elementwise || kind == ir::Kind::Reduction ||
                      isa<ir::ReshapeOp, ir::BroadcastOp, ir::TransposeOp>(user);
      if (!readsAll)
        return true;
      readers.push_back(user);
    }
  }
  return false;
}

} // namespace

IndexChecks::Check IndexChecks::describe(Operation *op) {
  ir::IndexBounds bounds = *ir::indexBounds(op);
  Check check;
  check.known = !mayLookAtSome(op);
  check.text = {uintptr_t(bounds.lower), uintptr_t(bounds.upper),
                uintptr_t(bounds.ignored.has_value()), uintptr_t(bounds.ignored.value_or(0))};
  SmallVector<Value> values{source(bounds.indices)};
  DenseMap<Value, uintptr_t> numbers{{values[0], 0}};
  for (size_t i = 0; i < values.size(); ++i) {
    Operation *definition = values[i].getDefiningOp();
    if (!definition) {
      auto argument = cast<BlockArgument>(values[i]);
      check.known = check.known && isa<ir::FusionOp>(argument.getOwner()->getParentOp());
      check.text.push_back(0);
      check.operands.push_back(argument.getArgNumber());
      continue;
    }
    check.text.push_back(address(definition->getName().getAsOpaquePointer()));
    check.text.push_back(address(definition->getAttrDictionary().getAsOpaquePointer()));
    check.text.push_back(cast<OpResult>(values[i]).getResultNumber());
    check.text.push_back(address(values[i].getType().getAsOpaquePointer()));
    check.text.push_back(definition->getNumOperands());
    for (Value operand : definition->getOperands()) {
      auto [it, fresh] = numbers.try_emplace(operand, values.size());
      if (fresh)
        values.push_back(operand);
      check.text.push_back(it->second);
    }
    if (values.size() > kMaxIndexValues) {
      check.known = false;
      break;
    }
  }
  return check;
}

SmallVector<int32_t, 0> IndexChecks::of(plan::LaunchOp launch, plan::KernelOp kernel) {
  auto [it, fresh] = kernels_.try_emplace(kernel);
  if (fresh)
    kernel.walk([&](Operation *op) {
      if (ir::indexBounds(op))
        it->second.push_back(describe(op));
    });
  SmallVector<int32_t, 0> checks;
  for (const Check &check : it->second) {
    if (!check.known) {
      checks.push_back(next_++);
      continue;
    }
    Text text = check.text;
    for (unsigned operand : check.operands) {
      Value buffer = launch.getInputs()[operand];
      text.push_back(address(buffer.getType().getAsOpaquePointer()));
      // Parts of one value at one offset are equal; other views share bytes at other times.
      int64_t offset = 0;
      for (auto view = buffer.getDefiningOp<plan::ViewOp>(); view && view->hasAttr(plan::kPartAttr);
           view = buffer.getDefiningOp<plan::ViewOp>()) {
        offset += view.getOffset();
        buffer = view.getSource();
      }
      text.push_back(uintptr_t(offset));
      text.push_back(address(buffer.getAsOpaquePointer()));
    }
    auto [number, added] = numbers_.try_emplace(std::move(text), next_);
    next_ += added;
    checks.push_back(number->second);
  }
  return checks;
}

SmallVector<int32_t, 0> IndexChecks::of(plan::LibraryCallOp call) {
  if (!call->hasAttr(plan::kMayFailAttr))
    return {};
  return {next_++};
}

} // namespace weft::compiler
