// The main() of an executable that weft-compile makes: files in, files out.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/aot/held_tensors.h"
#include "runtime/aot/main_files.h"
#include "runtime/aot/weft_model.h"
#include "runtime/core/status.h"
#include "runtime/executable/live_bars.h"
#include "runtime/executable/sized_programs.h"
#include "runtime/io/files.h"
#include "runtime/threading/thread_pool.h"

using namespace weft;
using namespace weft::runtime;

extern "C" const weft_model_code *const weft_main_model;

namespace {

struct Arguments {
  bool help = false;
  int threads = 0;
  int64_t steps = 0; // 0: as many as there are batches
  int64_t batch = 0; // rows of a batch; 0: inputs are not cut
  std::string weights, entry, load, save;
  std::vector<std::string> inputs; // FILE or NAME=FILE
  std::vector<std::string> outputs;
};

absl::Status parse_number(const std::string &option, const std::string &value, int64_t most,
                          int64_t &result) {
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc() || end != value.data() + value.size() || result < 1 || result > most)
    return absl::InvalidArgumentError(
        absl::StrCat(option, " takes a number from 1 to ", most, ", not '", value, "'"));
  return absl::OkStatus();
}

absl::StatusOr<Arguments> parse(int argc, char **argv) {
  constexpr int64_t kMostThreads = ThreadPool::kMostThreads, kMostSteps = 1'000'000'000;
  Arguments result;
  int64_t threads = 0;
  using Take = std::function<absl::Status(const std::string &value)>;
  auto one = [](std::string &to) -> Take {
    return [&to](const std::string &value) {
      to = value;
      return absl::OkStatus();
    };
  };
  auto several = [](std::vector<std::string> &to) -> Take {
    return [&to](const std::string &value) {
      to.push_back(value);
      return absl::OkStatus();
    };
  };
  auto number = [](const char *option, int64_t most, int64_t &to) -> Take {
    return [=, &to](const std::string &value) {
      return parse_number(option, value, most, to);
    };
  };
  const std::map<std::string, Take> options = {
      {"--input", several(result.inputs)},
      {"-i", several(result.inputs)},
      {"--output", several(result.outputs)},
      {"-o", several(result.outputs)},
      {"--weights", one(result.weights)},
      {"--entry", one(result.entry)},
      {"--load", one(result.load)},
      {"--save", one(result.save)},
      {"--steps", number("--steps", kMostSteps, result.steps)},
      {"--batch", number("--batch", kMostSteps, result.batch)},
      {"--threads", number("--threads", kMostThreads, threads)}};
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
    auto known = options.find(option);
    if (known == options.end())
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option ", option, "; --help shows the options"));
    if (equals != word.npos)
      value = word.substr(equals + 1);
    else if (i + 1 < argc)
      value = argv[++i];
    else
      return absl::InvalidArgumentError(
          absl::StrCat(option, " needs a value; --help shows the options"));
    WEFT_RETURN_IF_ERROR(known->second(value));
  }
  result.threads = static_cast<int>(threads);
  return result;
}

void list(const char *title, const std::vector<weft_tensor_info> &tensors) {
  std::printf("%s\n", title);
  int number = tensors.size() > 1 ? static_cast<int>(std::to_string(tensors.size() - 1).size()) : 1;
  size_t name = 24;
  for (const weft_tensor_info &tensor : tensors)
    name = std::max(name, std::strlen(tensor.name));
  for (size_t i = 0; i < tensors.size(); ++i)
    std::printf("  %*zu  %-*s %s\n", number, i, static_cast<int>(name), tensors[i].name,
                show(tensors[i]).c_str());
  if (tensors.empty())
    std::printf("  none\n");
}

// The specs of a program that the model does not hold.
template <typename Specs>
std::vector<weft_tensor_info> given_of(const Specs &specs, const Specs &least,
                                       const weft_held_place *held, uint64_t count) {
  std::vector<weft_tensor_info> result;
  for (size_t i = 0; i < specs.size(); ++i) {
    bool is_held = false;
    for (uint64_t h = 0; h < count; ++h)
      is_held = is_held || held[h].place == static_cast<int32_t>(i);
    if (!is_held)
      result.push_back({specs[i].name.c_str(), static_cast<int32_t>(specs[i].dtype),
                        static_cast<int32_t>(specs[i].dims.size()), specs[i].dims.data(),
                        specs[i].bytes, least[i].dims.data()});
  }
  return result;
}

