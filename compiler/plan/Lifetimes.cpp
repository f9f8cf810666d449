#include "compiler/plan/Lifetimes.h"
#include "runtime/core/alignment.h"

#include <algorithm>

namespace weft::compiler {

namespace {

std::vector<Lifetime> lifetimesOf(PlanProblem::Kind kind, const PlanProblem &problem,
                                  const StepOrder &order) {
  std::vector<Lifetime> result;
  std::vector<int32_t> row(problem.values.size(), -1);
  for (size_t position = 0; position < order.steps.size(); ++position) {
    const PlanProblem::Step &step = problem.steps[order.steps[position]];
    for (const auto *list : {&step.reads, &step.writes})
      for (int32_t v : *list) {
        if (problem.values[v].kind != kind)
          continue;
        if (row[v] < 0) {
          row[v] = int32_t(result.size());
          result.push_back(
              {v, int32_t(position), int32_t(position), runtime::align(problem.values[v].bytes)});
        }
        result[row[v]].end = int32_t(position);
      }
  }
  return result;
}

} // namespace

std::vector<Lifetime> lifetimes(const PlanProblem &problem, const StepOrder &order) {
  return lifetimesOf(PlanProblem::Kind::Arena, problem, order);
}

std::vector<Lifetime> outputLifetimes(const PlanProblem &problem, const StepOrder &order) {
  std::vector<Lifetime> result = lifetimesOf(PlanProblem::Kind::Output, problem, order);
  for (Lifetime &life : result)
    life.end = std::max<int32_t>(int32_t(order.steps.size()) - 1, 0);
  return result;
}

std::vector<int64_t> bytesAtSteps(llvm::ArrayRef<Lifetime> lifetimes, size_t steps) {
  std::vector<int64_t> bytes(steps + 1, 0); // first what changes at each step
  for (const Lifetime &life : lifetimes) {
    bytes[size_t(life.begin)] += life.bytes;
    bytes[size_t(life.end) + 1] -= life.bytes;
  }
  for (size_t step = 1; step < steps; ++step)
    bytes[step] += bytes[step - 1];
  bytes.resize(steps);
  return bytes;
}

int64_t liveBound(llvm::ArrayRef<Lifetime> lifetimes) {
  // Steps of +bytes at the begin and -bytes after the end.
  std::vector<std::pair<int32_t, int64_t>> changes;
  changes.reserve(2 * lifetimes.size());
  for (const Lifetime &life : lifetimes) {
    changes.emplace_back(life.begin, life.bytes);
    changes.emplace_back(life.end + 1, -life.bytes);
  }
  std::sort(changes.begin(),
            changes.end()); // what ends before a position goes first: negative numbers sort first
  int64_t live = 0, bound = 0;
  for (auto [position, bytes] : changes)
    bound = std::max(bound, live += bytes);
  return bound;
}

int64_t liveBound(llvm::ArrayRef<Lifetime> lifetimes, llvm::ArrayRef<Lifetime> outputs) {
  std::vector<Lifetime> all(lifetimes.begin(), lifetimes.end());
  llvm::append_range(all, outputs);
  int64_t bytes = 0;
  for (const Lifetime &output : outputs)
    bytes += output.bytes;
  return std::max<int64_t>(liveBound(all) - bytes, 0);
}

} // namespace weft::compiler
