#include "compiler/fusion/FusionRules.h"

#include "compiler/pipeline/Registry.h"

namespace weft::compiler {
namespace {

Registry<RegisteredFusionRule> &registry() {
  static auto *registry = new Registry<RegisteredFusionRule>("fusion-rule");
  return *registry;
}

} // namespace

absl::Status registerFusionRule(std::string name, std::string version, FusionRule rule) {
  if (absl::Status status = checkParts("fusion rule", name, rule != nullptr); !status.ok())
    return status;
  return registry().add({name, std::move(rule)}, name, std::move(version));
}

void clearRegisteredFusionRules() {
  registry().clear();
}

std::vector<RegisteredFusionRule> registeredFusionRules() {
  return registry().things();
}

} // namespace weft::compiler
