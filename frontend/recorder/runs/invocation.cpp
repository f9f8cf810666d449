#include "frontend/recorder/runs/invocation.h"

#include <algorithm>
#include <optional>

#include "frontend/recorder/programs/backends.h"
#include "frontend/recorder/record/state.h"
#include "frontend/recorder/runs/undo.h"
#include "runtime/core/status.h"
#include "runtime/executor/device.h"

namespace weft::recorder {

namespace {

// Of a buffer of the device's that is written.
std::shared_ptr<runtime::Buffer> copy_of(const runtime::Buffer &buffer, uint8_t device) {
  if (runtime::device(device).is_host_memory())
    return buffer_of(buffer.data(), buffer.bytes(), device);
  std::vector<char> host(static_cast<size_t>(buffer.bytes()));
  if (absl::Status status =
          runtime::device(device).read(host.data(), buffer.data(), buffer.bytes());
      !status.ok())
    fail(ErrorKind::kRun, std::string(status.message()));
  return buffer_of(host.data(), buffer.bytes(), device);
}

} // namespace

Invocation::Invocation(std::shared_ptr<CompiledProgram> program, const Evaluation &figures,
                       bool checks, uint8_t device, std::optional<uint8_t> source,
                       std::shared_ptr<runtime::Executor> executor)
    : program_(std::move(program)), record_(std::make_shared<EvaluationRecord>()) {
  record_->data = figures;
  record_->may_fail = checks;
  launch_.device = source.value_or(device);
  launch_.result_device = device;
  launch_.executor = std::move(executor);
  launch_.executable = program_->executable;
  size_t inputs = launch_.executable->input_specs().size();
  launch_.inputs.reserve(inputs);
  leaves_.reserve(inputs);
  launch_.outputs.resize(launch_.executable->output_specs().size());
}

void Invocation::follow(std::vector<std::shared_ptr<const runtime::Event>> after,
                        std::shared_ptr<const runtime::Event> &end, bool have_written) {
  have_written_ = have_written;
  record_->may_fail = record_->may_fail || !after.empty();
  launch_.after = std::move(after);
  launch_.end = &end;
}

bool Invocation::is_a_result(size_t input) const {
  auto specs = launch_.executable->output_specs();
  return llvm::any_of(specs, [&](const runtime::OutputSpec &spec) {
    return spec.alias_input == static_cast<int32_t>(input);
  });
}

void Invocation::bind(Value *leaf, bool copies) {
  record_->may_fail = record_->may_fail || is_unsettled(leaf);
  if (leaf->evaluation && !leaf->evaluation->data.exchange.empty())
    record_->data.exchanges.push_back(leaf->evaluation->data.number);
  leaves_.emplace_back(leaf);
  if (leaf->is_scalar)
    scalars_.push_back({launch_.inputs.size(), leaf->bits, leaf->type->bytes});
  bool given = launch_.executable->input_specs()[launch_.inputs.size()].donatable;
  std::shared_ptr<runtime::Buffer> &input =
      launch_.inputs.emplace_back(leaf->is_scalar ? nullptr : leaf->cell->buffer);
  // A program may write what it is given: of memory that nobody may write it gets a copy. So does
  // one with a result that is its input: lent memory goes, and the result stays. Of what is lost
  // there is nothing to copy: the run will not begin.
  if (input && ((given && (input->is_constant() || (copies && input->error().ok()))) ||
                (leaf->cell->lent && is_a_result(launch_.inputs.size() - 1))))
    input = copy_of(*input, launch_.device);
}

// Whether only these handles know what the leaf's memory holds, and nothing goes back to it.
static bool is_sole(const Value &leaf, uint32_t handles) {
  return leaf.handles == handles && leaf.uses == 0 && leaf.cell->owners == 1 &&
         !leaf.cell->borrowed && !is_kept(*leaf.cell);
}

bool Invocation::must_wait(const Value &leaf, uint32_t handles) {
  return !leaf.is_scalar && !is_sole(leaf, handles) && !leaf.cell->buffer->is_written();
}

void Invocation::donate(Value *leaf, uint32_t handles) {
  bool copies = !leaf->is_scalar && !is_sole(*leaf, handles);
  bind(leaf);
  if (copies && launch_.inputs.back() == leaf->cell->buffer)
    launch_.inputs.back() = copy_of(*leaf->cell->buffer, launch_.device);
}

bool Invocation::reuse(size_t i, Value *leaf) {
  const runtime::OutputSpec &spec = launch_.executable->output_specs()[i];
  bool tied = spec.donated_input >= 0 || spec.alias_input >= 0 || spec.alias_output >= 0;
  const Cell *cell = leaf->cell;
  if (tied || launch_.outputs[i] || leaf->uses > 0 || cell->owners > 1 || cell->has_keepers() ||
      cell->borrowed || cell->buffer->bytes() != spec.bytes ||
      cell->buffer->memory() != runtime::device(launch_.result_device).memory())
    return false;
  launch_.outputs[i] = cell->buffer;
  return true;
}

void Invocation::bind_scalars(const std::vector<int64_t> &bits) {
  auto specs = launch_.executable->input_specs();
  for (int64_t each : bits) {
    scalars_.push_back(
        {launch_.inputs.size(), static_cast<uint64_t>(each), specs[launch_.inputs.size()].bytes});
    launch_.inputs.push_back(nullptr);
  }
}

// Scalars share one buffer.
absl::Status Invocation::bind_block() {
  constexpr int64_t kSlot = 8;
  if (scalars_.empty())
    return absl::OkStatus();
  runtime::Device &device = runtime::device(launch_.device);
  WEFT_ASSIGN_OR_RETURN(auto block,
                        device.memory()->allocate(std::ssize(scalars_) * kSlot, "scalars"));
  char *place = static_cast<char *>(block->data());
  for (const ScalarInput &scalar : scalars_) {
    WEFT_RETURN_IF_ERROR(device.write(place, &scalar.bits, kSlot));
    launch_.inputs[scalar.input] = runtime::Buffer::borrow(place, scalar.bytes, block);
    place += kSlot;
  }
  return absl::OkStatus();
}

void Invocation::account(bool is_evaluation) {
  Recorder &r = recorder();
  Evaluation &data = record_->data;
  data.number = is_evaluation ? ++r.statistics.evaluations : 0;
  data.backend = backend_of(r.config, launch_.result_device);
  data.device = device_text(launch_.result_device);
  std::ranges::sort(data.exchanges);
  data.exchanges.erase(std::unique(data.exchanges.begin(), data.exchanges.end()),
                       data.exchanges.end());
  data.donated = data.output_bytes = 0;
  for (const runtime::OutputSpec &spec : launch_.executable->output_specs()) {
    data.donated += spec.donated_input >= 0;
    if (spec.donated_input < 0 && spec.alias_input < 0 && spec.alias_output < 0)
      data.output_bytes += spec.bytes;
  }
  data.recomputations = program_->report->plan.recomputations;
  data.stored_bytes = program_->report->plan.storedBytes;
  data.lower_bound_bytes = program_->report->plan.liveBound + data.output_bytes;
  record_->print = is_evaluation && r.config.explain;
  record_->report = program_->report;
}

// After a run that did not start. A program of its own has written nothing, and an optimizer takes
// back what its step wrote, but not what the calls before it did: those stay recorded.
static const char *what_stays(CutReason reason, bool is_evaluation, bool have_written) {
  if (!is_evaluation)
    return "; the tensor's first value stays to be made: ";
  switch (reason) {
  case CutReason::kJit:
    return ", and every tensor keeps its value: ";
  case CutReason::kStep:
    if (have_written)
      return ": "; // submit_parts() says more
    return "; the step is taken back, with its parameters, moments and counts, and may be made "
           "again; what was recorded before it, running statistics and draws among it, is computed "
           "when it is asked for: ";
  default:
    return "; what was recorded is computed when it is asked for again: ";
  }
}

bool Invocation::launch(Attempt attempt, Location location, Guard guard, bool is_evaluation) {
  account(is_evaluation);
  absl::Status status;
  {
    // While a storage's memory is given away nobody may write the storage, which would go back to
    // that.
    auto inputs = launch_.executable->input_specs();
    bool gives_state = false;
    for (size_t i = 0; i < leaves_.size(); ++i)
      gives_state = gives_state || (inputs[i].donatable && leaves_[i]->cell &&
                                    leaves_[i]->cell->keeping_storages() > 0);
    std::optional<RecorderMutex::Pause> pause;
    if (guard == Guard::kClaim && !record_->may_fail && !gives_state)
      pause.emplace(recorder().mutex);
    status = bind_block();
    if (status.ok()) {
      absl::StatusOr<runtime::Executor::Started> started = start(launch_, record_);
      status = started.status();
      if (started.ok())
        started_ = *std::move(started);
    }
  }
  Recorder &r = recorder();
  if (!status.ok()) {
    r.statistics.evaluations -= is_evaluation;
    if (absl::IsResourceExhausted(status) && attempt == Attempt::kFirst)
      return false;
    uint8_t device = launch_.result_device;
    throw Error(kind_of(status, ErrorKind::kRun),
                "nothing was computed" + (device == 0 ? "" : " on " + device_text(device)) +
                    what_stays(record_->data.reason, is_evaluation, have_written_) +
                    std::string(status.message()),
                location);
  }
  cells_.resize(launch_.outputs.size());
  if (!is_evaluation)
    return true;
  ++r.statistics.cuts[static_cast<int>(record_->data.reason)];
  for (const ValueRef &leaf : leaves_)
    if (leaf->cell)
      leaf->cell->used_contents = leaf->cell->buffer->contents();
  keep_unsettled(record_);
  keep(record_);
  return true;
}

void Invocation::publish(size_t i, Value *value) {
  const runtime::OutputSpec &spec = launch_.executable->output_specs()[i];
  Cell *shared = nullptr;
  bool of_launch = false; // the memory is a scalar's, and goes with the launch
  if (spec.alias_output >= 0) {
    shared = cells_[spec.alias_output];
  } else if (spec.alias_input >= 0) {
    size_t input = static_cast<size_t>(spec.alias_input);
    Value *leaf = input < leaves_.size() ? leaves_[input].get() : nullptr;
    of_launch = !leaf || leaf->is_scalar;
    if (leaf && leaf->cell && leaf->cell->buffer == launch_.outputs[i])
      shared = leaf->cell;
  }
  if (shared) {
    ++shared->owners;
    value->cell = shared;
  } else {
    value->cell = new Cell{.buffer = launch_.outputs[i], .owners = 1, .borrowed = of_launch};
  }
  value->evaluation = record_;
  cells_[i] = value->cell;
}

void Invocation::finish(bool waits) {
  // Before the run, after which they have left the processor's caches; it holds their memory.
  leaves_.clear();
  RecorderMutex::Pause pause(recorder().mutex);
  started_.finish(waits);
  launch_ = Launch();
}

} // namespace weft::recorder
