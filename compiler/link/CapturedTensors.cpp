#include "compiler/link/CapturedTensors.h"

#include <string>
#include <utility>

#include "compiler/link/Limits.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/TypeAdvice.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/state/StateAttributes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace weft::compiler {
namespace {

// HostTensor reads no other kinds.
bool hasBytes(mlir::ElementsAttr value) {
  return mlir::isa<mlir::DenseElementsAttr, mlir::DenseResourceElementsAttr>(value);
}

} // namespace

absl::Status makeParameters(mlir::func::FuncOp main, llvm::StringRef prefix) {
  // By argument: the constants that it stands for, several where one of a name was written twice.
  llvm::SmallVector<llvm::SmallVector<ir::ConstantOp, 1>> constants;
  // All arguments at once, with their attributes: the function's list of attributes must be as
  // long as that of its arguments.
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::DictionaryAttr> attributes;
  llvm::SmallVector<mlir::Location> locations;
  llvm::StringMap<size_t> known;
  mlir::Builder builder(main.getContext());
  for (auto constant : main.getOps<ir::ConstantOp>()) {
    mlir::ElementsAttr value = constant.getValue();
    auto given = constant->getAttrOfType<mlir::StringAttr>(ir::kParameterAttr);
    if (!hasBytes(value))
      continue;
    if (!given && (value.isSplat() || value.getNumElements() < kWeightElements))
      continue;
    std::string name =
        given ? given.str() : (prefix + "captured_" + llvm::Twine(constants.size())).str();
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
  llvm::SmallVector<unsigned> positions(constants.size(), first);
  if (mlir::failed(main.insertArguments(positions, types, attributes, locations)))
    return absl::InternalError("captured tensors cannot become parameters");
  for (auto [i, same] : llvm::enumerate(constants))
    for (ir::ConstantOp constant : same) {
      constant.getResult().replaceAllUsesWith(main.getArgument(first + unsigned(i)));
      constant.erase();
    }
  return absl::OkStatus();
}

std::vector<ir::HostTensor> smallConstants(mlir::func::FuncOp main) {
  std::vector<ir::HostTensor> result;
  for (auto constant : main.getOps<ir::ConstantOp>())
    if (hasBytes(constant.getValue()) && !constant.getValue().isSplat() &&
        ir::elementAdvice(constant.getType()).empty())
      result.push_back(ir::HostTensor::from(constant.getValue()));
  return result;
}

} // namespace weft::compiler
