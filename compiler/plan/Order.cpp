#include "compiler/plan/Order.h"
#include "runtime/core/alignment.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace weft::compiler {
namespace {

// The step that writes each value; -1 for none.
std::vector<int32_t> writers(const PlanProblem &problem) {
  std::vector<int32_t> writer(problem.values.size(), -1);
  for (size_t s = 0; s < problem.steps.size(); ++s)
    for (int32_t v : problem.steps[s].writes)
      writer[v] = int32_t(s);
  return writer;
}

// The distinct values that a step reads.
llvm::SmallVector<int32_t, 4> distinctReads(const PlanProblem::Step &step) {
  llvm::SmallVector<int32_t, 4> reads(step.reads.begin(), step.reads.end());
  llvm::sort(reads);
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  return reads;
}

} // namespace

StepOrder programOrder(const PlanProblem &problem) {
  StepOrder order{"program", std::vector<int32_t>(problem.steps.size())};
  std::iota(order.steps.begin(), order.steps.end(), 0);
  return order;
}

StepOrder depthFirstOrder(const PlanProblem &problem) {
  std::vector<int32_t> writer = writers(problem);
  std::vector<bool> read(problem.values.size());
  for (const PlanProblem::Step &step : problem.steps)
    for (int32_t v : step.reads)
      read[v] = true;

  StepOrder order{"depth-first", {}};
  order.steps.reserve(problem.steps.size());
  std::vector<bool> entered(problem.steps.size());
  std::vector<std::pair<int32_t, uint32_t>> stack; // (step, next of its reads)
  auto visit = [&](int32_t root) {
    if (entered[root])
      return;
    entered[root] = true;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto &[step, next] = stack.back();
      const auto &reads = problem.steps[step].reads;
      if (next == reads.size()) {
        order.steps.push_back(step);
        stack.pop_back();
        continue;
      }
      int32_t source = writer[reads[next++]];
      if (source < 0 || entered[source])
        continue;
      entered[source] = true;
      stack.emplace_back(source, 0);
    }
  };
  // Roots: steps that nobody waits for.
  for (size_t s = 0; s < problem.steps.size(); ++s)
    if (llvm::none_of(problem.steps[s].writes, [&](int32_t v) { return read[v]; }))
      visit(int32_t(s));
  return order;
}

StepOrder greedyOrder(const PlanProblem &problem) {
  size_t count = problem.steps.size();
  std::vector<int32_t> writer = writers(problem);
  // Of each value: the readers that have not run, as a number and as the xor of their indices,
  // which is the last one's when one is left.
  std::vector<int32_t> readersLeft(problem.values.size()), readersXor(problem.values.size());
  std::vector<int32_t> waitsFor(count);
  std::vector<llvm::SmallVector<int32_t, 2>> readers(problem.values.size());
  for (size_t s = 0; s < count; ++s)
    for (int32_t v : distinctReads(problem.steps[s])) {
      ++readersLeft[v];
      readersXor[v] ^= int32_t(s);
      if (writer[v] < 0)
        continue;
      readers[v].push_back(int32_t(s));
      ++waitsFor[s];
    }

  auto inArena = [&](int32_t v) {
    return problem.values[v].kind == PlanProblem::Kind::Arena && !problem.values[v].returned;
  };
  auto growth = [&](int32_t s) {
    int64_t bytes = 0;
    for (int32_t v : problem.steps[s].writes)
      if (inArena(v) && readersLeft[v] > 0)
        bytes += runtime::align(problem.values[v].bytes);
    for (int32_t v : distinctReads(problem.steps[s]))
      if (inArena(v) && readersLeft[v] == 1)
        bytes -= runtime::align(problem.values[v].bytes);
    return bytes;
  };

  // (growth, step), smallest first. A growth can only fall while a step waits, so that a stale
  // entry is met after the newer one.
  using Entry = std::pair<int64_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  std::vector<bool> isReady(count), done(count);
  auto makeReady = [&](int32_t s) {
    isReady[s] = true;
    ready.emplace(growth(s), s);
  };
  for (size_t s = 0; s < count; ++s)
    if (waitsFor[s] == 0)
      makeReady(int32_t(s));

  StepOrder order{"greedy", {}};
  order.steps.reserve(count);
  while (!ready.empty()) {
    int32_t s = ready.top().second;
    ready.pop();
    if (done[s])
      continue;
    done[s] = true;
    order.steps.push_back(s);
    for (int32_t v : distinctReads(problem.steps[s])) {
      readersXor[v] ^= s;
      if (--readersLeft[v] != 1)
        continue;
      int32_t last = readersXor[v];
      if (isReady[last] && !done[last])
        ready.emplace(growth(last), last);
    }
    for (int32_t v : problem.steps[s].writes)
      for (int32_t reader : readers[v])
        if (--waitsFor[reader] == 0)
          makeReady(reader);
  }
  return order;
}

StepOrder checksFirst(const PlanProblem &problem, const StepOrder &order) {
  std::vector<int32_t> writer = writers(problem);
  std::vector<bool> needed(problem.steps.size()), known;
  for (int32_t s : order.steps)
    for (int32_t check : problem.steps[s].checks) {
      if (size_t(check) >= known.size())
        known.resize(check + 1);
      if (!known[check])
        known[check] = needed[s] = true;
    }
  for (size_t i = order.steps.size(); i-- > 0;) {
    if (!needed[order.steps[i]])
      continue;
    for (int32_t v : problem.steps[order.steps[i]].reads)
      if (writer[v] >= 0)
        needed[writer[v]] = true;
  }
  StepOrder result{order.name + ", checks first", {}};
  for (bool first : {true, false})
    for (int32_t s : order.steps)
      if (needed[s] == first)
        result.steps.push_back(s);
  return result;
}

int32_t lastCheck(const PlanProblem &problem, const StepOrder &order) {
  std::vector<bool> known;
  int32_t last = -1;
  for (size_t position = 0; position < order.steps.size(); ++position)
    for (int32_t check : problem.steps[order.steps[position]].checks) {
      if (size_t(check) >= known.size())
        known.resize(check + 1);
      if (known[check])
        continue;
      known[check] = true;
      last = int32_t(position);
    }
  return last;
}

} // namespace weft::compiler
