// The implementation of weft_model.h.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/abi/read_struct.h"
#include "runtime/aot/c_executable.h"
#include "runtime/aot/cpu_check.h"
#include "runtime/aot/weft_model.h"
#include "runtime/executable/program_executable.h"
#include "runtime/executor/device.h"
#include "runtime/io/safetensors.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"

using namespace weft;
using namespace weft::runtime;

struct weft_model {
  std::shared_ptr<Executable> executable;
  RunContext context;
  std::unique_ptr<RunResources> resources;
  std::vector<std::shared_ptr<Buffer>> weights; // by program input; null where the user gives it
  std::vector<size_t> inputs;                   // program inputs that the user gives
  std::vector<weft_tensor_info> input_infos, output_infos;
  std::mutex mutex; // one run at a time
};

namespace {

thread_local std::string last_error;

int32_t fail(const absl::Status &status) {
  last_error = std::string(status.message());
  return 1;
}

std::string show(DType dtype, const std::vector<int64_t> &dims) {
  return absl::StrCat(name(dtype), "[", absl::StrJoin(dims, ", "), "]");
}

template <typename Spec> weft_tensor_info info_of(const Spec &spec) {
  return {spec.name.c_str(), static_cast<int32_t>(spec.dtype),
          static_cast<int32_t>(spec.dims.size()), spec.dims.data(), spec.bytes};
}

bool is_aligned(const void *data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(byte_size(dtype)) == 0;
}

// Maps the weights that are not embedded.
absl::Status load_weights(const weft_model_code &code, const char *path, weft_model &model) {
  std::span<const InputSpec> specs = model.executable->input_specs();
  model.weights.resize(specs.size());
  if (code.parameter_count == 0)
    return absl::OkStatus();
  if (path == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("the model '", code.name, "' needs ",
                                                   code.parameter_count,
                                                   " weights; name a safetensors file"));
  absl::StatusOr<SafetensorsFile> file = read_safetensors(path);
  if (!file.ok())
    return file.status();
  std::map<std::string_view, const ArrayView *> by_name;
  for (const ArrayView &tensor : file->tensors)
    by_name.emplace(tensor.name, &tensor);
  for (uint64_t i = 0; i < code.parameter_count; ++i) {
    size_t index = static_cast<size_t>(code.parameters[i]);
    if (code.parameters[i] < 0 || index >= specs.size())
      return absl::InvalidArgumentError("the model names a weight that its program lacks");
    const InputSpec &spec = specs[index];
    auto found = by_name.find(spec.name);
    if (found == by_name.end())
      return absl::NotFoundError(absl::StrCat(path, ": there is no weight '", spec.name, "'"));
    const ArrayView &tensor = *found->second;
    if (tensor.dtype != spec.dtype || tensor.dims != spec.dims)
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the weight '", spec.name, "' is ", show(tensor.dtype, tensor.dims),
                       "; the model takes ", show(spec.dtype, spec.dims)));
    if (is_aligned(tensor.bytes.data(), spec.dtype) && !spec.donatable) {
      model.weights[index] =
          Buffer::borrow_constant(tensor.bytes.data(), spec.bytes, file->storage);
      continue;
    }
    absl::StatusOr<std::shared_ptr<Buffer>> buffer =
        model.context.memory->allocate(spec.bytes, "parameter");
    if (!buffer.ok())
      return buffer.status();
    if (spec.bytes > 0)
      std::memcpy((*buffer)->data(), tensor.bytes.data(), static_cast<size_t>(spec.bytes));
    model.weights[index] = *std::move(buffer);
  }
  return absl::OkStatus();
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
absl::Status prepare(ProgramExecutable &executable, weft_model &model) {
  std::vector<Buffer *> stable(model.weights.size());
  for (size_t i = 0; i < stable.size(); ++i)
    stable[i] = model.weights[i].get();
  if (absl::Status status = executable.prepare(model.context, *model.resources, stable);
      !status.ok())
    return status;
  auto compute = [&](const RunContext &) {
    return executable.compute_prepared(model.context, *model.resources);
  };
  return executable.is_serial() ? compute(model.context)
                                : cpu_device().executor().submit(compute)->wait();
}

