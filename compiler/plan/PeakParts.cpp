#include "compiler/plan/PeakParts.h"

#include <map>
#include <tuple>

#include "compiler/pipeline/Report.h"
#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/Limits.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// What an instruction writes into the buffer.
std::string whatOf(Operation *op, Value buffer) {
  auto isBuffer = [&](Value operand) {
    int64_t offset;
    return operand && plan::viewRoot(operand, offset) == buffer;
  };
  if (auto call = dyn_cast<plan::LibraryCallOp>(op))
    return (isBuffer(call.getScratch()) ? "scratch of " : "") + call.getCallee().str();
  if (auto launch = dyn_cast<plan::LaunchOp>(op))
    return (isBuffer(launch.getPartials()) ? "partial results of " : "") + launch.getKernel().str();
  return op->getName().stripDialect().str();
}

} // namespace

std::vector<PeakPart> peakParts(const ExtractedProblem &extracted, const StepOrder &order,
                                ArrayRef<Lifetime> lives, const Packing &packing) {
  const PlanProblem &problem = extracted.problem;
  auto isInArena = [&](size_t i) {
    return packing.lenders.empty() || packing.lenders[i] < 0;
  };
  std::vector<Lifetime> arena;
  for (auto [i, life] : llvm::enumerate(lives))
    if (isInArena(i))
      arena.push_back(life);
  std::vector<int64_t> live = bytesAtSteps(arena, order.steps.size());
  auto moment = int32_t(llvm::max_element(live) - live.begin());

  std::vector<Operation *> writers(problem.values.size(), nullptr);
  for (auto [step, op] : llvm::zip(problem.steps, extracted.instructions))
    for (int32_t value : step.writes)
      if (!writers[size_t(value)])
        writers[size_t(value)] = op;
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> sums;
  auto add = [&](int32_t value, int64_t bytes) {
    if (bytes == 0)
      return;
    Operation *writer = writers[size_t(value)];
    SmallVector<Place> places;
    if (writer)
      places = placesOf(writer->getLoc());
    Place place = places.empty() ? Place() : places.front();
    sums[{writer ? whatOf(writer, extracted.buffers[size_t(value)]) : "unwritten", place.line,
          place.module}] += bytes;
  };
  int64_t inArena = 0;
  for (auto [i, life] : llvm::enumerate(lives))
    if (isInArena(i) && life.begin <= moment && moment <= life.end) {
      add(life.value, life.bytes);
      inArena += life.bytes;
    }
  for (auto [i, value] : llvm::enumerate(problem.values))
    if (value.kind == PlanProblem::Kind::Output)
      add(int32_t(i), value.bytes);
  std::vector<PeakPart> parts;
  for (const auto &[key, bytes] : sums)
    parts.push_back({bytes, std::get<0>(key), std::get<1>(key), std::get<2>(key)});
  if (packing.arenaBytes > inArena)
    parts.push_back({packing.arenaBytes - inArena, "room between values", "", ""});
  llvm::stable_sort(parts, [](const PeakPart &a, const PeakPart &b) { return a.bytes > b.bytes; });
  if (parts.size() > kPeakParts) {
    PeakPart others{0, "smaller values", "", ""};
    for (size_t i = kPeakParts; i < parts.size(); ++i)
      others.bytes += parts[i].bytes;
    parts.resize(kPeakParts);
    parts.push_back(std::move(others));
  }
  return parts;
}

} // namespace weft::compiler
