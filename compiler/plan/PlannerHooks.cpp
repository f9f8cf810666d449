#include "compiler/plan/PlannerHooks.h"

#include <algorithm>
#include <mutex>

#include "compiler/plan/Lifetimes.h"
#include "runtime/core/alignment.h"

namespace weft::compiler {
namespace {

constexpr const char *kKind = "planner"; // of registrations

struct Registry {
  std::mutex mutex;
  std::optional<RegisteredPlanner> planner;
};

Registry &registry() {
  static Registry *registry = new Registry;
  return *registry;
}

} // namespace

absl::Status registerPlanner(std::string name, std::string version, Planner planner) {
  if (name.empty() || !planner)
    return absl::InvalidArgumentError("the planner '" + name +
                                      (name.empty() ? "' has no name" : "' has no function"));
  {
    std::lock_guard lock(registry().mutex);
    if (registry().planner)
      return absl::AlreadyExistsError("the planner '" + name + "' cannot be registered beside '" +
                                      registry().planner->name + "': there is one at a time");
    registry().planner = RegisteredPlanner{name, std::move(planner)};
  }
  addRegistration({kKind, std::move(name), std::move(version), ""});
  return absl::OkStatus();
}

void clearRegisteredPlanner() {
  {
    std::lock_guard lock(registry().mutex);
    registry().planner.reset();
  }
  removeRegistrations(kKind);
}

std::optional<RegisteredPlanner> registeredPlanner() {
  std::lock_guard lock(registry().mutex);
  return registry().planner;
}

absl::StatusOr<Packing> packBy(const RegisteredPlanner &planner,
                               llvm::ArrayRef<Lifetime> lifetimes) {
  absl::StatusOr<std::vector<int64_t>> offsets = planner.planner(lifetimes);
  if (!offsets.ok()) {
    Packing packing = pack(lifetimes);
    packing.name +=
        "; the planner '" + planner.name + "' refused: " + std::string(offsets.status().message());
    return packing;
  }
  auto wrong = [&](const std::string &what) {
    return absl::InvalidArgumentError("the planner '" + planner.name + "' gave " + what);
  };
  if (offsets->size() != lifetimes.size())
    return wrong(std::to_string(offsets->size()) + " offsets for " +
                 std::to_string(lifetimes.size()) + " values");
  Packing packing{planner.name, *std::move(offsets)};
  packing.bound = liveBound(lifetimes);
  for (auto [offset, life] : llvm::zip(packing.offsets, lifetimes)) {
    int64_t end;
    if (offset < 0 || offset % runtime::kBufferAlignment != 0 ||
        __builtin_add_overflow(offset, life.bytes, &end))
      return wrong("the offset " + std::to_string(offset) + "; it must be a multiple of " +
                   std::to_string(runtime::kBufferAlignment) + " that is not negative");
    packing.arenaBytes = std::max(packing.arenaBytes, end);
  }
  return packing;
}

} // namespace weft::compiler
