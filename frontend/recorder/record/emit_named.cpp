// Ops that are known by name only: weft::custom, weft::call_op. And plugins, which bring them.
#include "compiler/plugin/Plugin.h"
#include "dialects/weft/ir/Extensions.h"
#include "frontend/recorder/record/attributes.h"
#include "frontend/tensor/impl.h"
#include "runtime/custom/custom_kernels.h"
#include "weft/extend.h"

namespace weft {
namespace recorder {
namespace {

using Attributes = std::vector<std::pair<std::string, OpAttribute>>;

mlir::Attribute attribute_of(const OpAttribute &value) {
  return std::visit([](const auto &v) -> mlir::Attribute { return attribute(v); }, value);
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

// Shape rules read what the record says is there.
void want_required(mlir::OperationName op, const Attributes &attributes) {
  for (llvm::StringRef name : op.getInterface<ir::WeftOp>()->requiredAttributes())
    if (llvm::none_of(attributes, [&](const auto &given) { return given.first == name; }))
      fail(ErrorKind::kValue,
           op.getStringRef().str() + " requires the attribute '" + name.str() + "'");
}

// Whether the op takes them.
bool set_properties(mlir::OperationName op, mlir::OpaqueProperties properties,
                    mlir::NamedAttrList &list) {
  mlir::MLIRContext *context = op.getContext();
  auto complain = [&] {
    return mlir::emitError(mlir::UnknownLoc::get(context));
  };
  return mlir::succeeded(op.verifyInherentAttrs(list, complain)) &&
         mlir::succeeded(op.setOpPropertiesFromAttribute(op, properties,
                                                         list.getDictionary(context), complain));
}

// Whether the op takes the value, whatever its other attributes are. Of an op that has properties.
bool takes(mlir::OperationName op, const std::string &attribute, const OpAttribute &value) {
  mlir::NamedAttrList list;
  list.set(attribute, attribute_of(value));
  BareOp bare = bare_op(op);
  return set_properties(op, bare->getPropertiesStorage(), list);
}

// MLIR's words are of its kinds of attributes; users give C++'s.
void want_kind(mlir::OperationName op, const std::string &attribute, const OpAttribute &value) {
  static const std::pair<OpAttribute, const char *> kinds[] = {
      {false, "a bool"},
      {int64_t(0), "an int64_t"},
      {0.0, "a double"},
      {std::string(), "a std::string"},
      {std::vector<int64_t>(), "a std::vector<int64_t>"},
      {std::vector<double>(), "a std::vector<double>"}};
  static_assert(std::size(kinds) == std::variant_size_v<OpAttribute>);
  if (takes(op, attribute, value))
    return;
  std::string wanted;
  for (const auto &[kind, text] : kinds)
    if (kind.index() != value.index() && takes(op, attribute, kind))
      wanted += (wanted.empty() ? "" : " or ") + std::string(text);
  if (!wanted.empty())
    fail(ErrorKind::kValue, op.getStringRef().str() + ": the attribute '" + attribute + "' is " +
                                wanted + ", but is given as " + kinds[value.index()].second);
}

void set_attributes(mlir::OperationName name, mlir::OpaqueProperties properties,
                    const Attributes &attributes) {
  (void)recorder().ir->take_diagnostic();
  mlir::NamedAttrList list;
  for (const auto &[key, value] : attributes) {
    bool known = llvm::any_of(name.getAttributeNames(), [&, &key = key](mlir::StringAttr each) {
      return each.getValue() == key;
    });
    if (!known)
      fail(ErrorKind::kValue, name.getStringRef().str() + " has no attribute '" + key + "'");
    if (list.set(key, attribute_of(value)))
      fail(ErrorKind::kValue, "the attribute '" + key + "' is given twice");
  }
  want_required(name, attributes);
  if (!properties && attributes.empty())
    return;
  if (!properties || !set_properties(name, properties, list)) {
    std::string why = recorder().ir->take_diagnostic().message;
    for (const auto &[key, value] : attributes)
      if (properties)
        want_kind(name, key, value);
    fail(ErrorKind::kValue,
         name.getStringRef().str() + ": " + (why.empty() ? "attributes that do not fit" : why));
  }
  // For those that are not given.
  name.populateDefaultProperties(properties);
}

// Nothing of the context is left but the signature: recording the op may give the lock up, and
// another thread's call then may renew the context.
Signature *signature_of(const std::string &name, llvm::ArrayRef<const Var *> inputs,
                        const Attributes &attributes) {
  mlir::RegisteredOperationName op = find_op(name);
  BareOp bare = bare_op(op);
  mlir::OpaqueProperties properties = bare->getPropertiesStorage();
  set_attributes(op, properties, attributes);
  return make_signature(op, properties, inputs, /*result=*/nullptr, /*by_name=*/true);
}

std::vector<Tensor> call(const std::string &name, const std::vector<Tensor> &operands,
                         const Attributes &attributes) {
  std::vector<Var> vars;
  for (size_t i = 0; i < operands.size(); ++i)
    vars.push_back(read(operands[i], ("operand " + std::to_string(i)).c_str()));
  if (std::vector<Var> aligned = align_devices(name, pointers(vars)); !aligned.empty())
    vars = std::move(aligned);
  llvm::SmallVector<const Var *, 8> inputs = pointers(vars);
  llvm::SmallVector<Var, 1> made;
  record_op(signature_of(name, inputs, attributes), inputs, Session::line(), made);
  std::vector<Tensor> results;
  for (Var &result : made)
    results.push_back(wrap(std::move(result)));
  return results;
}

} // namespace
} // namespace recorder

void load_plugin(const std::string &path, Location location) {
  recorder::Session session("load_plugin", location);
  absl::Status status;
  {
    // A plugin may call Weft while it is loaded; others may, too, which may load plugins.
    recorder::Session::Outside outside;
    recorder::RecorderMutex::Pause pause(recorder::recorder().mutex);
    status = compiler::loadPlugin(path);
  }
  recorder::check(status, ErrorKind::kValue);
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
  recorder::check(runtime::find_custom_kernel(kernel).status(), ErrorKind::kValue);
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
