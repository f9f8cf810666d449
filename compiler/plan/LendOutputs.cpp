#include "compiler/plan/LendOutputs.h"

#include "compiler/plan/InPlace.h"
#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/Limits.h"
#include "compiler/plan/Order.h"

namespace weft::compiler {
namespace {

// An output's buffer, and what lies in it so far.
struct Lender {
  Lifetime life; // of the output: it lends before its begin
  int64_t bytes; // not rounded up: the caller's buffer ends there
  llvm::SmallVector<std::pair<int32_t, int64_t>, 4> placed; // (index of a lifetime, offset)
};

// The start of the smallest gap for `life`, or -1. `visited` counts what was looked at.
int64_t findGap(const Lender &lender, llvm::ArrayRef<Lifetime> lifetimes, const Lifetime &life,
                int64_t bytes, int64_t &visited) {
  llvm::SmallVector<std::pair<int64_t, int64_t>, 8> taken; // (offset, end)
  for (auto [other, offset] : lender.placed)
    if (lifetimes[other].begin <= life.end && life.begin <= lifetimes[other].end)
      taken.emplace_back(offset, offset + lifetimes[other].bytes);
  visited += int64_t(lender.placed.size()) + 1;
  return smallestGap(taken, bytes, lender.bytes);
}

} // namespace

std::vector<Loan> lendOutputs(const PlanProblem &problem, const StepOrder &order,
                              llvm::ArrayRef<Lifetime> lifetimes, LendingLimits limits) {
  std::vector<Lender> lenders; // by their begins
  for (const Lifetime &life : outputLifetimes(problem, order)) {
    const PlanProblem::Value &output = problem.values[life.value];
    if (output.extent == 0 && output.bytes >= limits.leastLoan)
      lenders.push_back({life, output.bytes, {}});
  }

  std::vector<int32_t> sequence;
  for (size_t i = 0; i < lifetimes.size(); ++i)
    if (problem.values[lifetimes[i].value].bytes >= limits.leastLoan)
      sequence.push_back(int32_t(i));
  llvm::sort(sequence, [&](int32_t a, int32_t b) {
    auto key = [&](int32_t i) {
      return std::tuple(-lifetimes[i].bytes, lifetimes[i].begin - lifetimes[i].end, i);
    };
    return key(a) < key(b);
  });

  std::vector<Loan> loans(lifetimes.size());
  int64_t visited = 0;
  for (int32_t i : sequence) {
    const Lifetime &life = lifetimes[i];
    int64_t bytes = problem.values[life.value].bytes;
    auto lender = llvm::upper_bound(
        lenders, life.end, [](int32_t end, const Lender &l) { return end < l.life.begin; });
    for (; lender != lenders.end() && visited < kMaxLoanVisits; ++lender) {
      int64_t offset =
          bytes <= lender->bytes ? findGap(*lender, lifetimes, life, bytes, visited) : -1;
      if (offset < 0) {
        ++visited;
        continue;
      }
      lender->placed.emplace_back(i, offset);
      loans[i] = {lender->life.value, offset};
      break;
    }
  }
  return loans;
}

Packing packWithOutputs(const PlanProblem &problem, const StepOrder &order,
                        llvm::ArrayRef<Lifetime> lifetimes, LendingLimits limits, bool refined,
                        ArenaPacker arena) {
  auto packArena = [&](llvm::ArrayRef<Lifetime> values) {
    return arena ? arena(values) : pack(values, refined);
  };
  if (liveBound(lifetimes) < limits.leastArena)
    return packArena(lifetimes);
  std::vector<Loan> loans = lendOutputs(problem, order, lifetimes, limits);
  std::vector<Lifetime> rest;
  for (size_t i = 0; i < lifetimes.size(); ++i)
    if (loans[i].output < 0)
      rest.push_back(lifetimes[i]);
  Packing packed = packArena(rest);
  Packing packing{packed.name,
                  {},
                  packed.arenaBytes,
                  {},
                  liveBound(lifetimes, outputLifetimes(problem, order))};
  for (size_t i = 0, next = 0; i < lifetimes.size(); ++i) {
    packing.lenders.push_back(loans[i].output);
    packing.offsets.push_back(loans[i].output < 0 ? packed.offsets[next++] : loans[i].offset);
  }
  return packing;
}

int64_t plannedBytes(const PlanProblem &problem, const StepOrder &order, LendingLimits limits) {
  PlanProblem merged = applyInPlace(problem, assignInPlace(problem, order));
  int64_t bytes =
      packWithOutputs(merged, order, lifetimes(merged, order), limits, /*refined=*/false)
          .arenaBytes;
  for (const Lifetime &output : outputLifetimes(merged, order))
    bytes += output.bytes;
  return bytes;
}

namespace {

// Whether inputs that are kept give less memory away in this order than they would if nothing
// were checked.
bool waits(const PlanProblem &problem, const StepOrder &order) {
  if (llvm::none_of(problem.values, [](const PlanProblem::Value &value) { return value.kept; }) ||
      lastCheck(problem, order) < 0)
    return false;
  PlanProblem unchecked = problem;
  for (PlanProblem::Value &value : unchecked.values)
    value.kept = false;
  InPlaceResult ours = assignInPlace(problem, order), theirs = assignInPlace(unchecked, order);
  return ours.donations + ours.reuses < theirs.donations + theirs.reuses;
}

// Program order comes first and wins ties: it keeps values warm in the cache as their author wrote
// them.
ChosenOrder fewestBytes(const PlanProblem &problem, llvm::ArrayRef<StepOrder> orders,
                        LendingLimits limits) {
  ChosenOrder best;
  for (const StepOrder &order : orders)
    if (int64_t bytes = plannedBytes(problem, order, limits);
        best.order.name.empty() || bytes < best.bytes)
      best = {order, bytes};
  return best;
}

} // namespace

std::vector<StepOrder> triedOrders(const PlanProblem &problem) {
  std::vector<StepOrder> orders = {programOrder(problem), depthFirstOrder(problem),
                                   greedyOrder(problem)};
  if (lastCheck(problem, orders[0]) >= 0)
    for (int i = 0; i < 3; ++i)
      orders.push_back(checksFirst(problem, orders[i]));
  return orders;
}

ChosenOrder chooseOrder(const PlanProblem &problem, LendingLimits limits) {
  std::vector<StepOrder> orders = triedOrders(problem);
  llvm::ArrayRef<StepOrder> asTheyAre = llvm::ArrayRef(orders).take_front(3);
  ChosenOrder best = fewestBytes(problem, asTheyAre, limits);
  // An output that cannot become a kept input, because of a check to come, takes memory of its own.
  if (!waits(problem, best.order))
    return best;
  ChosenOrder checked = fewestBytes(problem, llvm::ArrayRef(orders).drop_front(3), limits);
  return checked.bytes < best.bytes ? checked : best;
}

} // namespace weft::compiler
