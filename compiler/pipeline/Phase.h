// The phases of compilation, as data: one table that the driver, dumps, tools and plugins share.
#pragma once

#include <optional>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

// Kernels are made within `plan`, which asks them what they may overwrite; passes on a kernel's own
// IR have stages of their own (compiler/codegen/KernelPasses.h).
enum class Phase { Import, Graph, Layout, Claim, Fuse, Plan };

struct PhaseInfo {
  Phase phase;
  llvm::StringRef name;
  // The number in front of the file that WEFT_DUMP_DIR gets after the phase.
  int number;
  llvm::StringRef summary;
};

// All phases, in the order in which they run.
llvm::ArrayRef<PhaseInfo> allPhases();
const PhaseInfo &phaseInfo(Phase phase);
// nullopt when no phase has that name.
std::optional<Phase> findPhase(llvm::StringRef name);

// A range of phases, both ends included: "graph", "import..fuse", "..claim", "layout..".
struct PhaseRange {
  Phase from = Phase::Import, to = Phase::Plan;
};
std::optional<PhaseRange> parsePhaseRange(llvm::StringRef text);

// Where, relative to a phase, a registered pass runs.
enum class Position { Before, After };

} // namespace weft::compiler
