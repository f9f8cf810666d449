// Programs for many ints: which of them serves a slice, and what the next one should leave open.
#include "frontend/recorder/families.h"
#include "frontend/recorder/find_program.h"

namespace weft::recorder {
namespace {

// After so many programs that could not be made symbolic no further attempt is made in a family: each costs up to a compilation.
constexpr int kAttempts = 2;
// Named in explain's line; the others are counted.
constexpr size_t kDescribed = 8;

std::string scalar_name(size_t i) { return "a" + std::to_string(i); }

std::string values_of(const Generalization &general, const std::vector<int64_t> &sizes, const std::vector<int64_t> &scalars) {
  std::string text;
  size_t more = 0, written = 0;
  auto add = [&](const std::string &item) {
    if (written++ < kDescribed) text += (text.empty() ? "" : ", ") + item;
    else ++more;
  };
  for (size_t i = 0; i < sizes.size(); ++i)
    if (general.sizes[i].factors.empty()) add(general.sizes[i].name + "=" + std::to_string(sizes[i]));
  for (size_t i = 0; i < scalars.size(); ++i)
    if (general.scalars[i].kind == IntPosition::Kind::kAttribute) add(scalar_name(i) + "=" + std::to_string(scalars[i]));
    else add(scalar_name(i) + " (a constant)");
  return more ? text + ", " + std::to_string(more) + " more" : text;
}

std::string description(const Slice &slice, const SymbolicRequest &request) {
  const Generalization &general = request.general;
  std::string text;
  size_t more = 0, written = 0;
  auto add = [&](const std::string &item) {
    if (written++ < kDescribed) text += (text.empty() ? "" : ", ") + item;
    else ++more;
  };
  for (const Generalization::Size &size : general.sizes)
    if (size.factors.empty())
      add(size.name + " in [" + std::to_string(size.low) + ", " + std::to_string(size.high) + "] (" +
          describe(slice, request.positions[size.position]) + ")");
  for (size_t i = 0; i < general.scalars.size(); ++i)
    add(scalar_name(i) + " (" + describe(slice, request.positions[general.scalars[i].position]) + ")");
  return more ? text + ", " + std::to_string(more) + " more" : text;
}

} // namespace

std::optional<FoundProgram> find_symbolic(const StructureKey &structure, uint64_t salt, Evaluation &data) {
  Recorder &r = recorder();
  Family *family = r.families->find(structure.key, salt);
  if (!family) return std::nullopt;
  std::vector<int64_t> sizes, scalars;
  for (size_t i = 0; i < family->programs.size();) {
    SymbolicProgram &known = family->programs[i];
    if (!known.general.matches(structure.ints, sizes, scalars)) {
      ++i;
      continue;
    }
    std::shared_ptr<CompiledProgram> program = r.cache->find(known.key, salt);
    if (!program) { // dropped
      family->programs.erase(family->programs.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    data.outcome = CacheOutcome::kMemoryHit;
    data.symbolic = values_of(known.general, sizes, scalars);
    ++r.statistics.memory_hits;
    ++r.statistics.symbolic_hits;
    return FoundProgram{std::move(program), std::move(scalars)};
  }
  return std::nullopt;
}

std::shared_ptr<const SymbolicRequest> symbolic_request(const Slice &slice, const StructureKey &structure, uint64_t salt,
                                                        Evaluation &data) {
  Family *family = recorder().families->find(structure.key, salt);
  if (!family || family->observations.empty()) return nullptr;
  if (family->refusals >= kAttempts) {
    data.not_symbolic = family->refused;
    return nullptr;
  }
  auto request = std::make_shared<SymbolicRequest>();
  request->positions = int_positions(slice);
  std::vector<const std::vector<int64_t> *> observations;
  for (const std::vector<int64_t> &ints : family->observations) observations.push_back(&ints);
  observations.push_back(&structure.ints);
  if (!generalize(observations, request->positions, request->general, data.not_symbolic)) return nullptr;
  return request;
}

FoundProgram insert_symbolic(const Slice &slice, const StructureKey &structure, const ProgramContext &context,
                             const SymbolicRequest &request, std::shared_ptr<CompiledProgram> program, bool keep, Evaluation &data) {
  Recorder &r = recorder();
  observe(structure, context.salt(), "");
  if (keep) {
    Family &family = *r.families->find(structure.key, context.salt());
    family.programs.push_front({request.general, r.families->next_key()});
    r.cache->insert(family.programs.front().key, context, program, r.config, /*symbolic=*/true);
  }
  data.symbolic = description(slice, request);
  FoundProgram found{std::move(program), {}};
  std::vector<int64_t> sizes;
  request.general.matches(structure.ints, sizes, found.scalars);
  return found;
}

void observe(const StructureKey &structure, uint64_t salt, const std::string &refused) {
  Families &families = *recorder().families;
  Family *family = families.find(structure.key, salt);
  if (!family) family = &families.add(structure.key, salt);
  family->observe(structure.ints);
  if (refused.empty()) return;
  family->refused = refused;
  ++family->refusals;
}

} // namespace weft::recorder
