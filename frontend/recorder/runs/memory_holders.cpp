#include "frontend/recorder/runs/memory_holders.h"

#include <algorithm>
#include <functional>

namespace weft::recorder {

HeldMemory held_memory(const compiler::PlanReport &plan, int64_t whole) {
  std::vector<MemoryHolder> holders;
  int64_t sum = 0;
  for (const compiler::PeakPart &part : plan.peakParts) {
    holders.push_back({part.bytes, part.what, part.line, part.module});
    sum += part.bytes;
  }
  if (holders.empty() || sum > whole)
    return {};
  if (sum < whole)
    holders.push_back({whole - sum, "scratch of threads, alignment", "", ""});
  std::ranges::stable_sort(holders, std::greater<>(), &MemoryHolder::bytes);
  return {std::move(holders), plan.liveBytes};
}

} // namespace weft::recorder