absl::Status open(const weft_model_code &given, const weft_model_options &options,
                  weft_model &model) {
  // The first version's fields: all that there are up to the last one.
  constexpr size_t first_bytes =
      offsetof(weft_model_code, device_code_bytes) + sizeof(weft_model_code::device_code_bytes);
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
  absl::StatusOr<Program> program = deserialize(
      {static_cast<const std::byte *>(code.program), static_cast<size_t>(code.program_bytes)});
  if (!program.ok())
    return program.status();
  Device &device = cpu_device();
  model.context.memory = device.memory();
  model.context.pack_at_once = true;
  model.context.threads = options.threads > 0 ? options.threads : device.executor().threads();
  std::shared_ptr<ProgramExecutable> host; // null where another device runs the program
  if (code.make_executable != nullptr) {
    auto executable = take_executable(code, *std::move(program));
    if (!executable.ok())
      return executable.status();
    model.executable = *std::move(executable);
  } else {
    auto executable = executable_of_host(code, *std::move(program), model.context.memory);
    if (!executable.ok())
      return executable.status();
    model.executable = host = *std::move(executable);
  }
  if (model.executable->is_serial())
    model.context.threads = 1;
  if (absl::Status status = load_weights(code, options.weights, model); !status.ok())
    return status;
  absl::StatusOr<std::unique_ptr<RunResources>> resources =
      model.executable->acquire(model.context);
  if (!resources.ok())
    return resources.status();
  model.resources = *std::move(resources);
  if (host)
    if (absl::Status status = prepare(*host, model); !status.ok())
      return status;
  std::span<const InputSpec> inputs = model.executable->input_specs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (model.weights[i])
      continue;
    model.inputs.push_back(i);
    model.input_infos.push_back(info_of(inputs[i]));
  }
  for (const OutputSpec &output : model.executable->output_specs())
    model.output_infos.push_back(info_of(output));
  return absl::OkStatus();
}

absl::Status check_pointers(const std::vector<weft_tensor_info> &infos, const void *const *pointers,
                            const char *what) {
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].bytes == 0)
      continue;
    if (pointers == nullptr || pointers[i] == nullptr)
      return absl::InvalidArgumentError(absl::StrCat(what, " ", i, " is NULL"));
    DType dtype = static_cast<DType>(infos[i].dtype);
    if (!is_aligned(pointers[i], dtype))
      return absl::InvalidArgumentError(absl::StrCat(
          what, " ", i, " is not aligned to its elements of ", byte_size(dtype), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status run(weft_model &model, const void *const *inputs, void *const *outputs) {
  if (absl::Status status = check_pointers(model.input_infos, inputs, "input"); !status.ok())
    return status;
  if (absl::Status status = check_pointers(model.output_infos, outputs, "output"); !status.ok())
    return status;
  std::span<const OutputSpec> specs = model.executable->output_specs();
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<Buffer *> in(model.weights.size()), out(specs.size());
  auto borrow = [&](void *data, int64_t bytes) {
    buffers.push_back(Buffer::borrow(data, bytes, nullptr));
    return buffers.back().get();
  };
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = model.weights[i].get();
  // Programs only read inputs that are not donated, and those that are get a copy, below.
  for (size_t i = 0; i < model.inputs.size(); ++i)
    in[model.inputs[i]] = borrow(const_cast<void *>(inputs[i]), model.input_infos[i].bytes);
  for (size_t i = 0; i < out.size(); ++i) {
    if (specs[i].donated_input != -1) {
      // The output is made in the input's place: start from a copy there.
      Buffer *&input = in[static_cast<size_t>(specs[i].donated_input)];
      if (specs[i].bytes > 0)
        std::memcpy(outputs[i], input->data(), static_cast<size_t>(specs[i].bytes));
      out[i] = input = borrow(outputs[i], specs[i].bytes);
    } else if (specs[i].alias_input != -1)
      out[i] = in[static_cast<size_t>(specs[i].alias_input)];
    else if (specs[i].alias_output != -1)
      out[i] = out[static_cast<size_t>(specs[i].alias_output)];
    else
      out[i] = borrow(outputs[i], specs[i].bytes);
  }
  std::lock_guard lock(model.mutex);
  auto work = [&](const RunContext &) {
    return model.executable->run(model.context, *model.resources, in, out);
  };
  // Threads and libraries belong to the executor; the rest runs here.
  absl::Status status = model.executable->is_serial()
                            ? work(model.context)
                            : cpu_device().executor().submit(work)->wait();
  if (!status.ok())
    return status;
  for (size_t i = 0; i < out.size(); ++i)
    if (specs[i].bytes > 0 && out[i]->data() != outputs[i])
      std::memcpy(outputs[i], out[i]->data(), static_cast<size_t>(specs[i].bytes));
  return absl::OkStatus();
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
  auto opened = std::make_unique<weft_model>();
  if (absl::Status status = open(*code, *all, *opened); !status.ok())
    return fail(status);
  *model = opened.release();
  return 0;
}

void weft_model_close(weft_model *model) {
  delete model;
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
  absl::Status status = run(*model, inputs, outputs);
  return status.ok() ? 0 : fail(status);
}

const char *weft_model_error(void) {
  return last_error.c_str();
}

} // extern "C"
