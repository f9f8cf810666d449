#include "compiler/pipeline/Phase.h"

namespace weft::compiler {

static constexpr PhaseInfo kPhases[] = {
    {Phase::Import, "import", 0, "checks the slice: one function, known ops, static shapes"},
    {Phase::Graph, "graph", 10,
     "canonical forms, constants folded, equal ops merged, algebra, dead code"},
    {Phase::Layout, "layout", 20, "the dim order in which each value lies in memory"},
    {Phase::Claim, "claim", 30, "ops that vendor libraries run; what nobody claims is decomposed"},
    {Phase::Fuse, "fuse", 40, "ops that become one kernel"},
    {Phase::Plan, "plan", 50, "kernels, order, lifetimes, offsets in one arena"},
};

llvm::ArrayRef<PhaseInfo> allPhases() {
  return kPhases;
}

const PhaseInfo &phaseInfo(Phase phase) {
  return kPhases[static_cast<int>(phase)];
}

std::optional<Phase> findPhase(llvm::StringRef name) {
  for (const PhaseInfo &info : kPhases)
    if (info.name == name)
      return info.phase;
  return std::nullopt;
}

std::optional<PhaseRange> parsePhaseRange(llvm::StringRef text) {
  text = text.trim();
  auto [first, last] = text.split("..");
  if (!text.contains(".."))
    last = first;
  PhaseRange range;
  if (!first.empty()) {
    std::optional<Phase> from = findPhase(first);
    if (!from)
      return std::nullopt;
    range.from = *from;
  }
  if (!last.empty()) {
    std::optional<Phase> to = findPhase(last);
    if (!to)
      return std::nullopt;
    range.to = *to;
  }
  if (text.empty() || range.to < range.from)
    return std::nullopt;
  return range;
}

} // namespace weft::compiler
