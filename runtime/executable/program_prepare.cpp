// What a program has of stable inputs and constants: values that Program::prepare computes, and
// operands that libraries pack.
#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"
#include "runtime/executable/program_resources.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/profile/profile.h"

namespace weft::runtime {
namespace {

// Packing takes as long as it saves in 3 to 8 runs (backends/cpu/device/matmul_packing.h). Operands
// that change sooner, such as weights between two steps of an optimizer that adds up gradients, are
// not packed; for the others this loses less than packing costs.
constexpr uint32_t kUsesBeforePacking = 3;

} // namespace

absl::Status ProgramExecutable::build_prepare(const KernelResolver &kernels,
                                              const LibraryResolver &libraries,
                                              std::shared_ptr<Memory> memory,
                                              std::shared_ptr<const void> code,
                                              const ProgramExecutable *other_sizes) {
  if (program_.prepare.empty())
    return absl::OkStatus();
  if (other_sizes) {
    prepare_ = other_sizes->prepare_;
    return absl::OkStatus();
  }
  Program inner = program_.prepare.front();
  WEFT_ASSIGN_OR_RETURN(prepare_.executable, create(std::move(inner), kernels, libraries,
                                                    std::move(memory), std::move(code)));
  for (const OutputSpec &output : prepare_.executable->output_specs()) {
    if (output.alias_output != -1) {
      prepare_.offsets.push_back(prepare_.offsets[output.alias_output]);
      continue;
    }
    prepare_.offsets.push_back(prepare_.bytes);
    prepare_.bytes += align(output.bytes);
  }
  // Programs for several batch sizes compute the same of the same weights.
  static std::atomic<uint64_t> next{1};
  const std::string &recipe = program_.prepare.front().recipe;
  prepare_.recipe =
      recipe.empty()
          ? absl::StrCat("values of program ", next.fetch_add(1, std::memory_order_relaxed))
          : absl::StrCat("values ", recipe);
  return absl::OkStatus();
}

// Asks the library for a packed form of the call, if one of its operands is the same in many runs.
absl::Status ProgramExecutable::add_packed(LibraryStates &states, size_t index, int threads) {
  const auto &[entry, call, step] = library_calls_[index];
  std::vector<bool> stable(call->operands.size());
  for (size_t i = 0; i < static_cast<size_t>(call->inputs); ++i) {
    const BufferEntry &row = program_.buffers[call->operands[i].buffer];
    stable[i] = row.kind == BufferKind::kConstant || row.kind == BufferKind::kPrepared ||
                (row.kind == BufferKind::kInput && program_.inputs[row.index].stable &&
                 !program_.inputs[row.index].donatable);
  }
  std::unique_ptr<PackedCallState> packed;
  if (std::find(stable.begin(), stable.end(), true) != stable.end()) {
    WEFT_ASSIGN_OR_RETURN(packed, entry->init_packed(*call, stable, threads));
  }
  if (packed) {
    const TensorRef &operand = call->operands[packed->operand()];
    const BufferEntry &row = program_.buffers[operand.buffer];
    int64_t offset = operand.offset + row.offset +
                     (row.kind == BufferKind::kPrepared ? prepare_.offsets[row.index] : 0);
    states.operands.push_back(
        {static_cast<int32_t>(index), steps_[step].first_operand + packed->operand(), row, offset,
         packed->packed_bytes(), nullptr,
         absl::StrCat(call->entry, " of bytes from ", offset, " on: ", packed->form())});
    int64_t planned = call->scratch == -1 ? 0 : program_.buffers[call->scratch].bytes;
    if (packed->scratch_bytes() > planned)
      states.scratch_bytes = std::max(states.scratch_bytes, packed->scratch_bytes());
  }
  states.packed.push_back(std::move(packed));
  return absl::OkStatus();
}

Buffer *ProgramExecutable::source_of(const BufferEntry &row, std::span<Buffer *const> inputs,
                                     const Resources &resources) const {
  switch (row.kind) {
  case BufferKind::kInput:
    return inputs[row.index];
  case BufferKind::kConstant:
    return constants_.get();
  case BufferKind::kPrepared:
    return resources.values_block.get();
  default:
    return nullptr;
  }
}

absl::Status ProgramExecutable::prepare_values(const RunContext &context, Resources &resources,
                                               std::span<Buffer *const> inputs) {
  std::vector<Buffer *> sources;
  // Memory that its owner may write unseen gives nothing that could be kept: its values are
  // computed for this run.
  bool kept = true;
  for (int32_t row : program_.prepare_inputs) {
    const BufferEntry &entry = program_.buffers[row];
    Buffer *source = source_of(entry, inputs, resources);
    if (source == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat("stable input ", entry.index, " is not bound"));
    kept = kept && source->keeps_contents();
    sources.push_back(source);
  }
  resources.values = nullptr;
  if (kept) {
    auto values = PreparedStore::instance().take(*context.memory, prepare_.recipe, sources,
                                                 prepare_.bytes, last_values_);
    if (values.ok()) {
      resources.values = last_values_ = *std::move(values);
      resources.values_block = resources.values->block();
    }
  }
  // Nothing to be found, or dropped at this moment, or more than may be kept: this run has them for
  // itself.
  if (!resources.values || !resources.values_block) {
    resources.values = nullptr;
    WEFT_ASSIGN_OR_RETURN(resources.values_block,
                          context.memory->allocate(prepare_.bytes, kPreparedPurpose));
  }
  if (!resources.values || !resources.values->computed()) {
    resources.values_constants.clear();
    for (size_t i = 0; i < sources.size(); ++i) {
      const BufferEntry &entry = program_.buffers[program_.prepare_inputs[i]];
      if (entry.kind != BufferKind::kConstant)
        continue;
      resources.values_constants.push_back(Buffer::borrow(
          static_cast<char *>(sources[i]->data()) + entry.offset, entry.bytes, nullptr));
      sources[i] = resources.values_constants.back().get();
    }
    resources.values_inputs = std::move(sources);
    WEFT_ASSIGN_OR_RETURN(resources.values_resources, prepare_.executable->acquire(context));
    WEFT_RETURN_IF_ERROR(prepare_.executable->prepare(context, *resources.values_resources,
                                                      resources.values_inputs));
  }
  char **bases =
      resources.bases.data() + kFirstInputBase + program_.inputs.size() + program_.outputs.size();
  for (int64_t offset : prepare_.offsets)
    *bases++ = static_cast<char *>(resources.values_block->data()) + offset;
  ++resources.prepared.results;
  resources.prepared.bytes += prepare_.bytes;
  return absl::OkStatus();
}

absl::Status ProgramExecutable::prepare(const RunContext &context, RunResources &run_resources,
                                        std::span<Buffer *const> inputs) {
  Resources &resources = static_cast<Resources &>(run_resources);
  resources.prepared = PreparedUse();
  resources.packed.clear();
  resources.is_packed.clear();
  if (!prepare_.executable && (!resources.libraries || resources.libraries->operands.empty()))
    return absl::OkStatus();
  std::lock_guard lock(mutex_); // of what the last run had
  if (prepare_.executable)
    WEFT_RETURN_IF_ERROR(prepare_values(context, resources, inputs));
  if (resources.libraries == nullptr)
    return absl::OkStatus();
  resources.packed.reserve(resources.libraries->operands.size());
  resources.is_packed.assign(library_calls_.size(), false);
  for (PackedOperand &operand : resources.libraries->operands) {
    BufferKind kind = operand.source.kind;
    Buffer *source = source_of(operand.source, inputs, resources);
    // Values of this run alone would be packed for this run alone.
    bool kept = kind != BufferKind::kPrepared || resources.values;
    if (source == nullptr || !source->keeps_contents() || !kept)
      continue;
    // Constants serve every run; the others must have shown that they last.
    bool lasts = kind == BufferKind::kConstant || context.pack_at_once ||
                 (operand.last && operand.last->is_of({&source, 1}));
    if (!lasts && source->count_use() <= kUsesBeforePacking) {
      ++resources.prepared.waiting;
      continue;
    }
    auto result = PreparedStore::instance().take(*context.memory, operand.recipe, {&source, 1},
                                                 operand.bytes, operand.last);
    if (result.ok())
      operand.last = *std::move(result);
    std::shared_ptr<Buffer> block = result.ok() ? operand.last->block() : nullptr;
    if (!block) {
      ++resources.prepared.refused;
      continue;
    }
    resources.prepared.bytes += block->bytes();
    ++resources.prepared.results;
    resources.is_packed[operand.call] = true;
    Packed &packed = resources.packed.emplace_back(
        Packed{operand.call, operand.operand, std::move(block), nullptr, nullptr, nullptr});
    if (operand.last->computed())
      continue;
    packed.result = operand.last;
    packed.plain = static_cast<char *>(source->data()) + operand.offset;
    if (kind == BufferKind::kPrepared)
      packed.plain_block = resources.values_block;
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutable::compute_values(const RunContext &context, Resources &resources,
                                               void *block) {
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<Buffer *> outputs;
  for (size_t i = 0; i < prepare_.offsets.size(); ++i) {
    const OutputSpec &spec = prepare_.executable->output_specs()[i];
    if (spec.alias_output != -1) {
      outputs.push_back(outputs[spec.alias_output]);
      continue;
    }
    buffers.push_back(
        Buffer::borrow(static_cast<char *>(block) + prepare_.offsets[i], spec.bytes, nullptr));
    outputs.push_back(buffers.back().get());
  }
  profile::Span span([] { return profile::Label{profile::Kind::kPrepare, "compute weights"}; });
  return prepare_.executable->run(context, *resources.values_resources, resources.values_inputs,
                                  outputs);
}

absl::Status ProgramExecutable::compute_prepared(const RunContext &context,
                                                 RunResources &run_resources) {
  Resources &resources = static_cast<Resources &>(run_resources);
  bool made = false;
  if (resources.values_block) {
    auto compute = [&](void *block) {
      return compute_values(context, resources, block);
    };
    absl::Status status = resources.values
                              ? resources.values->compute(*resources.values_block, compute, made)
                              : compute(resources.values_block->data());
    if (!status.ok())
      return status;
    resources.prepared.computed += made || !resources.values;
  }
  for (Packed &packed : resources.packed) {
    if (!packed.result)
      continue;
    const PlannedCall &planned = library_calls_[packed.call];
    auto pack = [&](void *block) {
      profile::Span span([&] {
        return profile::Label{profile::Kind::kPrepare, "pack for " + planned.call->entry};
      });
      return resources.libraries->packed[packed.call]->pack(packed.plain, block);
    };
    if (absl::Status status = packed.result->compute(*packed.block, pack, made); !status.ok())
      return at(steps_[planned.step], status);
    resources.prepared.computed += made;
  }
  return absl::OkStatus();
}

} // namespace weft::runtime
