#include "frontend/recorder/programs/families.h"

#include <algorithm>

#include "frontend/recorder/record/limits.h"
#include "frontend/recorder/record/state.h"
#include "frontend/recorder/slices/slice.h"
#include "runtime/core/caches.h"

namespace weft::recorder {

Families &families() {
  static auto *families = new Families; // never destroyed, as the recorder
  return *families;
}

static const runtime::RegisteredCache
    registered("families", "the least recently used beyond a bound", [] {
      return runtime::CacheUse{families().size(), families().bytes(),
                               static_cast<int64_t>(kLimits.families), kLimits.family_bytes};
    });

void Family::observe(Ints ints) {
  auto known = llvm::find(observations, ints);
  if (known != observations.end())
    observations.erase(known);
  observations.push_back(std::move(ints));
  if (observations.size() > kLimits.observations)
    observations.pop_front();
}

void Family::refuse_up_to_least(Generalization general) {
  // Up to the next power of two: ranges begin at one, so that sizes that grow one by one are not
  // asked about one by one.
  for (Generalization::Size &size : general.sizes) {
    size.high = std::max(size.least, 2 * size.low - 1);
    size.low = 0;
  }
  too_small.push_back(std::move(general));
  if (too_small.size() > kLimits.refused_sizes)
    too_small.pop_front();
}

bool Family::is_too_small(const Ints &ints) const {
  return llvm::any_of(
      too_small, [&](const Generalization &refused) { return refused.match(ints).has_value(); });
}

bool Family::was_too_small(const Generalization &general) const {
  return llvm::any_of(too_small, [&](const Generalization &refused) {
    return refused.match(general.ints) &&
           std::ranges::equal(refused.classes, general.classes, [](int32_t its, int32_t ours) {
             return its == Generalization::kConstant || ours != Generalization::kConstant;
           });
  });
}

void Family::note_below(const Refusal &refused) {
  below = {refused.fixed, refused.why, refused.fixed == below.fixed ? below.times + 1 : 1};
}

int64_t Family::bytes() const {
  size_t bytes = static_cast<size_t>(key.bytes()) + structures.size() * sizeof(void *) +
                 (refused.fixed.size() + below.fixed.size()) * sizeof(uint32_t);
  for (const auto &ints : observations)
    bytes += ints.size() * sizeof(int64_t);
  for (const Generalization &refused : too_small)
    bytes += static_cast<size_t>(refused.bytes());
  return static_cast<int64_t>(bytes);
}

Family &Families::add(ProgramKey key) {
  Family &family = RecentlyUsed::add({.key = std::move(key), .number = ++numbers_});
  // The second one may be that above it.
  trim(static_cast<int64_t>(kLimits.families), kLimits.family_bytes, /*kept=*/2);
  return family;
}

Family *Families::top(const StructureKey &structure, bool add) {
  Family *family = find(structure.key);
  if (family || !add)
    return family;
  family = &this->add(structure.key);
  for (const Node *node : structure.slice.nodes)
    family->structures.push_back(node->signature->text->structure);
  return family;
}

Family *Families::below(Family &family, const Ints &ints, bool add) {
  ProgramKey key{
      .kind = ProgramKey::Kind::kSizes, .salt = family.key.salt, .code = {family.number}};
  for (uint32_t p : family.refused.fixed)
    key.add(ints[p]);
  Family *known = find(key);
  if (known || !add)
    return known;
  Family &made = this->add(std::move(key));
  made.depth = family.depth + 1;
  if (family.below.times >= kLimits.refused_below)
    made.refused = {family.below.fixed, family.below.why};
  for (const Ints &other : family.observations)
    if (llvm::all_of(family.refused.fixed, [&](uint32_t p) { return other[p] == ints[p]; }))
      made.observations.push_back(other);
  return &made;
}

Families::Place Families::of(const StructureKey &structure) {
  Place place{top(structure, /*add=*/true), nullptr};
  while (!place.family->refused.fixed.empty())
    place = {below(*place.family, structure.ints, /*add=*/true), place.family};
  return place;
}

} // namespace weft::recorder
