// weft-run: compiles the function @main of a .mlir program for a backend, runs it on arrays from
// files, and prints or writes the results.
//
//   weft-run --input x.npy model.mlir
//   weft-opt --weft-phase=graph model.mlir | weft-run --backend=reference --input x.npy --output
//   y.npy -
#include <CLI/CLI.hpp>
#include <cstring>

#include "compiler/backend/Backend.h"
#include "compiler/plugin/Plugin.h"
#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/ir/TypeAdvice.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "runtime/executor/device.h"
#include "runtime/io/array_text.h"
#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"
#include "runtime/memory/buffer.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

namespace {

using namespace weft;

struct Options {
  std::string program;
  std::string backend = "cpu";
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  bool report = false;
  compiler::CompileOptions compile;
};

// The files that inputs came from: their arrays lie in `storage`.
struct Inputs {
  std::vector<std::shared_ptr<const void>> storage;
  std::vector<runtime::ArrayView> arrays;
};

absl::Status invalid(const std::string &message) {
  return absl::InvalidArgumentError(message);
}

bool endsWith(const std::string &text, const char *suffix) {
  const size_t length = std::strlen(suffix);
  return text.size() >= length && text.compare(text.size() - length, length, suffix) == 0;
}

// .npy files are one input each; all tensors of a safetensors file are inputs, in the order of
// their bytes.
absl::StatusOr<Inputs> readInputs(const std::vector<std::string> &paths) {
  Inputs inputs;
  for (const std::string &path : paths) {
    if (endsWith(path, ".safetensors")) {
      auto file = runtime::read_safetensors(path);
      if (!file.ok())
        return file.status();
      inputs.arrays.insert(inputs.arrays.end(), file->tensors.begin(), file->tensors.end());
      inputs.storage.push_back(std::move(file->storage));
    } else {
      auto file = runtime::read_npy(path);
      if (!file.ok())
        return file.status();
      file->array.name = path;
      inputs.arrays.push_back(file->array);
      inputs.storage.push_back(std::move(file->storage));
    }
  }
  return inputs;
}

absl::StatusOr<std::vector<std::shared_ptr<runtime::Buffer>>>
bindInputs(const runtime::Executable &executable, const Inputs &inputs, runtime::Memory &memory) {
  auto specs = executable.input_specs();
  if (specs.size() != inputs.arrays.size()) {
    std::string wanted;
    for (const auto &spec : specs)
      wanted += (wanted.empty() ? "" : ", ") + runtime::shape_text(spec.dtype, spec.dims);
    return invalid("@main takes " + std::to_string(specs.size()) + " inputs (" + wanted + "), " +
                   std::to_string(inputs.arrays.size()) +
                   " are given; name a file for each, in order, by --input");
  }
  std::vector<std::shared_ptr<runtime::Buffer>> buffers;
  for (size_t i = 0; i < specs.size(); ++i) {
    const runtime::ArrayView &array = inputs.arrays[i];
    if (array.dtype != specs[i].dtype || array.dims != specs[i].dims)
      return invalid("input " + std::to_string(i) + " (" + array.name + ") is " +
                     runtime::shape_text(array.dtype, array.dims) + ", but @main takes " +
                     runtime::shape_text(specs[i].dtype, specs[i].dims));
    auto buffer = memory.allocate(specs[i].bytes, "input");
    if (!buffer.ok())
      return buffer.status();
    if (!array.bytes.empty())
      std::memcpy((*buffer)->data(), array.bytes.data(), array.bytes.size());
    buffers.push_back(*std::move(buffer));
  }
  return buffers;
}

absl::Status writeOutputs(const Options &options, const runtime::Executable &executable,
                          const std::vector<std::shared_ptr<runtime::Buffer>> &buffers) {
  auto specs = executable.output_specs();
  std::vector<runtime::ArrayView> arrays;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (absl::Status status = buffers[i]->wait(); !status.ok())
      return status;
    runtime::ArrayView array;
    array.name = "output" + std::to_string(i);
    array.dtype = specs[i].dtype;
    array.dims = specs[i].dims;
    array.bytes = {static_cast<const std::byte *>(buffers[i]->data()),
                   static_cast<size_t>(specs[i].bytes)};
    arrays.push_back(std::move(array));
  }
  if (options.outputs.empty()) {
    for (const runtime::ArrayView &array : arrays) {
      llvm::outs() << runtime::shape_text(array.dtype, array.dims) << "\n";
      llvm::outs() << runtime::array_text(array) << "\n";
    }
    return absl::OkStatus();
  }
  if (options.outputs.size() == 1 && endsWith(options.outputs[0], ".safetensors"))
    return runtime::write_safetensors(options.outputs[0], arrays);
  if (options.outputs.size() != arrays.size())
    return invalid(
        "@main has " + std::to_string(arrays.size()) + " results, " +
        std::to_string(options.outputs.size()) +
        " --output files are given; name one .npy file for each, or one .safetensors file for all");
  for (size_t i = 0; i < arrays.size(); ++i)
    if (absl::Status status = runtime::write_npy(options.outputs[i], arrays[i]); !status.ok())
      return status;
  return absl::OkStatus();
}

