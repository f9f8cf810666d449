// Cuts: claim a slice, find or compile its program, launch it, turn its outputs into leaves.
#include <chrono>

#include "compiler/pipeline/PassHooks.h"
#include "frontend/recorder/compile_slice.h"
#include "frontend/recorder/evaluation.h"
#include "frontend/recorder/find_program.h"
#include "frontend/recorder/launcher.h"
#include "frontend/recorder/slice.h"
#include "frontend/recorder/stability.h"
#include "frontend/recorder/trace.h"
#include "frontend/recorder/undo.h"
#include "weft/autograd.h"

namespace weft::recorder {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Threads that found a slice claimed, or its program being compiled, wait here for any claim to
// end.
std::mutex claims_mutex;
std::condition_variable claims_ended;
uint64_t claims_count = 0;

void end_claim() {
  {
    std::lock_guard<std::mutex> lock(claims_mutex);
    ++claims_count;
  }
  claims_ended.notify_all();
}

void wait_for_a_claim() {
  uint64_t seen;
  {
    std::lock_guard<std::mutex> lock(claims_mutex);
    seen = claims_count; // still under the recorder's lock: the claim that we met has not ended yet
  }
  RecorderMutex::Pause pause(recorder().mutex);
  std::unique_lock<std::mutex> lock(claims_mutex);
  claims_ended.wait(lock, [&] { return claims_count != seen; });
}

[[noreturn]] void raise(ErrorKind kind, const std::string &what, absl::Status status,
                        Location location) {
  throw Error(kind, what + ": " + std::string(status.message()), location);
}

// An error of a run stands where the op was recorded, if the message starts with that line:
// "train.cpp:31: ...".
[[noreturn]] void raise_run(absl::Status status, const Value *leaf, Location location) {
  std::string message(status.message());
  size_t end = message.find(": ");
  size_t colon = end == std::string::npos ? end : message.rfind(':', end - 1);
  std::string what =
      is_lost(leaf) ? "the value was lost when the program that computes it failed: "
                    : "a program failed, and what it writes in place is again what it was before: ";
  ErrorKind kind =
      status.code() == absl::StatusCode::kResourceExhausted ? ErrorKind::kMemory : ErrorKind::kRun;
  if (colon != std::string::npos && colon + 1 < end &&
      message.find_first_not_of("0123456789", colon + 1) == end) {
    location = CallerScope::resolve(location);
    throw Error(kind,
                what + message.substr(end + 2) + " (asked for at " + location.file_name() + ":" +
                    std::to_string(location.line()) + ")",
                message.substr(0, colon), std::atoi(message.c_str() + colon + 1));
  }
  throw Error(kind, what + message, location);
}

ErrorKind kind_of(const absl::Status &status, ErrorKind otherwise) {
  return status.code() == absl::StatusCode::kResourceExhausted ? ErrorKind::kMemory : otherwise;
}

// What the disk cache's key is made of: the slice's key with texts instead of this process's ids.
// structure: its structure's key, for a program that serves all slices that have it; else null.
std::string content_of(const Slice &slice, const StructureKey *structure) {
  const auto &key = structure ? structure->key : slice.key;
  IrState &ir = *recorder().ir;
  std::string content;
  llvm::DenseMap<uint32_t, uint32_t> local;
  auto number = [&](uint32_t x) {
    content.append(reinterpret_cast<const char *>(&x), sizeof x);
  };
  size_t at = 0;
  for (Node *node : slice.nodes) {
    auto [it, fresh] = local.try_emplace(key[at], local.size());
    number(it->second);
    if (fresh)
      content +=
          (structure ? ir.structure_text(key[at]) : ir.text(key[at]).name + ir.text(key[at]).text) +
          '\0';
    ++at;
    for (uint32_t i = 0; i < node->operands.size(); ++i)
      number(key[at++]);
  }
  for (Value *leaf : slice.leaves) {
    if (structure)
      number(key[at]);
    else
      content += describe(*leaf->type) + '\0';
    number(key[at + 1]);
    at += 2;
  }
  for (; at < key.size(); ++at)
    number(key[at]);
  return content;
}

ProgramContext context_of(const Config &config) {
  return {config.backend, config.dump_dir, compiler::registeredPassesGeneration(), config.prepare};
}

// Unclaims on every way out but success.
class ClaimGuard {
public:
  explicit ClaimGuard(Slice &slice) : slice_(&slice) {
    claim(slice);
  }
  ~ClaimGuard() {
    if (slice_) {
      unclaim(*slice_);
      end_claim();
    }
  }
  void succeed() {
    retire(*slice_);
    slice_ = nullptr;
    end_claim();
  }

private:
  Slice *slice_;
};

// Buffers for the run: scalars share one; the outputs' are made by the launch.
absl::Status bind(const Slice &slice, const FoundProgram &found, Launch &launch,
                  int64_t &output_bytes) {
  const runtime::Executable &executable = *found.program->executable;
  launch.executable = found.program->executable;
  int64_t scalars = static_cast<int64_t>(found.scalars.size());
  for (Value *leaf : slice.leaves)
    scalars += leaf->is_scalar;
  constexpr int64_t kScalarSlot = 8;
  std::shared_ptr<runtime::Buffer> block;
  if (scalars > 0) {
    auto made = memory()->allocate(scalars * kScalarSlot, "scalars");
    if (!made.ok())
      return made.status();
    block = *std::move(made);
  }
  launch.inputs.reserve(slice.leaves.size());
  int64_t slot = 0;
  for (Value *leaf : slice.leaves) {
    if (!leaf->is_scalar) {
      launch.inputs.push_back(leaf->cell->buffer);
      continue;
    }
    char *place = static_cast<char *>(block->data()) + kScalarSlot * slot++;
    std::memcpy(place, &leaf->bits, kScalarSlot);
    launch.inputs.push_back(runtime::Buffer::borrow(place, leaf->type->bytes, block));
  }
  for (int64_t value : found.scalars) {
    char *place = static_cast<char *>(block->data()) + kScalarSlot * slot++;
    std::memcpy(place, &value, kScalarSlot);
    launch.inputs.push_back(runtime::Buffer::borrow(
        place, executable.input_specs()[launch.inputs.size()].bytes, block));
  }
  const auto specs = executable.output_specs();
  launch.outputs.resize(specs.size());
  for (const runtime::OutputSpec &spec : specs)
    if (spec.donated_input < 0 && spec.alias_input < 0 && spec.alias_output < 0)
      output_bytes += spec.bytes;
  return absl::OkStatus();
}

// Gives the outputs their cells.
void assign(const Slice &slice, const CompiledProgram &program, const Launch &launch,
            const std::shared_ptr<EvaluationRecord> &record) {
  auto specs = program.executable->output_specs();
  for (size_t i = 0; i < slice.outputs.size(); ++i) {
    Value *output = slice.outputs[i];
    const runtime::OutputSpec &spec = specs[i];
    Cell *shared = nullptr;
    // A scalar argument's buffer belongs to the launch alone.
    bool is_scalar = spec.alias_input >= static_cast<int32_t>(slice.leaves.size());
    if (spec.alias_input >= 0 && !is_scalar)
      shared = slice.leaves[spec.alias_input]->cell;
    if (spec.alias_output >= 0)
      shared = slice.outputs[spec.alias_output]->cell;
    if (shared)
      ++shared->owners;
    output->cell = shared ? shared : new Cell{launch.outputs[i], 1, is_scalar};
    output->evaluation = record;
  }
}

// Why a slice is new, where it is because of a literal that was a constant in earlier programs and
// is an input of this one.
std::string literal_difference(const Slice &slice) {
  for (Node *node : slice.nodes)
    for (Value *operand : node->operands)
      if (operand->was_constant)
        return "literal: a second value at " + node->line->file + ":" +
               std::to_string(node->line->line) + " makes what was a constant an input (" +
               describe(*operand->type) + ")";
  return "";
}

// The program of a claimed slice, compiled where it is not known.
FoundProgram program_for(const Slice &slice, const EvaluateRequest &request, Evaluation &data,
                         bool may_be_symbolic) {
  Recorder &r = recorder();
  ProgramContext context = context_of(r.config);
  uint64_t salt = context.salt();
  if (auto program = r.cache->find(slice.key, salt)) {
    data.outcome = CacheOutcome::kMemoryHit;
    ++r.statistics.memory_hits;
    return {program, {}};
  }
  StructureKey structure = structure_key(slice);
  if (may_be_symbolic)
    if (auto found = find_symbolic(structure, salt, data))
      return *found;
  struct Compiling {
    ProgramCache &cache;
    const ProgramCache::Key &key;
    uint64_t salt;
    Compiling(ProgramCache &cache, const ProgramCache::Key &key, uint64_t salt)
        : cache(cache), key(key), salt(salt) {
      cache.begin_compile(key, salt);
    }
    ~Compiling() {
      cache.end_compile(key, salt);
    }
  } exact(*r.cache, slice.key, salt), family(*r.cache, structure.key, salt);
  data.difference = literal_difference(slice);
  if (data.difference.empty())
    data.difference = r.cache->difference(slice, context);
  CompileRequest compile{write_module(slice), content_of(slice, nullptr), r.config, nullptr};
  if (may_be_symbolic)
    if (auto request = symbolic_request(slice, structure, salt, data)) {
      request->content = content_of(slice, &structure);
      compile.symbolic = std::move(request);
    }
  absl::StatusOr<CompileOutcome> outcome = absl::UnknownError("not compiled");
  std::shared_ptr<const SymbolicRequest> refused;
  {
    RecorderMutex::Pause pause(r.mutex);
    outcome = compile_slice(compile);
    // A library takes larger sizes only: a narrower range may do.
    if (absl::IsOutOfRange(outcome.status()) && compile.symbolic) {
      auto narrower = std::make_shared<SymbolicRequest>(*compile.symbolic);
      if (narrower->general.raise_ranges()) {
        compile.symbolic = std::move(narrower);
        outcome = compile_slice(compile);
      }
    }
    if (!outcome.ok() && compile.symbolic) {
      data.not_symbolic = std::string(outcome.status().message());
      refused = std::exchange(compile.symbolic, nullptr);
      outcome = compile_slice(compile);
    }
  }
  if (!outcome.ok())
    raise(kind_of(outcome.status(), ErrorKind::kCompile),
          "the recorded ops do not compile; they stay as they are", outcome.status(),
          request.location);
  data.outcome = outcome->from;
  data.disk_cache = outcome->disk_cache;
  data.compile_ms = outcome->milliseconds;
  ++(outcome->from == CacheOutcome::kDiskHit ? r.statistics.disk_hits : r.statistics.compiles);
  r.statistics.corrupt_entries += outcome->corrupt;
  // Passes that were registered meanwhile may or may not have run: such a program serves this run
  // only.
  bool keep = context.passes == compiler::registeredPassesGeneration();
  if (compile.symbolic)
    return insert_symbolic(slice, structure, context, *compile.symbolic, outcome->program,
                           outcome->sized, keep, data);
  if (keep)
    r.cache->insert(slice.key, context, outcome->program, r.config);
  observe(structure, salt, refused.get(), data.not_symbolic);
  return {outcome->program, {}};
}

// Whether somebody compiles this program, or one that differs in ints only and may serve this slice
// as well.
bool being_compiled(const Slice &slice) {
  Recorder &r = recorder();
  if (!r.cache->is_compiling())
    return false;
  uint64_t salt = context_of(r.config).salt();
  return r.cache->is_compiling(slice.key, salt) ||
         r.cache->is_compiling(structure_key(slice).key, salt);
}

} // namespace

