// Programs for many ints: which of them serves a slice, and what the next one should leave open.
#include <algorithm>

#include "compiler/prepare/PrepareLimits.h"
#include "frontend/recorder/families.h"
#include "frontend/recorder/find_program.h"
#include "frontend/recorder/limits.h"
#include "frontend/recorder/stability.h"

namespace weft::recorder {
namespace {

// After so many programs in a row that could not be made symbolic no further attempt is made in a
// family: each costs up to a compilation. The first one takes all observations together, the second
// one those that are nearest.
constexpr int kAttempts = 2;
// Named in explain's line; the others are counted.
constexpr size_t kDescribed = 8;

std::string scalar_name(size_t i) {
  return "a" + std::to_string(i);
}

// Items with commas between, as many as are described.
class Listed {
public:
  bool full() const {
    return items_ >= kDescribed;
  }
  void add(const std::string &item) {
    if (!full())
      text_ += (items_ > 0 ? ", " : "") + item;
    ++items_;
  }
  std::string text() const {
    return items_ > kDescribed ? text_ + ", " + std::to_string(items_ - kDescribed) + " more"
                               : text_;
  }

private:
  std::string text_;
  size_t items_ = 0;
};

std::string values_of(const Generalization &general, const std::vector<int64_t> &sizes,
                      const std::vector<int64_t> &scalars) {
  Listed list;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (general.sizes[i].factors.empty())
      list.add(general.sizes[i].name + "=" + std::to_string(sizes[i]));
  for (size_t i = 0; i < scalars.size(); ++i)
    if (general.scalars[i].kind == IntPosition::Kind::kAttribute)
      list.add(scalar_name(i) + "=" + std::to_string(scalars[i]));
    else if (general.scalars[i].kind == IntPosition::Kind::kConstant)
      list.add(scalar_name(i) + " (a constant)");
  return list.text();
}

std::string description(const Slice &slice, const SymbolicRequest &request) {
  const Generalization &general = request.general;
  Listed list;
  for (size_t i = 0; i < general.sizes.size(); ++i) {
    const Generalization::Size &size = general.sizes[i];
    if (!size.factors.empty() || list.full())
      continue;
    // Of an input, if one has it.
    size_t at = size.position;
    auto is_input = [&](size_t p) {
      const IntPosition &position = request.positions[p];
      return !(position.value & kResult) &&
             !slice.nodes[position.op]->operands[position.value]->node;
    };
    for (size_t p = at; p < general.classes.size() && !is_input(at); ++p)
      if (general.classes[p] == static_cast<int32_t>(i) && is_input(p))
        at = p;
    list.add(size.name + " in [" + std::to_string(size.low) + ", " + std::to_string(size.high) +
             "] (" + describe(slice, request.positions[at]) + ")");
  }
  for (size_t i = 0; i < general.scalars.size(); ++i)
    if (general.scalars[i].kind != IntPosition::Kind::kSize)
      list.add(scalar_name(i) + " (" +
               describe(slice, request.positions[general.scalars[i].position]) + ")");
  return list.text();
}

absl::StatusOr<std::shared_ptr<CompiledProgram>> program_at(SymbolicProgram &known,
                                                            const CompiledProgram &program,
                                                            const std::vector<int64_t> &sizes) {
  auto found = std::find_if(known.sized.begin(), known.sized.end(),
                            [&](const auto &each) { return each.first == sizes; });
  if (found != known.sized.end()) {
    std::rotate(known.sized.begin(), found, found + 1);
    return known.sized.front().second;
  }
  auto sized = at_sizes(program, known.general, sizes);
  if (!sized.ok())
    return sized.status();
  known.sized.emplace_front(sizes, *sized);
  if (known.sized.size() > kLimits.sized_programs)
    known.sized.pop_back();
  return *std::move(sized);
}

int64_t count(const std::vector<bool> &leaves) {
  return std::count(leaves.begin(), leaves.end(), true);
}

// Of the programs that serve the slice, the one that counts on most stable leaves.
std::optional<FoundProgram> find_in(Family &family, const StructureKey &structure, uint64_t salt,
                                    Evaluation &data) {
  Recorder &r = recorder();
  struct Match {
    size_t at;     // in the family
    int64_t count; // of the stable leaves that it counts on
    std::shared_ptr<CompiledProgram> program = nullptr;
    std::vector<int64_t> sizes = {}, scalars = {};
  };
  std::optional<Match> best;
  int64_t variants = 0; // for these ints, that count on stable leaves
  for (size_t i = 0; i < family.programs.size();) {
    const SymbolicProgram &known = family.programs[i];
    Match match{i, count(known.stable)};
    if (!known.general.matches(structure.ints, match.sizes, match.scalars)) {
      ++i;
      continue;
    }
    match.program = r.cache->find(known.key, salt);
    if (!match.program) { // dropped
      family.programs.erase(family.programs.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    variants += match.count > 0;
    if (is_subset(known.stable, structure.stable) && (!best || match.count > best->count))
      best = std::move(match);
    ++i;
  }
  // One that counts on more is worth a compilation, as often as for one size.
  if (!best ||
      (best->count < count(structure.stable) && variants < compiler::kPrepareLimits.variants))
    return std::nullopt;
  SymbolicProgram &known = family.programs[best->at];
  if (!best->sizes.empty()) {
    absl::StatusOr<std::shared_ptr<CompiledProgram>> sized =
        program_at(known, *best->program, best->sizes);
    if (!sized.ok()) {
      data.not_symbolic = std::string(sized.status().message());
      return std::nullopt;
    }
    best->program = *std::move(sized);
  }
  data.outcome = CacheOutcome::kMemoryHit;
  data.symbolic = values_of(known.general, best->sizes, best->scalars);
  ++r.statistics.memory_hits;
  ++r.statistics.symbolic_hits;
  return FoundProgram{std::move(best->program), std::move(best->scalars)};
}

// Leaves those observations that differ from `ints` in the fewest sizes that may not vary (other
// than leading ones), and of these in the fewest at all: networks of one structure but of several
// widths, each of which meets batches of many sizes, are programs of their own.
void keep_nearest(std::vector<const std::vector<int64_t> *> &observations,
                  const std::vector<int64_t> &ints, const std::vector<IntPosition> &positions) {
  std::vector<std::pair<size_t, size_t>> distances;
  for (const std::vector<int64_t> *other : observations) {
    auto &[inner, all] = distances.emplace_back(0, 0);
    for (size_t p = 0; p < ints.size(); ++p) {
      bool differs = positions[p].kind == IntPosition::Kind::kSize && (*other)[p] != ints[p];
      all += differs;
      inner += differs && positions[p].at > 0;
    }
  }
  auto least = *std::min_element(distances.begin(), distances.end());
  size_t kept = 0;
  for (size_t i = 0; i < observations.size(); ++i)
    if (distances[i] == least)
      observations[kept++] = observations[i];
  observations.resize(kept);
}

} // namespace

std::optional<FoundProgram> find_symbolic(const StructureKey &structure, uint64_t salt,
                                          Evaluation &data) {
  Families &families = *recorder().families;
  Family *family = families.find(structure.key, salt);
  if (!family)
    return std::nullopt;
  if (auto found = find_in(*family, structure, salt, data))
    return found;
  Family *sized = families.of(structure, salt);
  return sized && sized != family ? find_in(*sized, structure, salt, data) : std::nullopt;
}

std::shared_ptr<SymbolicRequest> symbolic_request(const Slice &slice, const StructureKey &structure,
                                                  uint64_t salt, Evaluation &data) {
  Families &families = *recorder().families;
  if (const Family *all = families.find(structure.key, salt); all && !all->size_positions.empty())
    data.not_symbolic = all->refused;
  Family *family = families.of(structure, salt, /*add=*/true);
  if (family->observations.empty())
    return nullptr;
  bool too_small = family->is_too_small(structure.ints);
  if (family->refusals >= kAttempts || too_small) {
    data.not_symbolic = family->refused;
    return nullptr;
  }
  auto request = std::make_shared<SymbolicRequest>();
  request->positions = int_positions(slice);
  std::vector<const std::vector<int64_t> *> observations;
  for (const std::vector<int64_t> &ints : family->observations)
    if (!family->is_too_small(ints))
      observations.push_back(&ints);
  if (observations.empty())
    return nullptr;
  if (family->refusals > 0)
    keep_nearest(observations, structure.ints, request->positions);
  observations.push_back(&structure.ints);
  if (!generalize(observations, request->positions, computes_with_sizes(slice), request->general,
                  data.not_symbolic))
    return nullptr;
  std::vector<int64_t> scalars;
  request->general.matches(structure.ints, request->sizes, scalars);
  return request;
}

FoundProgram insert_symbolic(const Slice &slice, const StructureKey &structure,
                             const ProgramContext &context, const SymbolicRequest &request,
                             std::shared_ptr<CompiledProgram> program,
                             std::shared_ptr<CompiledProgram> sized, bool keep, Evaluation &data) {
  Recorder &r = recorder();
  Family &family = observe(structure, context.salt());
  if (keep) {
    family.refusals = 0; // what was refused lay in the observations that were taken together
    family.programs.push_front({request.general, structure.stable, r.families->next_key(), {}});
    if (sized)
      family.programs.front().sized.emplace_front(request.sizes, sized);
    r.cache->insert({family.programs.front().key}, context, program, r.config);
  }
  data.symbolic = description(slice, request);
  FoundProgram found{sized ? std::move(sized) : std::move(program), {}};
  std::vector<int64_t> sizes;
  request.general.matches(structure.ints, sizes, found.scalars);
  return found;
}

Family &observe(const StructureKey &structure, uint64_t salt, const SymbolicRequest *refused,
                const absl::Status &why) {
  Family &family = *recorder().families->of(structure, salt, /*add=*/true);
  family.observe(structure.ints);
  if (!refused)
    return family;
  family.refused = std::string(why.message());
  if (absl::IsOutOfRange(why)) {
    family.refuse_up_to_least(refused->general);
    return family;
  }
  if (++family.refusals < kAttempts || refused->general.sizes.empty())
    return family;
  for (uint32_t p = 0; p < refused->positions.size(); ++p)
    if (refused->positions[p].kind == IntPosition::Kind::kSize)
      family.size_positions.push_back(p);
  return family;
}

} // namespace weft::recorder
