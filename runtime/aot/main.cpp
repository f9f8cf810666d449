// The main() of an executable that weft-compile makes: files in, files out.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/aot/weft_model.h"
#include "runtime/core/float16.h"
#include "runtime/executable/program.h"
#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"

using namespace weft;
using namespace weft::runtime;

extern "C" const weft_model_code *const weft_main_model;

namespace {

struct Arguments {
  bool help = false;
  int threads = 0;
  std::string weights;
  std::vector<std::string> inputs; // FILE or NAME=FILE
  std::vector<std::string> outputs;
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string show(DType dtype, std::span<const int64_t> dims) {
  return absl::StrCat(name(dtype), "[", absl::StrJoin(dims, ", "), "]");
}
std::string show(const weft_tensor_info &info) {
  return show(static_cast<DType>(info.dtype), std::span(info.dims, static_cast<size_t>(info.rank)));
}

// "input 0 'x'"; without a name where the model gives none.
std::string input_label(size_t i, const weft_tensor_info &info) {
  return *info.name == '\0' ? absl::StrCat("input ", i)
                            : absl::StrCat("input ", i, " '", info.name, "'");
}

absl::StatusOr<Arguments> parse(int argc, char **argv) {
  Arguments result;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "-h" || word == "--help") {
      result.help = true;
      continue;
    }
    if (word.substr(0, 1) != "-" || word == "-") {
      result.inputs.emplace_back(word);
      continue;
    }
    // --name=value or --name value
    size_t equals = word.find('=');
    std::string option(word.substr(0, equals)), value;
    if (equals != word.npos)
      value = word.substr(equals + 1);
    else if (i + 1 < argc)
      value = argv[++i];
    else
      return absl::InvalidArgumentError(
          absl::StrCat(option, " needs a value; --help shows the options"));
    if (option == "--input" || option == "-i")
      result.inputs.push_back(value);
    else if (option == "--output" || option == "-o")
      result.outputs.push_back(value);
    else if (option == "--weights")
      result.weights = value;
    else if (option == "--threads") {
      auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), result.threads);
      if (error != std::errc() || end != value.data() + value.size() || result.threads < 1 ||
          result.threads > 1024)
        return absl::InvalidArgumentError(
            absl::StrCat("--threads takes a number from 1 to 1024, not '", value, "'"));
    } else
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option ", option, "; --help shows the options"));
  }
  return result;
}

void list(const char *title, const std::vector<weft_tensor_info> &tensors) {
  std::printf("%s\n", title);
  for (size_t i = 0; i < tensors.size(); ++i)
    std::printf("  %zu  %-24s %s\n", i, tensors[i].name, show(tensors[i]).c_str());
  if (tensors.empty())
    std::printf("  none\n");
}

std::vector<weft_tensor_info> tensors_of(const weft_model_code &code, bool outputs,
                                         Program &program) {
  std::vector<weft_tensor_info> result;
  auto add = [&](const auto &spec) {
    result.push_back({spec.name.c_str(), static_cast<int32_t>(spec.dtype),
                      static_cast<int32_t>(spec.dims.size()), spec.dims.data(), spec.bytes});
  };
  if (outputs) {
    for (const OutputSpec &spec : program.outputs)
      add(spec);
    return result;
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    bool weight = false;
    for (uint64_t p = 0; p < code.parameter_count; ++p)
      weight = weight || code.parameters[p] == static_cast<int32_t>(i);
    if (!weight)
      add(program.inputs[i]);
  }
  return result;
}

void print_help(const weft_model_code &code, const char *self,
                const std::vector<weft_tensor_info> &inputs,
                const std::vector<weft_tensor_info> &outputs) {
  std::printf("Runs the model '%s', compiled by Weft.\n\n"
              "usage: %s [--input [NAME=]FILE]... [--output [NAME=]FILE]... %s[--threads N]\n\n"
              "A FILE is x.npy, one tensor, or x.safetensors, tensors by name. Inputs and outputs "
              "without a NAME are taken in order.\n"
              "Without --output, shapes and first elements are printed.%s\n\n",
              code.name, self, code.parameter_count > 0 ? "--weights FILE.safetensors " : "",
              code.parameter_count > 0 ? " The weights are read from a safetensors file." : "");
  list("inputs", inputs);
  list("outputs", outputs);
}

// NAME=FILE, where NAME is one of the tensors' or the whole is a FILE.
std::pair<std::string, std::string> split(const std::string &text,
                                          const std::vector<weft_tensor_info> &tensors) {
  size_t equals = text.find('=');
  if (equals == text.npos)
    return {"", text};
  std::string label = text.substr(0, equals);
  for (const weft_tensor_info &tensor : tensors)
    if (label == tensor.name)
      return {label, text.substr(equals + 1)};
  // An unknown name is reported by the caller, unless the text is a path that holds '='.
  return label.find('/') == label.npos ? std::make_pair(label, text.substr(equals + 1))
                                       : std::make_pair(std::string(), text);
}

