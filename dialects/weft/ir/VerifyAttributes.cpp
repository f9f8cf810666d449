// The kinds of the attributes that Weft gives functions, modules and ops beside their records. Who
// reads one takes its kind for granted, so that one of another kind must not come that far.
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/state/StateAttributes.h"

namespace weft::ir {
namespace {

bool isString(mlir::Attribute value) {
  return mlir::isa<mlir::StringAttr>(value);
}

bool isUnit(mlir::Attribute value) {
  return mlir::isa<mlir::UnitAttr>(value);
}

bool isNumber(mlir::Attribute value) {
  auto number = mlir::dyn_cast<mlir::IntegerAttr>(value);
  return number && number.getType().isSignlessIntOrIndex() && number.getValue().getBitWidth() <= 64;
}

bool isElements(mlir::Attribute value) {
  return mlir::isa<mlir::ElementsAttr>(value);
}

template <typename Fits> bool isDictionaryOf(mlir::Attribute value, Fits fits) {
  auto entries = mlir::dyn_cast<mlir::DictionaryAttr>(value);
  return entries && llvm::all_of(entries, [&](mlir::NamedAttribute entry) {
    return fits(entry.getValue());
  });
}

bool isRanges(mlir::Attribute value) {
  return isDictionaryOf(value, [](mlir::Attribute range) {
    auto ends = rangeOf(range);
    return ends && 1 <= ends->first && ends->first <= ends->second;
  });
}

bool isChoices(mlir::Attribute value) {
  return isDictionaryOf(value, [](mlir::Attribute choice) {
    return mlir::isa<mlir::IntegerAttr, mlir::StringAttr>(choice);
  });
}

struct Known {
  llvm::StringLiteral name;
  bool (*fits)(mlir::Attribute);
  llvm::StringLiteral kind;
};
constexpr llvm::StringLiteral kString = "a string";
constexpr llvm::StringLiteral kUnit = "the name alone, without a value";
constexpr llvm::StringLiteral kNumber = "an integer, as in 0 : i64";
constexpr Known kKnown[] = {
    {kNameAttr, isString, kString},
    {kParameterAttr, isString, kString},
    {kStateAttr, isString, kString},
    {kSizeAttr, isString, kString},
    {kDonatableAttr, isUnit, kUnit},
    {kKeptAttr, isUnit, kUnit},
    {kStableAttr, isUnit, kUnit},
    {kNonPositiveAttr, isUnit, kUnit},
    {kGeluAttr, isUnit, kUnit},
    {kBeyondOneAttr, isUnit, kUnit},
    {kPreparedAttr, isNumber, kNumber},
    {kSourceAttr, isNumber, kNumber},
    {kWritesAttr, isNumber, kNumber},
    {kInitialAttr, isElements, "the elements of a tensor, as in dense<1.0> : tensor<4xf32>"},
    {kSizesAttr, isRanges, "a dictionary of ranges [MIN, MAX], as in {n = [2, 64]}"},
    {kScheduleAttr, isChoices, "a dictionary of integers and strings, as in {rows = 4 : i64}"},
};

// where: "argument 0", or nothing for what is the op's own.
mlir::LogicalResult verify(mlir::Operation *op, const llvm::Twine &where,
                           mlir::NamedAttribute attribute) {
  const Known *known =
      llvm::find_if(kKnown, [&](const Known &each) { return each.name == attribute.getName(); });
  if (known == std::end(kKnown) || known->fits(attribute.getValue()))
    return mlir::success();
  mlir::InFlightDiagnostic error = op->emitError();
  if (where.isTriviallyEmpty())
    error << "'" << op->getName() << "' op";
  else
    error << where;
  if (auto name = op->getAttrOfType<mlir::StringAttr>(mlir::SymbolTable::getSymbolAttrName()))
    error << " of @" << name.getValue();
  return error << " has a " << known->name << " of the wrong kind; it must be " << known->kind;
}

} // namespace

mlir::LogicalResult WeftDialect::verifyOperationAttribute(mlir::Operation *op,
                                                          mlir::NamedAttribute attribute) {
  return verify(op, "", attribute);
}

mlir::LogicalResult WeftDialect::verifyRegionArgAttribute(mlir::Operation *op, unsigned, unsigned i,
                                                          mlir::NamedAttribute attribute) {
  return verify(op, "argument " + llvm::Twine(i), attribute);
}

mlir::LogicalResult WeftDialect::verifyRegionResultAttribute(mlir::Operation *op, unsigned,
                                                             unsigned i,
                                                             mlir::NamedAttribute attribute) {
  return verify(op, "result " + llvm::Twine(i), attribute);
}

} // namespace weft::ir
