#include "dialects/weft/ir/Dims.h"

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/StringExtras.h"

namespace weft::ir {

Dim namedDim(mlir::StringAttr name, int64_t largest) {
  Dim dim(name);
  dim.size = largest;
  return dim;
}

SizeProduct productOf(llvm::StringRef name) {
  SizeProduct product;
  for (llvm::StringRef factor : llvm::split(name, '.')) {
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

Dim productDim(llvm::ArrayRef<Dim> dims) {
  SizeProduct whole;
  int64_t size = 1;
  mlir::MLIRContext *context = nullptr;
  for (const Dim &dim : dims) {
    bool unknown = mlir::ShapedType::isDynamic(size) || mlir::ShapedType::isDynamic(dim.size);
    size = unknown ? mlir::ShapedType::kDynamic : size * dim.size;
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
  return namedDim(mlir::StringAttr::get(context, name), size);
}

std::optional<std::pair<int64_t, int64_t>> rangeOf(mlir::Attribute range) {
  llvm::SmallVector<int64_t, 2> ends;
  if (auto numbers = mlir::dyn_cast_if_present<mlir::DenseI64ArrayAttr>(range))
    llvm::append_range(ends, numbers.asArrayRef());
  else if (auto list = mlir::dyn_cast_if_present<mlir::ArrayAttr>(range))
    for (mlir::Attribute entry : list) {
      auto number = mlir::dyn_cast<mlir::IntegerAttr>(entry);
      if (!number || !number.getType().isSignlessInteger(64))
        return std::nullopt;
      ends.push_back(number.getInt());
    }
  if (ends.size() != 2)
    return std::nullopt;
  return std::pair(ends[0], ends[1]);
}

bool hasNamedDims(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  auto names = tensor ? mlir::dyn_cast_if_present<DimsAttr>(tensor.getEncoding()) : DimsAttr();
  return names && llvm::any_of(names.getNames(), [](mlir::StringAttr name) { return bool(name); });
}

// What is wrong with names of dims of these sizes; empty: nothing.
static std::string nameError(llvm::ArrayRef<mlir::StringAttr> names,
                             llvm::ArrayRef<int64_t> shape) {
  if (names.size() != shape.size())
    return "names " + std::to_string(names.size()) + " dimensions, but the tensor has " +
           std::to_string(shape.size());
  for (auto [i, size] : llvm::enumerate(shape)) {
    bool dynamic = mlir::ShapedType::isDynamic(size);
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

bool dimsAreNamed(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensor)
    return false;
  if (!tensor.getEncoding())
    return tensor.hasStaticShape();
  auto names = mlir::dyn_cast<DimsAttr>(tensor.getEncoding());
  return names && nameError(names.getNames(), tensor.getShape()).empty();
}

Dims dimsOf(mlir::RankedTensorType type) {
  Dims dims;
  auto names = mlir::dyn_cast_if_present<DimsAttr>(type.getEncoding());
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

mlir::RankedTensorType tensorOf(llvm::ArrayRef<Dim> dims, mlir::Type element) {
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<mlir::StringAttr> names;
  bool dynamic = false;
  for (const Dim &dim : dims) {
    shape.push_back(dim.size);
    names.push_back(dim.symbol);
    dynamic |= !dim.isStatic();
  }
  return mlir::RankedTensorType::get(
      shape, element, dynamic ? DimsAttr::get(element.getContext(), names) : mlir::Attribute());
}

std::optional<Dims> broadcastDims(llvm::ArrayRef<Dim> a, llvm::ArrayRef<Dim> b) {
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

bool broadcastsTo(llvm::ArrayRef<Dim> from, llvm::ArrayRef<Dim> to) {
  std::optional<Dims> both = broadcastDims(from, to);
  return both && llvm::ArrayRef<Dim>(*both) == to;
}

bool sameNumberOfElements(llvm::ArrayRef<Dim> a, llvm::ArrayRef<Dim> b) {
  auto factors = [](llvm::ArrayRef<Dim> dims) {
    int64_t number = 1;
    llvm::SmallVector<llvm::StringRef> symbols;
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

std::string spell(llvm::ArrayRef<Dim> dims) {
  std::string text = "[";
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (i)
      text += ", ";
    text += dim.isStatic() ? mlir::ShapedType::isDynamic(dim.size) ? "?" : std::to_string(dim.size)
                           : dim.symbol.str();
  }
  return text + "]";
}

static std::string spellElement(mlir::Type element) {
  for (const DTypeInfo &row : kDTypes)
    if (elementType(row.dtype, element.getContext()) == element)
      return row.name;
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}

std::string spell(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensor)
    return spellElement(type);
  return spellElement(tensor.getElementType()) + spell(dimsOf(tensor));
}

//===-- The attribute -------------------------------------------------------------------------===//

mlir::Attribute DimsAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  llvm::SmallVector<mlir::StringAttr> names;
  auto parseName = [&]() -> mlir::ParseResult {
    llvm::StringRef name;
    if (parser.parseKeyword(&name))
      return mlir::failure();
    names.push_back(name == "_" ? mlir::StringAttr()
                                : mlir::StringAttr::get(parser.getContext(), name));
    return mlir::success();
  };
  if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::LessGreater, parseName))
    return {};
  return get(parser.getContext(), names);
}

void DimsAttr::print(mlir::AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getNames(), printer,
                        [&](mlir::StringAttr name) { printer << (name ? name.getValue() : "_"); });
  printer << ">";
}

mlir::LogicalResult
DimsAttr::verifyEncoding(llvm::ArrayRef<int64_t> shape, mlir::Type,
                         llvm::function_ref<mlir::InFlightDiagnostic()> emitError) const {
  std::string error = nameError(getNames(), shape);
  if (error.empty())
    return mlir::success();
  return emitError() << "#weft.dims " << error;
}

} // namespace weft::ir
