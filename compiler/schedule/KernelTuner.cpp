// Coordinate descent over the choices of one kernel.
//
// Weaknesses: choices are tried one by one, so that two which only pay together are not found; a
// kernel runs again and again on the same memory, which is in a nearer cache than a program would
// have it; one thread sees no contention.
#include "compiler/schedule/KernelTuner.h"

#include <set>
#include <unordered_map>

#include "compiler/plan/KernelStructure.h"
#include "compiler/schedule/Limits.h"
#include "compiler/schedule/TimedKernel.h"
#include "dialects/weft/ir/SizeNames.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {
namespace {

// One thread does not see it.
constexpr const char *kGrain = "grain";

struct Tried {
  std::vector<ScheduleChoice> pins; // beside what the fusion has
  TimedKernel kernel;
};

bool canBeMeasured(ir::FusionOp fusion) {
  auto varies = [](mlir::Type type) {
    return ir::hasNamedDims(mlir::cast<mlir::RankedTensorType>(type));
  };
  return llvm::none_of(fusion->getOperandTypes(), varies) &&
         llvm::none_of(fusion->getResultTypes(), varies) &&
         KernelMemory::bytesOf(fusion) <= kMostTunedBytes;
}

double workOf(ir::FusionOp fusion) {
  double work = double(KernelMemory::bytesOf(fusion));
  for (mlir::Operation &op : fusion.getBody().front().without_terminator())
    work += ir::operationsOf(&op);
  return work;
}

} // namespace

std::vector<EqualFusions> kernelsByWork(mlir::ModuleOp module) {
  std::vector<EqualFusions> all;
  std::unordered_map<std::string, size_t> numbers; // by structure
  module.walk([&](ir::FusionOp fusion) {
    if (!canBeMeasured(fusion))
      return;
    auto [number, isNew] = numbers.try_emplace(structureOf(fusion), all.size());
    if (isNew)
      all.emplace_back();
    all[number->second].fusions.push_back(fusion);
    all[number->second].work += workOf(fusion);
  });
  llvm::stable_sort(
      all, [](const EqualFusions &a, const EqualFusions &b) { return a.work > b.work; });
  return all;
}

std::pair<double, double> KernelTuner::compare(TimedKernel &a, TimedKernel &b,
                                               KernelMemory &memory) {
  double best[2] = {0, 0};
  for (int round = 0; round < kTuneRounds; ++round) {
    for (auto [i, kernel] : {std::pair(0, &a), std::pair(1, &b)}) {
      double took = kernel->time(memory, kTuneRoundNanoseconds);
      best[i] = round == 0 ? took : std::min(best[i], took);
    }
    if (round + 1 == kFirstTuneRounds && best[1] > kHopeless * best[0])
      break;
  }
  return {best[0], best[1]};
}

std::string TunedKernel::triedText() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (tried.empty())
    stream << "nothing to try";
  else
    stream << llvm::format("%.2f us", before / 1e3);
  for (size_t i = 0; i < std::min(tried.size(), kMostShownChoices); ++i)
    stream << (i == 0 ? "; " : ", ") << tried[i].first
           << llvm::format(": %.2f us", tried[i].second / 1e3);
  if (tried.size() > kMostShownChoices)
    stream << ", and " << tried.size() - kMostShownChoices << " more";
  return text;
}

absl::StatusOr<TunedKernel> KernelTuner::tune(ir::FusionOp fusion) {
  KernelMemory memory(fusion);
  auto made = TimedKernel::make(fusion, {});
  if (!made.ok())
    return absl::InternalError("the kernel cannot be made: " +
                               std::string(made.status().message()));
  TunedKernel tuned;
  Tried best{{}, *std::move(made)};
  // Indices out of range: there is nothing to measure.
  if (!best.kernel.run(memory).ok())
    return tuned;
  std::vector<char> expected = memory.results();
  std::set<std::string> done = {kGrain};
  while (true) {
    // The next choice that the best kernel has: another body brings others.
    auto choices = best.kernel.info().schedule;
    auto next = llvm::find_if(
        choices, [&](const ScheduleChoice &choice) { return !done.contains(choice.name); });
    if (next == choices.end())
      break;
    done.insert(next->name);
    for (const std::string &value : next->legal) {
      if (value == next->value)
        continue;
      if (isOver()) {
        tuned.isWhole = false;
        break;
      }
      std::vector<ScheduleChoice> pins = best.pins;
      llvm::erase_if(pins, [&](const ScheduleChoice &pin) { return pin.name == next->name; });
      pins.push_back({next->name, value, {}});
      auto fail = [&](const char *what, llvm::StringRef why) {
        return absl::InternalError(what + next->name + " = " + value + why.str());
      };
      auto candidate = TimedKernel::make(fusion, pins);
      if (!candidate.ok())
        return fail("the kernel cannot be made with ",
                    ": " + std::string(candidate.status().message()));
      memory.clearResults();
      if (!candidate->run(memory).ok() || memory.results() != expected)
        return fail("the kernel gives other bits with ", "");
      auto [old, now] = compare(best.kernel, *candidate, memory);
      tuned.before = tuned.before == 0 ? old : tuned.before;
      tuned.tried.emplace_back(next->name + " = " + value, now);
      if (now >= kTuneGain * old)
        continue;
      tuned.after = now;
      best = {std::move(pins), *std::move(candidate)};
    }
    if (!tuned.isWhole)
      break;
  }
  tuned.better = std::move(best.pins);
  return tuned;
}

} // namespace weft::compiler
