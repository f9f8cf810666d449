#include "compiler/plan/Pieces.h"

namespace weft::compiler {

using namespace mlir;

namespace {

using Pairs = SmallVector<std::pair<int32_t, int32_t>>;

Pairs pairsOf(plan::LaunchOp launch, SymbolTable &kernels) {
  Pairs pairs;
  if (auto kernel = kernels.lookup<plan::KernelOp>(launch.getKernel())) {
    ArrayRef<int64_t> list = kernel.getInPlace();
    for (size_t i = 0; i + 1 < list.size(); i += 2)
      pairs.emplace_back(int32_t(list[i]), int32_t(list[i + 1]));
  }
  return pairs;
}

Pairs pairsOf(plan::PiecesOp pieces, SymbolTable &kernels) {
  Pairs pairs;
  Block &body = pieces.getBody().front();
  auto inputs = int32_t(pieces.getInputs().size()), outputs = int32_t(pieces.getOutputs().size());
  for (auto launch : body.getOps<plan::LaunchOp>())
    for (auto [o, i] : pairsOf(launch, kernels)) {
      auto to = cast<BlockArgument>(launch.getOutputs()[o]);
      auto from = cast<BlockArgument>(launch.getInputs()[i]);
      int32_t output = int32_t(to.getArgNumber()) - inputs, input = int32_t(from.getArgNumber());
      ArrayRef<int64_t> steps = pieces.getSteps();
      if (output >= 0 && output < outputs && input < inputs && from.hasOneUse() &&
          to.getType() == from.getType() && steps[to.getArgNumber()] == steps[input])
        pairs.emplace_back(output, input);
    }
  return pairs;
}

} // namespace

Pairs inPlacePairs(plan::InstructionOp instruction, SymbolTable &kernels) {
  if (auto launch = dyn_cast<plan::LaunchOp>(*instruction))
    return pairsOf(launch, kernels);
  if (auto pieces = dyn_cast<plan::PiecesOp>(*instruction))
    return pairsOf(pieces, kernels);
  return {};
}

} // namespace weft::compiler
