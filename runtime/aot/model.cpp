// The implementation of weft_model.h.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/abi/read_struct.h"
#include "runtime/aot/c_executable.h"
#include "runtime/aot/cpu_check.h"
#include "runtime/aot/held_tensors.h"
#include "runtime/aot/weft_model.h"
#include "runtime/executable/program_executable.h"
#include "runtime/executable/run_failure.h"
#include "runtime/executor/device.h"
#include "runtime/memory/arena_pool.h"

using namespace weft;
using namespace weft::runtime;

namespace {

constexpr int32_t kCaller = -1; // who gives an input or gets an output that the model does not hold

// All that the entries of a model share.
struct Shared {
  std::string name;
  HeldTensors held;
  ArenaPool arenas;
  std::vector<std::unique_ptr<weft_model>> entries; // gone before the arenas are
  std::mutex mutex;                                 // of a run, and of the state
};

} // namespace

// An entry.
struct weft_model {
  Shared *shared = nullptr;
  std::string name;
  std::shared_ptr<Executable> executable;
  std::shared_ptr<ProgramExecutable> host; // the same, or null where another device runs it
  RunContext context;
  std::unique_ptr<RunResources> resources;
  std::vector<int32_t> reads, writes; // by the program's input, output: what is held, or kCaller
  std::vector<weft_tensor_info> input_infos, output_infos;
};

