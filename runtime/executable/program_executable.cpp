#include "runtime/executable/program_executable.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"
#include "runtime/executable/index_check.h"
#include "runtime/executable/profile_labels.h"
#include "runtime/executable/program_resources.h"
#include "runtime/executable/run_failure.h"
#include "runtime/memory/arena_pool.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/profile/profile.h"
#include "runtime/threading/parallel_for.h"

namespace weft::runtime {
namespace {

// One launch on the threads of the team.
struct LaunchCall {
  weft_kernel kernel;
  void *const *buffers;
  char *scratch;
  int64_t scratch_stride;
  const int64_t *ints; // the count of all ranges, and what else the kernel is told
};

int32_t run_range(void *data, int thread, int64_t begin, int64_t end) {
  const LaunchCall &call = *static_cast<const LaunchCall *>(data);
  weft_kernel_env env{sizeof(weft_kernel_env), static_cast<uint32_t>(thread),
                      call.scratch + thread * call.scratch_stride};
  return call.kernel(&env, call.buffers, call.ints, nullptr, begin, end);
}

void fill(char *target, uint64_t pattern, int width, int64_t bytes) {
  if (width == 1) {
    std::memset(target, static_cast<int>(pattern & 0xff), static_cast<size_t>(bytes));
    return;
  }
  // Doubling what is written keeps each copy long. The first copy is one pattern.
  std::memcpy(target, &pattern, static_cast<size_t>(std::min<int64_t>(width, bytes)));
  for (int64_t done = width; done < bytes; done *= 2)
    std::memcpy(target + done, target, static_cast<size_t>(std::min(done, bytes - done)));
}

} // namespace

ProgramExecutable::~ProgramExecutable() = default;

absl::StatusOr<std::shared_ptr<ProgramExecutable>>
ProgramExecutable::create(Program program, const KernelResolver &kernels,
                          const LibraryResolver &libraries, std::shared_ptr<Memory> memory,
                          std::shared_ptr<const void> code, const ProgramExecutable *other_sizes) {
  WEFT_RETURN_IF_ERROR(validate(program));
  std::shared_ptr<ProgramExecutable> executable(new ProgramExecutable());
  executable->program_ = std::move(program);
  executable->code_ = std::move(code);
  WEFT_RETURN_IF_ERROR(executable->build(kernels, libraries));
  std::vector<std::byte> &constants = executable->program_.constants;
  if (!constants.empty()) {
    auto allocated = memory->allocate(static_cast<int64_t>(constants.size()), "constants");
    // Whatever the allocator says, the program is as it should be.
    if (!allocated.ok())
      return absl::ResourceExhaustedError(allocated.status().message());
    std::shared_ptr<Buffer> buffer = *std::move(allocated);
    std::memcpy(buffer->data(), constants.data(), constants.size());
    executable->constants_ = std::move(buffer);
    std::vector<std::byte>().swap(constants);
  }
  WEFT_RETURN_IF_ERROR(
      executable->build_prepare(kernels, libraries, memory, executable->code_, other_sizes));
  if (const auto &prepare = executable->prepare_.executable)
    executable->serial_with_one_thread_ &= prepare->serial_with_one_thread_;
  if (int64_t bytes = executable->program_.state_bytes; bytes > 0) {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, memory->allocate(bytes, "program state"));
    std::memset(buffer->data(), 0, static_cast<size_t>(bytes));
    executable->state_ = std::move(buffer);
  }
  return executable;
}

void ProgramExecutable::add_operand(int32_t buffer, int64_t offset) {
  const BufferEntry &entry = program_.buffers[buffer];
  int32_t base = kArenaBase;
  switch (entry.kind) {
  case BufferKind::kArena:
    base = kArenaBase;
    break;
  case BufferKind::kConstant:
    base = kConstantBase;
    break;
  case BufferKind::kState:
    base = kStateBase;
    break;
  case BufferKind::kInput:
    base = kFirstInputBase + entry.index;
    break;
  case BufferKind::kOutput:
    base = kFirstInputBase + static_cast<int32_t>(program_.inputs.size()) + entry.index;
    break;
  case BufferKind::kPrepared:
    base = kFirstInputBase +
           static_cast<int32_t>(program_.inputs.size() + program_.outputs.size()) + entry.index;
    break;
  }
  operands_.push_back({base, entry.offset + offset});
}

