// weft-models: the models of weft/models/models.h, by name.
//
//   weft-models list
//   weft-models print resnet50 --batch 8
//   weft-models export resnet50 --weights resnet50.safetensors --emit=exe -o resnet50
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <set>

#include "CLI/CLI.hpp"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Parser/Parser.h"
#include "tools/FlagChecks.h"
#include "tools/models/LayerTable.h"
#include "weft/models/models.h"
#include "weft/weft.h"

namespace {

using namespace weft;

struct Flags {
  std::string name, kind, emit = "exe", weights, dumpDir;
  int64_t batch = 1, maxBatch = 0;
  uint64_t seed = 0;
  bool ir = false, memory = false, beside = false;
  CompileOptions compile;
};

void list(const Flags &flags) {
  std::vector<models::Record> records = models::all();
  std::set<std::string> kinds;
  for (const models::Record &record : records)
    kinds.insert(record.kind);
  if (!flags.kind.empty() && !kinds.contains(flags.kind)) {
    std::string known;
    for (const std::string &kind : kinds)
      known += (known.empty() ? "\"" : ", \"") + kind + "\"";
    throw Error(ErrorKind::kValue, "list: no model is of the kind \"" + flags.kind +
                                       "\"; the kinds are " + known);
  }
  std::erase_if(records, [&](const models::Record &record) {
    return !flags.kind.empty() && record.kind != flags.kind;
  });
  size_t name = 0, kind = 0;
  for (const models::Record &record : records) {
    name = std::max(name, record.name.size());
    kind = std::max(kind, record.kind.size());
  }
  for (const models::Record &record : records)
    std::cout << std::left << std::setw(static_cast<int>(name) + 2) << record.name
              << std::setw(static_cast<int>(kind) + 2) << record.kind << std::right << std::setw(11)
              << record.make().module().parameter_count() << "  " << record.source << "\n";
}

// The model in evaluation, recorded on a batch of its example.
Program record(const models::AnyModel &model, const models::Record &what, int64_t batch,
               const BatchRange &range = {}) {
  model.module().eval();
  NoGrad no_grad;
  return trace(model, what.example(batch), {}, range);
}

void print(const Flags &flags) {
  models::Record what = models::find(flags.name);
  models::AnyModel model = what.make();
  if (!flags.memory) {
    // Zeros are short as text, and the numbers do not matter here. In a compiled program they do:
    // a tensor of zeros takes no memory.
    NoGrad no_grad;
    for (auto &[name, tensor] : model.state())
      tensor.zero_();
  }
  Program program = record(model, what, flags.batch);
  if (flags.memory) {
    MemoryEstimate estimate = program.memory();
    std::cout << estimate.to_string() << "\n"
              << memory_chart(estimate.live_bytes) << memory_table(estimate.holders);
    return;
  }
  std::string text = program.to_string(/*locations=*/false);
  if (flags.ir) {
    std::cout << text;
    return;
  }
  mlir::DialectRegistry registry;
  registry.insert<ir::WeftDialect, mlir::func::FuncDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    throw Error(ErrorKind::kCompile, "the recorded model cannot be read back");
  std::cout << what.name << ": " << what.kind << "; " << what.source << "\n";
  std::set<std::string> buffers;
  for (const auto &[name, tensor] : model.module().named_buffers())
    buffers.insert(name);
  tools::describeLayers(*module, buffers).print(std::cout);
}

Emit emit_of(const std::string &name) {
  const std::pair<const char *, Emit> kinds[] = {{"weft", Emit::weft},     {"plan", Emit::plan},
                                                 {"llvm", Emit::llvm},     {"asm", Emit::assembly},
                                                 {"obj", Emit::object},    {"so", Emit::library},
                                                 {"exe", Emit::executable}};
  for (const auto &[known, emit] : kinds)
    if (name == known)
      return emit;
  throw Error(ErrorKind::kValue,
              "--emit=" + name +
                  " is unknown; it is one of weft, plan, llvm, asm, obj, so, exe and safetensors");
}

void export_model(Flags flags) {
  models::Record what = models::find(flags.name);
  bool as_weights = flags.emit == "safetensors";
  if (!as_weights)
    flags.compile.emit = emit_of(flags.emit);
  manual_seed(flags.seed);
  models::AnyModel model = what.make();
  if (!flags.weights.empty())
    model.module().load_state(io::load_safetensors(flags.weights));
  if (as_weights) {
    io::save_safetensors(flags.compile.output, model.state(),
                         {{"format", "pt"}, {"model", what.name}});
  } else {
    if (!flags.dumpDir.empty()) {
      Config options = config();
      options.dump_dir = flags.dumpDir;
      set_config(options);
    }
    flags.compile.embed_weights = !flags.beside;
    BatchRange range;
    if (flags.maxBatch)
      range = {.min = flags.batch, .max = flags.maxBatch};
    record(model, what, flags.batch, range).compile(flags.compile);
  }
  std::cerr << "wrote " << flags.compile.output << "\n";
  // As compile() names what it writes beside the output.
  const Emit emit = flags.compile.emit;
  auto beside = [&](const char *ending) {
    std::filesystem::path path(flags.compile.output);
    if (emit == Emit::executable)
      return path.string() + "." + ending;
    return path.replace_extension(ending).string();
  };
  const bool is_object = emit == Emit::object || emit == Emit::library;
  if (!as_weights && is_object)
    std::cerr << "wrote " << beside("h") << "\n";
  if (!as_weights && flags.beside && (is_object || emit == Emit::executable))
    std::cerr << "wrote " << beside("safetensors") << "\n";
}

} // namespace

