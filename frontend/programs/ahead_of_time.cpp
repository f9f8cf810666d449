// weft::compile: programs ahead of time.
#include "compiler/backend/Backend.h"
#include "compiler/backend/CallBackend.h"
#include "compiler/link/Aot.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "frontend/compile/compile_slice.h"
#include "frontend/programs/program_impl.h"
#include "frontend/compile/environment.h"
#include "mlir/Parser/Parser.h"
#include "weft/config.h"
#include "weft/jit.h"
#include "weft/warning.h"

namespace weft {
namespace {

static_assert(static_cast<int>(Emit::weft) == static_cast<int>(compiler::Emit::Weft) &&
              static_cast<int>(Emit::executable) == static_cast<int>(compiler::Emit::Executable));

// Collects the modules of entries in one context.
class Entries {
public:
  explicit Entries(Location location) : location_(location), host_(recorder::make_program()) {}

  mlir::MLIRContext &context() {
    return *host_->context;
  }

  // In the order of calls: all programs first.
  void parse(const std::string &name, recorder::ProgramImpl &program) {
    // Why sizes cannot vary is a sentence that names an op, not its text.
    if (!program.batch.inputs.empty())
      context().printOpOnDiagnostic(false);
    ir::DiagnosticCollector diagnostics(&context());
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(
        recorder::bytecode_of(program, location_), mlir::ParserConfig(&context()), name);
    if (!module)
      throw Error(ErrorKind::kCompile,
                  "compile: " + diagnostics.failure("the program of '" + name + "' cannot be read"),
                  location_);
    modules_.emplace_back(name, std::move(module));
  }

  // What compileAheadOfTime takes.
  mlir::OwningOpRef<mlir::ModuleOp> take() {
    if (modules_.size() == 1 && modules_.front().first == "main")
      return std::move(modules_.front().second);
    mlir::OwningOpRef<mlir::ModuleOp> all =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(&context()));
    for (auto &[name, module] : modules_) {
      module->setSymName(name);
      all->push_back(module.release());
    }
    return all;
  }

private:
  Location location_;
  std::shared_ptr<recorder::ProgramImpl> host_; // of the context
  std::vector<std::pair<std::string, mlir::OwningOpRef<mlir::ModuleOp>>> modules_;
};

} // namespace

void Program::compile(const CompileOptions &options, Location location) const {
  weft::compile({{"main", *this}}, options, location);
}

void compile(const std::vector<std::pair<std::string, Program>> &entries,
             const CompileOptions &options, Location location) {
  location = CallerScope::resolve(location);
  auto refuse = [&](const std::string &why, ErrorKind kind = ErrorKind::kValue) {
    throw Error(kind, "compile: " + why, location);
  };
  if (entries.empty())
    refuse("there is no entry to compile");
  for (const auto &[name, program] : entries)
    if (!program.impl_)
      refuse("an empty program: it was neither traced nor loaded", ErrorKind::kState);
  if (options.output.empty())
    refuse("options.output is empty; it must name the file to write");
  if (options.memory_limit < 0)
    refuse("options.memory_limit is " + std::to_string(options.memory_limit) +
           "; it must be a number of bytes, or 0 for no limit");
  if (options.memory_files && options.memory_limit == 0)
    refuse("options.memory_files without options.memory_limit: values wait in files where a "
           "program would take more than its limit");
  for (const auto &[name, program] : entries)
    if (options.memory_files && !program.impl_->batch.inputs.empty())
      refuse("options.memory_files: a program for a range of batches keeps no values in files; "
             "trace it for one");
  auto backend = compiler::findBackend(options.target);
  if (!backend.ok()) {
    std::string message(backend.status().message());
    // As weft-compile's --target spells both.
    if (size_t colon = options.target.find(':'); colon != std::string::npos)
      message += "; options.target is a backend alone, '" + options.target.substr(0, colon) +
                 "', and options.cpu its processor, '" + options.target.substr(colon + 1) + "'";
    refuse(message);
  }
  if (options.memory_files && (*backend)->device() != "cpu")
    refuse("options.memory_files: values wait in files on CPUs, the target is '" + options.target +
           "'");
  Entries all(location);
  mlir::DialectRegistry registry;
  (*backend)->registerDialects(registry);
  all.context().appendDialectRegistry(registry);
  all.context().loadAllAvailableDialects();
  for (const auto &[name, program] : entries)
    all.parse(name, *program.impl_);
  mlir::OwningOpRef<mlir::ModuleOp> module = all.take();
  compiler::AotOptions aot;
  Config now = config();
  now.math = recorder::math_of(now);
  aot.compile = recorder::compile_options(now);
  aot.compile.cpu = options.cpu;
  aot.compile.memoryLimit = options.memory_limit;
  aot.compile.memoryFiles = options.memory_files;
  aot.emit = static_cast<compiler::Emit>(options.emit); // the same values in the same order
  aot.output = options.output;
  aot.name = options.name;
  aot.embedWeights = options.embed_weights;
  aot.link = options.link;
  // After the compilation, as a program's own handler may throw.
  std::vector<std::string> warnings;
  aot.warn = [&](const std::string &what) {
    warnings.push_back("compile: " + what);
  };
  ir::DiagnosticCollector diagnostics(&all.context());
  auto files = compiler::callBackend(options.target, "compileAheadOfTime()", [&] {
    return (*backend)->compileAheadOfTime(*module, aot);
  });
  for (const std::string &warning : warnings)
    warn(warning, location);
  if (files.ok())
    return;
  throw Error(ErrorKind::kCompile,
              diagnostics.added("compile: " + std::string(files.status().message())), location);
}

} // namespace weft
