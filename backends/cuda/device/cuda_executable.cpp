#include "backends/cuda/device/cuda_executable.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/cuda/device/cuda_resources.h"
#include "runtime/core/status.h"
#include "runtime/executable/index_check.h"
#include "runtime/executable/run_failure.h"
#include "runtime/memory/buffer.h"
#include "runtime/profile/profile.h"

namespace weft::backends::cuda {
namespace {

// What kernels' widest loads and cuBLASLt take; the planner's alignment is a multiple of it.
constexpr int64_t kOperandAlignment = 16;

} // namespace

absl::StatusOr<std::shared_ptr<CudaExecutable>>
CudaExecutable::create(runtime::Program program, std::vector<KernelModule> modules,
                       std::shared_ptr<CudaDevice> device, runtime::LibraryResolver libraries,
                       runtime::SizeTable sizes) {
  std::shared_ptr<CudaExecutable> executable(new CudaExecutable());
  executable->sizes_ = std::move(sizes);
  executable->modules_ = std::make_shared<const std::vector<KernelModule>>(std::move(modules));
  executable->device_ = std::move(device);
  executable->libraries_ = std::move(libraries);
  return finish(std::move(executable), std::move(program));
}

absl::StatusOr<std::shared_ptr<CudaExecutable>>
CudaExecutable::create(runtime::Program program, std::shared_ptr<CudaExecutable> largest) {
  std::shared_ptr<CudaExecutable> executable(new CudaExecutable());
  executable->modules_ = largest->modules_;
  executable->device_ = largest->device_;
  executable->libraries_ = largest->libraries_;
  executable->devices_ = largest->devices_;
  executable->largest_ = std::move(largest);
  return finish(std::move(executable), std::move(program));
}

absl::StatusOr<std::shared_ptr<CudaExecutable>>
CudaExecutable::finish(std::shared_ptr<CudaExecutable> executable, runtime::Program program) {
  WEFT_RETURN_IF_ERROR(runtime::validate(program));
  executable->program_ = std::move(program);
  absl::Status status = executable->load();
  if (absl::IsResourceExhausted(status)) {
    // What is kept for later programs may be what this one's code lacks.
    executable->device_->trim();
    status = executable->load();
  }
  if (status.ok())
    status = executable->build_prepare();
  if (!status.ok())
    return status;
  return executable;
}

absl::StatusOr<std::shared_ptr<runtime::Executable>>
CudaExecutable::at_sizes(const runtime::Sizes &sizes) const {
  if (sizes_.names.empty())
    return runtime::Executable::at_sizes(sizes);
  WEFT_ASSIGN_OR_RETURN(runtime::Program sized, runtime::at_sizes(program_, sizes_, sizes));
  // It keeps this one, whose GPU's other ones it asks for theirs.
  auto self = std::const_pointer_cast<CudaExecutable>(shared_from_this());
  WEFT_ASSIGN_OR_RETURN(auto executable, create(std::move(sized), std::move(self)));
  return std::shared_ptr<runtime::Executable>(std::move(executable));
}

CudaExecutable::~CudaExecutable() {
  // The stream is idle: every run waits for its end, or has failed.
  if (!device_->enter().ok())
    return;
  parts_.clear(); // whose graphs launch the modules' kernels
  loaded_.clear();
}

absl::Status CudaExecutable::upload(std::span<const std::byte> bytes, const char *purpose,
                                    std::shared_ptr<runtime::Buffer> &buffer) {
  WEFT_ASSIGN_OR_RETURN(buffer,
                        device_->memory()->allocate(static_cast<int64_t>(bytes.size()), purpose));
  return device_->write(buffer->data(), bytes.data(), static_cast<int64_t>(bytes.size()));
}

absl::Status CudaExecutable::load_modules() {
  loaded_.clear();
  kernels_.clear();
  if (largest_) {
    loaded_ = largest_->loaded_;
    kernels_ = largest_->kernels_;
    constants_ = largest_->constants_;
    return absl::OkStatus();
  }
  const Driver &driver = device_->driver();
  std::map<std::string_view, Kernel> known;
  for (const KernelModule &module : *modules_) {
    absl::StatusOr<std::shared_ptr<ModuleCache::Loaded>> loaded =
        device_->modules().load(module.ptx);
    if (!loaded.ok())
      return absl::Status(loaded.status().code(),
                          absl::StrCat(loaded.status().message(), "; the GPU is an sm_",
                                       device_->capability(), ", the program was compiled for ",
                                       program_.target));
    loaded_.push_back(*loaded);
    for (const KernelEntry &entry : module.entries) {
      Kernel kernel{nullptr, static_cast<unsigned>(entry.blocks),
                    static_cast<unsigned>(entry.threads), entry.per_block};
      absl::Status status = driver.check(
          driver.module_get_function(&kernel.function, (*loaded)->module, entry.symbol.c_str()),
          "finding " + entry.symbol);
      if (!status.ok())
        return status;
      known.emplace(entry.symbol, kernel);
    }
  }
  for (const std::string &symbol : program_.symbols) {
    auto found = known.find(symbol);
    if (found == known.end())
      return absl::NotFoundError(absl::StrCat("no kernel '", symbol, "' beside the program"));
    kernels_.push_back(found->second);
  }
  if (!program_.constants.empty())
    return upload(program_.constants, "constants", constants_);
  return absl::OkStatus();
}

absl::Status CudaExecutable::load() {
  WEFT_RETURN_IF_ERROR(device_->enter());
  // From the beginning, also after a first try.
  library_calls_.clear();
  library_operations_.clear();
  library_detours_.clear();
  parts_.clear();
  WEFT_RETURN_IF_ERROR(load_modules());
  library_calls_.resize(program_.instructions.size());
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    if (const auto *launch = std::get_if<runtime::Launch>(&program_.instructions[i])) {
      if (absl::Status status = check_launch(*launch); !status.ok())
        return at(launch->location, status);
    } else if (const auto *call = std::get_if<runtime::LibraryCall>(&program_.instructions[i])) {
      const runtime::LibraryEntry *entry = libraries_ ? libraries_(call->entry) : nullptr;
      if (entry == nullptr)
        return absl::NotFoundError(
            absl::StrCat("no library entry '", call->entry, "' in this build"));
      absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> state =
          runtime::init_state(*entry, *call, 1);
      if (!state.ok())
        return at(call->location, state.status());
      library_scratch_ = std::max(library_scratch_, (*state)->scratch_bytes());
      library_detours_.push_back((*state)->detour());
      library_calls_[i] = *std::move(state);
      library_operations_.push_back(runtime::operations_of(*entry, *call));
    }
  }
  size_t checked = 0, all = program_.instructions.size();
  for (size_t i = 0; i < all; ++i)
    if (const auto *launch = std::get_if<runtime::Launch>(&program_.instructions[i]);
        launch && !launch->checks.empty())
      checked = i + 1;
  if (checked > 0)
    parts_.push_back({0, checked, LaunchGraphs(device_)});
  parts_.push_back({checked, all, LaunchGraphs(device_)});
  if (program_.state_bytes > 0)
    return upload(std::vector<std::byte>(static_cast<size_t>(program_.state_bytes)), "state",
                  state_);
  return absl::OkStatus();
}