namespace {

thread_local std::string last_error;

int32_t fail(const absl::Status &status) {
  last_error = std::string(status.message());
  return 1;
}

int32_t done(const absl::Status &status) {
  return status.ok() ? 0 : fail(status);
}

template <typename Spec> weft_tensor_info info_of(const Spec &spec) {
  return {spec.name.c_str(), static_cast<int32_t>(spec.dtype),
          static_cast<int32_t>(spec.dims.size()), spec.dims.data(), spec.bytes};
}

absl::StatusOr<std::shared_ptr<ProgramExecutable>>
executable_of_host(const weft_model_code &code, Program program, std::shared_ptr<Memory> memory) {
  if (absl::Status status = check_cpu(program.target); !status.ok())
    return status;
  std::map<std::string_view, weft_kernel> kernels;
  for (uint32_t i = 0; i < code.kernel_count; ++i)
    kernels.emplace(code.kernel_names[i], code.kernels[i]);
  auto find_kernel = [&](std::string_view symbol) {
    auto found = kernels.find(symbol);
    return found == kernels.end() ? nullptr : found->second;
  };
  auto find_entry = [&](std::string_view entry) -> const LibraryEntry * {
    std::string text(entry);
    for (uint64_t i = 0; i < code.library_count; ++i)
      if (const weft_library_entry *found = code.libraries[i](text.c_str()))
        return reinterpret_cast<const LibraryEntry *>(found);
    return nullptr;
  };
  return ProgramExecutable::create(std::move(program), find_kernel, find_entry, std::move(memory));
}

// What depends on weights alone is computed once, now that they are there.
absl::Status prepare(ProgramExecutable &executable, weft_model &entry) {
  std::vector<Buffer *> stable(entry.reads.size());
  const HeldTensors &held = entry.shared->held;
  for (size_t i = 0; i < stable.size(); ++i)
    if (entry.reads[i] != kCaller && !held.is_state(static_cast<size_t>(entry.reads[i])))
      stable[i] = held.buffer(static_cast<size_t>(entry.reads[i]));
  if (absl::Status status = executable.prepare(entry.context, *entry.resources, stable);
      !status.ok())
    return status;
  auto compute = [&](const RunContext &) {
    return executable.compute_prepared(entry.context, *entry.resources);
  };
  return executable.is_serial() ? compute(entry.context)
                                : cpu_device().executor().submit(compute)->wait();
}

// By place: what is held there, whose size must be that of the spec.
template <typename Specs>
absl::StatusOr<std::vector<int32_t>> places(const HeldTensors &held, const weft_held_place *given,
                                            uint64_t count, const Specs &specs) {
  std::vector<int32_t> result(specs.size(), kCaller);
  for (uint64_t i = 0; i < count; ++i) {
    auto [place, tensor] = given[i];
    if (place < 0 || static_cast<size_t>(place) >= specs.size() || tensor < 0 ||
        static_cast<size_t>(tensor) >= held.size() ||
        held.info(static_cast<size_t>(tensor)).bytes != specs[static_cast<size_t>(place)].bytes)
      return absl::InvalidArgumentError("the model names a weight that its program lacks");
    result[static_cast<size_t>(place)] = tensor;
  }
  return result;
}

absl::StatusOr<Program> program_of(const weft_entry_code &entry) {
  return deserialize(
      {static_cast<const std::byte *>(entry.program), static_cast<size_t>(entry.program_bytes)});
}

// The entries that this processor can run: the first ones, or the last where it can run none, which
// says what it lacks.
absl::StatusOr<const weft_entry_code *const *> choose_level(const weft_model_code &code) {
  for (uint64_t level = 0; level + 1 < code.level_count; ++level) {
    absl::StatusOr<Program> program = program_of(*code.levels[level][0]);
    if (!program.ok())
      return program.status();
    if (check_cpu(program->target).ok())
      return code.levels[level];
  }
  return code.levels[code.level_count - 1];
}

absl::Status make_executable(const weft_model_code &code, const weft_entry_code &given, int threads,
                             weft_model &entry) {
  absl::StatusOr<Program> program = program_of(given);
  if (!program.ok())
    return program.status();
  Device &device = cpu_device();
  entry.name = given.name;
  entry.context.memory = device.memory();
  entry.context.pack_at_once = true;
  entry.context.threads = threads > 0 ? threads : device.executor().threads();
  entry.context.arenas = &entry.shared->arenas;
  if (code.make_executable != nullptr) {
    auto executable = take_executable(code.make_executable, given, *std::move(program));
    if (!executable.ok())
      return executable.status();
    entry.executable = *std::move(executable);
  } else {
    auto executable = executable_of_host(code, *std::move(program), entry.context.memory);
    if (!executable.ok())
      return executable.status();
    entry.executable = entry.host = *std::move(executable);
  }
  if (entry.executable->is_serial())
    entry.context.threads = 1;
  return absl::OkStatus();
}

absl::Status bind_held(const weft_entry_code &given, weft_model &entry) {
  const HeldTensors &held = entry.shared->held;
  std::span<const InputSpec> inputs = entry.executable->input_specs();
  std::span<const OutputSpec> outputs = entry.executable->output_specs();
  auto reads = places(held, given.reads, given.read_count, inputs);
  if (!reads.ok())
    return reads.status();
  entry.reads = *std::move(reads);
  auto writes = places(held, given.writes, given.write_count, outputs);
  if (!writes.ok())
    return writes.status();
  entry.writes = *std::move(writes);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (entry.reads[i] == kCaller)
      entry.input_infos.push_back(info_of(inputs[i]));
  std::vector<int64_t> beside; // sizes of new values that have memory of their own
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (entry.writes[i] == kCaller)
      entry.output_infos.push_back(info_of(outputs[i]));
    else if (outputs[i].donated_input == -1)
      beside.push_back(outputs[i].bytes);
  }
  return entry.shared->held.reserve(beside);
}

