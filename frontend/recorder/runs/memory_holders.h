// What a program's memory holds, at its peak and over a run, as explain and estimates say it.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/backend/CompileReport.h"
#include "weft/explain.h"

namespace weft::recorder {

struct HeldMemory {
  std::vector<MemoryHolder> holders; // at the peak
  std::vector<int64_t> live_bytes;   // over a run
};

// What the plan says; to the holders comes the rest, where a run takes more than the plan
// (`whole`). Empty where it takes less: the plan is one for larger sizes.
HeldMemory held_memory(const compiler::PlanReport &plan, int64_t whole);

} // namespace weft::recorder