absl::Status CudaExecutable::check_launch(const runtime::Launch &launch) const {
  for (int32_t operand : launch.operands)
    if (program_.buffers[operand].offset % kOperandAlignment != 0)
      return absl::InvalidArgumentError(
          absl::StrCat("an operand of a kernel lies ", program_.buffers[operand].offset,
                       " bytes into its buffer, which is no multiple of ", kOperandAlignment));
  return absl::OkStatus();
}

void CudaExecutable::serve(Devices devices) {
  devices_ = std::move(devices);
}

absl::StatusOr<CudaExecutable *> CudaExecutable::executable_on(int number) {
  std::lock_guard lock(others_mutex_);
  std::shared_ptr<CudaExecutable> &there = others_[number];
  if (!there && largest_) {
    WEFT_ASSIGN_OR_RETURN(CudaExecutable * largest, largest_->executable_on(number));
    WEFT_ASSIGN_OR_RETURN(there, create(program_, largest->shared_from_this()));
  } else if (!there) {
    WEFT_ASSIGN_OR_RETURN(there, devices_.make(*this, number));
    there->serve(devices_);
  }
  return there.get();
}

absl::StatusOr<std::unique_ptr<runtime::RunResources>>
CudaExecutable::acquire(const runtime::RunContext &context) {
  int number = devices_.number_of && context.memory ? devices_.number_of(*context.memory) : -1;
  if (number != -1 && number != device_->number()) {
    WEFT_ASSIGN_OR_RETURN(CudaExecutable * executable, executable_on(number));
    return executable->acquire(context);
  }
  WEFT_RETURN_IF_ERROR(device_->enter());
  bool copies = number == -1;
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Resources> resources,
                        take(copies ? *device_->memory() : *context.memory, copies));
  return resources;
}