std::shared_ptr<CompiledProgram> find_program(Slice &slice, const EvaluateRequest &request,
                                              Evaluation &data) {
  while (being_compiled(slice))
    wait_for_a_claim();
  ClaimGuard claimed(slice);
  return program_for(slice, request, data, /*may_be_symbolic=*/false).program;
}

void describe_run(const Slice &slice, const CompiledProgram &program,
                  const EvaluateRequest &request, Evaluation &data) {
  data.reason = request.reason;
  Location line = CallerScope::resolve(request.location);
  data.file = line.file_name();
  data.line = static_cast<int>(line.line());
  data.ops = static_cast<int64_t>(slice.nodes.size());
  data.inputs = static_cast<int64_t>(slice.leaves.size());
  data.outputs = static_cast<int64_t>(slice.outputs.size());
  for (const runtime::OutputSpec &spec : program.executable->output_specs())
    data.donated += spec.donated_input >= 0;
  data.backend = recorder().config.backend;
  data.kernels = program.report->kernels;
  data.library_calls = program.report->libraryCalls;
  data.prepared_values = program.report->preparedValues;
  data.planned_peak_bytes = program.report->plan.arenaBytes;
  data.lower_bound_bytes = program.report->plan.liveBound;
}

void submit(std::span<Value *const> roots, const EvaluateRequest &request) {
  Recorder &r = recorder();
  if (Trace *trace = active_trace())
    refuse_evaluation(*trace, request);
  while (true) {
    auto start = Clock::now();
    Slice slice;
    if (!collect(roots, slice)) {
      wait_for_a_claim();
      continue;
    }
    if (std::vector<Value *> more = companions(slice, request.reason); !more.empty()) {
      more.insert(more.begin(), roots.begin(), roots.end());
      slice = Slice();
      if (!collect(more, slice)) {
        wait_for_a_claim();
        continue;
      }
    }
    if (slice.nodes.empty())
      return;
    for (Value *leaf : slice.leaves) {
      bool known = is_lost(leaf);
      absl::Status status = loss_of(leaf);
      if (status.ok())
        continue;
      ValueRef held(leaf);
      drop_writes(slice, /*all=*/!known);
      raise_run(status, leaf, request.location);
    }
    mark_stable(slice);
    if (being_compiled(slice)) {
      wait_for_a_claim();
      continue;
    }
    auto record = std::make_shared<EvaluationRecord>();
    Evaluation &data = record->data;
    ClaimGuard claimed(slice);
    FoundProgram found = program_for(slice, request, data, r.config.symbolic);
    const std::shared_ptr<CompiledProgram> &program = found.program;
    data.record_ms = since(start) - data.compile_ms;
    Launch launched;
    if (absl::Status status = bind(slice, found, launched, data.output_bytes); !status.ok())
      raise(kind_of(status, ErrorKind::kRun),
            "nothing was computed, and every tensor keeps its value", status, request.location);
    describe_run(slice, *program, request, data);
    data.number = ++r.statistics.evaluations;
    ++r.statistics.cuts[static_cast<int>(request.reason)];
    record->print = r.config.explain;
    record->report = program->report;
    prepare_undo(slice, *record);
    if (absl::Status status = run(launched, record); !status.ok())
      raise(kind_of(status, ErrorKind::kRun),
            "nothing was computed, and every tensor keeps its value", status, request.location);
    note_use(slice);
    assign(slice, *program, launched, record);
    settle_writes(slice, roots, record);
    keep_unsettled(record);
    keep(record);
    claimed.succeed();
    // Few ops are live after a cut: the time to move them to a new context.
    if (r.ir->uniqued() > r.config.context_bound)
      r.ir->renew();
    return;
  }
}

