// weft::compile: programs ahead of time.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/backend/Backend.h"
#include "compiler/link/Aot.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/HostTensor.h"
#include "frontend/compile/compile_slice.h"
#include "frontend/programs/program_impl.h"
#include "frontend/recorder/config_env.h"
#include "mlir/Parser/Parser.h"
#include "weft/config.h"
#include "weft/jit.h"
#include "weft/warning.h"

namespace weft {
namespace {

static_assert(static_cast<int>(Emit::weft) == static_cast<int>(compiler::Emit::Weft) &&
              static_cast<int>(Emit::executable) == static_cast<int>(compiler::Emit::Executable));

// A captured tensor without a name that is worth one: smaller ones stay constants, which the
// compiler folds.
constexpr int64_t kWeightElements = 64;

// Collects the modules of entries in one context, and what they hold.
class Entries {
public:
  Entries(const std::vector<std::pair<std::string, Program>> &entries, Location location)
      : several_(entries.size() > 1), location_(location), host_(recorder::make_program()) {}

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
      refuse(ErrorKind::kCompile,
             diagnostics.failure("the program of '" + name + "' cannot be read"));
    for (const auto &[state, tensor] : program.state) {
      auto [it, fresh] = states_.try_emplace(state, name);
      if (!fresh && is_unnamed(state))
        refuse(ErrorKind::kValue, "the entries '" + it->second + "' and '" + name +
                                      "' both write a tensor that has no name, so that it is not "
                                      "known whether they share it; give trace() names for all "
                                      "that is written, as {{\"model\", model}}");
    }
    modules_.emplace_back(name, std::move(module));
  }

  // What compileAheadOfTime takes.
  mlir::OwningOpRef<mlir::ModuleOp> take() {
    for (auto &[name, module] : modules_)
      make_parameters(name, module->lookupSymbol<mlir::func::FuncOp>("main"));
    warn_where_nothing_is_shared();
    if (!several_ && modules_.front().first == "main")
      return std::move(modules_.front().second);
    mlir::OwningOpRef<mlir::ModuleOp> all =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(&context()));
    for (auto &[name, module] : modules_) {
      module->setSymName(name);
      all->push_back(module.release());
    }
    return all;
  }

  std::vector<compiler::AotWeight> weights() const {
    std::vector<compiler::AotWeight> result;
    for (const auto &[name, weight] : weights_)
      result.push_back(
          {name, weight.value.dtype, weight.value.shape,
           llvm::ArrayRef<char>(reinterpret_cast<const char *>(weight.value.bytes.data()),
                                weight.value.bytes.size())});
    return result;
  }

private:
  [[noreturn]] void refuse(ErrorKind kind, const std::string &what) const {
    throw Error(kind, "compile: " + what, location_);
  }

  // As trace() calls what has no name.
  static bool is_unnamed(llvm::StringRef state) {
    unsigned number;
    return state.consume_front("state_") && !state.getAsInteger(10, number);
  }

  // Turns captured tensors into parameters.
  void make_parameters(const std::string &entry, mlir::func::FuncOp main) {
    llvm::SmallVector<ir::ConstantOp> constants;
    for (auto constant : main.getOps<ir::ConstantOp>()) {
      auto elements = mlir::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
      if (!elements)
        continue;
      bool large = !elements.isSplat() && elements.getNumElements() >= kWeightElements;
      if (large || constant->hasAttr(ir::kParameterAttr))
        constants.push_back(constant);
    }
    // All arguments at once, with their attributes: the function's list of attributes must be as
    // long as that of its arguments.
    const unsigned first = main.getNumArguments();
    llvm::SmallVector<unsigned> positions(constants.size(), first);
    llvm::SmallVector<mlir::Type> types;
    llvm::SmallVector<mlir::DictionaryAttr> attributes;
    llvm::SmallVector<mlir::Location> locations;
    mlir::Builder builder(main.getContext());
    for (auto [i, constant] : llvm::enumerate(constants)) {
      auto named = constant->getAttrOfType<mlir::StringAttr>(ir::kParameterAttr);
      std::string name =
          named ? named.str() : (several_ ? entry + "." : "") + "captured_" + std::to_string(i);
      types.push_back(constant.getType());
      attributes.push_back(builder.getDictionaryAttr(
          builder.getNamedAttr(ir::kParameterAttr, builder.getStringAttr(name))));
      locations.push_back(constant.getLoc());
      add_weight(name, entry, ir::HostTensor::from(constant.getValue()));
    }
    if (mlir::failed(main.insertArguments(positions, types, attributes, locations)))
      refuse(ErrorKind::kCompile, "captured tensors cannot become parameters");
    for (auto [i, constant] : llvm::enumerate(constants)) {
      constant.getResult().replaceAllUsesWith(main.getArgument(first + i));
      constant.erase();
    }
  }