absl::StatusOr<std::unique_ptr<CudaExecutable::Resources>>
CudaExecutable::take(runtime::Memory &memory, bool copies) {
  auto resources = std::make_unique<Resources>();
  resources->executable = this;
  resources->memory = &memory;
  resources->copies = copies;
  int64_t notes = align(static_cast<int64_t>(program_.instructions.size() * sizeof(int32_t)));
  int64_t total = notes + align(program_.arena_bytes) + align(library_scratch_);
  if (resources->copies) {
    for (const runtime::InputSpec &input : program_.inputs)
      total += align(input.bytes);
    for (const runtime::OutputSpec &output : program_.outputs)
      if (output.donated_input == -1 && output.alias_input == -1 && output.alias_output == -1)
        total += align(output.bytes);
  }
  resources->bytes = total;
  if (total > 0) {
    WEFT_ASSIGN_OR_RETURN(resources->block, memory.allocate(total, "arena"));
  }
  DevicePointer next =
      resources->block ? reinterpret_cast<DevicePointer>(resources->block->data()) : 0;
  auto take = [&](int64_t bytes) {
    DevicePointer mine = next;
    next += static_cast<DevicePointer>(align(bytes));
    return mine;
  };
  resources->notes = take(notes);
  resources->arena = take(program_.arena_bytes);
  resources->scratch = take(library_scratch_);
  if (!resources->copies)
    return resources;
  for (const runtime::InputSpec &input : program_.inputs)
    resources->inputs.push_back(take(input.bytes));
  for (const runtime::OutputSpec &output : program_.outputs)
    resources->outputs.push_back(
        output.donated_input != -1  ? resources->inputs[static_cast<size_t>(output.donated_input)]
        : output.alias_input != -1  ? resources->inputs[static_cast<size_t>(output.alias_input)]
        : output.alias_output != -1 ? resources->outputs[static_cast<size_t>(output.alias_output)]
                                    : take(output.bytes));
  return resources;
}

DevicePointer CudaExecutable::address(const Resources &resources, int32_t buffer) const {
  const runtime::BufferEntry &entry = program_.buffers[buffer];
  DevicePointer base = 0;
  switch (entry.kind) {
  case runtime::BufferKind::kArena:
    base = resources.arena;
    break;
  case runtime::BufferKind::kInput:
    base = resources.inputs[entry.index];
    break;
  case runtime::BufferKind::kOutput:
    base = resources.outputs[entry.index];
    break;
  case runtime::BufferKind::kConstant:
    base = constants_ ? reinterpret_cast<DevicePointer>(constants_->data()) : 0;
    break;
  case runtime::BufferKind::kState:
    base = state_ ? reinterpret_cast<DevicePointer>(state_->data()) : 0;
    break;
  case runtime::BufferKind::kPrepared:
    base = resources.values_base() + static_cast<DevicePointer>(prepare_.offsets[entry.index]);
    break;
  }
  return base + static_cast<DevicePointer>(entry.offset);
}

