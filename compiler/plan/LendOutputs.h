// Which values lie in the buffers of outputs that are not written yet.
#pragma once

#include <limits>

#include "compiler/plan/Limits.h"
#include "compiler/plan/Packing.h"
#include "compiler/plan/Problem.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace weft::compiler {

// Where a value lies that is not in the arena.
struct Loan {
  int32_t output = -1; // the value whose buffer it is; -1: in the arena
  int64_t offset = 0;
};

struct LendingLimits {
  int64_t leastLoan = kLeastLoan, leastArena = kLeastLendingArena;

  // No output lends: its memory is the caller's, who aligns it as its elements need.
  static LendingLimits none() {
    return {.leastArena = std::numeric_limits<int64_t>::max()};
  }
};

// Buffers of outputs are there from the first step on, but hold nothing before the step that writes
// them: a gradient of a training step is born when the values that its forward pass kept die. Until
// then such a buffer holds arena values, which the arena need not hold.
//
// The largest values go first, each into the buffer that is written the soonest after its end and
// has room. Outputs whose sizes vary lend nothing: their buffers may be smaller than planned.
// `problem` is what applyInPlace() made, so that an output in a donated input lends nothing either.
std::vector<Loan> lendOutputs(const PlanProblem &problem, const StepOrder &order,
                              llvm::ArrayRef<Lifetime> lifetimes, LendingLimits limits = {});

// Packs what lies in the arena.
using ArenaPacker = llvm::function_ref<Packing(llvm::ArrayRef<Lifetime> lifetimes)>;

// A packing in which outputs lend, where values take more than caches hold. The rest is packed by
// `arena`, or by pack().
Packing packWithOutputs(const PlanProblem &problem, const StepOrder &order,
                        llvm::ArrayRef<Lifetime> lifetimes, LendingLimits limits = {},
                        bool refined = true, ArenaPacker arena = nullptr);

// What the steps take in this order beside inputs: the arena, in a packing that is not
// refined, and outputs that take no input's memory.
int64_t plannedBytes(const PlanProblem &problem, const StepOrder &order, LendingLimits limits = {});

// The orders that are tried, the program's first: with checks, those with the checks ahead, too.
std::vector<StepOrder> triedOrders(const PlanProblem &problem);

// Of the orders that are tried the one that takes the fewest bytes.
struct ChosenOrder {
  StepOrder order;
  int64_t bytes = 0; // plannedBytes()
};
ChosenOrder chooseOrder(const PlanProblem &problem, LendingLimits limits = {});

} // namespace weft::compiler
