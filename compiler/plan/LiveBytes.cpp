#include "compiler/plan/LiveBytes.h"

#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/Limits.h"
#include "runtime/core/maxima.h"

namespace weft::compiler {

std::vector<int64_t> liveBytes(const PlanProblem &problem, const StepOrder &order,
                               llvm::ArrayRef<Lifetime> lives, const Packing &packing) {
  // The buffer of an output is as large as its value: neither it nor what lies in it is rounded up.
  std::vector<Lifetime> values = outputLifetimes(problem, order);
  for (Lifetime &output : values)
    output.bytes = problem.values[output.value].bytes;
  for (auto [i, life] : llvm::enumerate(lives)) {
    values.push_back(life);
    if (!packing.lenders.empty() && packing.lenders[i] >= 0)
      values.back().bytes = problem.values[life.value].bytes;
  }
  return runtime::maxima(bytesAtSteps(values, order.steps.size()), kLivePoints);
}

} // namespace weft::compiler
