// weft-compile: compiles a program ahead of time.
//
//   weft-compile model.mlir --emit=exe -o model && ./model --input x.npy --output y.npy
//   weft-compile model.mlir --emit=obj --mcpu=x86-64-v3 --weights model.safetensors -o model.o #
//   and model.h
#include <iostream>

#include "CLI/CLI.hpp"
#include "compiler/backend/Backend.h"
#include "compiler/backend/CallBackend.h"
#include "compiler/link/Aot.h"
#include "compiler/plugin/Plugin.h"
#include "runtime/core/status.h"
#include "runtime/io/safetensors.h"
#include "tools/FlagChecks.h"
#include "tools/ModuleFile.h"

namespace {

using namespace weft;

struct Flags {
  std::string program, emit = "exe", target = "cpu", weights, weightsMode = "embed";
  bool noFuse = false, noClaim = false;
  compiler::AotOptions options;
};

// model.mlir, obj -> model.o
std::string defaultOutput(const std::string &program, compiler::Emit emit) {
  size_t slash = program.find_last_of('/');
  std::string stem =
      program == "-" ? "model" : program.substr(slash == std::string::npos ? 0 : slash + 1);
  stem = stem.substr(0, stem.find_last_of('.'));
  switch (emit) {
  case compiler::Emit::Object:
    return stem + ".o";
  case compiler::Emit::SharedLibrary:
    return stem + ".so";
  case compiler::Emit::Executable:
    return stem;
  default:
    return "-";
  }
}

absl::Status run(Flags &flags) {
  // BACKEND, or BACKEND:PROCESSOR.
  std::string name = flags.target.substr(0, flags.target.find(':'));
  if (name.size() < flags.target.size()) {
    if (!flags.options.compile.cpu.empty())
      return absl::InvalidArgumentError(
          "--target=" + flags.target +
          " names a processor, and so does --mcpu=" + flags.options.compile.cpu);
    flags.options.compile.cpu = flags.target.substr(name.size() + 1);
  }
  absl::StatusOr<compiler::Backend *> backend = compiler::findBackend(name);
  if (!backend.ok())
    return absl::InvalidArgumentError("there is no target '" + name +
                                      "': " + std::string(backend.status().message()));
  std::optional<compiler::Emit> emit = compiler::parseEmit(flags.emit);
  if (!emit)
    return absl::InvalidArgumentError(
        "--emit=" + flags.emit +
        " is unknown; it is one of weft, plan, llvm, asm, obj, so and exe");
  compiler::AotOptions &options = flags.options;
  options.emit = *emit;
  if (options.output.empty())
    options.output = defaultOutput(flags.program, *emit);
  options.compile.fuse = !flags.noFuse;
  options.compile.claim = !flags.noClaim;
  if (flags.weightsMode != "embed" && flags.weightsMode != "beside")
    return absl::InvalidArgumentError("--weights-mode=" + flags.weightsMode +
                                      " is unknown; it is embed or beside");
  options.embedWeights = flags.weightsMode == "embed";

  runtime::SafetensorsFile file;
  if (!flags.weights.empty()) {
    WEFT_ASSIGN_OR_RETURN(file, runtime::read_safetensors(flags.weights));
    // All of the file is the program's.
    for (const runtime::UnreadTensor &tensor : file.unread)
      return absl::InvalidArgumentError(flags.weights + ": '" + tensor.name + "' is " +
                                        runtime::unread_text(tensor));
    for (const runtime::ArrayView &tensor : file.tensors)
      options.weights.push_back(
          {tensor.name,
           tensor.dtype,
           tensor.dims,
           {reinterpret_cast<const char *>(tensor.bytes.data()), tensor.bytes.size()}});
  }

  options.warn = [](const std::string &what) {
    std::cerr << "weft-compile: warning: " << what << "\n";
  };
  mlir::DialectRegistry registry;
  (*backend)->registerDialects(registry);
  // One thread: code generation adds dialects as it goes.
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  WEFT_ASSIGN_OR_RETURN(auto module, tools::readModule(flags.program, context));
  WEFT_ASSIGN_OR_RETURN(std::vector<std::string> files,
                        compiler::callBackend(name, "compileAheadOfTime()", [&] {
                          return (*backend)->compileAheadOfTime(*module, options);
                        }));
  for (const std::string &written : files)
    std::cerr << "wrote " << written << "\n";
  return absl::OkStatus();
}

} // namespace

int main(int argc, char **argv) {
  if (absl::Status status = compiler::loadPluginsFromEnvironment(); !status.ok()) {
    std::cerr << "weft-compile: " << std::string(status.message()) << "\n";
    return 1;
  }
  Flags flags;
  CLI::App app("Compiles a program of weft ops ahead of time.", "weft-compile");
  app.add_option("program", flags.program, "a .mlir file, text or bytecode; - for stdin")
      ->required();
  app.add_option("--emit", flags.emit,
                 "weft, plan, llvm, asm, obj (with a C header), so (with a C header) or exe")
      ->capture_default_str();
  app.add_option("-o,--output", flags.options.output,
                 "the file to write; - for stdout where it is text");
  app.add_option(
         "--target", flags.target,
         "the backend that it is compiled for, with :PROCESSOR after it where it is not --mcpu's")
      ->capture_default_str();
  app.add_option("--mcpu", flags.options.compile.cpu,
                 "the processor, as LLVM names it (x86-64-v3, znver3, ...); several, the best "
                 "first, as x86-64-v4,x86-64-v3; this one by default");
  app.add_option("--mattr", flags.options.compile.features,
                 "processor features beside it, such as +avx512f,-fma4");
  app.add_option("--name", flags.options.name, "the model's name in C; by default the output's");
  app.add_option(
      "--weights", flags.weights,
      "safetensors file with values of parameters, instead of those that the program has");
  app.add_option("--weights-mode", flags.weightsMode,
                 "embed the weights, or put them beside the output: parameters, state, and large "
                 "tensors that the program captured")
      ->capture_default_str();
  app.add_option("--link", flags.options.link,
                 "objects of kernels of users that the program calls; they define "
                 "weft_kernel_plugin");
  app.add_option("--dump-dir", flags.options.compile.dumpDir, "folder for the IR of each phase")
      ->envname("WEFT_DUMP_DIR");
  app.add_option("--runtime-dir", flags.options.runtimeFolder, "folder of libweft_aot.a");
  CLI::Option *limit =
      app.add_option("--memory-limit", flags.options.compile.memoryLimit,
                     "bytes that a run may take beside its inputs; values are computed again to "
                     "fit")
          ->check(tools::wholeNumber(0));
  app.add_flag("--memory-files", flags.options.compile.memoryFiles,
               "under that limit, values may wait in a file, in the folder WEFT_MEMORY_FOLDER of "
               "the run")
      ->needs(limit);
  app.add_flag("--no-fuse", flags.noFuse, "make each op a kernel of its own");
  app.add_flag("--no-claim", flags.noClaim, "call no vendor library");
  app.add_option("--math", flags.options.compile.math,
                 "exact: no algorithms with errors beyond those of sums in another order; "
                 "standard; fast: NaN may get lost where a library is faster without it")
      ->transform(tools::oneOf(compiler::mathModes()))
      ->type_name("NAME")
      ->envname("WEFT_MATH");
  CLI11_PARSE(app, argc, argv);
  absl::Status status = run(flags);
  if (status.ok())
    return 0;
  std::cerr << "weft-compile: " << std::string(status.message()) << "\n";
  return 1;
}