int main(int argc, char **argv) {
  Flags flags;
  CLI::App app("Lists, prints and compiles the models of weft/models/models.h.", "weft-models");
  app.require_subcommand(0, 1);
  CLI::App *lister = app.add_subcommand(
      "list", "name, kind, elements of the parameters, and who describes it, one a line");
  lister->add_option("--kind", flags.kind, "only those of this kind, as \"image classifier\"");
  CLI::App *printer = app.add_subcommand(
      "print", "layers, with the shapes of their outputs, parameters, operations and bytes");
  CLI::App *exporter = app.add_subcommand("export", "compiles it ahead of time, in evaluation");
  for (CLI::App *command : {printer, exporter}) {
    command->add_option("name", flags.name, "a model that `list` names")->required();
    command->add_option("--batch", flags.batch, "samples in a batch")->capture_default_str();
  }
  CLI::Option *ir =
      printer->add_flag("--ir", flags.ir, "the recorded program instead, with zeros as weights");
  printer
      ->add_flag("--memory", flags.memory,
                 "instead, what a run takes, what is live over it, and which modules hold it at "
                 "the peak")
      ->excludes(ir);
  exporter->add_option("--max-batch", flags.maxBatch,
                       "compile for any batch from --batch to this many samples");
  exporter
      ->add_option("--emit", flags.emit,
                   "weft, plan, llvm, asm, obj, so, exe; or safetensors, the weights alone")
      ->capture_default_str();
  exporter->add_option("-o,--output", flags.compile.output, "the file to write")->required();
  exporter->add_option("--weights", flags.weights,
                       "safetensors file with all parameters and buffers; else as new models "
                       "begin");
  exporter->add_option("--seed", flags.seed, "of what new models begin with")
      ->check(tools::wholeNumber<uint64_t>(0))
      ->capture_default_str();
  exporter->add_flag("--weights-beside", flags.beside,
                     "put the weights into OUTPUT.safetensors instead of embedding them");
  exporter->add_option("--target", flags.compile.target, "the backend that it is compiled for")
      ->capture_default_str();
  exporter->add_option("--mcpu", flags.compile.cpu,
                       "the processor, as LLVM names it; this one by default");
  exporter->add_option("--name", flags.compile.name, "prefix of the C functions")
      ->capture_default_str();
  exporter->add_option("--dump-dir", flags.dumpDir, "folder for the IR of each phase");
  CLI11_PARSE(app, argc, argv);
  if (app.get_subcommands().empty()) {
    std::cerr << "weft-models: what to do is missing: list, print or export; --help shows more\n";
    return 1;
  }
  try {
    if (lister->parsed())
      list(flags);
    else if (printer->parsed())
      print(flags);
    else
      export_model(flags);
    return 0;
  } catch (const Error &error) {
    std::cerr << "weft-models: " << error.message() << "\n";
    return 1;
  }
}