absl::Status CudaExecutable::launch(const Kernel &kernel, int64_t count,
                                    std::vector<DevicePointer> &pointers) const {
  unsigned blocks = kernel.blocks;
  std::vector<void *> arguments;
  for (DevicePointer &pointer : pointers)
    arguments.push_back(&pointer);
  if (kernel.per_block > 0)
    blocks = static_cast<unsigned>((count + kernel.per_block - 1) / kernel.per_block);
  if (kernel.per_block != kOneSize)
    arguments.push_back(&count);
  if (blocks == 0)
    return absl::OkStatus();
  const Driver &driver = device_->driver();
  return driver.check(driver.launch_kernel(kernel.function, blocks, 1, 1, kernel.threads, 1, 1, 0,
                                           device_->stream(), arguments.data(), nullptr),
                      "launching a kernel");
}

absl::Status CudaExecutable::fill(DevicePointer target, const runtime::Fill &fill) const {
  const Driver &driver = device_->driver();
  size_t count = static_cast<size_t>(fill.bytes / fill.width);
  if (count == 0)
    return absl::OkStatus();
  Stream stream = device_->stream();
  auto low = static_cast<uint32_t>(fill.pattern), high = static_cast<uint32_t>(fill.pattern >> 32);
  int error = 0;
  if (fill.width == 1)
    error = driver.fill_8(target, static_cast<unsigned char>(low), count, stream);
  else if (fill.width == 2)
    error = driver.fill_16(target, static_cast<unsigned short>(low), count, stream);
  else if (fill.width == 4)
    error = driver.fill_32(target, low, count, stream);
  else if (low == high)
    error = driver.fill_32(target, low, 2 * count, stream);
  else {
    // Every second word, twice.
    error = driver.fill_rows_32(target, 8, low, 1, count, stream);
    if (error == 0)
      error = driver.fill_rows_32(target + 4, 8, high, 1, count, stream);
  }
  return driver.check(error, "filling memory");
}

absl::Status CudaExecutable::execute(Resources &resources, size_t number) const {
  const runtime::Instruction &instruction = program_.instructions[number];
  const Driver &driver = device_->driver();
  if (const auto *launch = std::get_if<runtime::Launch>(&instruction)) {
    std::vector<DevicePointer> pointers;
    for (int32_t operand : launch->operands)
      pointers.push_back(address(resources, operand));
    pointers.push_back(launch->partials == -1 ? 0 : address(resources, launch->partials));
    pointers.push_back(resources.notes + number * sizeof(int32_t));
    absl::Status status = this->launch(kernels_[launch->kernel], launch->count, pointers);
    if (status.ok() && launch->finish != -1)
      status = this->launch(kernels_[launch->finish], launch->count, pointers);
    return at(launch->location, status);
  }
  if (const auto *call = std::get_if<runtime::LibraryCall>(&instruction)) {
    std::vector<void *> pointers;
    for (const runtime::TensorRef &operand : call->operands)
      pointers.push_back(reinterpret_cast<void *>(address(resources, operand.buffer) +
                                                  static_cast<DevicePointer>(operand.offset)));
    return at(call->location,
              library_calls_[number]->run(pointers, reinterpret_cast<void *>(resources.scratch)));
  }
  if (const auto *copy = std::get_if<runtime::Copy>(&instruction)) {
    DevicePointer source = address(resources, copy->source),
                  target = address(resources, copy->target);
    if (copy->bytes == 0 || source == target)
      return absl::OkStatus();
    return at(copy->location,
              driver.check(driver.copy_on_device(target, source, static_cast<size_t>(copy->bytes),
                                                 device_->stream()),
                           "copying on the GPU"));
  }
  const auto &filling = std::get<runtime::Fill>(instruction);
  return at(filling.location, fill(address(resources, filling.target), filling));
}

