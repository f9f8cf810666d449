// A planner of memory: values in the order of their sizes, each at the lowest place that is free
// while it lives, with room between two values. What is written past the end of a value then hits
// nobody, and the room can be looked at: WEFT_PLUGINS=./planner.so program
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "compiler/plugin/Plugin.h"

namespace {

using weft::compiler::Lifetime;

constexpr int64_t kRoom = 4096; // between two values, in bytes: a multiple of 64

absl::StatusOr<std::vector<int64_t>> plan(llvm::ArrayRef<Lifetime> lives) {
  if (lives.size() > 10'000)
    return absl::UnimplementedError("each pair of values is looked at, and these are too many");
  std::vector<int64_t> offsets(lives.size());
  std::vector<size_t> sequence(lives.size()), placed;
  std::iota(sequence.begin(), sequence.end(), 0);
  std::stable_sort(sequence.begin(), sequence.end(),
                   [&](size_t a, size_t b) { return lives[a].bytes > lives[b].bytes; });
  for (size_t i : sequence) {
    // Those that live at the same time, by their places.
    std::vector<size_t> meets;
    for (size_t other : placed)
      if (lives[other].begin <= lives[i].end && lives[i].begin <= lives[other].end)
        meets.push_back(other);
    std::sort(meets.begin(), meets.end(),
              [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    int64_t at = kRoom;
    for (size_t other : meets)
      if (at + lives[i].bytes + kRoom > offsets[other])
        at = std::max(at, offsets[other] + lives[other].bytes + kRoom);
    offsets[i] = at;
    placed.push_back(i);
  }
  if (std::getenv("MINE_PLANNER_COUNT"))
    std::fprintf(stderr, "mine-room: placed %zu value(s)\n", lives.size());
  return offsets;
}

void registerAll(weft::compiler::PluginRegistrar &registrar) {
  registrar.registerPlanner("mine-room", "1.0", plan);
}

} // namespace

extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {weft::compiler::kPluginApiVersion, "mine-room", "1.0", registerAll};
}
