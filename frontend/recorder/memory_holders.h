// What a program's memory holds at its peak, as explain and estimates say it.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/backend/CompileReport.h"
#include "weft/explain.h"

namespace weft::recorder {

// The parts of the plan and, where a run takes more than that (`whole`), the rest. Empty where it
// takes less: the plan is one for larger sizes.
std::vector<MemoryHolder> holders_of(const compiler::PlanReport &plan, int64_t whole);

} // namespace weft::recorder
