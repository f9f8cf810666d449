#include "compiler/fusion/FusionRules.h"

#include "compiler/fusion/FusionDomain.h"
#include "compiler/pipeline/Registry.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

namespace weft::compiler {
namespace {

Registry<RegisteredFusionRule> &registry() {
  static auto *registry = new Registry<RegisteredFusionRule>("fusion-rule");
  return *registry;
}

// Reasons of Weft's own why ops do not become one kernel.
bool isOwnReason(llvm::StringRef name) {
  return llvm::any_of(llvm::seq_inclusive(0, static_cast<int>(Refusal::CheckedAfterWrite)),
                      [&](int i) { return name == refusalName(static_cast<Refusal>(i)); });
}

} // namespace

absl::Status registerFusionRule(std::string name, std::string version, FusionRule rule) {
  if (absl::Status status = checkParts("fusion rule", name, rule != nullptr); !status.ok())
    return status;
  if (isOwnReason(name))
    return absl::AlreadyExistsError("the fusion rule '" + name +
                                    "' has the name of a reason of Weft's own, beside which "
                                    "explain could not tell it; choose another");
  auto refuse = [&](const std::vector<RegisteredFusionRule> &known) -> absl::Status {
    if (llvm::any_of(known, [&](const RegisteredFusionRule &each) { return each.name == name; }))
      return absl::AlreadyExistsError("the fusion rule '" + name +
                                      "' is registered already; register it once, or by another "
                                      "name");
    return absl::OkStatus();
  };
  return registry().add({name, std::move(rule)}, name, std::move(version), "", refuse);
}

void clearRegisteredFusionRules() {
  registry().clear();
}

std::vector<RegisteredFusionRule> registeredFusionRules() {
  return registry().things();
}

} // namespace weft::compiler