struct Inputs {
  std::vector<std::shared_ptr<const void>> storage;
  std::vector<const void *> pointers;
  std::vector<bool> bound;
};

// The array lies in `storage`.
absl::Status give_input(Inputs &result, size_t i, const ArrayView &array,
                        std::shared_ptr<const void> storage,
                        const std::vector<weft_tensor_info> &infos, const std::string &path) {
  const weft_tensor_info &info = infos[i];
  if (static_cast<int32_t>(array.dtype) != info.dtype ||
      !std::equal(array.dims.begin(), array.dims.end(), info.dims, info.dims + info.rank))
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", input_label(i, info), " is ",
                                                   show(info), "; the file holds ",
                                                   show(array.dtype, array.dims)));
  if (result.bound[i])
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", input_label(i, info), " was given before"));
  result.bound[i] = true;
  result.pointers[i] = array.bytes.data();
  if (reinterpret_cast<uintptr_t>(array.bytes.data()) %
          static_cast<uintptr_t>(byte_size(array.dtype)) !=
      0) {
    auto copy = std::make_shared<std::vector<std::byte>>(array.bytes.begin(), array.bytes.end());
    result.pointers[i] = copy->data();
    storage = std::move(copy);
  }
  result.storage.push_back(std::move(storage));
  return absl::OkStatus();
}

absl::StatusOr<Inputs> read_inputs(const Arguments &arguments,
                                   const std::vector<weft_tensor_info> &infos) {
  Inputs result;
  result.pointers.resize(infos.size());
  result.bound.resize(infos.size());
  size_t next = 0;
  auto index_of = [&](const std::string &label) {
    for (size_t i = 0; i < infos.size(); ++i)
      if (label == infos[i].name)
        return i;
    return infos.size();
  };
  for (const std::string &text : arguments.inputs) {
    auto [label, path] = split(text, infos);
    if (ends_with(path, ".safetensors")) {
      absl::StatusOr<SafetensorsFile> file = read_safetensors(path);
      if (!file.ok())
        return file.status();
      for (const ArrayView &tensor : file->tensors) {
        if (!label.empty() && file->tensors.size() > 1 && tensor.name != label)
          continue;
        size_t i = index_of(label.empty() ? tensor.name : label);
        if (i == infos.size())
          return absl::NotFoundError(absl::StrCat(path, ": the model has no input '",
                                                  label.empty() ? tensor.name : label,
                                                  "'; --help lists them"));
        if (absl::Status status = give_input(result, i, tensor, file->storage, infos, path);
            !status.ok())
          return status;
      }
      continue;
    }
    size_t i = label.empty() ? next++ : index_of(label);
    if (i >= infos.size())
      return label.empty()
                 ? absl::InvalidArgumentError(absl::StrCat("the model has ", infos.size(),
                                                           " inputs; ", path, " is one too many"))
                 : absl::NotFoundError(
                       absl::StrCat("the model has no input '", label, "'; --help lists them"));
    absl::StatusOr<NpyFile> file = read_npy(path);
    if (!file.ok())
      return file.status();
    if (absl::Status status = give_input(result, i, file->array, file->storage, infos, path);
        !status.ok())
      return status;
  }
  for (size_t i = 0; i < infos.size(); ++i)
    if (!result.bound[i])
      return absl::InvalidArgumentError(absl::StrCat(input_label(i, infos[i]), " ", show(infos[i]),
                                                     " is missing; --help shows how to give it"));
  return result;
}

// Where each output goes; a safetensors file takes all.
absl::StatusOr<std::vector<std::pair<std::string, size_t>>>
plan_outputs(const Arguments &arguments, const std::vector<weft_tensor_info> &infos) {
  std::vector<std::pair<std::string, size_t>> result;
  size_t next = 0;
  for (const std::string &text : arguments.outputs) {
    auto [label, path] = split(text, infos);
    bool all = ends_with(path, ".safetensors");
    if (!all && !ends_with(path, ".npy"))
      return absl::InvalidArgumentError(
          absl::StrCat("an output file is .npy or .safetensors, not '", path, "'"));
    size_t i = all ? infos.size() : next;
    if (!label.empty()) {
      for (i = 0; i < infos.size() && label != infos[i].name; ++i) {}
      if (i == infos.size())
        return absl::NotFoundError(
            absl::StrCat("the model has no output '", label, "'; --help lists them"));
    } else if (!all && next++ >= infos.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model has ", infos.size(), " outputs; ", path, " is one too many"));
    }
    result.emplace_back(path, i);
  }
  return result;
}

absl::Status write_outputs(const std::vector<std::pair<std::string, size_t>> &targets,
                           const std::vector<ArrayView> &arrays) {
  for (const auto &[path, i] : targets) {
    absl::Status status;
    if (!ends_with(path, ".safetensors"))
      status = write_npy(path, arrays[i]);
    else
      status =
          write_safetensors(path, i < arrays.size() ? std::span(&arrays[i], 1) : std::span(arrays));
    if (!status.ok())
      return status;
  }
  return absl::OkStatus();
}

