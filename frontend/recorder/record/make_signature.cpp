// What an op's own rules say of a call: the types of its results, or why they refuse it; and
// operands on several devices.
#include "frontend/recorder/record/call_user.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/state.h"
#include "llvm/ADT/ScopeExit.h"

namespace weft::recorder {

using llvm::ArrayRef;
using llvm::SmallVector;

// How many operands every such op has: of those whose number is fixed, or has a least one.
static size_t least_operands(mlir::OperationName name) {
  namespace trait = mlir::OpTrait;
  size_t least = name.hasTrait<trait::OneOperand>() ? 1 : 0;
  auto consider = [&]<unsigned N>(std::integral_constant<unsigned, N>) {
    if (name.hasTrait<trait::NOperands<N + 1>::template Impl>())
      least = N + 1;
    else if (name.hasTrait<trait::AtLeastNOperands<N>::template Impl>())
      least = N;
  };
  [&]<unsigned... N>(std::integer_sequence<unsigned, N...>) {
    (consider(std::integral_constant<unsigned, N + 1>()), ...);
  }
  (std::make_integer_sequence<unsigned, 8>());
  return least;
}

Signature *make_signature(mlir::OperationName op_name, mlir::OpaqueProperties properties,
                          ArrayRef<const Var *> operands, const TypeInfo *result, bool by_name) {
  IrState &ir = *recorder().ir;
  (void)ir.take_diagnostic();
  mlir::Location location = ir.location(Session::line());
  SmallVector<const TypeInfo *, 4> types = types_of(operands);
  mlir::Block block;
  for (const TypeInfo *type : types)
    ir.stand_in(block, type);
  mlir::ValueRange stand_ins = block.getArguments();
  auto call_rule = [&](const char *rule, auto function) {
    return call_user(op_name.getStringRef().str() + " is at fault in its rule: its " + rule,
                     function);
  };
  auto refuse = [&](const char *otherwise) {
    auto [message, kind] = ir.take_diagnostic();
    std::string name = op_name.getStringRef().str() + ": ", given;
    if (message.empty())
      message = name + otherwise;
    // A call that is the op's has said its name.
    if (!by_name && message.starts_with(name))
      message.erase(0, name.size());
    for (const Var *operand : operands)
      given += (given.empty() ? "" : ", ") + describe(*operand);
    fail(kind, message + " (given " + (given.empty() ? "nothing" : given) + ")");
  };
  // A type rule may read operands before it has counted them.
  if (size_t least = by_name ? least_operands(op_name) : 0; operands.size() < least)
    refuse(("it takes " + std::to_string(least) + (least == 1 ? " operand" : " operands")).c_str());
  SmallVector<mlir::Type, 2> results;
  if (result) {
    results.push_back(ir.whole_type(result));
  } else if (auto *rule = op_name.getInterface<mlir::InferTypeOpInterface>()) {
    auto infer = [&] {
      return rule->inferReturnTypes(&ir.context(), location, stand_ins,
                                    mlir::DictionaryAttr::get(&ir.context()), properties, {},
                                    results);
    };
    if (mlir::failed(call_rule("inferReturnTypes", infer)))
      refuse("the operands do not fit");
    if (const auto *none = llvm::find(results, mlir::Type()); none != results.end())
      fail(ErrorKind::kState, op_name.getStringRef().str() +
                                  " is at fault in its rule: its inferReturnTypes gives no type "
                                  "for result " +
                                  std::to_string(none - results.begin()));
  } else if (op_name.hasTrait<mlir::OpTrait::SameOperandsAndResultType>()) {
    if (operands.empty())
      refuse("its result has the type of its operands, and there are none");
    results.push_back(ir.whole_type(types[0]));
  } else {
    fail(ErrorKind::kValue, op_name.getStringRef().str() +
                                " does not say what its results are: it needs "
                                "InferTypeOpInterface or SameOperandsAndResultType");
  }
  mlir::Operation *op = mlir::Operation::create(location, op_name, results, stand_ins,
                                                mlir::NamedAttrList(), properties);
  llvm::scope_exit destroy([&] { op->destroy(); });
  auto verify = [&] {
    return op_name.verifyInvariants(op);
  };
  bool fits = mlir::succeeded(call_rule("verifier", verify));
  uint8_t device = result ? result->device : types.empty() ? call_device.device : types[0]->device;
  Signature *signature = fits ? ir.intern(op, types, device) : nullptr;
  if (!signature)
    refuse("the op does not verify");
  return signature;
}

void refuse_devices(const std::string &first, const Var &x, const std::string &second,
                    const Var &y) {
  fail(ErrorKind::kDevice, first + " is " + placed(x.type()) + ", " + second + " is " +
                               placed(y.type()) + "; move one of them with to(device)");
}

std::vector<Var> align_devices(llvm::StringRef op, ArrayRef<const Var *> operands) {
  auto device_of = [](const Var *x) {
    return x->device();
  };
  if (operands.empty() || llvm::all_equal(llvm::map_range(operands, device_of)))
    return {};
  const Var *decides = nullptr;
  size_t place = 0;
  for (auto [i, x] : llvm::enumerate(operands)) {
    if (goes_along(x->type()))
      continue;
    if (decides && decides->device() != x->device())
      refuse_devices("operand " + std::to_string(place) + " of " + op.str(), *decides,
                     "operand " + std::to_string(i), *x);
    if (!decides)
      decides = x, place = i;
  }
  std::vector<Var> aligned;
  for (const Var *x : operands)
    aligned.push_back(on_device(*x, decides->device()));
  return aligned;
}

} // namespace weft::recorder
