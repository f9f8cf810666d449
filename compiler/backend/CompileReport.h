// What a compilation did: what explain, tools and tests print.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::compiler {

// A part of what lies in arena and outputs at the planned peak.
struct PeakPart {
  int64_t bytes = 0;
  std::string what;         // the kernel or library call that writes it
  std::string line, module; // of it; either may be empty
};

// Sizes in bytes. A lower bound is the largest sum of the sizes of values that are live at one
// time.
struct PlanReport {
  std::string order;      // the name of the order that was chosen
  std::string packing;    // the name of the packing that was chosen
  int64_t arenaBytes = 0; // the arena: the intermediates that do not lie in outputs
  int64_t liveBound = 0;  // its lower bound, in the chosen order
  int64_t inputBytes = 0;
  int64_t outputBytes = 0; // fresh output buffers (those that donated inputs become are not in it)
  int64_t constantBytes = 0;
  int64_t inPlaceReuses = 0;  // results that took the buffer of a dead operand
  int64_t donationsUsed = 0;  // donated inputs that became outputs
  int64_t recomputations = 0; // instructions that run again because of the memory limit
  int64_t storedValues = 0;   // that wait in files because of it, and their bytes
  int64_t storedBytes = 0;
  double recomputedShare = 0; // of what all instructions take: what both take more, by an estimate
  std::vector<PeakPart> peakParts; // the largest first; they sum to arena and outputs
  std::vector<int64_t> liveBytes;  // of arena and outputs, over the instructions (plan/LiveBytes.h)
  // Of arena and outputs, which share their bytes: planned / lower bound; 1 when nothing is live.
  double ratio() const {
    int64_t bound = liveBound + outputBytes;
    return bound == 0 ? 1.0 : double(arenaBytes + outputBytes) / double(bound);
  }
};

struct CompileReport {
  // (phase, milliseconds), in the order in which phases ran.
  std::vector<std::pair<std::string, double>> phases;
  // Decisions against an optimisation, each with where and why: fusions refused, claims refused.
  std::vector<std::string> remarks;
  int64_t kernels = 0;  // distinct compiled kernels
  int64_t launches = 0; // launch instructions
  int64_t libraryCalls = 0;
  int64_t copies = 0;
  int64_t codeBytes = 0;
  int64_t preparedValues = 0; // computed ahead of runs, and their bytes; operands that a library
                              // packs are not among them
  int64_t preparedBytes = 0;
  double milliseconds = 0; // the whole compilation
  // It failed because a library takes some sizes of a range and not others: a narrower range may
  // do.
  bool takesSomeSizes = false;
  PlanReport plan;
};

} // namespace weft::compiler
