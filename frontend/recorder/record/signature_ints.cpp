#include "frontend/recorder/record/signature_ints.h"

#include "frontend/recorder/record/state.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::recorder {

static int varying_attribute(llvm::StringRef op, llvm::StringRef name) {
  if ((op == "weft.slice" || op == "weft.insert_slice") && name == "starts")
    return static_cast<int>(VaryingAttribute::kStarts);
  if (op == "weft.random_advance" && name == "amount")
    return static_cast<int>(VaryingAttribute::kAmount);
  return -1;
}

SignatureInts split_ints(llvm::StringRef op, mlir::DictionaryAttr properties,
                         llvm::ArrayRef<const TypeInfo *> operands,
                         llvm::ArrayRef<const TypeInfo *> results) {
  SignatureInts split;
  llvm::raw_string_ostream text(split.structure);
  text << op;
  using Kind = IntPosition::Kind;
  auto add = [&](Kind kind, size_t value, size_t at, int64_t number) {
    split.ints.push_back(number);
    split.positions.push_back({kind, 0, static_cast<uint32_t>(value), static_cast<uint16_t>(at)});
  };
  for (mlir::NamedAttribute property :
       properties ? properties.getValue() : llvm::ArrayRef<mlir::NamedAttribute>()) {
    llvm::StringRef name = property.getName().getValue();
    // A slice's result has its size; which of several limits gave it changes nothing.
    if (op == "weft.slice" && name == "limits")
      continue;
    text << ' ' << name << '=';
    int varying = varying_attribute(op, name);
    auto list = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(property.getValue());
    auto number = mlir::dyn_cast<mlir::IntegerAttr>(property.getValue());
    auto elements = mlir::dyn_cast<mlir::SplatElementsAttr>(property.getValue());
    if (varying >= 0 && list) {
      for (auto [i, element] : llvm::enumerate(list.asArrayRef()))
        add(Kind::kAttribute, varying, i, element);
      text << list.size();
    } else if (varying >= 0 && number) {
      add(Kind::kAttribute, varying, 0, number.getInt());
    } else if (op == "weft.constant" && elements && results[0]->dtype != DType::kBool) {
      ir::HostTensor host = ir::HostTensor::from(
          elements.resizeSplat(mlir::RankedTensorType::get({}, elements.getElementType())));
      int64_t bits = 0;
      std::memcpy(&bits, host.bytes.data(), std::min(host.bytes.size(), sizeof bits));
      add(Kind::kConstant, 0, 0, bits);
    } else {
      property.getValue().print(text);
    }
  }
  auto type = [&](const TypeInfo &type, size_t value) {
    text << ' ' << static_cast<int>(type.dtype) << ':' << type.ndim();
    for (auto [i, size] : llvm::enumerate(type.dims))
      add(Kind::kSize, value, i, size);
  };
  text << " (";
  for (auto [i, operand] : llvm::enumerate(operands))
    type(*operand, i);
  text << ") ->";
  for (auto [i, result] : llvm::enumerate(results))
    type(*result, kResult | i);
  return split;
}

} // namespace weft::recorder
