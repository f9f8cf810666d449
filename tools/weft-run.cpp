// weft-run: compiles the function @main of a .mlir program for a backend, runs it on arrays from
// files, and prints or writes the results.
//
//   weft-run --input x.npy model.mlir
//   weft-run --input x.npy --input weights.safetensors model.mlir
//   weft-opt --weft-phase=graph model.mlir | weft-run --backend=reference --input x.npy --output
//   y.npy -
#include <CLI/CLI.hpp>
#include <cstring>
#include <map>

#include "compiler/backend/Backend.h"
#include "compiler/link/SizeRange.h"
#include "compiler/plugin/Plugin.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/SignatureAttributes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/TypeAdvice.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/HostTensor.h"
#include "dialects/weft/state/StateAttributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/core/status.h"
#include "runtime/executor/device.h"
#include "runtime/io/array_text.h"
#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"
#include "runtime/memory/buffer.h"
#include "runtime/threading/thread_pool.h"
#include "tools/FlagChecks.h"
#include "tools/ModuleFile.h"
#include "tools/RunInputs.h"

namespace {

using namespace weft;

struct Options {
  std::string program;
  std::string backend = "cpu";
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  int64_t steps = 1;
  int threads = 0;
  bool report = false;
  compiler::CompileOptions compile;
};

absl::Status invalid(const std::string &message) {
  return absl::InvalidArgumentError(message);
}

bool endsWith(const std::string &text, const char *suffix) {
  const size_t length = std::strlen(suffix);
  return text.size() >= length && text.compare(text.size() - length, length, suffix) == 0;
}

// "1 input", "2 inputs".
std::string counted(size_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// What the program keeps from run to run (dialects/weft/state), by argument and by result.
struct State {
  std::map<size_t, ir::HostTensor> initial;
  std::map<size_t, std::pair<size_t, std::string>> writes; // result: argument, name

  explicit State(mlir::func::FuncOp main) {
    if (!main)
      return;
    std::map<size_t, std::string> names;
    ir::SignatureAttributes attributes(main);
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      auto name = main.getArgAttrOfType<mlir::StringAttr>(i, ir::kStateAttr);
      auto value = main.getArgAttrOfType<mlir::ElementsAttr>(i, ir::kInitialAttr);
      if (!name || !value || value.getType() != main.getArgumentTypes()[i] ||
          !ir::elementAdvice(value.getType()).empty())
        continue;
      names.emplace(i, name.str());
      initial.emplace(i, ir::HostTensor::from(value));
      attributes.argument(i).erase(ir::kInitialAttr);
    }
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      if (auto argument = main.getResultAttrOfType<mlir::IntegerAttr>(i, ir::kWritesAttr))
        if (auto known = names.find(static_cast<size_t>(argument.getInt())); known != names.end())
          writes.emplace(i, *known);
  }
};

// What is wrong with the inputs as a whole: too few, too many, or of names that are not there. A
// file of weights may have more than the program reads, such as counts that only training needs:
// where nothing is missing that is a note.
absl::Status checkInputs(const runtime::Executable &executable, const tools::RunInputs &inputs,
                         const State &state) {
  auto specs = executable.input_specs();
  std::string wanted;
  std::vector<std::string> missing, known;
  size_t takes = 0, given = inputs.surplus, byName = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    bool isGiven = i < inputs.arguments.size() && inputs.arguments[i];
    byName += isGiven && inputs.arguments[i]->name == inputs.names[i];
    if (!inputs.names[i].empty())
      known.push_back(inputs.names[i]);
    if (state.initial.count(i))
      continue;
    std::string shape = runtime::shape_text(specs[i].dtype, specs[i].dims);
    wanted += (takes ? ", " : "") + shape;
    ++takes;
    given += isGiven;
    if (!isGiven)
      missing.push_back(inputs.names[i].empty() ? "input " + std::to_string(i) + ", " + shape
                                                : inputs.names[i]);
  }
  if (inputs.byName && !missing.empty())
    return invalid("@main is given nothing for " + tools::listed(missing) + inputs.unknownText() +
                   "; name by --input a .safetensors file with tensors of these names, and an "
                   ".npy file for each input without a name, in order");
  if (!missing.empty() || inputs.surplus > 0)
    return invalid("@main takes " + counted(takes, "input") + " (" + wanted + "), and is given " +
                   std::to_string(given) + "; name a file for each, in order, by --input");
  if (inputs.unknown.empty())
    return absl::OkStatus();
  if (byName == 0)
    return invalid("none of the tensors given is one of @main's" + inputs.unknownText() +
                   "; its arguments are called " + tools::listed(known));
  llvm::errs() << "weft-run: not used" << inputs.unknownText() << "\n";
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<runtime::Buffer>>>
bindInputs(const runtime::Executable &executable, const tools::RunInputs &inputs,
           const State &state, runtime::Memory &memory) {
  WEFT_RETURN_IF_ERROR(checkInputs(executable, inputs, state));
  auto specs = executable.input_specs();
  std::vector<std::shared_ptr<runtime::Buffer>> buffers;
  for (size_t i = 0; i < specs.size(); ++i) {
    runtime::ArrayView array;
    if (inputs.arguments[i])
      array = *inputs.arguments[i];
    else if (auto kept = state.initial.find(i); kept != state.initial.end())
      array = {"", kept->second.dtype, kept->second.shape, kept->second.bytes};
    if (array.dtype != specs[i].dtype || array.dims != specs[i].dims)
      return invalid("input " + std::to_string(i) + " (" + array.name + ") is " +
                     runtime::shape_text(array.dtype, array.dims) + ", but @main takes " +
                     runtime::shape_text(specs[i].dtype, specs[i].dims));
    WEFT_ASSIGN_OR_RETURN(auto buffer, memory.allocate(specs[i].bytes, "input"));
    if (!array.bytes.empty())
      std::memcpy(buffer->data(), array.bytes.data(), array.bytes.size());
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

absl::Status writeOutputs(const Options &options, const runtime::Executable &executable,
                          const State &state,
                          const std::vector<std::shared_ptr<runtime::Buffer>> &buffers) {
  auto specs = executable.output_specs();
  std::vector<runtime::ArrayView> arrays;
  for (size_t i = 0; i < specs.size(); ++i) {
    WEFT_RETURN_IF_ERROR(buffers[i]->wait());
    runtime::ArrayView array;
    auto kept = state.writes.find(i);
    array.name = kept == state.writes.end() ? "output" + std::to_string(i) : kept->second.second;
    array.dtype = specs[i].dtype;
    array.dims = specs[i].dims;
    array.bytes = {static_cast<const std::byte *>(buffers[i]->data()),
                   static_cast<size_t>(specs[i].bytes)};
    arrays.push_back(std::move(array));
  }
  if (options.outputs.empty()) {
    for (const auto &[i, array] : llvm::enumerate(arrays)) {
      if (state.writes.count(i))
        llvm::outs() << array.name << ": ";
      llvm::outs() << runtime::shape_text(array.dtype, array.dims) << "\n";
      llvm::outs() << runtime::array_text(array) << "\n";
    }
    return absl::OkStatus();
  }
  if (options.outputs.size() == 1 && endsWith(options.outputs[0], ".safetensors"))
    return runtime::write_safetensors(options.outputs[0], arrays);
  size_t results = arrays.size() - state.writes.size();
  if (options.outputs.size() != results)
    return invalid("@main has " + counted(results, "result") + ", and --output is given " +
                   std::to_string(options.outputs.size()) +
                   " times; name one .npy file for each, or one .safetensors file for all");
  for (size_t i = 0, next = 0; i < arrays.size(); ++i)
    if (!state.writes.count(i))
      WEFT_RETURN_IF_ERROR(runtime::write_npy(options.outputs[next++], arrays[i]));
  return absl::OkStatus();
}

// A program for a range of sizes becomes the one for the size that the inputs have.
absl::Status narrowToInputs(mlir::ModuleOp module, const tools::RunInputs &inputs, bool report) {
  auto range = compiler::sizeRange(module);
  if (!range.ok() || !*range)
    return range.status();
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  for (unsigned i = 0; main && i < main.getNumArguments(); ++i) {
    if (!ir::hasNamedDims(main.getArgumentTypes()[i]) || !inputs.arguments[i])
      continue;
    const runtime::ArrayView &array = *inputs.arguments[i];
    int64_t size = array.dims.empty() ? 0 : array.dims[0];
    if (size < (*range)->low || size > (*range)->high)
      return invalid("input " + std::to_string(i) + " (" + array.name + ") is " +
                     runtime::shape_text(array.dtype, array.dims) + ": its " + (*range)->name +
                     " must be from " + std::to_string((*range)->low) + " to " +
                     std::to_string((*range)->high));
    if (report)
      llvm::errs() << "weft-run: " << (*range)->name << " " << size << " of " << (*range)->low
                   << " to " << (*range)->high << "\n";
    return compiler::narrow(module, size, size);
  }
  // What is missing is said with the largest shapes.
  return compiler::narrow(module, (*range)->high, (*range)->high);
}

// Before anything is compiled. One .safetensors file takes all results.
absl::Status checkOutputs(const std::vector<std::string> &outputs) {
  for (const std::string &path : outputs)
    if (!endsWith(path, ".npy") && !(outputs.size() == 1 && endsWith(path, ".safetensors")))
      return invalid("--output: '" + path +
                     "' is no file for results; name one .npy file for each, or one .safetensors "
                     "file for all");
  return absl::OkStatus();
}

absl::Status run(const Options &options) {
  WEFT_RETURN_IF_ERROR(checkOutputs(options.outputs));
  WEFT_ASSIGN_OR_RETURN(auto backend, compiler::findBackend(options.backend));
  if (options.threads > runtime::ThreadPool::kMostThreads)
    return invalid("--threads: there are at most " +
                   std::to_string(runtime::ThreadPool::kMostThreads) + ", not " +
                   std::to_string(options.threads));
  // Libraries plan for so many when they claim ops.
  if (options.threads > 0)
    runtime::cpu_device().executor().set_threads(options.threads);
  WEFT_ASSIGN_OR_RETURN(auto files, tools::readInputFiles(options.inputs));

  mlir::DialectRegistry registry;
  backend->registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  WEFT_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module,
                        tools::readModule(options.program, context));
  ir::DiagnosticCollector diagnostics(&context);

  WEFT_ASSIGN_OR_RETURN(
      auto inputs, tools::assignInputs(module->lookupSymbol<mlir::func::FuncOp>("main"), files));
  WEFT_RETURN_IF_ERROR(narrowToInputs(*module, inputs, options.report));
  State state(module->lookupSymbol<mlir::func::FuncOp>("main"));
  compiler::CompileReport report;
  auto executable = compiler::compileBy(*backend, *module, options.compile, &report);
  if (!executable.ok())
    return absl::Status(executable.status().code(),
                        diagnostics.added(std::string(executable.status().message())));
  if (options.report)
    llvm::errs() << "weft-run: " << report.kernels << " kernels, " << report.launches
                 << " launches, " << report.libraryCalls << " library calls, arena "
                 << report.plan.arenaBytes << " B, compiled in " << report.milliseconds
                 << " ms, runs on " << runtime::cpu_device().executor().threads() << " threads\n";
  // What the caller asks for, pins and limits, and does not get is said without being asked for.
  auto isAskedFor = [](llvm::StringRef remark) {
    return remark.contains("pin-not-taken") || remark.contains("it is not reached");
  };
  for (const std::string &remark : report.remarks)
    if (options.report || isAskedFor(remark))
      llvm::errs() << "weft-run: " << remark << "\n";

  runtime::Device &device = runtime::cpu_device();
  WEFT_ASSIGN_OR_RETURN(auto buffers, bindInputs(**executable, inputs, state, *device.memory()));
  std::vector<std::shared_ptr<runtime::Buffer>> outputs;
  for (int64_t step = 0; step < options.steps; ++step) {
    // A result that is an argument, unchanged, is its buffer: nothing here is written in place.
    for (const auto &[result, argument] : state.writes)
      if (step > 0)
        buffers[argument.first] = outputs[result];
    outputs.assign((*executable)->output_specs().size(), nullptr);
    WEFT_RETURN_IF_ERROR(device.executor().submit(*executable, buffers, outputs));
  }
  return writeOutputs(options, **executable, state, outputs);
}

} // namespace

int main(int argc, char **argv) {
  if (absl::Status status = compiler::loadPluginsFromEnvironment(); !status.ok()) {
    llvm::errs() << "weft-run: " << std::string(status.message()) << "\n";
    return 2;
  }
  Options options;
  CLI::App app("Compiles the function @main of a .mlir program (text or bytecode), runs it on "
               "arrays from files, and prints the results.");
  app.add_option("program", options.program, "the program; - for standard input")->required();
  app.add_option("--input,-i", options.inputs,
                 "an .npy file for each input, in order, or a .safetensors file, whose tensors go "
                 "to the inputs of their names, or in order where no input has one");
  app.add_option("--output,-o", options.outputs,
                 "an .npy file for each result, or one .safetensors file; default: print them");
  std::string known;
  for (const std::string &backend : compiler::backendNames())
    known += (known.empty() ? "" : ", ") + backend;
  app.add_option("--backend", options.backend, "what runs it: " + known)->capture_default_str();
  app.add_option("--steps", options.steps,
                 "runs so often; what the program keeps goes from one run to the next")
      ->check(tools::wholeNumber(1))
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "of the CPU; 0: as WEFT_NUM_THREADS says, else one for each processor")
      ->check(tools::wholeNumber<int>(0))
      ->capture_default_str();
  app.add_option("--memory-limit", options.compile.memoryLimit,
                 "bytes that a run may take beside its inputs; values are computed again to fit")
      ->check(tools::wholeNumber(0))
      ->envname("WEFT_MEMORY_LIMIT");
  app.add_flag("--report", options.report, "says on standard error what was compiled");
  app.add_flag("!--no-fuse", options.compile.fuse, "each op becomes a kernel of its own");
  app.add_flag("!--no-claim", options.compile.claim, "no vendor library is called");
  app.add_option("--math", options.compile.math,
                 "exact: no algorithms with errors beyond those of sums in another order; "
                 "standard; fast: NaN may get lost where a library is faster without it")
      ->transform(tools::oneOf(compiler::mathModes()))
      ->type_name("NAME")
      ->envname("WEFT_MATH");
  app.add_option("--dump-dir", options.compile.dumpDir,
                 "a folder for one file a phase and one a kernel")
      ->envname("WEFT_DUMP_DIR");
  CLI11_PARSE(app, argc, argv);

  if (absl::Status status = run(options); !status.ok()) {
    llvm::errs() << "weft-run: " << std::string(status.message()) << "\n";
    return 2;
  }
  return 0;
}
