// Measures the choices of one kernel on this machine: what tuning does with each.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/Kernel.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

class KernelMemory;
class TimedKernel;

struct TunedKernel {
  std::vector<ScheduleChoice> better; // beside what the fusion pins; empty: none is faster
  double before = 0, after = 0;       // nanoseconds of a run, where one is
  bool isWhole = true;                // every choice was tried
  // What was tried, in order: "tile = 8", and nanoseconds of a run.
  std::vector<std::pair<std::string, double>> tried;
  // "12.00 us; tile = 8: 9.50 us, grain = 4: 11.20 us": a line's worth.
  std::string triedText() const;
};

// Fusions of a module that are one kernel.
struct EqualFusions {
  llvm::SmallVector<ir::FusionOp, 1> fusions;
  double work = 0; // bytes and operations of all of them
};
// Of the kernels that can be measured (their sizes are known, and their memory is not too much):
// those first that do most.
std::vector<EqualFusions> kernelsByWork(mlir::ModuleOp module);

class KernelTuner {
public:
  using Clock = std::chrono::steady_clock;
  // What is not measured at `end` is left.
  explicit KernelTuner(Clock::time_point end) : end_(end) {}

  bool isOver() const {
    return Clock::now() >= end_;
  }
  // One choice after the other gets each value that it may have; a kernel that is faster by more
  // than the noise takes its place. Internal for a kernel that cannot be made, or whose bits a
  // choice changes.
  absl::StatusOr<TunedKernel> tune(ir::FusionOp fusion);

private:
  // Least nanoseconds of both, by turns.
  std::pair<double, double> compare(TimedKernel &a, TimedKernel &b, KernelMemory &memory);

  Clock::time_point end_;
};

} // namespace weft::compiler