absl::Status open(const weft_model_code &given, const weft_model_options &options, Shared &model) {
  // The first version's fields: all that there are up to the last one.
  constexpr size_t first_bytes =
      offsetof(weft_model_code, make_executable) + sizeof(weft_model_code::make_executable);
  auto read =
      read_struct(given, first_bytes, WEFT_MODEL_VERSION, "the model", "runtime/aot/weft_model.h");
  if (!read.ok())
    return read.status();
  const weft_model_code &code = *read;
  if (absl::Status status = check_version(code.kernel_version, WEFT_ABI_VERSION,
                                          absl::StrCat("a kernel of the model '", code.name, "'"),
                                          "runtime/abi/weft_runtime.h");
      !status.ok())
    return status;
  if (options.threads < 0)
    return absl::InvalidArgumentError(absl::StrCat("cannot use ", options.threads, " threads"));
  if (code.entry_count == 0 || code.level_count == 0)
    return absl::InvalidArgumentError(absl::StrCat("the model '", code.name, "' has no entry"));
  auto level = choose_level(code);
  if (!level.ok())
    return level.status();
  const weft_entry_code *const *entries = *level;
  model.name = code.name;
  for (uint64_t i = 0; i < code.entry_count; ++i) {
    weft_model &entry = *model.entries.emplace_back(std::make_unique<weft_model>());
    entry.shared = &model;
    if (absl::Status status = make_executable(code, *entries[i], options.threads, entry);
        !status.ok())
      return status;
  }
  if (absl::Status status = model.held.open(code, options.weights, cpu_device().memory());
      !status.ok())
    return status;
  for (uint64_t i = 0; i < code.entry_count; ++i)
    if (absl::Status status = bind_held(*entries[i], *model.entries[i]); !status.ok())
      return status;
  // The largest arena first: the others lie in it.
  std::vector<weft_model *> by_size;
  for (const std::unique_ptr<weft_model> &entry : model.entries)
    by_size.push_back(entry.get());
  std::ranges::sort(by_size, std::ranges::greater(),
                    [](const weft_model *entry) { return entry->executable->arena_bytes(); });
  for (weft_model *entry : by_size) {
    absl::StatusOr<std::unique_ptr<RunResources>> resources =
        entry->executable->acquire(entry->context);
    if (!resources.ok())
      return resources.status();
    entry->resources = *std::move(resources);
    if (entry->host)
      if (absl::Status status = prepare(*entry->host, *entry); !status.ok())
        return status;
  }
  return absl::OkStatus();
}

absl::Status check_pointers(const std::vector<weft_tensor_info> &infos, const void *const *pointers,
                            const char *what) {
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].bytes == 0)
      continue;
    if (pointers == nullptr || pointers[i] == nullptr)
      return absl::InvalidArgumentError(absl::StrCat(what, " ", i, " is NULL"));
    if (!is_aligned(pointers[i], infos[i].dtype))
      return absl::InvalidArgumentError(
          absl::StrCat(what, " ", i, " is not aligned to its elements of ",
                       byte_size(static_cast<DType>(infos[i].dtype)), " bytes"));
  }
  return absl::OkStatus();
}

// One run: what the caller gives and what is held become a program's inputs; its outputs become the
// caller's, or new values of what is held.
class Run {
public:
  Run(weft_model &entry, const void *const *inputs, void *const *outputs)
      : entry_(entry), held_(entry.shared->held), specs_(entry.executable->output_specs()),
        in_(entry.reads.size()), out_(specs_.size()), beside_(specs_.size()),
        targets_(specs_.size()) {
    size_t given = 0;
    // Programs only read inputs that are not donated, which those of the caller never are.
    for (size_t i = 0; i < in_.size(); ++i)
      in_[i] = entry.reads[i] == kCaller ? borrow(const_cast<void *>(inputs[given++]),
                                                  entry.executable->input_specs()[i].bytes)
                                         : held_.buffer(static_cast<size_t>(entry.reads[i]));
    size_t taken = 0;
    for (size_t i = 0; i < out_.size(); ++i) {
      if (entry.writes[i] == kCaller)
        targets_[i] = outputs[taken++];
      out_[i] = place_of(i);
    }
  }
  ~Run() {
    for (std::shared_ptr<Buffer> &spare : beside_)
      if (spare)
        held_.give_back(std::move(spare));
  }

  absl::Status run() {
    auto work = [&](const RunContext &) {
      return entry_.executable->run(entry_.context, *entry_.resources, in_, out_);
    };
    // Threads and libraries belong to the executor; the rest runs here.
    absl::Status status = entry_.executable->is_serial()
                              ? work(entry_.context)
                              : cpu_device().executor().submit(work)->wait();
    if (status.ok())
      hand_over();
    else if (writes_state_ && !has_kept_inputs(status))
      held_.lose(status);
    return status;
  }

private:
  Buffer *borrow(void *data, int64_t bytes) {
    buffers_.push_back(Buffer::borrow(data, bytes, nullptr));
    return buffers_.back().get();
  }

