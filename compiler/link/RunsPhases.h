// Backends that compile by Weft's own phases, for tools that run some of them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/backend/CompileOptions.h"
#include "compiler/link/Compile.h"

namespace weft::compiler {

// A compilation's options, as the backend changes them, and what it gives its phases.
struct PhaseRun {
  CompileOptions options;
  CompileRequest request;
};

// A Backend that is one of these too compiles with what phases() gives: providers, target, kernels.
// A backend that does otherwise is none.
class RunsPhases {
public:
  virtual ~RunsPhases() = default;
  // May be called from any thread. InvalidArgument for a processor that it does not know.
  virtual absl::StatusOr<PhaseRun> phases(const CompileOptions &options) = 0;
  // The processor that tools name where their user names none: one that has all that decisions
  // depend on, so that what they print is the same on every machine.
  virtual std::string usualProcessor() const = 0;
};

} // namespace weft::compiler
