#include "compiler/link/CapturedTensors.h"

#include <string>

#include "compiler/link/Limits.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/TypeAdvice.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/state/StateAttributes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// HostTensor reads no other kinds.
bool hasBytes(ElementsAttr value) {
  return isa<DenseElementsAttr, DenseResourceElementsAttr>(value);
}

} // namespace

absl::Status makeParameters(func::FuncOp main, StringRef prefix) {
  // By argument: the constants that it stands for, several where one of a name was written twice.
  SmallVector<SmallVector<ir::ConstantOp, 1>> constants;
  // All arguments at once, with their attributes: the function's list of attributes must be as
  // long as that of its arguments.
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  SmallVector<Location> locations;
  llvm::StringMap<size_t> known;
  Builder builder(main.getContext());
  for (auto constant : main.getOps<ir::ConstantOp>()) {
    ElementsAttr value = constant.getValue();
    auto given = constant->getAttrOfType<StringAttr>(ir::kParameterAttr);
    if (!hasBytes(value))
      continue;
    if (!given && (value.isSplat() || value.getNumElements() < kWeightElements))
      continue;
    std::string name = given ? given.str() : (prefix + "captured_" + Twine(constants.size())).str();
    auto [it, fresh] = known.try_emplace(name, constants.size());
    if (!fresh) {
      // Attributes are unique: equal values are one.
      if (constants[it->second].front().getValue() != value)
        return absl::InvalidArgumentError("two constants of @main are called '" + name + "'");
      constants[it->second].push_back(constant);
      continue;
    }
    constants.push_back({constant});
    types.push_back(constant.getType());
    attributes.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(ir::kParameterAttr, builder.getStringAttr(name)),
         builder.getNamedAttr(ir::kInitialAttr, value)}));
    locations.push_back(constant.getLoc());
  }
  if (constants.empty())
    return absl::OkStatus();
  const unsigned first = main.getNumArguments();
  SmallVector<unsigned> positions(constants.size(), first);
  if (failed(main.insertArguments(positions, types, attributes, locations)))
    return absl::InternalError("captured tensors cannot become parameters");
  for (auto [i, same] : llvm::enumerate(constants))
    for (ir::ConstantOp constant : same) {
      constant.getResult().replaceAllUsesWith(main.getArgument(first + unsigned(i)));
      constant.erase();
    }
  return absl::OkStatus();
}

std::vector<ir::HostTensor> smallConstants(func::FuncOp main) {
  std::vector<ir::HostTensor> result;
  for (auto constant : main.getOps<ir::ConstantOp>())
    if (hasBytes(constant.getValue()) && !constant.getValue().isSplat() &&
        ir::elementAdvice(constant.getType()).empty())
      result.push_back(ir::HostTensor::from(constant.getValue()));
  return result;
}

} // namespace weft::compiler
