#include "compiler/plan/PlannerHooks.h"

#include <algorithm>

#include "compiler/pipeline/CallUser.h"
#include "compiler/pipeline/Registry.h"
#include "compiler/plan/Lifetimes.h"
#include "runtime/core/alignment.h"
#include "runtime/core/status.h"

namespace weft::compiler {
namespace {

Registry<RegisteredPlanner> &registry() {
  static auto *registry = new Registry<RegisteredPlanner>("planner");
  return *registry;
}

} // namespace

absl::Status registerPlanner(std::string name, std::string version, Planner planner) {
  WEFT_RETURN_IF_ERROR(checkParts("planner", name, planner != nullptr));
  return registry().add({name, std::move(planner)}, name, std::move(version), "",
                        [&](const std::vector<RegisteredPlanner> &others) {
                          return others.empty()
                                     ? absl::OkStatus()
                                     : absl::AlreadyExistsError(
                                           "the planner '" + name +
                                           "' cannot be registered beside '" + others[0].name +
                                           "': there is one at a time");
                        });
}

void clearRegisteredPlanner() {
  registry().clear();
}

std::optional<RegisteredPlanner> registeredPlanner() {
  std::vector<RegisteredPlanner> one = registry().things();
  return one.empty() ? std::nullopt : std::optional(std::move(one[0]));
}

absl::StatusOr<Packing> packBy(const RegisteredPlanner &planner,
                               llvm::ArrayRef<Lifetime> lifetimes) {
  absl::StatusOr<std::vector<int64_t>> offsets = callUser(
      [&] { return "the planner '" + planner.name + "'"; },
      [&] { return planner.planner(lifetimes); });
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
        __builtin_add_overflow(offset, life.bytes, &end) || end > runtime::kMostBufferBytes)
      return wrong("the offset " + std::to_string(offset) + "; it must be a multiple of " +
                   std::to_string(runtime::kBufferAlignment) +
                   " that is not negative, and no arena has more than " +
                   std::to_string(runtime::kMostBufferBytes) + " bytes");
    packing.arenaBytes = std::max(packing.arenaBytes, end);
  }
  return packing;
}

} // namespace weft::compiler
