// Rules of users about what fuses: registered from C++ or by a plugin.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/pipeline/Registrations.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"

namespace weft::compiler {

// Why these ops are not to be one kernel ("more than four ops"), or nothing. The ops are some of a
// program's, in its order, that Weft would otherwise join; constants and ops that are computed
// again are among them. An op alone is always a kernel.
//
// A rule is a pure function, or programs would not be the same on every machine. It is called from
// several threads at once, for each pair of kernels that Weft tries to join: some times for each op
// of a program.
using FusionRule = std::function<std::string(llvm::ArrayRef<mlir::Operation *> ops)>;

// From now on kernels are joined only where the rule does not object, beside Weft's own conditions
// and those of other rules. What it says stands in explain, under its name. name and version are
// part of the keys of programs; an empty version keeps programs off the disk. From any thread.
// InvalidArgument without a function or a name, AlreadyExists where another rule or a reason of
// Weft's own has the name.
absl::Status registerFusionRule(std::string name, std::string version, FusionRule rule);
// Forgets them; for tests.
void clearRegisteredFusionRules();

struct RegisteredFusionRule {
  std::string name;
  FusionRule rule;
};
std::vector<RegisteredFusionRule> registeredFusionRules();

} // namespace weft::compiler
