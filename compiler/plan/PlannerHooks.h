// A planner of memory from outside, in place of Weft's own: registered from C++ or by a plugin.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/pipeline/Registrations.h"
#include "compiler/plan/Packing.h"

namespace weft::compiler {

// Places the values of one arena: an offset in bytes for each lifetime, in their order, a multiple
// of runtime::kBufferAlignment. Lifetimes that share a position must not share bytes. The arena
// ends where the last value does. Sizes and positions are those of Problem.h. Values that lie in
// outputs (LendOutputs.h) are not among them.
//
// A planner is a pure function: equal lifetimes give equal offsets, or programs would not be the
// same on every machine. It is called from several threads at once.
//
// An error is a refusal: Weft packs the program itself, and explain has the message.
// Offsets that cannot be (a wrong number, a negative or unaligned one) fail the compilation with
// the planner's name, as do values that share bytes: plan-verify proves every packing.
using Planner =
    std::function<absl::StatusOr<std::vector<int64_t>>(llvm::ArrayRef<Lifetime> lifetimes)>;

// From now on programs are packed by it, for every backend that plans with this folder; a
// compilation that plans already keeps what it has. name and version are part of the keys of
// programs; an empty version keeps programs off the disk. From any thread. InvalidArgument without
// a function or a name, AlreadyExists while there is one: there is one planner at a time.
absl::Status registerPlanner(std::string name, std::string version, Planner planner);
// Programs are packed by Weft again; for tests.
void clearRegisteredPlanner();

struct RegisteredPlanner {
  std::string name;
  Planner planner;
};
std::optional<RegisteredPlanner> registeredPlanner();
// The packing of the planner, under its name. Where it refuses, pack()'s, whose name then says so.
// InvalidArgument for offsets that cannot be.
absl::StatusOr<Packing> packBy(const RegisteredPlanner &planner,
                               llvm::ArrayRef<Lifetime> lifetimes);

} // namespace weft::compiler
