// Tuning: coordinate descent over the choices of one kernel after the other.
//
// Weaknesses: choices are tried one by one, so that two which only pay together are not found; a
// kernel runs again and again on the same memory, which is in a nearer cache than a program would
// have it; one thread sees no contention.
#include <chrono>
#include <fstream>
#include <set>
#include <unordered_map>

#include "compiler/codegen/Choices.h"
#include "compiler/plan/KernelStructure.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Pins.h"
#include "compiler/schedule/TimedKernel.h"
#include "dialects/plan/ir/Plan.h"
#include "dialects/weft/ir/SizeNames.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

#define GEN_PASS_DEF_TUNEPASS
#include "compiler/schedule/Passes.h.inc"

namespace {

using Clock = std::chrono::steady_clock;

// Of a kernel's memory: more would leave no room for a second one.
constexpr int64_t kMostBytes = int64_t(1) << 30;
// What a candidate must be faster by: below it, the times of one kernel differ from run to run.
constexpr double kGain = 0.97;
// Rounds by turns, and the nanoseconds of each: a candidate that is slower in the first rounds is
// given up after them.
constexpr int kRounds = 6, kFirstRounds = 2;
constexpr double kRoundNanoseconds = 2e6;
// A candidate that is slower by this after the first rounds does not get better.
constexpr double kHopeless = 1.1;
// One thread does not see it.
constexpr const char *kGrain = "grain";

struct Tried {
  std::vector<ScheduleChoice> pins; // beside what the fusion has
  TimedKernel kernel;
};

class Tune : public impl::TunePassBase<Tune> {
public:
  using TunePassBase::TunePassBase;

  void runOnOperation() override {
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(double(seconds)));
    struct Kernel {
      double work = 0;
      llvm::SmallVector<ir::FusionOp, 1> fusions; // that are equal
    };
    std::vector<Kernel> all;
    std::unordered_map<std::string, size_t> numbers; // by structure
    getOperation().walk([&](ir::FusionOp fusion) {
      auto varies = [](mlir::Type type) {
        return ir::hasNamedDims(mlir::cast<mlir::RankedTensorType>(type));
      };
      if (llvm::any_of(fusion->getOperandTypes(), varies) ||
          llvm::any_of(fusion->getResultTypes(), varies) ||
          KernelMemory::bytesOf(fusion) > kMostBytes)
        return;
      auto [number, isNew] = numbers.try_emplace(structureOf(fusion), all.size());
      if (isNew)
        all.emplace_back();
      all[number->second].fusions.push_back(fusion);
      all[number->second].work += workOf(fusion);
    });
    llvm::sort(all, [](const Kernel &a, const Kernel &b) { return a.work > b.work; });
    std::string lines;
    int64_t looked = 0, pinned = 0;
    for (const Kernel &kernel : all) {
      if (Clock::now() >= end_)
        break;
      mlir::FailureOr<std::vector<ScheduleChoice>> better = tune(kernel.fusions[0]);
      if (mlir::failed(better))
        return signalPassFailure();
      ++looked;
      if (better->empty())
        continue;
      ++pinned;
      mlir::DictionaryAttr choices = scheduleAttr(&getContext(), *better);
      llvm::raw_string_ostream(lines) << kernelText(kernel.fusions[0]) << ": " << choices << "\n";
      for (ir::FusionOp fusion : kernel.fusions)
        pin(fusion, choices);
    }
    getOperation().emitRemark("schedule: measured ")
        << looked << " of " << all.size() << " kernels, and pinned choices of " << pinned;
    if (pins.empty())
      return;
    std::ofstream file(pins);
    file << lines;
    if (!file.flush()) {
      getOperation().emitError("cannot write the schedules to '") << pins << "'";
      signalPassFailure();
    }
  }

private:
  static double workOf(ir::FusionOp fusion) {
    double work = double(KernelMemory::bytesOf(fusion));
    for (mlir::Operation &op : fusion.getBody().front().without_terminator())
      work += ir::operationsOf(&op);
    return work;
  }

  // Least nanoseconds of both, by turns.
  std::pair<double, double> compare(TimedKernel &a, TimedKernel &b, KernelMemory &memory) {
    double best[2] = {0, 0};
    for (int round = 0; round < kRounds; ++round) {
      for (auto [i, kernel] : {std::pair(0, &a), std::pair(1, &b)}) {
        double took = kernel->time(memory, kRoundNanoseconds);
        best[i] = round == 0 ? took : std::min(best[i], took);
      }
      if (round + 1 == kFirstRounds && best[1] > kHopeless * best[0])
        break;
    }
    return {best[0], best[1]};
  }

  // The choices that are to be pinned; empty where none is faster.
  mlir::FailureOr<std::vector<ScheduleChoice>> tune(ir::FusionOp fusion) {
    KernelMemory memory(fusion);
    auto made = TimedKernel::make(fusion, {});
    if (!made.ok())
      return mlir::emitError(fusion.getLoc())
             << "the kernel cannot be made: " << std::string(made.status().message());
    Tried best{{}, *std::move(made)};
    if (!best.kernel.run(memory).ok())
      return std::vector<ScheduleChoice>();
    std::vector<char> expected = memory.results();
    double before = 0, after = 0;
    std::set<std::string> done = {kGrain};
    while (Clock::now() < end_) {
      // The next choice that the best kernel has: another body brings others.
      auto choices = best.kernel.info().schedule;
      auto next = llvm::find_if(
          choices, [&](const ScheduleChoice &choice) { return !done.contains(choice.name); });
      if (next == choices.end())
        break;
      done.insert(next->name);
      for (const std::string &value : next->legal) {
        if (value == next->value || Clock::now() >= end_)
          continue;
        std::vector<ScheduleChoice> pins = best.pins;
        llvm::erase_if(pins, [&](const ScheduleChoice &pin) { return pin.name == next->name; });
        pins.push_back({next->name, value, {}});
        auto candidate = TimedKernel::make(fusion, pins);
        if (!candidate.ok())
          return mlir::emitError(fusion.getLoc())
                 << "the kernel cannot be made with " << next->name << " = " << value << ": "
                 << std::string(candidate.status().message());
        memory.clearResults();
        if (!candidate->run(memory).ok() || memory.results() != expected)
          return mlir::emitError(fusion.getLoc())
                 << "the kernel gives other bits with " << next->name << " = " << value;
        auto [old, now] = compare(best.kernel, *candidate, memory);
        before = before == 0 ? old : before;
        if (now >= kGain * old)
          continue;
        after = now;
        best = {std::move(pins), *std::move(candidate)};
      }
    }
    if (!best.pins.empty()) {
      std::string text;
      llvm::raw_string_ostream(text)
          << llvm::format("%.2f us instead of %.2f us with ", after / 1e3, before / 1e3)
          << scheduleAttr(&getContext(), best.pins);
      fusion.emitRemark("schedule: ") << text;
    }
    return best.pins;
  }

  Clock::time_point end_;
};

} // namespace
} // namespace weft::compiler
