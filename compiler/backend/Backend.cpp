#include "compiler/backend/Backend.h"

#include <map>
#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backend/CallBackend.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/reference/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/executable/check_specs.h"
#include "runtime/executable/executable.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

using namespace mlir;

namespace {

struct Entry {
  BackendFactory factory;
  std::unique_ptr<Backend> backend;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Entry> entries;
};

// Never destroyed: executables and threads that outlive main() may still use a backend.
Registry &registry() {
  static Registry *registry = new Registry();
  return *registry;
}

// What is wrong with them, to stand behind "it": they are as many as the types, each of its type's
// dtype and dims. areSized: dims stand for the largest sizes, as the backend counts them.
template <typename Spec>
std::string wrongSpecs(const char *what, std::span<const Spec> specs, TypeRange types,
                       bool areSized) {
  if (specs.size() != types.size())
    return absl::StrCat("has specs of ", specs.size(), " ", what, "s, where @main has ",
                        types.size());
  for (auto [i, type] : llvm::enumerate(types)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && !areSized &&
        (specs[i].dtype != ir::dtypeOf(tensor.getElementType()) ||
         ArrayRef<int64_t>(specs[i].dims) != tensor.getShape()))
      return absl::StrCat("says that ", what, " ", i, " is ", name(specs[i].dtype), "[",
                          absl::StrJoin(specs[i].dims, ", "), "], where @main has ",
                          llvm::formatv("{0}", Type(tensor)).str());
  }
  return "";
}

// Of @main, before compile() consumes it.
struct Signature {
  explicit Signature(func::FuncOp main)
      : results(llvm::to_vector(main.getFunctionType().getResults())) {
    // What was computed ahead is the executable's own matter.
    for (auto [i, type] : llvm::enumerate(main.getFunctionType().getInputs()))
      if (!main.getArgAttr(i, ir::kPreparedAttr))
        inputs.push_back(type);
  }
  SmallVector<Type> inputs, results;
};

std::string wrong(const runtime::Executable &executable, const Signature &main, bool areSized) {
  auto inputs = executable.input_specs();
  auto outputs = executable.output_specs();
  std::string wrong = wrongSpecs("input", inputs, TypeRange(main.inputs), areSized);
  if (wrong.empty())
    wrong = wrongSpecs("output", outputs, TypeRange(main.results), areSized);
  if (!wrong.empty())
    return wrong;
  absl::Status status = areSized ? runtime::check_ties(inputs, outputs)
                                 : runtime::check_specs(inputs, outputs);
  return status.ok() ? "" : absl::StrCat("says that ", status.message());
}

} // namespace

absl::StatusOr<std::shared_ptr<runtime::Executable>> Backend::load(ArrayRef<char> blob) const {
  return absl::UnimplementedError(
      ("backend '" + name() + "' does not load compiled programs").str());
}

absl::StatusOr<std::vector<std::string>> Backend::compileAheadOfTime(ModuleOp module,
                                                                     const AotOptions &options) {
  return absl::UnimplementedError(
      ("backend '" + name() + "' does not compile ahead of time").str());
}

absl::Status registerBackend(StringRef name, BackendFactory factory) {
  if (name.empty() || !factory)
    return absl::InvalidArgumentError(
        ("the backend '" + name + "' needs a name and a factory").str());
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto [it, inserted] =
      registry().entries.try_emplace(name.str(), Entry{std::move(factory), nullptr});
  if (!inserted)
    return absl::AlreadyExistsError(("a backend named '" + name + "' is already registered").str());
  return absl::OkStatus();
}

void unregisterBackend(StringRef name) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto it = registry().entries.find(name.str());
  if (it != registry().entries.end() && !it->second.backend)
    registry().entries.erase(it);
}

absl::StatusOr<Backend *> findBackend(StringRef name) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto it = registry().entries.find(name.str());
  if (it == registry().entries.end()) {
    std::string known;
    for (auto &[other, entry] : registry().entries)
      known += (known.empty() ? "" : ", ") + other;
    return absl::NotFoundError(
        ("no backend named '" + name + "'; known: " + (known.empty() ? "none" : known)).str());
  }
  Entry &entry = it->second;
  if (!entry.backend) {
    absl::Status made = callBackend(name, "the factory", [&] {
      entry.backend = entry.factory();
      return absl::OkStatus();
    });
    if (!made.ok())
      return made;
  }
  if (!entry.backend)
    return absl::InternalError(("the factory of the backend '" + name + "' gave null").str());
  return entry.backend.get();
}

absl::StatusOr<std::shared_ptr<runtime::Executable>>
compileBy(Backend &backend, ModuleOp module, const CompileOptions &options, CompileReport *report) {
  std::optional<Signature> main;
  if (auto function = module.lookupSymbol<func::FuncOp>("main"))
    main.emplace(function);
  bool areSized = module->hasAttr(ir::kSizesAttr);
  auto executable = callBackend(backend.name(), "compile()",
                                [&] { return backend.compile(module, options, report); });
  if (!executable.ok())
    return executable;
  if (!*executable)
    return absl::InternalError(
        ("the backend '" + backend.name() + "' gave a null executable and no error").str());
  if (std::string why = main ? wrong(**executable, *main, areSized) : ""; !why.empty())
    return absl::InternalError(
        ("the backend '" + backend.name() + "' gave an executable that " + why +
         "; mend what its compile() makes")
            .str());
  return executable;
}

absl::StatusOr<std::shared_ptr<runtime::Executable>>
atSizes(StringRef backend, const runtime::Executable &executable, const runtime::Sizes &sizes) {
  auto sized = callBackend(backend, "at_sizes()", [&] { return executable.at_sizes(sizes); });
  if (!sized.ok())
    return sized;
  auto gave = [&](const std::string &what) {
    return absl::InternalError(("at_sizes() of the backend '" + backend + "' gave " + what).str());
  };
  if (!*sized)
    return gave("null and no error");
  auto inputs = (*sized)->input_specs();
  auto outputs = (*sized)->output_specs();
  if (inputs.size() != executable.input_specs().size() ||
      outputs.size() != executable.output_specs().size())
    return gave("an executable with other numbers of inputs and outputs");
  if (absl::Status status = runtime::check_specs(inputs, outputs); !status.ok())
    return gave("an executable that says that " + std::string(status.message()));
  return sized;
}

std::vector<std::string> backendNames() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  std::vector<std::string> names;
  for (auto &[name, entry] : registry().entries)
    names.push_back(name);
  return names;
}

BackendRegistration::BackendRegistration(const char *name, BackendFactory factory) {
  absl::Status status = registerBackend(name, std::move(factory));
  // Two libraries under one name is a mistake in how the program was linked; the first one stays.
  if (!status.ok())
    llvm::errs() << "weft: " << status.ToString() << "\n";
}

} // namespace weft::compiler
