#include "dialects/weft/ir/Dims.h"

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/StringExtras.h"

namespace weft::ir {

using namespace mlir;

Dim namedDim(StringAttr name, int64_t largest) {
  Dim dim(name);
  dim.size = largest;
  return dim;
}

SizeProduct productOf(StringRef name) {
  SizeProduct product;
  for (StringRef factor : llvm::split(name, '.')) {
    int64_t number;
    if (factor.getAsInteger(10, number))
      product.symbols.push_back(factor);
    // A count that does not fit 64 bits cannot be a tensor's.
    else if (__builtin_mul_overflow(product.coefficient, number, &product.coefficient))
      product.coefficient = -1;
  }
  llvm::sort(product.symbols);
  return product;
}

Dim productDim(ArrayRef<Dim> dims) {
  SizeProduct whole;
  int64_t size = 1;
  MLIRContext *context = nullptr;
  for (const Dim &dim : dims) {
    bool unknown = ShapedType::isDynamic(size) || ShapedType::isDynamic(dim.size);
    size = unknown ? ShapedType::kDynamic : size * dim.size;
    if (dim.isStatic()) {
      whole.coefficient *= dim.size;
      continue;
    }
    context = dim.symbol.getContext();
    SizeProduct product = productOf(dim.symbol.getValue());
    whole.coefficient *= product.coefficient;
    whole.symbols.append(product.symbols);
  }
  if (!context)
    return size;
  llvm::sort(whole.symbols);
  std::string name = llvm::join(whole.symbols, ".");
  if (whole.coefficient != 1)
    name += "." + std::to_string(whole.coefficient);
  return namedDim(StringAttr::get(context, name), size);
}

std::optional<std::pair<int64_t, int64_t>> rangeOf(Attribute range) {
  SmallVector<int64_t, 2> ends;
  if (auto numbers = dyn_cast_if_present<DenseI64ArrayAttr>(range))
    llvm::append_range(ends, numbers.asArrayRef());
  else if (auto list = dyn_cast_if_present<ArrayAttr>(range))
    for (Attribute entry : list) {
      auto number = dyn_cast<IntegerAttr>(entry);
      if (!number || !number.getType().isSignlessInteger(64))
        return std::nullopt;
      ends.push_back(number.getInt());
    }
  if (ends.size() != 2)
    return std::nullopt;
  return std::pair(ends[0], ends[1]);
}

bool hasNamedDims(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto names = tensor ? dyn_cast_if_present<DimsAttr>(tensor.getEncoding()) : DimsAttr();
  return names && llvm::any_of(names.getNames(), [](StringAttr name) { return bool(name); });
}

// What is wrong with names of dims of these sizes; empty: nothing.
static std::string nameError(ArrayRef<StringAttr> names, ArrayRef<int64_t> shape) {
  if (names.size() != shape.size())
    return "names " + std::to_string(names.size()) + " dimensions, but the tensor has " +
           std::to_string(shape.size());
  for (auto [i, size] : llvm::enumerate(shape)) {
    bool dynamic = ShapedType::isDynamic(size);
    if (dynamic && !names[i])
      return "gives dimension " + std::to_string(i) + " no name, but its size is `?`; name it";
    // A size beside a name is the largest that it stands for. 0 and 1 are never named: they mean no
    // elements, and broadcasting.
    if (!dynamic && names[i] && size < 2)
      return "names dimension " + std::to_string(i) + " '" + names[i].str() +
             "', but its largest size is " + std::to_string(size) + "; write `_`";
  }
  return "";
}

bool dimsAreNamed(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return false;
  if (!tensor.getEncoding())
    return tensor.hasStaticShape();
  auto names = dyn_cast<DimsAttr>(tensor.getEncoding());
  return names && nameError(names.getNames(), tensor.getShape()).empty();
}

Dims dimsOf(RankedTensorType type) {
  Dims dims;
  auto names = dyn_cast_if_present<DimsAttr>(type.getEncoding());
  for (auto [i, size] : llvm::enumerate(type.getShape())) {
    // Of a type that was read from bytecode, whose verifier nobody has asked, the names may be
    // fewer.
    if (names && i < names.getNames().size() && names.getNames()[i])
      dims.push_back(namedDim(names.getNames()[i], size));
    else
      dims.push_back(size);
  }
  return dims;
}

RankedTensorType tensorOf(ArrayRef<Dim> dims, Type element) {
  SmallVector<int64_t> shape;
  SmallVector<StringAttr> names;
  bool dynamic = false;
  for (const Dim &dim : dims) {
    shape.push_back(dim.size);
    names.push_back(dim.symbol);
    dynamic |= !dim.isStatic();
  }
  return RankedTensorType::get(shape, element,
                               dynamic ? DimsAttr::get(element.getContext(), names) : Attribute());
}

std::optional<Dims> broadcastDims(ArrayRef<Dim> a, ArrayRef<Dim> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Dims result(a.begin(), a.end());
  size_t offset = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    Dim &dim = result[offset + i];
    if (dim == b[i] || b[i].isOne())
      continue;
    if (!dim.isOne())
      return std::nullopt;
    dim = b[i];
  }
  return result;
}

bool broadcastsTo(ArrayRef<Dim> from, ArrayRef<Dim> to) {
  std::optional<Dims> both = broadcastDims(from, to);
  return both && ArrayRef<Dim>(*both) == to;
}

bool sameNumberOfElements(ArrayRef<Dim> a, ArrayRef<Dim> b) {
  auto factors = [](ArrayRef<Dim> dims) {
    int64_t number = 1;
    SmallVector<StringRef> symbols;
    for (const Dim &dim : dims) {
      SizeProduct product{dim.size, {}};
      if (!dim.isStatic())
        product = productOf(dim.symbol.getValue());
      symbols.append(product.symbols.begin(), product.symbols.end());
      // A count that does not fit 64 bits cannot be a tensor's; -1 differs from each that does.
      if (number < 0 || product.coefficient < 0 ||
          __builtin_mul_overflow(number, product.coefficient, &number))
        number = -1;
    }
    llvm::sort(symbols);
    return std::make_pair(number, symbols);
  };
  return factors(a) == factors(b);
}

std::string spell(ArrayRef<Dim> dims) {
  std::string text = "[";
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (i)
      text += ", ";
    text += dim.isStatic() ? ShapedType::isDynamic(dim.size) ? "?" : std::to_string(dim.size)
                           : dim.symbol.str();
  }
  return text + "]";
}

static std::string spellElement(Type element) {
  for (const DTypeInfo &row : kDTypes)
    if (elementType(row.dtype, element.getContext()) == element)
      return row.name;
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}

std::string spell(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return spellElement(type);
  return spellElement(tensor.getElementType()) + spell(dimsOf(tensor));
}

//===-- The attribute -------------------------------------------------------------------------===//

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  auto parseName = [&]() -> ParseResult {
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    names.push_back(name == "_" ? StringAttr() : StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseName))
    return {};
  return get(parser.getContext(), names);
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getNames(), printer,
                        [&](StringAttr name) { printer << (name ? name.getValue() : "_"); });
  printer << ">";
}

LogicalResult DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  std::string error = nameError(getNames(), shape);
  if (error.empty())
    return success();
  return emitError() << "#weft.dims " << error;
}

} // namespace weft::ir