std::vector<std::string> CudaExecutable::detours() const {
  std::vector<std::string> lines;
  size_t next = 0;
  for (const runtime::Instruction &instruction : program_.instructions)
    if (const auto *call = std::get_if<runtime::LibraryCall>(&instruction))
      if (const std::string &detour = library_detours_[next++]; !detour.empty())
        lines.push_back(
            absl::StrCat(call->location == -1 ? "" : program_.locations[call->location] + ": ",
                         call->entry, ": ", detour));
  return lines;
}

const runtime::ProfileLabels &CudaExecutable::profile_labels() {
  std::call_once(labels_made_, [this] {
    labels_ = runtime::make_profile_labels(program_, library_operations_, library_detours_);
  });
  return labels_;
}

absl::Status CudaExecutable::execute_profiled(Resources &resources, size_t number) {
  runtime::profile::Span span(profile_labels().instructions[number]);
  absl::Status status = execute(resources, number);
  absl::Status done = device_->synchronize();
  return status.ok() ? done : status;
}

absl::Status CudaExecutable::enqueue(Resources &resources, Part &part) {
  bool profiled = runtime::profile::on();
  auto enqueue = [&]() -> absl::Status {
    for (size_t i = part.first; i < part.end; ++i)
      WEFT_RETURN_IF_ERROR(profiled ? execute_profiled(resources, i) : execute(resources, i));
    return absl::OkStatus();
  };
  if (profiled || part.end - part.first < kLeastGraphInstructions)
    return enqueue();
  std::vector<DevicePointer> addresses = {resources.notes, resources.arena, resources.scratch,
                                          resources.values_base()};
  addresses.insert(addresses.end(), resources.inputs.begin(), resources.inputs.end());
  addresses.insert(addresses.end(), resources.outputs.begin(), resources.outputs.end());
  return part.graphs.run(std::move(addresses), enqueue);
}

absl::Status CudaExecutable::run(const runtime::RunContext &context,
                                 runtime::RunResources &run_resources,
                                 std::span<runtime::Buffer *const> inputs,
                                 std::span<runtime::Buffer *const> outputs) {
  auto &resources = static_cast<Resources &>(run_resources);
  if (resources.executable != this)
    return resources.executable->run(context, run_resources, inputs, outputs);
  WEFT_RETURN_IF_ERROR(runtime::check_bindings(*this, inputs, outputs));
  WEFT_RETURN_IF_ERROR(device_->enter());
  if (!resources.copies) {
    auto addresses = [](std::span<runtime::Buffer *const> buffers) {
      std::vector<DevicePointer> result;
      for (const runtime::Buffer *buffer : buffers)
        result.push_back(reinterpret_cast<DevicePointer>(buffer->data()));
      return result;
    };
    resources.inputs = addresses(inputs);
    resources.outputs = addresses(outputs);
  }
  std::lock_guard lock(device_->stream_mutex());
  const Driver &driver = device_->driver();
  Stream stream = device_->stream();
  bool profiled = runtime::profile::on();
  runtime::profile::Span span(profiled ? profile_labels().program : 0, context.threads);
  auto transfer = [](const char *name) {
    return [name] {
      return runtime::profile::Label{runtime::profile::Kind::kTransfer, name};
    };
  };
  auto bring = [&]() -> absl::Status {
    runtime::profile::Span copying(transfer("inputs to the GPU"));
    for (size_t i = 0; resources.copies && i < inputs.size(); ++i) {
      if (program_.inputs[i].bytes == 0)
        continue;
      int error = driver.copy_to_device(resources.inputs[i], inputs[i]->data(),
                                        static_cast<size_t>(program_.inputs[i].bytes), stream);
      WEFT_RETURN_IF_ERROR(driver.check(error, "copying an input to the GPU"));
    }
    return absl::OkStatus();
  };
  auto fetch = [&]() -> absl::Status {
    runtime::profile::Span copying(transfer("outputs from the GPU"));
    for (size_t i = 0; resources.copies && i < outputs.size(); ++i) {
      const runtime::OutputSpec &spec = program_.outputs[i];
      // What is another buffer is either unchanged or copied with that one.
      if (spec.bytes == 0 || spec.alias_input != -1 || spec.alias_output != -1)
        continue;
      int error = driver.copy_to_host(outputs[i]->data(), resources.outputs[i],
                                      static_cast<size_t>(spec.bytes), stream);
      WEFT_RETURN_IF_ERROR(driver.check(error, "copying an output from the GPU"));
    }
    return absl::OkStatus();
  };
  absl::Status status = bring();
  if (status.ok())
    status = compute_prepared(resources);
  if (status.ok())
    status = compute(resources);
  if (status.ok())
    status = fetch();
  return settle(std::move(status));
}

