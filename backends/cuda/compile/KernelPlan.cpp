#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"

namespace weft::backends::cuda {

using namespace mlir;

using Role = FusionDomain::Role;

int32_t KernelPlan::namedAtom() const {
  if (!kernel.sizes)
    return -1;
  return domain.outer().empty() ? domain.inner().front() : domain.outer().front();
}

int64_t KernelPlan::widest() const {
  int64_t bytes = 1;
  auto see = [&](Value value) {
    if (domain.role(value) == Role::Full)
      bytes = std::max(bytes, compiler::memoryBytes(elementOf(value)));
  };
  for (Value argument : kernel.arguments())
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

} // namespace weft::backends::cuda