void print_summary(const std::vector<ArrayView> &arrays) {
  constexpr int64_t kShown = 8;
  for (const ArrayView &array : arrays) {
    std::printf("%s %s", array.name.c_str(), show(array.dtype, array.dims).c_str());
    int64_t count = static_cast<int64_t>(array.bytes.size()) / byte_size(array.dtype);
    for (int64_t i = 0; i < std::min(count, kShown); ++i) {
      auto as = [&](auto zero) {
        std::memcpy(&zero, array.bytes.data() + static_cast<size_t>(i) * sizeof(zero),
                    sizeof(zero));
        return zero;
      };
      switch (array.dtype) {
      case DType::kFloat32:
        std::printf(" %.9g", static_cast<double>(as(float())));
        break;
      case DType::kFloat64:
        std::printf(" %.17g", as(double()));
        break;
      case DType::kInt32:
        std::printf(" %d", as(int32_t()));
        break;
      case DType::kInt64:
        std::printf(" %lld", static_cast<long long>(as(int64_t())));
        break;
      case DType::kInt8:
        std::printf(" %d", as(int8_t()));
        break;
      case DType::kInt16:
        std::printf(" %d", as(int16_t()));
        break;
      case DType::kBool:
      case DType::kUInt8:
        std::printf(" %d", as(uint8_t()));
        break;
      case DType::kBFloat16:
        std::printf(" %.9g", static_cast<double>(bfloat16_to_float(as(uint16_t()))));
        break;
      case DType::kFloat16:
        std::printf(" %.9g", static_cast<double>(float16_to_float(as(uint16_t()))));
        break;
      }
    }
    std::printf(count > kShown ? " ...\n" : "\n");
  }
}

absl::Status last_error() {
  return absl::InternalError(weft_model_error());
}

absl::Status run(int argc, char **argv) {
  absl::StatusOr<Arguments> arguments = parse(argc, argv);
  if (!arguments.ok())
    return arguments.status();
  const weft_model_code &code = *weft_main_model;
  if (arguments->help) {
    // Shapes are known without weights and on any processor.
    absl::StatusOr<Program> program = deserialize(
        {static_cast<const std::byte *>(code.program), static_cast<size_t>(code.program_bytes)});
    if (!program.ok())
      return program.status();
    print_help(code, argv[0], tensors_of(code, false, *program), tensors_of(code, true, *program));
    return absl::OkStatus();
  }
  weft_model_options options{sizeof(weft_model_options), arguments->threads,
                             arguments->weights.empty() ? nullptr : arguments->weights.c_str()};
  if (code.parameter_count > 0 && arguments->weights.empty())
    return absl::InvalidArgumentError(
        "the model's weights are not embedded: --weights FILE.safetensors is missing");
  weft_model *model = nullptr;
  if (weft_model_open(&code, &options, &model) != 0)
    return last_error();
  std::unique_ptr<weft_model, void (*)(weft_model *)> closed(model, weft_model_close);
  std::vector<weft_tensor_info> inputs, outputs;
  for (int32_t i = 0; i < weft_model_input_count(model); ++i)
    inputs.push_back(*weft_model_input(model, i));
  for (int32_t i = 0; i < weft_model_output_count(model); ++i)
    outputs.push_back(*weft_model_output(model, i));
  absl::StatusOr<std::vector<std::pair<std::string, size_t>>> targets =
      plan_outputs(*arguments, outputs);
  if (!targets.ok())
    return targets.status();
  absl::StatusOr<Inputs> given = read_inputs(*arguments, inputs);
  if (!given.ok())
    return given.status();
  std::vector<std::vector<std::byte>> results;
  std::vector<void *> pointers;
  std::vector<ArrayView> arrays;
  for (size_t i = 0; i < outputs.size(); ++i) {
    results.emplace_back(static_cast<size_t>(outputs[i].bytes));
    pointers.push_back(results.back().data());
    arrays.push_back({*outputs[i].name != '\0' ? outputs[i].name : absl::StrCat("output", i),
                      static_cast<DType>(outputs[i].dtype),
                      std::vector<int64_t>(outputs[i].dims, outputs[i].dims + outputs[i].rank),
                      results.back()});
  }
  if (weft_model_run(model, given->pointers.data(), pointers.data()) != 0)
    return last_error();
  if (targets->empty())
    print_summary(arrays);
  return write_outputs(*targets, arrays);
}

} // namespace

int main(int argc, char **argv) {
  absl::Status status = run(argc, argv);
  if (status.ok())
    return 0;
  const char *self = std::strrchr(argv[0], '/');
  std::fprintf(stderr, "%s: %s\n", self ? self + 1 : argv[0],
               std::string(status.message()).c_str());
  return 2;
}