  Buffer *place_of(size_t i) {
    const OutputSpec &spec = specs_[i];
    bool is_held = entry_.writes[i] != kCaller;
    writes_state_ = writes_state_ || is_held;
    if (is_held && spec.donated_input == -1)
      beside_[i] = held_.take(spec.bytes);
    if (spec.donated_input != -1) {
      Buffer *&input = in_[static_cast<size_t>(spec.donated_input)];
      if (is_held)
        return input;
      // The output is made in the input's place: start from a copy where the caller wants it.
      if (spec.bytes > 0)
        std::memcpy(targets_[i], input->data(), static_cast<size_t>(spec.bytes));
      return input = borrow(targets_[i], spec.bytes);
    }
    if (spec.alias_input != -1)
      return in_[static_cast<size_t>(spec.alias_input)];
    if (spec.alias_output != -1)
      return out_[static_cast<size_t>(spec.alias_output)];
    return is_held ? beside_[i].get() : borrow(targets_[i], spec.bytes);
  }

  // Copies what an output only refers to, before any value is replaced; then replaces them all.
  void hand_over() {
    std::vector<std::pair<size_t, std::shared_ptr<Buffer>>> values;
    for (size_t i = 0; i < out_.size(); ++i) {
      void *target = beside_[i] ? beside_[i]->data() : targets_[i];
      if (specs_[i].bytes > 0 && target != nullptr && out_[i]->data() != target)
        std::memcpy(target, out_[i]->data(), static_cast<size_t>(specs_[i].bytes));
      if (entry_.writes[i] == kCaller)
        continue;
      int32_t donor = specs_[i].donated_input == -1
                          ? kCaller
                          : entry_.reads[static_cast<size_t>(specs_[i].donated_input)];
      values.emplace_back(entry_.writes[i], donor == kCaller
                                                ? std::move(beside_[i])
                                                : held_.share(static_cast<size_t>(donor)));
    }
    held_.exchange(std::move(values));
  }

  weft_model &entry_;
  HeldTensors &held_;
  std::span<const OutputSpec> specs_;
  std::vector<std::shared_ptr<Buffer>> buffers_; // the caller's memory
  std::vector<Buffer *> in_, out_;
  std::vector<std::shared_ptr<Buffer>> beside_; // by output: where its new value is written
  std::vector<void *> targets_;                 // by output: the caller's
  bool writes_state_ = false;
};

absl::Status run(weft_model &entry, const void *const *inputs, void *const *outputs) {
  if (absl::Status status = check_pointers(entry.input_infos, inputs, "input"); !status.ok())
    return status;
  if (absl::Status status = check_pointers(entry.output_infos, outputs, "output"); !status.ok())
    return status;
  std::lock_guard lock(entry.shared->mutex);
  if (absl::Status status = entry.shared->held.check(); !status.ok())
    return status;
  return Run(entry, inputs, outputs).run();
}

// Calls copy(value of the state, its bytes) with the model's lock.
template <typename Copy>
int32_t with_state(const weft_model *model, const char *name, const void *data, uint64_t bytes,
                   Copy copy) {
  if (model == nullptr || name == nullptr)
    return fail(absl::InvalidArgumentError("a state of a model was asked for by NULL"));
  std::lock_guard lock(model->shared->mutex);
  const HeldTensors &held = model->shared->held;
  if (absl::Status status = held.check(); !status.ok())
    return fail(status);
  absl::StatusOr<size_t> index = held.find_state(name);
  if (!index.ok())
    return fail(index.status());
  const weft_tensor_info &info = held.info(*index);
  if (static_cast<uint64_t>(info.bytes) != bytes)
    return fail(absl::InvalidArgumentError(absl::StrCat("the state '", name, "' is ", show(info),
                                                        ", which takes ", info.bytes,
                                                        " bytes, not ", bytes)));
  if (bytes == 0)
    return 0;
  if (data == nullptr)
    return fail(absl::InvalidArgumentError(absl::StrCat("the value of '", name, "' is NULL")));
  copy(held.buffer(*index)->data(), static_cast<size_t>(bytes));
  return 0;
}

} // namespace

