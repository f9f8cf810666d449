// Ops that users replaced (weft::replace_op): their calls are recorded as other ops.
#include <map>
#include <mutex>

#include "dialects/weft/ir/Custom.h"
#include "frontend/recorder/record/call_user.h"
#include "frontend/recorder/record/state.h"
#include "frontend/tensor/impl.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/SaveAndRestore.h"
#include "llvm/Support/ScopedPrinter.h"

namespace weft {
namespace recorder {
namespace {

// Not the recorder's: plugins replace ops while the recorder is being made.
struct Replacements {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const OpReplacement>, std::less<>> by_op;
};
Replacements &replacements() {
  static auto *all = new Replacements;
  return *all;
}

// This thread runs a replacement: what it calls is not replaced again.
thread_local bool inside = false;

OpAttribute value_of(mlir::Attribute attribute) {
  if (auto flag = mlir::dyn_cast<mlir::BoolAttr>(attribute))
    return flag.getValue();
  if (auto number = mlir::dyn_cast<mlir::IntegerAttr>(attribute))
    return number.getInt();
  if (auto number = mlir::dyn_cast<mlir::FloatAttr>(attribute))
    return number.getValueAsDouble();
  if (auto text = mlir::dyn_cast<mlir::StringAttr>(attribute))
    return text.getValue().str();
  if (auto numbers = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(attribute))
    return numbers.asArrayRef().vec();
  if (auto numbers = mlir::dyn_cast<mlir::DenseF64ArrayAttr>(attribute))
    return numbers.asArrayRef().vec();
  return llvm::to_string(attribute);
}

// All that the op has; those that it leaves to their defaults are among them where it says so.
std::vector<std::pair<std::string, OpAttribute>> attributes_of(const Signature &signature) {
  std::vector<std::pair<std::string, OpAttribute>> attributes;
  if (auto all =
          mlir::dyn_cast_or_null<mlir::DictionaryAttr>(recorder().ir->properties_of(signature)))
    for (mlir::NamedAttribute each : all)
      attributes.emplace_back(each.getName().str(), value_of(each.getValue()));
  return attributes;
}

void record_replaced(const Signature &signature, llvm::ArrayRef<const Var *> operands,
                     llvm::SmallVectorImpl<Var> &results) {
  std::string name = signature.name.getStringRef().str();
  llvm::SmallVector<const TypeInfo *, 1> types = signature.results;
  std::shared_ptr<const OpReplacement> replacement = signature.replacement;
  OpCall call{{}, attributes_of(signature)};
  for (const Var *operand : operands)
    call.operands.push_back(wrap(*operand));
  std::vector<Tensor> given;
  {
    // The function is the user's, and may take its time. The context stays: callers refer to it.
    llvm::SaveAndRestore now_inside(inside, true);
    ++recorder().replacing;
    llvm::scope_exit replaced([] { --recorder().replacing; });
    RecorderMutex::Pause pause(recorder().mutex);
    given = call_user("the replacement of " + name, [&] { return (*replacement)(call); });
  }
  auto refuse = [&](const std::string &gave, const std::string &wanted) {
    fail(ErrorKind::kShape, "the replacement of " + name + " gave " + gave + ", but the op gives " +
                                wanted + " (weft::replace_op)");
  };
  if (given.size() != types.size())
    refuse(std::to_string(given.size()) + " result(s)", std::to_string(types.size()));
  for (auto [i, tensor] : llvm::enumerate(given)) {
    if (!tensor.defined())
      refuse("an undefined tensor", describe(*types[i]));
    Var result = read(tensor, "result");
    if (result.dtype() != types[i]->dtype || result.dims() != types[i]->dims ||
        result.device() != types[i]->device)
      refuse(describe(result.type()), describe(*types[i]));
    results.push_back(std::move(result));
  }
}

// Why calls of an op, of weft's dialect or of a plugin's, cannot be replaced; empty where they can.
std::string why_not_replaced(const std::string &op) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::WeftDialect>(); // and the dialects of plugins
  auto found = mlir::RegisteredOperationName::lookup(op, &context);
  auto *rules = found ? found->getInterface<ir::WeftOp>() : nullptr;
  if (!rules)
    return "there is no op named '" + op + "' (docs/ops.md lists weft's; a plugin brings its own)";
  // Of Weft's structure, users call kernels of theirs alone.
  if (op == ir::ConstantOp::getOperationName() ||
      (rules->kind() == ir::Kind::Structure && op != ir::CustomOp::getOperationName()))
    return op + " cannot be replaced: no call records it; it holds a value or other ops";
  return "";
}

} // namespace

std::shared_ptr<const OpReplacement> replacement_of(llvm::StringRef op) {
  std::lock_guard lock(replacements().mutex);
  auto found = replacements().by_op.find(std::string_view(op));
  return found == replacements().by_op.end() ? nullptr : found->second;
}

void record_indirectly(Signature *signature, llvm::ArrayRef<const Var *> operands, SourceLine *line,
                       llvm::SmallVectorImpl<Var> &results) {
  if (signature->replacement && !inside)
    record_replaced(*signature, operands, results);
  else if (signature->is_sharded)
    record_parts(signature, operands, line, results);
  else
    record_itself(signature, operands, line, results);
}

} // namespace recorder

void replace_op(const std::string &op, OpReplacement replacement, Location location) {
  using namespace recorder;
  if (std::string why = why_not_replaced(op); !why.empty()) {
    Session session("replace_op", location);
    fail(ErrorKind::kValue, why);
  }
  // What was there before dies without the mutex: a tensor that it holds waits for the recorder's
  // lock, whose owner may wait for the mutex.
  auto made = replacement ? std::make_shared<const OpReplacement>(std::move(replacement)) : nullptr;
  {
    std::lock_guard lock(replacements().mutex);
    if (made)
      replacements().by_op[op].swap(made);
    else if (auto gone = replacements().by_op.extract(op))
      made = std::move(gone.mapped());
  }
  // Signatures that come later ask for it. Those that are there get what another thread may have
  // put there since.
  if (Recorder *there = the_recorder.load(std::memory_order_acquire)) {
    UnderLock lock;
    there->ir->replace(op, replacement_of(op));
  }
}

} // namespace weft
