#include "frontend/recorder/runs/invocation.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "frontend/recorder/programs/backends.h"
#include "frontend/recorder/record/state.h"
#include "frontend/recorder/runs/executors.h"
#include "frontend/recorder/runs/undo.h"
#include "runtime/core/status.h"
#include "runtime/executable/forwarding_executable.h"
#include "runtime/executable/run_failure.h"
#include "runtime/executable/take_resources.h"
#include "runtime/executor/device.h"
#include "runtime/profile/profile.h"
#include "llvm/Support/SaveAndRestore.h"

namespace weft::recorder {

namespace {

// Tells the record what the run takes, how long it took and how it ended.
class Observed : public runtime::ForwardingExecutable<> {
public:
  Observed(std::shared_ptr<runtime::Executable> executable,
           std::shared_ptr<EvaluationRecord> record)
      : ForwardingExecutable(std::move(executable)), record_(std::move(record)) {}

  ~Observed() override {
    record_->end();
  }

  absl::StatusOr<std::unique_ptr<runtime::RunResources>>
  acquire(const runtime::RunContext &context) override {
    auto resources = runtime::take_resources(target(), context, record_->data.backend);
    if (resources.ok())
      record_->data.planned_peak_bytes = (*resources)->bytes + record_->data.output_bytes;
    return resources;
  }

  absl::Status run(const runtime::RunContext &context, runtime::RunResources &resources,
                   std::span<runtime::Buffer *const> inputs,
                   std::span<runtime::Buffer *const> outputs) override {
    auto start = std::chrono::steady_clock::now();
    runtime::profile::Span span([this] { return label(); },
                                static_cast<int64_t>(record_->data.number));
    absl::Status status = target().run(context, resources, inputs, outputs);
    if (auto failure = runtime::located(status))
      for (const auto &[from, to] : record_->moved_places)
        if (from == failure->file + ":" + std::to_string(failure->line)) {
          status = runtime::moved_to(status, to);
          break;
        }
    // What writes none of its inputs keeps them all, whatever it fails of.
    if (!status.ok() && std::ranges::none_of(input_specs(), &runtime::InputSpec::donatable))
      status = runtime::with_kept_inputs(std::move(status));
    if (!status.ok())
      status = runtime::as_of_thread(std::move(status), record_->thread);
    record_->finish(start, status, resources.prepared);
    return status;
  }

private:
  runtime::profile::Label label() const {
    const Evaluation &data = record_->data;
    std::string line = data.file + ":" + std::to_string(data.line);
    runtime::profile::Args args;
    args.add("asked for at", line)
        .add("ops", data.ops)
        .add("kernels", data.kernels)
        .add("library calls", data.library_calls);
    std::string name = std::string(weft::name(data.reason)) + " " + line;
    return {runtime::profile::Kind::kEvaluation,
            data.exchange.empty() ? name : data.exchange,
            args.take(),
            "evaluation",
            0,
            0};
  }

