#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"

namespace weft::backends::cuda {

using namespace mlir;

using Role = FusionDomain::Role;

KernelPlan::KernelPlan(KernelBuilder &kernel) : kernel(kernel), domain(kernel.domain) {
  int64_t last = 0;
  SmallVector<Operation *> parts;
  for (Operation *op : kernel.ops) {
    int64_t l = 0;
    for (Value operand : op->getOperands())
      l = std::max(l, level(operand));
    Value result = op->getResult(0);
    if (compiler::isReduction(op)) {
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
    last = std::max(last, l);
  }
  sweeps.resize(last + 1);
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

KernelPlan::Partial KernelPlan::makePartial(Type element, int64_t count, int64_t stride) {
  return {kernel.claimPartials(count * stride * compiler::memoryBytes(element)), count, stride,
          element};
}

int64_t KernelPlan::widest() const {
  int64_t bytes = 1;
  auto see = [&](Value value) {
    if (domain.role(value) == Role::Full)
      bytes = std::max(bytes, compiler::memoryBytes(elementOf(value)));
  };
  for (Value argument : kernel.fusion.getBody().front().getArguments())
    see(argument);
  for (Value output : kernel.outputs)
    see(output);
  bool hasAngles =
      llvm::any_of(kernel.ops, [](Operation *op) { return isa<ir::SinOp, ir::CosOp>(op); });
  return std::min(hasAngles ? kMostAngleWidth : kMostWidth, kAccessBytes / bytes);
}

int64_t KernelPlan::widthOf(int64_t n) const {
  int64_t width = widest();
  while (n % width)
    width /= 2;
  return width;
}

SmallVector<linalg::GenericOp> KernelPlan::generics(ArrayRef<Operation *> ops) const {
  SmallVector<linalg::GenericOp> result;
  for (Operation *op : ops)
    result.push_back(kernel.generic(op));
  return result;
}

SmallVector<KernelPlan::Store> KernelPlan::compute(GpuFunction &f, ArrayRef<int64_t> outputs,
                                                   ArrayRef<Index> atoms) {
  SmallVector<Store> stores;
  for (int64_t i : outputs) {
    Value output = kernel.outputs[i];
    auto position = f.position(output, atoms);
    Value value = f.e.at(kernel.lowered.lookup(output), position);
    stores.push_back({i, value, f.e.space.linearize(position, shapeOf(output))});
  }
  return stores;
}

void KernelPlan::store(GpuFunction &f, ArrayRef<Store> stores) {
  for (const Store &store : stores)
    f.e.store(f.output(store.number), store.value, store.linear, nullptr);
}

void KernelPlan::trackReads(GpuFunction &f, int64_t l, const SmallVector<Index> *atoms) {
  SmallVector<std::optional<Index>> at(kernel.outputs.size());
  for (auto [i, output] : llvm::enumerate(kernel.outputs))
    if (atoms && domain.role(output) == Role::Full && level(output) >= l)
      at[i] = f.e.space.linearize(f.position(output, *atoms), shapeOf(output));
  f.e.onRead = [this, at](int64_t argument, const Index &linear) {
    for (size_t i = 0; i < at.size(); ++i) {
      auto [entry, isNew] = inPlace_.try_emplace({i, argument}, true);
      entry->second &= at[i].has_value() && *at[i] == linear;
    }
  };
}

void KernelPlan::noteInPlace() {
  kernel.info.inPlace.clear();
  for (auto [i, output] : llvm::enumerate(kernel.outputs))
    for (auto [k, input] : llvm::enumerate(kernel.fusion.getInputs())) {
      auto found = inPlace_.find({i, k});
      auto from = cast<RankedTensorType>(input.getType()),
           to = cast<RankedTensorType>(output.getType());
      if (found != inPlace_.end() && found->second &&
          from.getNumElements() == to.getNumElements() &&
          compiler::memoryBytes(from.getElementType()) ==
              compiler::memoryBytes(to.getElementType()))
        kernel.info.inPlace.push_back({i, k});
    }
}

} // namespace weft::backends::cuda
