#include "compiler/plan/Extract.h"

#include <cmath>

#include "compiler/plan/IndexChecks.h"
#include "compiler/plan/Limits.h"
#include "compiler/plan/Pieces.h"
#include "dialects/weft/ir/SizeNames.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace weft::compiler {

using namespace mlir;

namespace {

using Kind = PlanProblem::Kind;

Kind kindOf(plan::ProgramOp program, Value root) {
  if (auto argument = dyn_cast<BlockArgument>(root))
    return program.getArgAttr(argument.getArgNumber(), plan::kDonatableAttr) ? Kind::Donated
                                                                             : Kind::Input;
  if (root.getDefiningOp<plan::OutputOp>())
    return Kind::Output;
  if (root.getDefiningOp<plan::ConstantOp>())
    return Kind::Constant;
  return Kind::Arena;
}

// Numbers the products of sizes that vary, by their names; 0 is a size that does not.
class Extents {
public:
  int32_t of(Attribute attribute) {
    auto holder = dyn_cast_or_null<TypeAttr>(attribute);
    auto type = holder ? dyn_cast<RankedTensorType>(holder.getValue()) : RankedTensorType();
    if (!type || !ir::hasNamedDims(type))
      return 0;
    SmallVector<StringRef> names;
    ir::Dims dims = ir::dimsOf(type);
    for (const ir::Dim &dim : dims)
      if (!dim.isStatic())
        llvm::append_range(names, ir::productOf(dim.symbol.getValue()).symbols);
    llvm::sort(names);
    return numbers_.try_emplace(llvm::join(names, "."), int32_t(numbers_.size()) + 1).first->second;
  }

private:
  llvm::StringMap<int32_t> numbers_;
};

// What an instruction takes, in bytes of memory traffic. Of a library call the operations are not
// known: a product of [m, k] and [k, n] makes 2 m n k of them, which is twice the root of the
// product of its three operands' sizes; a convolution with a window makes more.
double costOf(Operation &op, SymbolTable &kernels) {
  double bytes = 0, flops = 0;
  for (Value operand : op.getOperands())
    bytes += double(plan::bytesOf(operand));
  if (auto pieces = dyn_cast<plan::PiecesOp>(op)) {
    double run = 0;
    for (Operation &instruction : pieces.getBody().front())
      run += costOf(instruction, kernels);
    return double(pieces.getCount()) * run;
  }
  auto launch = dyn_cast<plan::LaunchOp>(op);
  if (auto kernel = launch ? kernels.lookup<plan::KernelOp>(launch.getKernel()) : plan::KernelOp())
    flops = kernel.getFlops() ? kernel.getFlops()->convertToDouble() : 0;
  if (auto call = dyn_cast<plan::LibraryCallOp>(op)) {
    SmallVector<double> sizes;
    for (Type type : call.getTypes().getAsValueRange<TypeAttr>())
      sizes.push_back(double(cast<RankedTensorType>(type).getNumElements()));
    llvm::sort(sizes, std::greater<>());
    if (sizes.size() >= 3)
      flops = 2 * std::sqrt(sizes[0] * sizes[1] * sizes[2]);
  }
  return std::max(bytes, flops * kBytesPerFlop);
}

} // namespace

ExtractedProblem extractProblem(plan::ProgramOp program, bool inPlace) {
  ExtractedProblem result;
  DenseMap<Value, int32_t> numbers;
  auto number = [&](Value buffer) {
    int64_t offset;
    Value root = plan::viewRoot(buffer, offset);
    auto [it, inserted] = numbers.try_emplace(root, int32_t(result.buffers.size()));
    if (inserted) {
      result.buffers.push_back(root);
      result.problem.values.push_back({plan::bytesOf(root), kindOf(program, root), false});
    }
    return it->second;
  };
  Extents extents;
  for (BlockArgument argument : program.getArguments()) {
    PlanProblem::Value &value = result.problem.values[number(argument)];
    value.extent = extents.of(program.getArgAttr(argument.getArgNumber(), plan::kTypeAttr));
    value.kept =
        value.kind == Kind::Donated && program.getArgAttr(argument.getArgNumber(), plan::kKeptAttr);
  }

  SymbolTable kernels(program->getParentOp());
  IndexChecks checks;
  for (Operation &op : program.getBody().front()) {
    if (auto exit = dyn_cast<plan::ReturnOp>(op)) {
      for (auto [i, returned] : llvm::enumerate(exit.getValues())) {
        PlanProblem::Value &value = result.problem.values[number(returned)];
        value.returned = true;
        if (value.kind == Kind::Output)
          // Returned under several shapes it is of a size that varies if one of them is.
          value.extent =
              std::max(value.extent, extents.of(program.getResultAttr(i, plan::kTypeAttr)));
      }
      continue;
    }
    auto instruction = dyn_cast<plan::InstructionOp>(op);
    if (!instruction)
      continue;
    PlanProblem::Step step;
    for (Value buffer : instruction.getReads())
      step.reads.push_back(number(buffer));
    MutableOperandRange writes = instruction.getWritesMutable();
    for (OpOperand &operand : writes)
      step.writes.push_back(number(operand.get()));
    auto launch = dyn_cast<plan::LaunchOp>(op);
    if (launch && inPlace)
      if (auto kernel = kernels.lookup<plan::KernelOp>(launch.getKernel()))
        step.checks = checks.of(launch, kernel);
    if (inPlace)
      step.inPlace = inPlacePairs(instruction, kernels);
    if (auto call = dyn_cast<plan::LibraryCallOp>(op); call && inPlace)
      step.checks = checks.of(call);
    // Of kernels of users nobody knows whether they would do the same again, and a check that comes
    // again later would keep donated inputs from being written until then.
    step.repeatable = step.checks.empty() && !op.hasAttr(plan::kMayFailAttr);
    step.cost = costOf(op, kernels);
    result.problem.steps.push_back(std::move(step));
    result.instructions.push_back(&op);
  }
  return result;
}

plan::ProgramOp findProgram(ModuleOp module) {
  auto programs = module.getOps<plan::ProgramOp>();
  return programs.empty() ? plan::ProgramOp() : *programs.begin();
}

} // namespace weft::compiler