  std::shared_ptr<EvaluationRecord> record_;
};

// Of a buffer of the device's that is written.
std::shared_ptr<runtime::Buffer> copy_of(const runtime::Buffer &buffer, uint8_t device) {
  if (runtime::device(device).is_host_memory())
    return buffer_of(buffer.data(), buffer.bytes(), device);
  std::vector<char> host(static_cast<size_t>(buffer.bytes()));
  check(runtime::device(device).read(host.data(), buffer.data(), buffer.bytes()), ErrorKind::kRun);
  return buffer_of(host.data(), buffer.bytes(), device);
}

} // namespace

Invocation::Invocation(const FoundProgram &found)
    : program_(found.program), executable_(*program_->executable),
      record_(std::make_shared<EvaluationRecord>()), source_(found.device), device_(found.device),
      executor_(found.executor), inputs_(executable_.input_specs().size()),
      outputs_(executable_.output_specs().size()) {
  record_->data = found.figures;
  record_->may_fail = found.checks;
  record_->moved_places = found.moved_places;
  leaves_.reserve(inputs_.size() - found.scalars.size());
  size_t input = inputs_.size() - found.scalars.size();
  for (int64_t bits : found.scalars) {
    scalars_.push_back(
        {input, static_cast<uint64_t>(bits), executable_.input_specs()[input].bytes});
    ++input;
  }
}

void Invocation::follow(std::vector<std::shared_ptr<const runtime::Event>> after,
                        std::shared_ptr<const runtime::Event> &end, bool have_written) {
  have_written_ = have_written;
  record_->may_fail = record_->may_fail || !after.empty();
  after_ = std::move(after);
  end_ = &end;
}

bool Invocation::is_a_result(size_t input) const {
  return llvm::any_of(executable_.output_specs(), [&](const runtime::OutputSpec &spec) {
    return spec.alias_input == static_cast<int32_t>(input);
  });
}

void Invocation::bind(Value *leaf, bool copies) {
  record_->may_fail = record_->may_fail || is_unsettled(leaf);
  if (leaf->evaluation && !leaf->evaluation->data.exchange.empty())
    record_->data.exchanges.push_back(leaf->evaluation->data.number);
  if (executor_) // of an exchange, which may lead to another device
    source_ = leaf->type->device;
  size_t i = leaves_.size();
  leaves_.emplace_back(leaf);
  if (leaf->is_scalar) {
    scalars_.push_back({i, leaf->bits, leaf->type->bytes});
    return;
  }
  // A program may write what it is given: of memory that nobody may write it gets a copy. So does
  // one with a result that is its input: lent memory goes, and the result stays. Of what is lost
  // there is nothing to copy: the run will not begin.
  std::shared_ptr<runtime::Buffer> &input = inputs_[i] = leaf->cell->buffer;
  bool given = executable_.input_specs()[i].donatable;
  if (input && ((given && (input->is_constant() || (copies && input->error().ok()))) ||
                (leaf->cell->lent && is_a_result(i))))
    input = copy_of(*input, source_);
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
  std::shared_ptr<runtime::Buffer> &input = inputs_[leaves_.size() - 1];
  if (copies && input == leaf->cell->buffer)
    input = copy_of(*input, source_);
}

bool Invocation::reuse(size_t i, Value *leaf) {
  const runtime::OutputSpec &spec = executable_.output_specs()[i];
  bool tied = spec.donated_input >= 0 || spec.alias_input >= 0 || spec.alias_output >= 0;
  const Cell *cell = leaf->cell;
  if (tied || outputs_[i] || leaf->uses > 0 || cell->owners > 1 || cell->has_keepers() ||
      cell->borrowed || cell->buffer->bytes() != spec.bytes ||
      cell->buffer->memory() != runtime::device(device_).memory())
    return false;
  outputs_[i] = cell->buffer;
  return true;
}

// Scalars share one buffer.
absl::Status Invocation::bind_block() {
  constexpr int64_t kSlot = 8;
  if (scalars_.empty())
    return absl::OkStatus();
  runtime::Device &device = runtime::device(source_);
  WEFT_ASSIGN_OR_RETURN(auto block,
                        device.memory()->allocate(std::ssize(scalars_) * kSlot, "scalars"));
  char *place = static_cast<char *>(block->data());
  for (const ScalarInput &scalar : scalars_) {
    WEFT_RETURN_IF_ERROR(device.write(place, &scalar.bits, kSlot));
    inputs_[scalar.input] = runtime::Buffer::borrow(place, scalar.bytes, block);
    place += kSlot;
  }
  return absl::OkStatus();
}

void Invocation::account(bool is_evaluation) {
  Recorder &r = recorder();
  Evaluation &data = record_->data;
  data.number = is_evaluation ? ++r.statistics.evaluations : 0;
  data.backend = backend_of(r.config, device_);
  data.device = device_text(device_);
  std::ranges::sort(data.exchanges);
  data.exchanges.erase(std::unique(data.exchanges.begin(), data.exchanges.end()),
                       data.exchanges.end());
  data.donated = data.output_bytes = 0;
  for (const runtime::OutputSpec &spec : executable_.output_specs()) {
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

absl::Status Invocation::start() {
  WEFT_RETURN_IF_ERROR(bind_block());
  runtime::AskingRun asks; // who traces memory is told what it is for
  llvm::SaveAndRestore asking(runtime::asking.run);
  if (runtime::asking_is_traced > 0) {
    asks = {record_->data.file + ":" + std::to_string(record_->data.line), origins_};
    runtime::asking.run = &asks;
  }
  std::shared_ptr<runtime::Memory> results;
  if (executor_ || rank_device >= 0) // another executor's memory is not the device's
    results = runtime::device(device_).memory();
  runtime::Executor &given = executor_ ? *executor_ : runtime::device(source_).executor();
  WEFT_ASSIGN_OR_RETURN(
      started_, executor_for(given).start(std::make_shared<Observed>(program_->executable, record_),
                                          std::move(inputs_), outputs_, std::move(after_), end_,
                                          results.get()));
  return absl::OkStatus();
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
    auto inputs = executable_.input_specs();
    bool gives_state = false;
    for (size_t i = 0; i < leaves_.size(); ++i)
      gives_state = gives_state || (inputs[i].donatable && leaves_[i]->cell &&
                                    leaves_[i]->cell->keeping_storages() > 0);
    std::optional<RecorderMutex::Pause> pause;
    if (guard == Guard::kClaim && !record_->may_fail && !gives_state)
      pause.emplace(recorder().mutex);
    status = start();
  }
  Recorder &r = recorder();
  if (!status.ok()) {
    r.statistics.evaluations -= is_evaluation;
    if (absl::IsResourceExhausted(status) && attempt == Attempt::kFirst)
      return false;
    uint8_t device = device_;
    throw Error(kind_of(status, ErrorKind::kRun),
                "nothing was computed" + (device == 0 ? "" : " on " + device_text(device)) +
                    what_stays(record_->data.reason, is_evaluation, have_written_) +
                    std::string(status.message()),
                location);
  }
  cells_.resize(outputs_.size());
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
  const runtime::OutputSpec &spec = executable_.output_specs()[i];
  Cell *shared = nullptr;
  bool of_launch = false; // the memory is a scalar's, and goes with the launch
  if (spec.alias_output >= 0) {
    shared = cells_[spec.alias_output];
  } else if (spec.alias_input >= 0) {
    size_t input = static_cast<size_t>(spec.alias_input);
    Value *leaf = input < leaves_.size() ? leaves_[input].get() : nullptr;
    of_launch = !leaf || leaf->is_scalar;
    if (leaf && leaf->cell && leaf->cell->buffer == outputs_[i])
      shared = leaf->cell;
  }
  if (shared) {
    ++shared->owners;
    value->cell = shared;
  } else {
    value->cell = new Cell{.buffer = outputs_[i], .owners = 1, .borrowed = of_launch};
  }
  value->evaluation = record_;
  cells_[i] = value->cell;
}

void Invocation::finish(bool waits) {
  // Before the run, after which they have left the processor's caches; it holds their memory.
  leaves_.clear();
  RecorderMutex::Pause pause(recorder().mutex);
  started_.finish(waits);
  outputs_.clear();
  executor_ = nullptr; // the last to have it waits for its runs
}

} // namespace weft::recorder
