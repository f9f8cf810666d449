#include "frontend/recorder/programs/find_program.h"

#include "compiler/pipeline/PassHooks.h"
#include "frontend/recorder/programs/backends.h"
#include "runtime/profile/profile.h"

namespace weft::recorder {
namespace {

// Without the device: programs on disk serve all devices that their backend compiles for.
std::string text_of(const TypeInfo &type) {
  return std::string(name(type.dtype)) + " " + to_string(type.dims);
}

// What the disk cache's key is made of: the slice's key with texts instead of this process's ids.
// structure: its structure's key, for a program that serves all slices that have it; else null.
std::string content_of(const Slice &slice, const StructureKey *structure) {
  const ProgramKey &key = structure ? structure->key : slice.key;
  std::string content;
  llvm::DenseMap<uint32_t, uint32_t> local;
  auto number = [&](uint32_t x) {
    content.append(reinterpret_cast<const char *>(&x), sizeof x);
  };
  // The counts first: without them a leaf of a structure could pass for an op.
  number(static_cast<uint32_t>(slice.nodes.size()));
  number(static_cast<uint32_t>(slice.leaves.size()));
  number(static_cast<uint32_t>(key.outputs.size()));
  size_t at = 0;
  for (Node *node : slice.nodes) {
    auto [it, fresh] = local.try_emplace(key.code[at], local.size());
    number(it->second);
    if (fresh)
      content +=
          (structure ? node->signature->text->structure->text : node->signature->text->text) + '\0';
    ++at;
    for (uint32_t i = 0; i < node->operands.size(); ++i)
      number(key.code[at++]);
  }
  while (at < key.code.size()) // values that a structure's ops are compiled for
    number(key.code[at++]);
  for (size_t i = 0; i < slice.leaves.size(); ++i) {
    const ProgramKey::Leaf &leaf = key.leaves[i];
    if (structure)
      number(leaf.type);
    else
      content += text_of(*slice.leaves[i]->type) + '\0';
    number(leaf.donatable | slice.stable[i] << 1 | leaf.kept << 2);
  }
  for (uint32_t output : key.outputs)
    number(output);
  // A trace names lines: those of this source, not of the one whose program lies on disk.
  if (runtime::profile::on())
    for (const Node *node : slice.nodes)
      content += node->line->place() + '\0';
  return content;
}

// Why a slice is new, where it is because of a literal that was a constant in earlier programs and
// is an input of this one.
std::string literal_difference(const Slice &slice) {
  for (Node *node : slice.nodes)
    for (Value *operand : node->operands)
      if (operand->was_constant)
        return "literal: a second value at " + node->line->place() +
               " makes what was a constant an input (" + describe(*operand->type) + ")";
  return "";
}

// Whether one program may serve other sizes as well.
bool may_be_symbolic(const Slice &slice) {
  const Config &config = recorder().config;
  bool one_size = may_use_files(config) && host_reads(slice.device); // what waits in files has one
  return config.symbolic && !one_size;
}

// After a library took some sizes of the range and not others: the program for a narrower one, or
// the refusal. An attempt that is refused ends with the claims.
absl::StatusOr<CompileOutcome> compile_narrower(CompileRequest &compile, absl::Status refusal) {
  absl::StatusOr<CompileOutcome> outcome = std::move(refusal);
  Generalization &asked = compile.symbolic->general, general = asked;
  auto attempt = [&] {
    asked = general;
    outcome = compile_slice(compile);
    return !absl::IsOutOfRange(outcome.status());
  };
  while (general.raise_ranges())
    if (attempt())
      return outcome;
  Generalization raised = asked;
  for (std::pair<int64_t, int64_t> range : general.ranges_around()) {
    general.set_range(range);
    if (attempt())
      return outcome;
  }
  asked = std::move(raised);
  return outcome;
}

void find_or_compile(Slice &slice, Location location, FoundProgram &found) {
  Recorder &r = recorder();
  Evaluation &data = found.figures;
  ProgramContext context(r.config, slice.device);
  slice.key.salt = context.salt();
  auto hit = [&] {
    data.outcome = CacheOutcome::kMemoryHit;
    ++r.statistics.memory_hits;
  };
  auto [known, values, enough] = program_cache().find(slice.key, slice);
  if (known) {
    found.program = known->program;
    return hit();
  }
  StructureKey structure = structure_key(slice);
  bool serves_sizes = may_be_symbolic(slice);
  if (serves_sizes && find_symbolic(structure, found, enough))
    return hit();
  ProgramCache::Compiling exact(program_cache(), slice.key), family(program_cache(), structure.key);
  data.difference = literal_difference(slice);
  if (data.difference.empty())
    data.difference = program_cache().difference(slice, context);
  if (enough)
    slice.stable.reset();
  CompileRequest compile{write_module(slice), content_of(slice, nullptr),
                         config_for(r.config, slice.device)};
  if (slice.checks)
    compile.check_places = check_places(slice);
  if (serves_sizes)
    if (auto request = symbolic_request(structure, data)) {
      request->content = content_of(slice, &structure);
      compile.symbolic = std::move(request);
    }
  absl::StatusOr<CompileOutcome> outcome = absl::UnknownError("not compiled");
  std::optional<SymbolicRequest> refused;
  absl::Status why;
  {
    RecorderMutex::Pause pause(r.mutex);
    outcome = compile_slice(compile);
    if (absl::IsOutOfRange(outcome.status()) && compile.symbolic)
      outcome = compile_narrower(compile, outcome.status());
    if (!outcome.ok() && compile.symbolic) {
      why = outcome.status();
      data.not_symbolic = std::string(why.message());
      refused = std::exchange(compile.symbolic, std::nullopt);
      outcome = compile_slice(compile);
    }
  }
  if (!outcome.ok())
    throw Error(kind_of(outcome.status(), ErrorKind::kCompile),
                "the recorded ops do not compile; they stay as they are: " +
                    std::string(outcome.status().message()),
                location);
  account(*outcome, data);
  // Passes and the like that were registered meanwhile may or may not have run: such a program
  // serves this run only.
  bool keep = context.registrations == compiler::registrationsGeneration();
  if (compile.symbolic)
    return insert_symbolic(structure, context, *compile.symbolic, *outcome, keep, found);
  if (keep)
    program_cache().insert({hold_key(slice), context, outcome->program, slice.stable});
  observe(structure, refused, why);
  found.program = outcome->program;
}

// A program that was compiled of another slice has that one's lines.
MovedPlaces moved_places(const Slice &slice, const CompiledProgram &program) {
  MovedPlaces moved;
  if (!slice.checks)
    return moved;
  std::vector<std::string> places = check_places(slice);
  for (size_t i = 0; i < std::min(places.size(), program.check_places.size()); ++i)
    if (places[i] != program.check_places[i])
      moved.emplace_back(program.check_places[i], std::move(places[i]));
  return moved;
}

} // namespace

std::vector<std::string> check_places(const Slice &slice) {
  std::vector<std::string> places;
  for (const Node *node : slice.nodes)
    if (node->signature->checks)
      places.push_back(node->line->place());
  return places;
}

FoundProgram find_program(Slice &slice, const EvaluateRequest &request) {
  runtime::profile::Span span(runtime::profile::Kind::kFind, "find program");
  FoundProgram found;
  Evaluation &figures = found.figures;
  describe_request(request, figures);
  find_or_compile(slice, request.location, found);
  found.moved_places = moved_places(slice, *found.program);
  found.checks = slice.checks;
  found.device = slice.device;
  describe_program(*found.program, figures);
  figures.ops = std::ssize(slice.nodes);
  figures.inputs = std::ssize(slice.leaves);
  figures.outputs = std::ssize(slice.outputs);
  figures.temporaries = std::ssize(slice.temporaries);
  figures.notes = checkpoint_notes(slice);
  return found;
}

void count(const CompileOutcome &outcome) {
  Statistics &statistics = recorder().statistics;
  ++(outcome.from == CacheOutcome::kDiskHit ? statistics.disk_hits : statistics.compiles);
  statistics.corrupt_entries += outcome.corrupt;
}

void account(const CompileOutcome &outcome, Evaluation &figures) {
  count(outcome);
  figures.outcome = outcome.from;
  figures.disk_cache = outcome.disk_cache;
  figures.compile_ms = outcome.milliseconds;
}

void describe_program(const CompiledProgram &program, Evaluation &figures) {
  figures.kernels = program.report->kernels;
  figures.library_calls = program.report->libraryCalls;
  figures.prepared_values = program.report->preparedValues;
}

ErrorKind kind_of(const absl::Status &status, ErrorKind otherwise) {
  return status.code() == absl::StatusCode::kResourceExhausted ? ErrorKind::kMemory : otherwise;
}

bool being_compiled(Slice &slice) {
  if (!program_cache().is_compiling())
    return false;
  slice.key.salt = ProgramContext(recorder().config, slice.device).salt();
  return program_cache().is_compiling(slice.key) ||
         program_cache().is_compiling(structure_key(slice).key);
}

} // namespace weft::recorder