// What the memory of a run is made of, by module, and what is live when: of the largest size, where
// sizes vary.
void list_memory(const Program &program) {
  const MemoryReport &memory = program.memory;
  if (memory.peak_holders.empty())
    return;
  std::map<std::string, int64_t> modules;
  for (const PeakHolder &holder : memory.peak_holders)
    modules[holder.module.empty() ? "(outside of named modules)" : holder.module] += holder.bytes;
  std::vector<std::pair<int64_t, std::string>> rows;
  for (const auto &[module, bytes] : modules)
    rows.emplace_back(bytes, module);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto &a, const auto &b) { return a.first > b.first; });
  constexpr size_t kRows = 8;
  int64_t rest = 0;
  std::printf("memory of a run, beside inputs and weights: %lld bytes at its peak\n",
              static_cast<long long>(program.peak_bytes));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i >= kRows)
      rest += rows[i].first;
    else
      std::printf("  %12lld  %s\n", static_cast<long long>(rows[i].first), rows[i].second.c_str());
  }
  if (rest > 0)
    std::printf("  %12lld  and %zu more\n", static_cast<long long>(rest), rows.size() - kRows);
  // One instruction has no course.
  if (memory.live_bytes.size() > 1)
    std::printf("  over the run: %s\n  %s\n", live_range(memory.live_bytes).c_str(),
                live_bars(memory.live_bytes, kLiveColumns).c_str());
}

// Shapes are known without weights and on any processor.
absl::Status print_help(const weft_model_code &code, const char *self) {
  std::vector<SizedPrograms> entries;
  bool varies = false;
  for (uint64_t i = 0; i < code.entry_count; ++i) {
    const weft_entry_code &entry = *code.levels[0][i];
    WEFT_ASSIGN_OR_RETURN(SizedPrograms programs,
                          deserialize_sized({static_cast<const std::byte *>(entry.program),
                                             static_cast<size_t>(entry.program_bytes)}));
    varies = varies || programs.varies();
    entries.push_back(std::move(programs));
  }
  std::vector<weft_tensor_info> state;
  bool needs_weights = false;
  for (uint64_t i = 0; i < code.held_count; ++i) {
    const weft_held_code &held = *code.held[i];
    needs_weights = needs_weights || held.value == nullptr;
    if (held.is_state)
      state.push_back({held.name, held.dtype, held.rank, held.dims,
                       static_cast<int64_t>(held.bytes), held.dims});
  }
  std::printf("Runs the model '%s', compiled by Weft.\n\n"
              "usage: %s [--input [NAME=]FILE]... [--output [NAME=]FILE]... [--steps N]%s%s%s%s "
              "[--threads N]\n\n"
              "A FILE is x.npy, one tensor, or x.safetensors, tensors by name. A NAME is one of "
              "those below, or its number. Inputs and outputs without a NAME are taken in order.\n"
              "Without --output, shapes and first elements are printed.%s\n"
              "An input with one leading dim more than listed holds a batch for each step: there "
              "are as many steps, or N, which begin with the first batch again. The outputs of "
              "steps are printed step by step, or written with a leading dim.\n",
              code.name, self, varies ? " [--batch ROWS]" : "",
              needs_weights ? " --weights FILE.safetensors" : "",
              code.entry_count > 1 ? " [--entry NAME]" : "",
              state.empty() ? "" : " [--load FILE.safetensors] [--save FILE.safetensors]",
              needs_weights ? " The weights are read from a safetensors file." : "");
  if (varies)
    std::printf("A dim that is listed as MIN..MAX has any size between them. --batch cuts an input "
                "into batches of so many rows, one for each step; the last one has what is left. "
                "Outputs of that size are written as one array.\n");
  if (!state.empty())
    std::printf("The model keeps state from step to step. --load takes all of it from a file "
                "before the first step, --save writes it after the last.\n");
  std::printf("WEFT_PROFILE=trace.json in the environment writes where the time goes, for Perfetto "
              "and weft-prof.\n\n");
  for (uint64_t i = 0; i < code.entry_count; ++i) {
    const weft_entry_code &entry = *code.levels[0][i];
    const SizedPrograms &programs = entries[i];
    absl::StatusOr<Program> smallest = Program();
    if (programs.varies())
      smallest = programs.at(programs.low());
    if (!smallest.ok())
      return smallest.status();
    const Program &most = programs.largest(), &least = programs.varies() ? *smallest : most;
    if (code.entry_count > 1)
      std::printf("entry %s%s\n", entry.name, i == 0 ? " (where none is named)" : "");
    list("inputs", given_of(most.inputs, least.inputs, entry.reads, entry.read_count));
    list("outputs", given_of(most.outputs, least.outputs, entry.writes, entry.write_count));
    list_memory(most);
  }
  if (!state.empty())
    list("state", state);
  return absl::OkStatus();
}

