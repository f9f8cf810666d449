#include "compiler/fusion/FusionRules.h"

#include <mutex>

namespace weft::compiler {
namespace {

constexpr const char *kKind = "fusion-rule"; // of registrations

struct Registry {
  std::mutex mutex;
  std::vector<RegisteredFusionRule> rules;
};

Registry &registry() {
  static Registry *registry = new Registry;
  return *registry;
}

} // namespace

absl::Status registerFusionRule(std::string name, std::string version, FusionRule rule) {
  if (name.empty() || !rule)
    return absl::InvalidArgumentError("the fusion rule '" + name +
                                      (name.empty() ? "' has no name" : "' has no function"));
  {
    std::lock_guard lock(registry().mutex);
    registry().rules.push_back({name, std::move(rule)});
  }
  addRegistration({kKind, std::move(name), std::move(version), ""});
  return absl::OkStatus();
}

void clearRegisteredFusionRules() {
  {
    std::lock_guard lock(registry().mutex);
    registry().rules.clear();
  }
  removeRegistrations(kKind);
}

std::vector<RegisteredFusionRule> registeredFusionRules() {
  std::lock_guard lock(registry().mutex);
  return registry().rules;
}

} // namespace weft::compiler