  void add_weight(const std::string &name, const std::string &entry, ir::HostTensor value) {
    if (auto state = states_.find(name); state != states_.end()) {
      shares_ = shares_ || state->second != entry;
      return; // what is written begins with what its program keeps
    }
    auto [it, fresh] = weights_.try_emplace(name, Weight{entry, {}});
    if (fresh) {
      it->second.value = std::move(value);
      return;
    }
    shares_ = true;
    const ir::HostTensor &known = it->second.value;
    // Other shapes are reported with those of state.
    if (known.dtype == value.dtype && known.shape == value.shape && known.bytes != value.bytes)
      refuse(ErrorKind::kValue, "the entries '" + it->second.entry + "' and '" + entry +
                                    "' captured different values of '" + name +
                                    "'; trace them while it holds the same, or name one otherwise");
  }

  void warn_where_nothing_is_shared() const {
    std::set<std::string> writers;
    for (const auto &[state, entry] : states_)
      writers.insert(entry);
    bool reads = std::ranges::any_of(
        weights_, [&](const auto &weight) { return !writers.count(weight.second.entry); });
    if (several_ && !shares_ && !states_.empty() && reads)
      warn(
          "compile: no entry reads what another one writes, since no names of captured tensors and "
          "of state are the same; give trace() of all entries the same names",
          location_);
  }

  struct Weight {
    std::string entry; // the first that has it
    ir::HostTensor value;
  };

  bool several_;
  Location location_;
  std::shared_ptr<recorder::ProgramImpl> host_; // of the context
  std::vector<std::pair<std::string, mlir::OwningOpRef<mlir::ModuleOp>>> modules_;
  std::map<std::string, std::string> states_; // the first entry that writes it
  std::map<std::string, Weight> weights_;
  bool shares_ = false;
};

} // namespace

void Program::compile(const CompileOptions &options, Location location) const {
  weft::compile({{"main", *this}}, options, location);
}

void compile(const std::vector<std::pair<std::string, Program>> &entries,
             const CompileOptions &options, Location location) {
  location = CallerScope::resolve(location);
  if (entries.empty())
    throw Error(ErrorKind::kValue, "compile: there is no entry to compile", location);
  for (const auto &[name, program] : entries)
    if (!program.impl_)
      throw Error(ErrorKind::kState, "compile: an empty program: it was neither traced nor loaded",
                  location);
  if (options.output.empty())
    throw Error(ErrorKind::kValue,
                "compile: options.output is empty; it must name the file to write", location);
  if (options.memory_limit < 0)
    throw Error(ErrorKind::kValue,
                "compile: options.memory_limit is " + std::to_string(options.memory_limit) +
                    "; it must be a number of bytes, or 0 for no limit",
                location);
  if (options.memory_files && options.memory_limit == 0)
    throw Error(ErrorKind::kValue,
                "compile: options.memory_files without options.memory_limit: values wait in files "
                "where a program would take more than its limit",
                location);
  for (const auto &[name, program] : entries)
    if (options.memory_files && !program.impl_->batch.inputs.empty())
      throw Error(ErrorKind::kValue,
                  "compile: options.memory_files: a program for a range of batches keeps no values "
                  "in files; trace it for one",
                  location);
  auto backend = compiler::findBackend(options.target);
  if (!backend.ok()) {
    std::string message = "compile: " + std::string(backend.status().message());
    // As weft-compile's --target spells both.
    if (size_t colon = options.target.find(':'); colon != std::string::npos)
      message += "; options.target is a backend alone, '" + options.target.substr(0, colon) +
                 "', and options.cpu its processor, '" + options.target.substr(colon + 1) + "'";
    throw Error(ErrorKind::kValue, message, location);
  }
  if (options.memory_files && (*backend)->device() != "cpu")
    throw Error(ErrorKind::kValue,
                "compile: options.memory_files: values wait in files on CPUs, the target is '" +
                    options.target + "'",
                location);
  Entries all(entries, location);
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
  aot.weights = all.weights();
  ir::DiagnosticCollector diagnostics(&all.context());
  auto files = (*backend)->compileAheadOfTime(*module, aot);
  if (files.ok())
    return;
  throw Error(ErrorKind::kCompile,
              diagnostics.added("compile: " + std::string(files.status().message())), location);
}

} // namespace weft