void check_leaf(Value *leaf, Location location) {
  if (absl::Status status = loss_of(leaf); !status.ok())
    raise_run(status, leaf, location);
}

const void *wait_for(Value *leaf, Location location) {
  if (leaf->is_scalar)
    return &leaf->bits;
  ValueRef held(leaf);
  if (std::shared_ptr<runtime::Buffer> buffer = leaf->cell->buffer; !buffer->is_written()) {
    RecorderMutex::Pause pause(recorder().mutex);
    buffer->wait().IgnoreError();
  }
  check_leaf(leaf, location);
  return leaf->is_scalar ? static_cast<const void *>(&leaf->bits) : leaf->cell->buffer->data();
}

void *make_writable(Value *leaf, Location location) {
  const void *old = wait_for(leaf, location);
  Cell *cell = leaf->cell;
  if (cell && cell->owners == 1 && !cell->borrowed) {
    std::shared_ptr<runtime::Buffer> buffer = cell->buffer;
    absl::Status status;
    {
      ValueRef held(leaf);
      RecorderMutex::Pause pause(recorder().mutex);
      status = buffer->wait_idle();
    }
    if (!status.ok())
      raise_run(status, leaf, location);
    buffer->changed();
    return buffer->data();
  }
  std::shared_ptr<runtime::Buffer> copy = allocate_buffer(leaf->type->bytes);
  std::memcpy(copy->data(), old, leaf->type->bytes);
  if (cell)
    release_cell(cell);
  leaf->cell = new Cell{copy, 1};
  leaf->is_scalar = false;
  return copy->data();
}

std::shared_ptr<runtime::Buffer> allocate_buffer(int64_t bytes) {
  auto made = memory()->allocate(bytes, "tensor");
  if (!made.ok())
    raise(ErrorKind::kMemory, "no memory for a tensor", made.status(), Session::location());
  return *std::move(made);
}

std::shared_ptr<runtime::Buffer> leaf_buffer(Value *leaf) {
  if (!leaf->is_scalar)
    return leaf->cell->buffer;
  std::shared_ptr<runtime::Buffer> buffer = allocate_buffer(leaf->type->bytes);
  std::memcpy(buffer->data(), &leaf->bits, static_cast<size_t>(leaf->type->bytes));
  return buffer;
}

void synchronize_all() {
  drain();
}

} // namespace weft::recorder