absl::Status run(const Options &options) {
  auto backend = compiler::findBackend(options.backend);
  if (!backend.ok())
    return backend.status();
  auto inputs = readInputs(options.inputs);
  if (!inputs.ok())
    return inputs.status();

  mlir::DialectRegistry registry;
  (*backend)->registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream stream(diagnostics);
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      stream << (diagnostics.empty() ? "" : "; ") << diagnostic.getLocation() << ": " << diagnostic;
    if (std::string advice = ir::typeAdvice(diagnostic); !advice.empty())
      stream << " (" << advice << ")";
    return mlir::success();
  });
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = mlir::openInputFile(options.program, &message);
  if (!file)
    return invalid(options.program + " is not a program that weft-run can read: " + message);
  if (ir::inspectBytecode(file->getBuffer()) == ir::BytecodeState::Damaged)
    return invalid(options.program + " " + ir::kDamagedBytecode);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  if (!module)
    return invalid(options.program + " is not a program that weft-run can read: " + diagnostics);

  compiler::CompileReport report;
  auto executable = (*backend)->compile(*module, options.compile, &report);
  if (!executable.ok())
    return absl::Status(executable.status().code(),
                        absl::string_view(std::string(executable.status().message()) +
                                          (diagnostics.empty() ? "" : ": " + diagnostics)));
  if (options.report)
    llvm::errs() << "weft-run: " << report.kernels << " kernels, " << report.launches
                 << " launches, " << report.libraryCalls << " library calls, arena "
                 << report.plan.arenaBytes << " B, compiled in " << report.milliseconds << " ms\n";

  runtime::Device &device = runtime::cpu_device();
  auto buffers = bindInputs(**executable, *inputs, *device.memory());
  if (!buffers.ok())
    return buffers.status();
  std::vector<std::shared_ptr<runtime::Buffer>> outputs((*executable)->output_specs().size());
  if (absl::Status status = device.executor().submit(*executable, *buffers, outputs); !status.ok())
    return status;
  return writeOutputs(options, **executable, outputs);
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
                 "an .npy file for each input, in order, or a .safetensors file for several");
  app.add_option("--output,-o", options.outputs,
                 "an .npy file for each result, or one .safetensors file; default: print them");
  std::string known;
  for (const std::string &backend : compiler::backendNames())
    known += (known.empty() ? "" : ", ") + backend;
  app.add_option("--backend", options.backend, "what runs it: " + known)->capture_default_str();
  app.add_flag("--report", options.report, "says on standard error what was compiled");
  app.add_flag("!--no-fuse", options.compile.fuse, "each op becomes a kernel of its own");
  app.add_flag("!--no-claim", options.compile.claim, "no vendor library is called");
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