absl::Status ProgramExecutable::build(const KernelResolver &kernels,
                                      const LibraryResolver &libraries) {
  std::vector<weft_kernel> resolved(program_.symbols.size());
  for (size_t i = 0; i < resolved.size(); ++i) {
    resolved[i] = kernels ? kernels(program_.symbols[i]) : nullptr;
    if (resolved[i] == nullptr)
      return absl::NotFoundError(
          absl::StrCat("no kernel '", program_.symbols[i], "' beside the program"));
  }
  steps_.reserve(program_.instructions.size());
  for (const Instruction &instruction : program_.instructions) {
    Step step{};
    step.first_operand = static_cast<int32_t>(operands_.size());
    if (const Launch *launch = std::get_if<Launch>(&instruction)) {
      step.op = launch->serial || launch->count <= launch->grain ? Op::kSerialLaunch
                                                                 : Op::kParallelLaunch;
      step.kernel = resolved[launch->kernel];
      step.finish = launch->finish == -1 ? nullptr : resolved[launch->finish];
      step.count = launch->count;
      if (!launch->sizes.empty()) {
        std::vector<int64_t> &ints = ints_.emplace_back(1, launch->count);
        ints.insert(ints.end(), launch->sizes.begin(), launch->sizes.end());
        step.ints = ints.data();
      }
      step.grain = launch->grain;
      step.location = launch->location;
      step.launch = launch;
      for (int32_t operand : launch->operands) {
        add_operand(operand);
        work_bytes_ += program_.buffers[operand].bytes;
      }
      if (launch->partials != -1)
        add_operand(launch->partials);
    } else if (const LibraryCall *call = std::get_if<LibraryCall>(&instruction)) {
      const LibraryEntry *entry = libraries ? libraries(call->entry) : nullptr;
      if (entry == nullptr)
        return absl::NotFoundError(
            absl::StrCat("no library entry '", call->entry, "' in this build"));
      step.op = Op::kLibraryCall;
      step.library_call = static_cast<int32_t>(library_calls_.size());
      step.location = call->location;
      library_calls_.push_back({entry, call, static_cast<int32_t>(steps_.size())});
      for (const TensorRef &operand : call->operands) {
        add_operand(operand.buffer, operand.offset);
        work_bytes_ += program_.buffers[operand.buffer].bytes;
      }
      step.count = -1;
      if (call->scratch != -1) {
        step.count = program_.buffers[call->scratch].bytes;
        add_operand(call->scratch);
      }
    } else if (const Copy *copy = std::get_if<Copy>(&instruction)) {
      step.op = Op::kCopy;
      step.count = copy->bytes;
      step.location = copy->location;
      add_operand(copy->source);
      add_operand(copy->target);
      work_bytes_ += 2 * copy->bytes;
    } else {
      const Fill &filling = std::get<Fill>(instruction);
      step.op = Op::kFill;
      step.count = filling.bytes;
      step.pattern = filling.pattern;
      step.width = static_cast<uint8_t>(filling.width);
      step.location = filling.location;
      add_operand(filling.target);
      work_bytes_ += filling.bytes;
    }
    step.operands = static_cast<int32_t>(operands_.size()) - step.first_operand;
    steps_.push_back(step);
  }
  serial_ = runtime::is_serial(program_);
  bool concurrent = std::ranges::all_of(library_calls_, [](const PlannedCall &call) {
    return dynamic_cast<const ConcurrentEntry *>(call.entry) != nullptr;
  });
  serial_with_one_thread_ = runtime::is_serial(program_, /*one_thread=*/true, concurrent);
  return absl::OkStatus();
}

absl::StatusOr<ProgramExecutable::LibraryStates *> ProgramExecutable::library_states(int threads) {
  std::lock_guard lock(mutex_);
  for (const auto &[known, states] : states_)
    if (known == threads)
      return states.get();
  WEFT_ASSIGN_OR_RETURN(auto states, make_library_states(threads));
  return states_.emplace_back(threads, std::move(states)).second.get();
}

