#include "runtime/aot/entry.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/abi/read_struct.h"
#include "runtime/aot/c_executable.h"
#include "runtime/aot/cpu_check.h"
#include "runtime/core/status.h"
#include "runtime/executable/take_resources.h"
#include "runtime/executor/device.h"
#include "runtime/io/array_text.h"
#include "runtime/threading/thread_pool.h"

namespace weft::runtime {
namespace {

// Programs at particular sizes that an entry keeps ready: each holds an instruction table, and
// states of library calls. Batches of one loop have few sizes: all but the last have one.
constexpr size_t kSizedPrograms = 8;

template <typename Spec> weft_tensor_info info_of(const Spec &spec, const Spec &least) {
  return {spec.name.c_str(),
          static_cast<int32_t>(spec.dtype),
          static_cast<int32_t>(spec.dims.size()),
          spec.dims.data(),
          spec.bytes,
          least.dims.data()};
}

absl::StatusOr<std::shared_ptr<ProgramExecutable>>
executable_of_host(const weft_model_code &code, Program program, std::shared_ptr<Memory> memory,
                   const ProgramExecutable *other_sizes) {
  WEFT_RETURN_IF_ERROR(check_cpu(program.target));
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
  return ProgramExecutable::create(std::move(program), find_kernel, find_entry, std::move(memory),
                                   nullptr, other_sizes);
}

// What depends on weights alone is computed once, now that they are there.
absl::Status prepare(const weft_model &entry, SizedProgram &sized) {
  ProgramExecutable &executable = *sized.host;
  std::vector<Buffer *> stable(entry.reads.size());
  const HeldTensors &held = entry.shared->held;
  for (size_t i = 0; i < stable.size(); ++i)
    if (entry.reads[i] != kCaller && !held.is_state(static_cast<size_t>(entry.reads[i])))
      stable[i] = held.buffer(static_cast<size_t>(entry.reads[i]));
  WEFT_RETURN_IF_ERROR(executable.prepare(sized.context, *sized.resources, stable));
  auto compute = [&](const RunContext &) {
    return executable.compute_prepared(sized.context, *sized.resources);
  };
  return executable.is_serial() ? compute(sized.context)
                                : cpu_device().executor().run(compute);
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

absl::StatusOr<SizedPrograms> programs_of(const weft_entry_code &entry) {
  return deserialize_sized(
      {static_cast<const std::byte *>(entry.program), static_cast<size_t>(entry.program_bytes)});
}

// The entries that this processor can run: the first ones, or the last where it can run none, which
// says what it lacks.
absl::StatusOr<const weft_entry_code *const *> choose_level(const weft_model_code &code) {
  for (uint64_t level = 0; level + 1 < code.level_count; ++level) {
    WEFT_ASSIGN_OR_RETURN(SizedPrograms programs, programs_of(*code.levels[level][0]));
    if (check_cpu(programs.largest().target).ok())
      return code.levels[level];
  }
  return code.levels[code.level_count - 1];
}

// Where nothing varies the executable takes the program over, and leaves what describes it: its
// constants, which may be all weights, are there once.
absl::StatusOr<Program> take_program(weft_model &entry, int64_t size) {
  if (entry.programs.varies())
    return entry.programs.at(size);
  Program &known = entry.programs.parts.front().program, taken = std::move(known);
  known = Program();
  known.inputs = taken.inputs;
  known.outputs = taken.outputs;
  return taken;
}

// Without resources.
absl::StatusOr<SizedProgram> make_sized(weft_model &entry, int64_t size) {
  WEFT_ASSIGN_OR_RETURN(Program program, take_program(entry, size));
  const weft_model_code &code = entry.shared->code;
  SizedProgram sized;
  sized.size = size;
  sized.context.memory = cpu_device().memory();
  sized.context.pack_at_once = true;
  sized.context.arenas = &entry.shared->arenas;
  if (code.make_executable != nullptr) {
    WEFT_ASSIGN_OR_RETURN(sized.executable,
                          take_executable(code.make_executable, *entry.code, std::move(program)));
  } else {
    auto same = std::ranges::find_if(entry.sized, [&](const SizedProgram &other) {
      return entry.programs.part_of(other.size) == entry.programs.part_of(size);
    });
    WEFT_ASSIGN_OR_RETURN(
        auto executable,
        executable_of_host(code, std::move(program), sized.context.memory,
                           same == entry.sized.end() ? nullptr : same->host.get()));
    sized.executable = sized.host = std::move(executable);
  }
  sized.context.threads = sized.executable->is_serial() ? 1 : entry.threads;
  return sized;
}

absl::Status take_resources(const weft_model &entry, SizedProgram &sized) {
  WEFT_ASSIGN_OR_RETURN(sized.resources,
                        runtime::take_resources(*sized.executable, sized.context));
  return sized.host ? prepare(entry, sized) : absl::OkStatus();
}

absl::Status make_entry(const weft_entry_code &given, int threads, weft_model &entry) {
  WEFT_ASSIGN_OR_RETURN(SizedPrograms programs, programs_of(given));
  entry.name = given.name;
  entry.code = &given;
  entry.programs = std::move(programs);
  entry.threads = threads > 0 ? threads : cpu_device().executor().threads();
  entry.smallest.inputs = entry.programs.largest().inputs;
  entry.smallest.outputs = entry.programs.largest().outputs;
  if (entry.programs.varies()) {
    WEFT_ASSIGN_OR_RETURN(Program smallest, entry.programs.at(entry.programs.low()));
    entry.smallest.inputs = std::move(smallest.inputs);
    entry.smallest.outputs = std::move(smallest.outputs);
  }
  WEFT_ASSIGN_OR_RETURN(SizedProgram largest, make_sized(entry, entry.programs.high()));
  entry.sized.push_back(std::move(largest));
  return absl::OkStatus();
}

absl::Status bind_held(const weft_entry_code &given, weft_model &entry) {
  HeldTensors &held = entry.shared->held;
  const std::vector<InputSpec> &inputs = entry.programs.largest().inputs;
  const std::vector<OutputSpec> &outputs = entry.programs.largest().outputs;
  WEFT_ASSIGN_OR_RETURN(entry.reads, places(held, given.reads, given.read_count, inputs));
  WEFT_ASSIGN_OR_RETURN(entry.writes, places(held, given.writes, given.write_count, outputs));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (entry.reads[i] == kCaller)
      entry.input_infos.push_back(info_of(inputs[i], entry.smallest.inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (entry.writes[i] == kCaller)
      entry.output_infos.push_back(info_of(outputs[i], entry.smallest.outputs[i]));
  // Which values are written in their own place may differ between the programs.
  for (const SizedPrograms::Part &part : entry.programs.parts) {
    std::vector<int64_t> beside; // sizes of new values that have memory of their own
    for (size_t i = 0; i < outputs.size(); ++i)
      if (entry.writes[i] != kCaller && part.program.outputs[i].donated_input == -1)
        beside.push_back(part.program.outputs[i].bytes);
    WEFT_RETURN_IF_ERROR(held.reserve(beside));
  }
  return absl::OkStatus();
}

} // namespace

absl::Status open_entries(const weft_model_code &given, const weft_model_options &options,
                          SharedModel &model) {
  // The first version's fields: all that there are up to the last one.
  constexpr size_t first_bytes =
      offsetof(weft_model_code, make_executable) + sizeof(weft_model_code::make_executable);
  WEFT_ASSIGN_OR_RETURN(auto read, read_struct(given, first_bytes, WEFT_MODEL_VERSION, "the model",
                                               "runtime/aot/weft_model.h"));
  const weft_model_code &code = read;
  WEFT_RETURN_IF_ERROR(check_version(code.kernel_version, WEFT_ABI_VERSION,
                                     absl::StrCat("a kernel of the model '", code.name, "'"),
                                     "runtime/abi/weft_runtime.h"));
  if (options.threads < 0 || options.threads > ThreadPool::kMostThreads)
    return absl::InvalidArgumentError(absl::StrCat("cannot use ", options.threads,
                                                   " threads; it must be a number from 1 to ",
                                                   ThreadPool::kMostThreads, ", or 0 for all"));
  if (code.entry_count == 0 || code.level_count == 0)
    return absl::InvalidArgumentError(absl::StrCat("the model '", code.name, "' has no entry"));
  WEFT_ASSIGN_OR_RETURN(auto level, choose_level(code));
  const weft_entry_code *const *entries = level;
  model.code = code;
  model.name = code.name;
  for (uint64_t i = 0; i < code.entry_count; ++i) {
    weft_model &entry = *model.entries.emplace_back(std::make_unique<weft_model>());
    entry.shared = &model;
    WEFT_RETURN_IF_ERROR(make_entry(*entries[i], options.threads, entry));
  }
  WEFT_RETURN_IF_ERROR(model.held.open(code, options.weights, cpu_device().memory()));
  for (uint64_t i = 0; i < code.entry_count; ++i)
    WEFT_RETURN_IF_ERROR(bind_held(*entries[i], *model.entries[i]));
  // The largest arena first: the others lie in it.
  std::vector<weft_model *> by_size;
  for (const std::unique_ptr<weft_model> &entry : model.entries)
    by_size.push_back(entry.get());
  std::ranges::sort(by_size, std::ranges::greater(), [](const weft_model *entry) {
    return entry->sized.front().executable->arena_bytes();
  });
  for (weft_model *entry : by_size)
    WEFT_RETURN_IF_ERROR(take_resources(*entry, entry->sized.front()));
  return absl::OkStatus();
}

absl::StatusOr<SizedProgram *> at_size(weft_model &entry, int64_t size) {
  auto known =
      std::ranges::find_if(entry.sized, [&](const auto &each) { return each.size == size; });
  if (known != entry.sized.end()) {
    std::rotate(entry.sized.begin(), known, known + 1);
    return &entry.sized.front();
  }
  WEFT_ASSIGN_OR_RETURN(SizedProgram made, make_sized(entry, size));
  WEFT_RETURN_IF_ERROR(take_resources(entry, made));
  entry.sized.push_front(std::move(made));
  if (entry.sized.size() > kSizedPrograms)
    entry.sized.pop_back();
  return &entry.sized.front();
}

namespace {

std::string label_of(size_t i, const weft_tensor_info &info) {
  return absl::StrCat("input ", i, *info.name == '\0' ? "" : absl::StrCat(" '", info.name, "'"));
}

} // namespace

absl::StatusOr<int64_t> size_of(const weft_model &entry, const int64_t *const *dims) {
  std::optional<int64_t> size;
  size_t first = 0; // the input that gave it
  for (size_t i = 0; i < entry.input_infos.size(); ++i) {
    const weft_tensor_info &info = entry.input_infos[i];
    auto rank = static_cast<size_t>(info.rank);
    bool varies = !std::equal(info.dims, info.dims + rank, info.min_dims);
    if (dims == nullptr || dims[i] == nullptr) {
      if (!varies)
        continue;
      return absl::InvalidArgumentError(
          absl::StrCat(label_of(i, info), " is ", show(info), ": its dims are missing"));
    }
    auto wrong = [&](const std::string &why) {
      return absl::InvalidArgumentError(
          absl::StrCat(label_of(i, info), " is given as ",
                       shape_text(static_cast<DType>(info.dtype), {dims[i], rank}), "; ", why));
    };
    for (size_t d = 0; d < rank; ++d)
      if (dims[i][d] < info.min_dims[d] || dims[i][d] > info.dims[d])
        return wrong(absl::StrCat("the model takes ", show(info)));
    if (!varies)
      continue;
    if (!size)
      first = i;
    if (size && *size != dims[i][0])
      return wrong(absl::StrCat(label_of(first, entry.input_infos[first]), " has a ",
                                entry.programs.name, " of ", *size));
    size = dims[i][0];
  }
  return size.value_or(entry.programs.high());
}

} // namespace weft::runtime
