// Ops that are known by name only: weft::custom, weft::call_op. And plugins, which bring them.
#include "compiler/plugin/Plugin.h"
#include "dialects/weft/ir/Extensions.h"
#include "frontend/recorder/state.h"
#include "frontend/tensor/impl.h"
#include "runtime/custom/custom_kernels.h"
#include "weft/extend.h"

namespace weft {
namespace recorder {
namespace {

using Attributes = std::vector<std::pair<std::string, OpAttribute>>;

// An op's properties before there is an op; empty where it has none.
class OwnedProperties {
public:
  explicit OwnedProperties(mlir::OperationName name) : name_(name) {
    size_t size = static_cast<size_t>(name.getOpPropertyByteSize());
    if (size == 0)
      return;
    storage_ = ::operator new(size, std::align_val_t(8));
    name_.initOpProperties(storage_, mlir::OpaqueProperties(nullptr));
    name_.populateDefaultProperties(storage_);
  }
  ~OwnedProperties() {
    if (!storage_)
      return;
    name_.destroyOpProperties(storage_);
    ::operator delete(storage_, std::align_val_t(8));
  }
  OwnedProperties(const OwnedProperties &) = delete;
  OwnedProperties &operator=(const OwnedProperties &) = delete;
  mlir::OpaqueProperties get() const {
    return storage_;
  }

private:
  mlir::OperationName name_;
  void *storage_ = nullptr;
};

mlir::Attribute attribute_of(const OpAttribute &value, mlir::Builder builder) {
  return std::visit(
      [&](const auto &v) -> mlir::Attribute {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>)
          return builder.getBoolAttr(v);
        else if constexpr (std::is_same_v<T, int64_t>)
          return builder.getI64IntegerAttr(v);
        else if constexpr (std::is_same_v<T, double>)
          return builder.getF64FloatAttr(v);
        else if constexpr (std::is_same_v<T, std::string>)
          return builder.getStringAttr(v);
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          return builder.getDenseI64ArrayAttr(v);
        else
          return builder.getDenseF64ArrayAttr(v);
      },
      value);
}

mlir::RegisteredOperationName find_op(const std::string &name) {
  mlir::MLIRContext &context = recorder().ir->context();
  auto found = mlir::RegisteredOperationName::lookup(name, &context);
  if (!found) {
    // A dialect that was registered after the context was made.
    ir::loadExtensions(context);
    found = mlir::RegisteredOperationName::lookup(name, &context);
  }
  if (!found)
    fail(ErrorKind::kValue,
         "there is no op named '" + name + "'; load the plugin that brings its dialect first");
  if (!found->getInterface<ir::WeftOp>())
    fail(ErrorKind::kValue,
         name + " does not implement weft's op interface (dialects/weft/ir/WeftInterfaces.td)");
  return *found;
}

void set_attributes(mlir::OperationName name, mlir::OpaqueProperties properties,
                    const Attributes &attributes) {
  if (attributes.empty())
    return;
  mlir::MLIRContext *context = name.getContext();
  mlir::NamedAttrList list;
  for (const auto &[key, value] : attributes) {
    bool known = llvm::any_of(name.getAttributeNames(), [&, &key = key](mlir::StringAttr each) {
      return each.getValue() == key;
    });
    if (!known)
      fail(ErrorKind::kValue, name.getStringRef().str() + " has no attribute '" + key + "'");
    if (list.set(key, attribute_of(value, mlir::Builder(context))))
      fail(ErrorKind::kValue, "the attribute '" + key + "' is given twice");
  }
  auto complain = [&] {
    return mlir::emitError(mlir::UnknownLoc::get(context));
  };
  if (!properties || mlir::failed(name.setOpPropertiesFromAttribute(
                         name, properties, list.getDictionary(context), complain))) {
    std::string why = recorder().ir->take_diagnostic().message;
    fail(ErrorKind::kValue,
         name.getStringRef().str() + ": " + (why.empty() ? "attributes that do not fit" : why));
  }
  // For those that are not given.
  name.populateDefaultProperties(properties);
}

std::string list_of(std::span<const Var> operands) {
  std::string given;
  for (const Var &operand : operands)
    given += (given.empty() ? "" : ", ") + describe(operand);
  return given.empty() ? "nothing" : given;
}

llvm::SmallVector<Var, 1> emit_named(const std::string &name, std::span<const Var> operands,
                                     const Attributes &attributes) {
  mlir::RegisteredOperationName op_name = find_op(name);
  IrState &ir = *recorder().ir;
  (void)ir.take_diagnostic();
  OwnedProperties properties(op_name);
  set_attributes(op_name, properties.get(), attributes);
  SourceLine *line = Session::line();
  mlir::Location location = ir.location(line);
  llvm::SmallVector<Value *, 4> values;
  llvm::SmallVector<const Var *, 4> vars;
  llvm::SmallVector<const TypeInfo *, 4> operand_types;
  StandIns stand_ins(ir);
  for (const Var &operand : operands) {
    values.push_back(operand.value.get());
    vars.push_back(&operand);
    operand_types.push_back(operand.value->type);
    stand_ins.add(operand.value->type);
  }
  llvm::ArrayRef<mlir::Value> ir_operands = stand_ins.values();
  auto refuse = [&](const std::string &otherwise) {
    std::string why = ir.take_diagnostic().message;
    fail(ErrorKind::kShape,
         (why.empty() ? name + ": " + otherwise : why) + " (given " + list_of(operands) + ")");
  };
  llvm::SmallVector<mlir::Type, 2> types;
  if (auto *rule = op_name.getInterface<mlir::InferTypeOpInterface>()) {
    if (mlir::failed(rule->inferReturnTypes(&ir.context(), location, ir_operands,
                                            mlir::DictionaryAttr::get(&ir.context()),
                                            properties.get(), {}, types)))
      refuse("the operands do not fit");
  } else if (op_name.hasTrait<mlir::OpTrait::SameOperandsAndResultType>() && !ir_operands.empty()) {
    types.push_back(ir_operands[0].getType());
  } else {
    fail(ErrorKind::kValue, name + " does not say what its results are: it needs "
                                   "InferTypeOpInterface or SameOperandsAndResultType");
  }
  mlir::Operation *op = mlir::Operation::create(location, op_name, types, ir_operands,
                                                mlir::NamedAttrList(), properties.get());
  bool verifies = mlir::succeeded(op_name.verifyInvariants(op));
  Signature *signature = verifies ? ir.intern(op, operand_types) : nullptr;
  op->destroy();
  if (!signature)
    refuse("the op does not verify");
  Node *node = ir.enter(signature, values, line);
  llvm::SmallVector<Var, 1> results;
  results_of(node, vars, results);
  return results;
}

std::vector<Tensor> call(const std::string &name, const std::vector<Tensor> &operands,
                         const Attributes &attributes) {
  std::vector<Var> vars;
  for (size_t i = 0; i < operands.size(); ++i)
    vars.push_back(read(operands[i], ("operand " + std::to_string(i)).c_str()));
  std::vector<Tensor> results;
  for (Var &result : emit_named(name, vars, attributes))
    results.push_back(wrap(std::move(result)));
  return results;
}

} // namespace
} // namespace recorder