absl::StatusOr<ProgramExecutable::LibraryStates *> ProgramExecutable::take_library_states() {
  std::lock_guard lock(mutex_);
  if (free_states_.empty()) {
    WEFT_ASSIGN_OR_RETURN(auto states, make_library_states(1));
    return states.release();
  }
  std::unique_ptr<LibraryStates> taken = std::move(free_states_.back());
  free_states_.pop_back();
  return taken.release();
}

void ProgramExecutable::give_back(LibraryStates *states) {
  std::lock_guard lock(mutex_);
  free_states_.emplace_back(states);
}

ProgramExecutable::Resources::~Resources() {
  if (lender)
    lender->give_back(libraries);
}

absl::StatusOr<std::unique_ptr<ProgramExecutable::LibraryStates>>
ProgramExecutable::make_library_states(int threads) {
  auto states = std::make_unique<LibraryStates>();
  states->calls.reserve(library_calls_.size());
  for (const auto &[entry, call, step] : library_calls_) {
    absl::StatusOr<std::unique_ptr<LibraryCallState>> state = init_state(*entry, *call, threads);
    if (!state.ok()) {
      absl::Status failed = with_entry(state.status(), call->entry);
      return call->location == -1 ? failed
                                  : with_location(failed, program_.locations[call->location]);
    }
    // A buffer that the plan holds ready covers its own size; what is left comes from the scratch
    // of the run.
    int64_t planned = call->scratch == -1 ? 0 : program_.buffers[call->scratch].bytes;
    if ((*state)->scratch_bytes() > planned)
      states->scratch_bytes = std::max(states->scratch_bytes, (*state)->scratch_bytes());
    states->calls.push_back(*std::move(state));
    WEFT_RETURN_IF_ERROR(add_packed(*states, states->calls.size() - 1, threads));
  }
  return states;
}

absl::StatusOr<std::unique_ptr<RunResources>>
ProgramExecutable::acquire(const RunContext &context) {
  auto resources = std::make_unique<Resources>();
  int64_t library_scratch = 0;
  if (!library_calls_.empty()) {
    // Beside the executor's line others may run the program at the same time.
    bool is_beside = serial_with_one_thread_ && context.threads == 1 && !context.arenas;
    WEFT_ASSIGN_OR_RETURN(LibraryStates * states,
                          is_beside ? take_library_states() : library_states(context.threads));
    resources->libraries = states;
    resources->lender = is_beside ? this : nullptr;
    library_scratch = states->scratch_bytes;
  }
  int64_t arena = align(program_.arena_bytes);
  resources->scratch_stride = align(program_.thread_scratch_bytes);
  int64_t total = arena + std::max(align(library_scratch),
                                   resources->scratch_stride * std::max(context.threads, 1));
  resources->bases.resize(kFirstInputBase + program_.inputs.size() + program_.outputs.size() +
                          prepare_.offsets.size());
  resources->pointers.resize(operands_.size());
  resources->bytes = total;
  if (total > 0) {
    WEFT_ASSIGN_OR_RETURN(resources->block, context.arenas != nullptr
                                                ? context.arenas->take(*context.memory, total)
                                                : context.memory->allocate(total, "arena"));
    resources->bases[kArenaBase] = static_cast<char *>(resources->block->data());
    resources->scratch = resources->bases[kArenaBase] + arena;
  }
  resources->bases[kConstantBase] = constants_ ? static_cast<char *>(constants_->data()) : nullptr;
  resources->bases[kStateBase] = state_ ? static_cast<char *>(state_->data()) : nullptr;
  return resources;
}