absl::Status last_error() {
  return absl::InternalError(weft_model_error());
}

// Other tools take the name of a command as their first word.
absl::Status check_words(const weft_model_code &code, const Arguments &arguments) {
  for (const std::string &word : arguments.inputs)
    for (uint64_t i = 0; i < code.entry_count; ++i)
      if (word == code.levels[0][i]->name && access(word.c_str(), F_OK) != 0)
        return absl::InvalidArgumentError(
            absl::StrCat("'", word, "' is an entry and no file: --entry ", word, " runs it"));
  return absl::OkStatus();
}

absl::Status run(int argc, char **argv) {
  WEFT_ASSIGN_OR_RETURN(Arguments arguments, parse(argc, argv));
  const weft_model_code &code = *weft_main_model;
  if (arguments.help)
    return print_help(code, argv[0]);
  WEFT_RETURN_IF_ERROR(check_words(code, arguments));
  bool needs_weights = false, embeds_state = false;
  for (uint64_t i = 0; i < code.held_count; ++i) {
    const weft_held_code &held = *code.held[i];
    needs_weights = needs_weights || held.value == nullptr;
    embeds_state = embeds_state || (held.is_state && held.value != nullptr);
  }
  // A file with the state serves where state is all that is not embedded.
  bool state_serves = arguments.weights.empty() && needs_weights && !embeds_state;
  const std::string &weights = state_serves ? arguments.load : arguments.weights;
  weft_model_options options{sizeof(weft_model_options), arguments.threads,
                             weights.empty() ? nullptr : weights.c_str()};
  if (needs_weights && weights.empty())
    return absl::InvalidArgumentError(
        "the model's weights are not embedded: --weights FILE.safetensors is missing");
  weft_model *model = nullptr;
  if (weft_model_open(&code, &options, &model) != 0)
    return last_error();
  std::unique_ptr<weft_model, void (*)(weft_model *)> closed(model, weft_model_close);
  if (!arguments.entry.empty() &&
      (model = weft_model_entry(model, arguments.entry.c_str())) == nullptr)
    return last_error();
  if (weft_model_state_count(model) == 0 && !(arguments.load + arguments.save).empty())
    return absl::InvalidArgumentError(
        "the model keeps no state: --load and --save have nothing to read or write");
  // It would otherwise be found out after the last step.
  if (!arguments.save.empty())
    WEFT_RETURN_IF_ERROR(check_writable(arguments.save));

  std::vector<weft_tensor_info> inputs, outputs;
  for (int32_t i = 0; i < weft_model_input_count(model); ++i)
    inputs.push_back(*weft_model_input(model, i));
  for (int32_t i = 0; i < weft_model_output_count(model); ++i)
    outputs.push_back(*weft_model_output(model, i));
  WEFT_ASSIGN_OR_RETURN(Batches batches, Batches::read(arguments.inputs, inputs, arguments.batch));
  int64_t steps = arguments.steps > 0 ? arguments.steps : batches.count();
  WEFT_ASSIGN_OR_RETURN(Results results,
                        Results::plan(arguments.outputs, outputs, steps, arguments.batch > 0));
  if (!arguments.load.empty() && weft_model_load_state(model, arguments.load.c_str()) != 0)
    return last_error();
  for (int64_t step = 0; step < std::max<int64_t>(steps, 1); ++step) {
    std::vector<Shape> shapes = batches.shapes(step), produced;
    std::vector<const int64_t *> dims;
    for (const Shape &shape : shapes)
      dims.push_back(shape.data());
    for (size_t i = 0; i < outputs.size(); ++i) {
      Shape &shape = produced.emplace_back(static_cast<size_t>(outputs[i].rank) + 1);
      if (weft_model_output_dims(model, dims.data(), static_cast<int32_t>(i), shape.data()) != 0)
        return last_error();
      shape.pop_back();
    }
    if (weft_model_run_sized(model, dims.data(), batches.at(step).data(),
                             results.at(produced).data()) != 0)
      return last_error();
    results.show(step);
  }
  if (!arguments.save.empty() && weft_model_save_state(model, arguments.save.c_str()) != 0)
    return last_error();
  return results.write();
}

} // namespace

int main(int argc, char **argv) {
  absl::Status status = run(argc, argv);
  // Here and not in exit(), which tells nobody.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout)) && status.ok())
    status = absl::DataLossError("cannot write all to standard output: is its disk full?");
  if (status.ok())
    return 0;
  const char *self = std::strrchr(argv[0], '/');
  std::fprintf(stderr, "%s: %s\n", self ? self + 1 : argv[0],
               std::string(status.message()).c_str());
  return 2;
}
