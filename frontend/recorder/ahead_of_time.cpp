// weft::Program::compile.
#include "compiler/backend/Backend.h"
#include "compiler/link/Aot.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "frontend/recorder/program_impl.h"
#include "weft/jit.h"

namespace weft {
namespace {

// The public enum's values are the compiler's, in the same order.
compiler::Emit emit_of(Emit emit) {
  switch (emit) {
  case Emit::weft:
    return compiler::Emit::Weft;
  case Emit::plan:
    return compiler::Emit::Plan;
  case Emit::llvm:
    return compiler::Emit::Llvm;
  case Emit::assembly:
    return compiler::Emit::Assembly;
  case Emit::object:
    return compiler::Emit::Object;
  case Emit::library:
    return compiler::Emit::SharedLibrary;
  case Emit::executable:
    return compiler::Emit::Executable;
  }
  return compiler::Emit::Executable;
}

// A captured tensor without a name that is worth one: smaller ones stay constants, which the
// compiler folds.
constexpr int64_t kWeightElements = 64;

// Turns captured tensors into parameters. The values live as long as `values`.
void make_parameters(mlir::func::FuncOp main, std::vector<ir::HostTensor> &values,
                     std::vector<compiler::AotWeight> &weights) {
  llvm::SmallVector<ir::ConstantOp> constants;
  for (auto constant : main.getOps<ir::ConstantOp>()) {
    auto elements = mlir::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
    if (!elements)
      continue;
    bool large = !elements.isSplat() && elements.getNumElements() >= kWeightElements;
    if (large || constant->hasAttr(ir::kParameterAttr))
      constants.push_back(constant);
  }
  // All arguments at once, with their attributes: the function's list of attributes must be as long
  // as that of its arguments.
  const unsigned first = main.getNumArguments();
  llvm::SmallVector<unsigned> positions(constants.size(), first);
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::DictionaryAttr> attributes;
  llvm::SmallVector<mlir::Location> locations;
  mlir::Builder builder(main.getContext());
  std::vector<std::string> names;
  for (auto [i, constant] : llvm::enumerate(constants)) {
    auto name = constant->getAttrOfType<mlir::StringAttr>(ir::kParameterAttr);
    names.push_back(name ? name.str() : "captured_" + std::to_string(i));
    types.push_back(constant.getType());
    attributes.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(ir::kParameterAttr, builder.getStringAttr(names.back()))));
    locations.push_back(constant.getLoc());
  }
  if (mlir::failed(main.insertArguments(positions, types, attributes, locations)))
    return;
  values.reserve(constants.size());
  for (auto [i, constant] : llvm::enumerate(constants)) {
    values.push_back(ir::HostTensor::from(constant.getValue()));
    const ir::HostTensor &value = values.back();
    constant.getResult().replaceAllUsesWith(main.getArgument(first + i));
    constant.erase();
    weights.push_back({names[i], value.dtype, value.shape,
                       llvm::ArrayRef<char>(reinterpret_cast<const char *>(value.bytes.data()),
                                            value.bytes.size())});
  }
}

} // namespace

void Program::compile(const CompileOptions &options, Location location) const {
  location = CallerScope::resolve(location);
  if (!impl_)
    throw Error(ErrorKind::kState, "compile: an empty program: it was neither traced nor loaded",
                location);
  if (options.output.empty())
    throw Error(ErrorKind::kValue,
                "compile: options.output is empty; it must name the file to write", location);
  auto backend = compiler::findBackend(options.target);
  if (!backend.ok())
    throw Error(ErrorKind::kValue, "compile: " + std::string(backend.status().message()), location);
  std::lock_guard<std::mutex> lock(impl_->mutex);
  mlir::DialectRegistry registry;
  (*backend)->registerDialects(registry);
  impl_->context->appendDialectRegistry(registry);
  impl_->context->loadAllAvailableDialects();
  mlir::OwningOpRef<mlir::ModuleOp> module = impl_->module->clone();
  compiler::AotOptions aot;
  aot.compile.cpu = options.cpu;
  aot.emit = emit_of(options.emit);
  aot.output = options.output;
  aot.name = options.name;
  aot.embedWeights = options.embed_weights;
  std::vector<ir::HostTensor> values;
  make_parameters(module->lookupSymbol<mlir::func::FuncOp>("main"), values, aot.weights);
  ir::DiagnosticCollector diagnostics(impl_->context.get());
  auto files = (*backend)->compileAheadOfTime(*module, aot);
  if (files.ok())
    return;
  throw Error(ErrorKind::kCompile,
              diagnostics.added("compile: " + std::string(files.status().message())), location);
}

} // namespace weft