[[gnu::always_inline]] inline absl::Status ProgramExecutable::run_step(const RunContext &context,
                                                                       Resources &resources,
                                                                       const Step &step) const {
  void *const *buffers = resources.pointers.data() + step.first_operand;
  switch (step.op) {
  case Op::kSerialLaunch:
  case Op::kParallelLaunch: {
    LaunchCall call{step.kernel, buffers, resources.scratch, resources.scratch_stride,
                    step.ints ? step.ints : &step.count};
    int32_t code = 0;
    if (step.op == Op::kParallelLaunch && context.threads > 1)
      code = parallel_for(step.count, step.grain, context.threads, run_range, &call);
    else if (step.count > 0)
      code = run_range(&call, 0, 0, step.count);
    if (code == 0 && step.finish != nullptr) {
      call.kernel = step.finish;
      code = run_range(&call, 0, 0, step.count);
    }
    if (code != 0)
      return failure(step, code, buffers);
    break;
  }
  case Op::kLibraryCall: {
    bool packed = !resources.is_packed.empty() && resources.is_packed[step.library_call];
    LibraryCallState &state = packed ? *resources.libraries->packed[step.library_call]
                                     : *resources.libraries->calls[step.library_call];
    size_t operands = static_cast<size_t>(step.operands) - (step.count >= 0);
    void *scratch = step.count >= state.scratch_bytes() ? buffers[operands] : resources.scratch;
    if (absl::Status status = run_state(state, {buffers, operands}, scratch); !status.ok())
      return at(step, with_entry(status, library_calls_[step.library_call].call->entry));
    break;
  }
  case Op::kCopy:
    std::memmove(buffers[1], buffers[0], static_cast<size_t>(step.count));
    break;
  case Op::kFill:
    fill(static_cast<char *>(buffers[0]), step.pattern, step.width, step.count);
    break;
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutable::run(const RunContext &context, RunResources &run_resources,
                                    std::span<Buffer *const> inputs,
                                    std::span<Buffer *const> outputs) {
  WEFT_RETURN_IF_ERROR(check_bindings(*this, inputs, outputs));
  Resources &resources = static_cast<Resources &>(run_resources);
  WEFT_RETURN_IF_ERROR(compute_prepared(context, resources));
  char **bound = resources.bases.data() + kFirstInputBase;
  for (Buffer *input : inputs)
    *bound++ = static_cast<char *>(input->data());
  for (Buffer *output : outputs)
    *bound++ = static_cast<char *>(output->data());
  for (size_t i = 0; i < operands_.size(); ++i)
    resources.pointers[i] = resources.bases[operands_[i].base] + operands_[i].offset;
  for (const Packed &packed : resources.packed)
    resources.pointers[packed.operand] = packed.block->data();

  // A loop of its own: a look at each instruction whether it is profiled would cost a third of what
  // the loop takes.
  if (profile::on())
    return run_profiled(context, resources);
  for (const Step &step : steps_)
    WEFT_RETURN_IF_ERROR(run_step(context, resources, step));
  return absl::OkStatus();
}

absl::Status ProgramExecutable::run_profiled(const RunContext &context, Resources &resources) {
  const ProfileLabels &labels = profile_labels();
  profile::Span span(labels.program, context.threads);
  for (size_t i = 0; i < steps_.size(); ++i) {
    profile::Span instruction(labels.instructions[i]);
    WEFT_RETURN_IF_ERROR(run_step(context, resources, steps_[i]));
  }
  return absl::OkStatus();
}
const ProfileLabels &ProgramExecutable::profile_labels() {
  std::lock_guard lock(mutex_);
  if (!profile_labels_) {
    std::vector<double> operations;
    for (const auto &[entry, call, step] : library_calls_)
      operations.push_back(operations_of(*entry, *call));
    profile_labels_ =
        std::make_unique<const ProfileLabels>(make_profile_labels(program_, operations));
  }
  return *profile_labels_;
}

absl::Status ProgramExecutable::at(const Step &step, const absl::Status &status) const {
  if (step.location == -1)
    return status;
  return with_location(status, program_.locations[step.location]);
}

absl::Status ProgramExecutable::failure(const Step &step, int32_t code,
                                        void *const *buffers) const {
  if (code != WEFT_KERNEL_INDEX_OUT_OF_RANGE)
    return at(step, absl::InternalError(absl::StrCat("a kernel failed with code ", code)));
  BadIndex bad = find_bad_index(program_, *step.launch, buffers);
  absl::Status status = absl::OutOfRangeError(bad.message);
  status = bad.location == -1 ? at(step, status)
                              : with_location(status, program_.locations[bad.location]);
  return with_kept_inputs(std::move(status));
}

std::span<const std::byte> ProgramExecutable::constants() const {
  if (!constants_)
    return {};
  return {static_cast<const std::byte *>(constants_->data()),
          static_cast<size_t>(constants_->bytes())};
}

absl::StatusOr<std::string> ProgramExecutable::serialize() const {
  Program whole = program_;
  whole.constants.assign(constants().begin(), constants().end());
  return runtime::serialize(whole);
}

} // namespace weft::runtime