void load_plugin(const std::string &path, Location location) {
  recorder::Session session("load_plugin", location);
  if (absl::Status status = compiler::loadPlugin(path); !status.ok())
    recorder::fail(ErrorKind::kValue, std::string(status.message()));
}

void register_kernel(const weft_custom_kernel &kernel, Location location) {
  recorder::Session session("register_kernel", location);
  if (const char *wrong = weft_register_kernel(&kernel))
    recorder::fail(ErrorKind::kValue,
                   (kernel.name ? "'" + std::string(kernel.name) + "': " : "") + wrong);
}

std::vector<Tensor> custom(const std::string &kernel, const std::vector<Tensor> &inputs,
                           const CustomOptions &options, Location location) {
  recorder::Session session("custom", location);
  if (auto found = runtime::find_custom_kernel(kernel); !found.ok())
    recorder::fail(ErrorKind::kValue, std::string(found.status().message()));
  return recorder::call("weft.custom", inputs,
                        {{"kernel", kernel}, {"ints", options.ints}, {"scalars", options.scalars}});
}

std::vector<Tensor> call_op(const std::string &name, const std::vector<Tensor> &operands,
                            const std::vector<std::pair<std::string, OpAttribute>> &attributes,
                            Location location) {
  recorder::Session session("call_op", location);
  return recorder::call(name, operands, attributes);
}

} // namespace weft
