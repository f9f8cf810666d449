#include "frontend/recorder/record/signature_text.h"

#include "frontend/recorder/record/state.h"
#include "llvm/Support/ScopedPrinter.h"

namespace weft::recorder {

static bool may_vary(llvm::StringRef op, llvm::StringRef attribute) {
  return op == "weft.random_advance"
             ? attribute == "amount"
             : (op == "weft.slice" || op == "weft.insert_slice") && attribute == "starts";
}

// Takes the signature apart, in one order, into ints (sizes, attributes, constants), whose
// positions it gives for op 0, and the text of its structure.
static std::string take_ints(const Signature &s, mlir::DictionaryAttr properties,
                             std::vector<int64_t> &ints, std::vector<IntPosition> &positions) {
  std::string structure;
  llvm::raw_string_ostream text(structure);
  llvm::StringRef op = s.name.getStringRef();
  text << op;
  using Kind = IntPosition::Kind;
  auto add = [&](Kind kind, size_t value, size_t at, int64_t number) {
    ints.push_back(number);
    positions.push_back({kind, 0, static_cast<uint32_t>(value), static_cast<uint16_t>(at)});
  };
  for (mlir::NamedAttribute property :
       properties ? properties.getValue() : llvm::ArrayRef<mlir::NamedAttribute>()) {
    llvm::StringRef name = property.getName().getValue();
    // A slice's result has its size; which of several limits gave it changes nothing.
    if (op == "weft.slice" && name == "limits")
      continue;
    text << ' ' << name << '=';
    bool varies = may_vary(op, name);
    auto list = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(property.getValue());
    auto number = mlir::dyn_cast<mlir::IntegerAttr>(property.getValue());
    auto elements = mlir::dyn_cast<mlir::SplatElementsAttr>(property.getValue());
    if (varies && list) {
      for (auto [i, element] : llvm::enumerate(list.asArrayRef()))
        add(Kind::kAttribute, 0, i, element);
      text << list.size();
    } else if (varies && number) {
      add(Kind::kAttribute, 0, 0, number.getInt());
    } else if (op == "weft.constant" && elements && s.results[0]->dtype != DType::kBool) {
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
  for (auto [i, operand] : llvm::enumerate(s.operands))
    type(*operand, i);
  text << ") ->";
  for (auto [i, result] : llvm::enumerate(s.results))
    type(*result, kResult | i);
  return structure;
}

Ref<const SignatureText> IrState::text_of(const Signature &s, mlir::Attribute properties) {
  std::string text = s.name.getStringRef().str();
  size_t name_size = text.size();
  if (properties)
    text += llvm::to_string(properties);
  size_t properties_size = text.size() - name_size;
  auto add = [&](llvm::ArrayRef<const TypeInfo *> types) {
    for (const TypeInfo *type : types) {
      for (int64_t dim : type->dims)
        text += std::to_string(dim) + "x";
      text += std::string(weft::info(type->dtype).ir_name) + ", ";
    }
  };
  text += " (";
  add(s.operands);
  text += ") -> (";
  add(s.results);
  text += ")";
  if (const SignatureText *known = texts_.find(text))
    return known;
  auto made = std::make_unique<SignatureText>();
  auto structure = std::make_unique<SignatureStructure>();
  structure->text = take_ints(s, mlir::dyn_cast_if_present<mlir::DictionaryAttr>(properties),
                              made->ints, structure->positions);
  const SignatureStructure *known = structures_.find(structure->text);
  made->structure = known ? known : structures_.add(std::move(structure));
  made->text = std::move(text);
  made->name_size = name_size;
  made->properties_size = properties_size;
  made->operands = static_cast<uint32_t>(s.operands.size());
  return texts_.add(std::move(made));
}

void unused(const SignatureText &text) {
  recorder().ir->texts().erase(text);
}
void unused(const SignatureStructure &structure) {
  recorder().ir->structures().erase(structure);
}

} // namespace weft::recorder
