// What a program computes of stable inputs and constants once for many runs, on the GPU: a program
// inside the program, whose results lie in one block of the store of prepared results. Its sources
// may be the host's: then it reads the run's copies of them.
#include <atomic>

#include "absl/strings/str_cat.h"
#include "backends/cuda/device/cuda_resources.h"
#include "runtime/core/status.h"
#include "runtime/profile/profile.h"

namespace weft::backends::cuda {

using runtime::Buffer;
using runtime::BufferKind;

absl::Status CudaExecutable::build_prepare() {
  if (program_.prepare.empty())
    return absl::OkStatus();
  if (largest_) {
    prepare_ = largest_->prepare_;
    return absl::OkStatus();
  }
  const runtime::Program &inner = program_.prepare.front();
  WEFT_ASSIGN_OR_RETURN(prepare_.executable, create(inner, *modules_, device_, libraries_));
  for (const runtime::OutputSpec &output : inner.outputs) {
    bool isNew = output.alias_output == -1;
    prepare_.offsets.push_back(isNew ? prepare_.bytes : prepare_.offsets[output.alias_output]);
    prepare_.bytes += isNew ? align(output.bytes) : 0;
  }
  // On this GPU: others, and the host, make results of their own of the same sources.
  static std::atomic<uint64_t> next{1};
  prepare_.recipe =
      absl::StrCat("values on GPU ", absl::Hex(reinterpret_cast<uintptr_t>(device_.get())), " ",
                   inner.recipe.empty()
                       ? absl::StrCat("of program ", next.fetch_add(1, std::memory_order_relaxed))
                       : inner.recipe);
  return absl::OkStatus();
}

absl::Status CudaExecutable::prepare(const runtime::RunContext &context,
                                     runtime::RunResources &run_resources,
                                     std::span<Buffer *const> inputs) {
  auto &resources = static_cast<Resources &>(run_resources);
  if (resources.executable != this)
    return resources.executable->prepare(context, run_resources, inputs);
  resources.prepared = runtime::PreparedUse();
  resources.values = nullptr;
  resources.values_block = nullptr;
  resources.preparing = nullptr;
  if (!prepare_.executable)
    return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(device_->enter());
  std::vector<Buffer *> sources;
  // Memory that its owner may write unseen gives nothing that could be kept.
  bool kept = true;
  for (int32_t row : program_.prepare_inputs) {
    const runtime::BufferEntry &entry = program_.buffers[row];
    Buffer *source = entry.kind == BufferKind::kConstant ? constants_.get() : inputs[entry.index];
    if (source == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat("stable input ", entry.index, " is not bound"));
    kept = kept && source->keeps_contents();
    sources.push_back(source);
  }
  if (kept) {
    std::lock_guard lock(last_values_mutex_);
    auto values = runtime::PreparedStore::instance().take(*resources.memory, prepare_.recipe,
                                                          sources, prepare_.bytes, last_values_);
    if (values.ok()) {
      resources.values = last_values_ = *std::move(values);
      resources.values_block = resources.values->block();
    } else {
      ++resources.prepared.refused;
    }
  }
  // More than may be kept, or dropped at this moment: this run has them for itself.
  if (!resources.values_block) {
    resources.values = nullptr;
    WEFT_ASSIGN_OR_RETURN(resources.values_block,
                          resources.memory->allocate(prepare_.bytes, runtime::kPreparedPurpose));
  }
  // Memory is taken here, where want of it leads to another attempt, and not in the run.
  if (!resources.values || !resources.values->computed()) {
    WEFT_ASSIGN_OR_RETURN(resources.preparing,
                          prepare_.executable->take(*resources.memory, /*copies=*/false));
  }
  ++resources.prepared.results;
  resources.prepared.bytes += prepare_.bytes;
  return absl::OkStatus();
}

// By the caller's run, which holds the stream.
absl::Status CudaExecutable::compute_prepared(Resources &resources) {
  if (!resources.values_block)
    return absl::OkStatus();
  auto make = [&](void *block) -> absl::Status {
    runtime::profile::Span span([] {
      return runtime::profile::Label{runtime::profile::Kind::kPrepare, "compute weights"};
    });
    CudaExecutable &inner = *prepare_.executable;
    Resources &own = *resources.preparing;
    for (int32_t row : program_.prepare_inputs)
      own.inputs.push_back(address(resources, row));
    for (int64_t offset : prepare_.offsets)
      own.outputs.push_back(reinterpret_cast<DevicePointer>(block) +
                            static_cast<DevicePointer>(offset));
    return inner.settle(inner.compute(own));
  };
  bool made = false;
  absl::Status status = resources.values
                            ? resources.values->compute(*resources.values_block, make, made)
                            : make(resources.values_block->data());
  resources.prepared.computed += status.ok() && (made || !resources.values);
  return status;
}

} // namespace weft::backends::cuda