absl::Status CudaExecutable::settle(absl::Status status) const {
  absl::Status done = device_->synchronize();
  return status.ok() ? done : status;
}

absl::Status CudaExecutable::compute(Resources &resources) {
  if (!has_checks())
    return enqueue(resources, parts_.back());
  const Driver &driver = device_->driver();
  Stream stream = device_->stream();
  Part &first = parts_.front();
  std::vector<int32_t> notes(first.end);
  absl::Status status =
      driver.check(driver.fill_32(resources.notes, 0, first.end, stream), "clearing notes");
  if (status.ok())
    status = enqueue(resources, first);
  if (status.ok())
    status = driver.check(
        driver.copy_to_host(notes.data(), resources.notes, notes.size() * sizeof(int32_t), stream),
        "reading notes");
  WEFT_RETURN_IF_ERROR(settle(std::move(status)));
  for (size_t i = 0; i < notes.size(); ++i)
    if (const auto *launch = std::get_if<runtime::Launch>(&program_.instructions[i]);
        launch && notes[i] != 0)
      return runtime::with_kept_inputs(bad_index(*launch, resources));
  return enqueue(resources, parts_.back());
}

absl::Status CudaExecutable::bad_index(const runtime::Launch &launch,
                                       const Resources &resources) const {
  // The indices are shown where nothing has been written over them since: the run went on to the
  // end of the part that looks at indices.
  runtime::Launch shown = launch;
  std::vector<std::vector<std::byte>> copies(launch.operands.size());
  std::vector<void *> buffers(launch.operands.size());
  for (runtime::IndexCheck &check : shown.checks) {
    if (check.operand == -1)
      continue;
    auto operand = static_cast<size_t>(check.operand);
    const runtime::BufferEntry &entry =
        program_.buffers[static_cast<size_t>(launch.operands[operand])];
    bool stays = entry.kind == runtime::BufferKind::kConstant ||
                 (entry.kind == runtime::BufferKind::kInput &&
                  !program_.inputs[static_cast<size_t>(entry.index)].donatable);
    if (stays && copies[operand].empty()) {
      copies[operand].resize(static_cast<size_t>(entry.bytes));
      int error = device_->driver().copy_to_host(copies[operand].data(),
                                                 address(resources, launch.operands[operand]),
                                                 copies[operand].size(), device_->stream());
      stays = device_->driver().check(error, "reading indices").ok() && device_->synchronize().ok();
      buffers[operand] = copies[operand].data();
    }
    if (!stays)
      check.operand = -1;
  }
  runtime::BadIndex bad = runtime::find_bad_index(program_, shown, buffers.data());
  return at(bad.location == -1 ? launch.location : bad.location,
            absl::OutOfRangeError(bad.message));
}

absl::Status CudaExecutable::at(int32_t location, const absl::Status &status) const {
  if (status.ok() || location == -1)
    return status;
  return runtime::with_location(status, program_.locations[location]);
}

} // namespace weft::backends::cuda