extern "C" {

int32_t weft_model_open(const weft_model_code *code, const weft_model_options *options,
                        weft_model **model) {
  if (code == nullptr || model == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_open was given NULL"));
  *model = nullptr;
  absl::StatusOr<weft_model_options> all = weft_model_options{};
  if (options != nullptr)
    all = read_struct(*options, offsetof(weft_model_options, weights) + sizeof options->weights,
                      "options");
  if (!all.ok())
    return fail(all.status());
  auto opened = std::make_unique<Shared>();
  if (absl::Status status = open(*code, *all, *opened); !status.ok())
    return fail(status);
  *model = opened.release()->entries.front().get();
  return 0;
}

void weft_model_close(weft_model *model) {
  if (model != nullptr)
    delete model->shared;
}

weft_model *weft_model_entry(weft_model *model, const char *name) {
  if (model == nullptr || name == nullptr) {
    fail(absl::InvalidArgumentError("weft_model_entry was given NULL"));
    return nullptr;
  }
  std::vector<std::string> known;
  for (const std::unique_ptr<weft_model> &entry : model->shared->entries) {
    if (entry->name == name)
      return entry.get();
    known.push_back(entry->name);
  }
  fail(absl::NotFoundError(absl::StrCat("the model '", model->shared->name, "' has no entry '",
                                        name, "'; it has ", absl::StrJoin(known, ", "))));
  return nullptr;
}

int32_t weft_model_entry_count(const weft_model *model) {
  return static_cast<int32_t>(model->shared->entries.size());
}
const char *weft_model_entry_name(const weft_model *model, int32_t index) {
  return index < 0 || index >= weft_model_entry_count(model)
             ? nullptr
             : model->shared->entries[static_cast<size_t>(index)]->name.c_str();
}

int32_t weft_model_input_count(const weft_model *model) {
  return static_cast<int32_t>(model->input_infos.size());
}
int32_t weft_model_output_count(const weft_model *model) {
  return static_cast<int32_t>(model->output_infos.size());
}

const weft_tensor_info *weft_model_input(const weft_model *model, int32_t index) {
  return index < 0 || index >= weft_model_input_count(model)
             ? nullptr
             : &model->input_infos[static_cast<size_t>(index)];
}
const weft_tensor_info *weft_model_output(const weft_model *model, int32_t index) {
  return index < 0 || index >= weft_model_output_count(model)
             ? nullptr
             : &model->output_infos[static_cast<size_t>(index)];
}

int32_t weft_model_run(weft_model *model, const void *const *inputs, void *const *outputs) {
  if (model == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_run was given no model"));
  return done(run(*model, inputs, outputs));
}

int32_t weft_model_state_count(const weft_model *model) {
  return static_cast<int32_t>(model->shared->held.state().size());
}
const weft_tensor_info *weft_model_state(const weft_model *model, int32_t index) {
  const HeldTensors &held = model->shared->held;
  return index < 0 || index >= weft_model_state_count(model)
             ? nullptr
             : &held.info(held.state()[static_cast<size_t>(index)]);
}

int32_t weft_model_get_state(const weft_model *model, const char *name, void *data,
                             uint64_t bytes) {
  return with_state(model, name, data, bytes,
                    [&](const void *value, size_t size) { std::memcpy(data, value, size); });
}
int32_t weft_model_set_state(weft_model *model, const char *name, const void *data,
                             uint64_t bytes) {
  return with_state(model, name, data, bytes,
                    [&](void *value, size_t size) { std::memcpy(value, data, size); });
}

int32_t weft_model_save_state(const weft_model *model, const char *path) {
  if (model == nullptr || path == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_save_state was given NULL"));
  std::lock_guard lock(model->shared->mutex);
  return done(model->shared->held.save(path));
}
int32_t weft_model_load_state(weft_model *model, const char *path) {
  if (model == nullptr || path == nullptr)
    return fail(absl::InvalidArgumentError("weft_model_load_state was given NULL"));
  std::lock_guard lock(model->shared->mutex);
  return done(model->shared->held.load(path));
}

const char *weft_model_error(void) {
  return last_error.c_str();
}

} // extern "C"
