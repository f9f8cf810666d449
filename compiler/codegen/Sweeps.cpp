#include "compiler/codegen/Sweeps.h"

namespace weft::compiler {

using namespace mlir;
using Role = FusionDomain::Role;

Sweeps::Sweeps(KernelBuilder &kernel) : kernel(kernel), domain(kernel.domain) {
  SmallVector<Operation *> parts;
  for (Operation *op : kernel.ops) {
    int64_t l = 0;
    for (Value operand : op->getOperands())
      l = std::max(l, level(operand));
    Value result = op->getResult(0);
    if (isReduction(op)) {
      Role role = domain.role(result);
      sweeps.resize(std::max<size_t>(sweeps.size(), l + 2));
      if (domain.shape() == FusionDomain::Shape::Total)
        sweeps[l].totals.push_back(op);
      else if (role == Role::Row)
        sweeps[l].reductions.push_back(op), hasRows = true, l += 1;
      else if (role == Role::Col)
        sweeps[l].columns.push_back(op), hasColumns = true;
      else if (role == Role::Part)
        parts.push_back(op), hasParts = hasRows = true;
      else
        sweeps[l].rowTotals.push_back(op), hasRows = true;
    }
    levels_[result] = l;
    lastLevel = std::max(lastLevel, l);
  }
  sweeps.resize(lastLevel + 1);
  sweeps.back().parts = parts;
  for (auto [i, output] : llvm::enumerate(kernel.outputs)) {
    if (domain.role(output) == Role::Full)
      sweeps[level(output)].stores.push_back(i);
    else if (domain.role(output) == Role::Row)
      sweeps[level(output)].rowStores.push_back(i), hasRows = true;
    else if (domain.role(output) == Role::Near)
      nearStores.push_back(i), hasRows = true;
  }
}

SmallVector<linalg::GenericOp> Sweeps::generics(ArrayRef<Operation *> reductions) const {
  return llvm::map_to_vector(reductions, [&](Operation *op) { return kernel.generic(op); });
}

SmallVector<Sweeps::Stored, 1> Sweeps::compute(KernelFunction &f, ArrayRef<int64_t> outputs,
                                               ArrayRef<Index> atoms, Value mask) {
  SmallVector<Stored, 1> values;
  for (int64_t i : outputs) {
    Value output = kernel.outputs[i];
    Value value = f.e.at(kernel.lowered.lookup(output), f.position(output, atoms), mask);
    values.push_back({i, value, f.placeOf(output, atoms)});
  }
  return values;
}

void Sweeps::store(KernelFunction &f, ArrayRef<Stored> values, Value mask) {
  for (const Stored &each : values)
    f.e.store(f.output(each.output), each.value, each.place, mask);
}

void Sweeps::trackReads(KernelFunction &f, int64_t l, ArrayRef<Index> atoms) {
  SmallVector<std::optional<Index>> at(kernel.outputs.size());
  for (auto [i, output] : llvm::enumerate(kernel.outputs))
    if (domain.role(output) == Role::Full && level(output) >= l)
      at[i] = f.placeOf(output, atoms);
  f.e.onRead = [this, at](int64_t input, const Index &linear) {
    for (size_t i = 0; i < at.size(); ++i)
      inStep(i, input) &= at[i].has_value() && *at[i] == linear;
  };
}

void Sweeps::noteInPlace() {
  for (auto [i, output] : llvm::enumerate(kernel.outputs))
    for (auto [k, input] : llvm::enumerate(kernel.fusion.getInputs())) {
      auto from = ir::typeOf(input), to = ir::typeOf(output);
      // Equal at the largest size is not equal at each.
      Value argument = kernel.arguments()[k];
      if (kernel.sizes.named.contains(argument) != kernel.sizes.named.contains(output) ||
          kernel.sizes.chosen.contains(argument))
        continue;
      if (inStep_.lookup({i, k}) && from.getNumElements() == to.getNumElements() &&
          memoryBytes(from.getElementType()) == memoryBytes(to.getElementType()))
        kernel.info.inPlace.push_back({i, k});
    }
}

} // namespace weft::compiler
