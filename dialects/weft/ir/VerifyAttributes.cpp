// The kinds of the attributes that Weft gives functions, modules and ops beside their records. Who
// reads one takes its kind for granted, so that one of another kind must not come that far.
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/state/StateAttributes.h"

namespace weft::ir {

using namespace mlir;

namespace {

bool isString(Attribute value) {
  return isa<StringAttr>(value);
}

bool isUnit(Attribute value) {
  return isa<UnitAttr>(value);
}

bool isNumber(Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getType().isSignlessIntOrIndex() && number.getValue().getBitWidth() <= 64;
}

bool isElements(Attribute value) {
  return isa<ElementsAttr>(value);
}

template <typename Fits> bool isDictionaryOf(Attribute value, Fits fits) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  return entries &&
         llvm::all_of(entries, [&](NamedAttribute entry) { return fits(entry.getValue()); });
}

bool isRanges(Attribute value) {
  return isDictionaryOf(value, [](Attribute range) {
    auto ends = rangeOf(range);
    return ends && 1 <= ends->first && ends->first <= ends->second;
  });
}

bool isChoices(Attribute value) {
  return isDictionaryOf(value,
                        [](Attribute choice) { return isa<IntegerAttr, StringAttr>(choice); });
}

struct Known {
  StringLiteral name;
  bool (*fits)(Attribute);
  StringLiteral kind;
};
constexpr StringLiteral kString = "a string";
constexpr StringLiteral kUnit = "the name alone, without a value";
constexpr StringLiteral kNumber = "an integer, as in 0 : i64";
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
    {kInRangeAttr, isUnit, kUnit},
    {kPreparedAttr, isNumber, kNumber},
    {kSourceAttr, isNumber, kNumber},
    {kWritesAttr, isNumber, kNumber},
    {kInitialAttr, isElements, "the elements of a tensor, as in dense<1.0> : tensor<4xf32>"},
    {kSizesAttr, isRanges, "a dictionary of ranges [MIN, MAX], as in {n = [2, 64]}"},
    {kScheduleAttr, isChoices, "a dictionary of integers and strings, as in {rows = 4 : i64}"},
};

// where: "argument 0", or nothing for what is the op's own.
LogicalResult verify(Operation *op, const Twine &where, NamedAttribute attribute) {
  const Known *known =
      llvm::find_if(kKnown, [&](const Known &each) { return each.name == attribute.getName(); });
  if (known == std::end(kKnown) || known->fits(attribute.getValue()))
    return success();
  InFlightDiagnostic error = op->emitError();
  if (where.isTriviallyEmpty())
    error << "'" << op->getName() << "' op";
  else
    error << where;
  if (auto name = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
    error << " of @" << name.getValue();
  return error << " has a " << known->name << " of the wrong kind; it must be " << known->kind;
}

} // namespace

LogicalResult WeftDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  return verify(op, "", attribute);
}

LogicalResult WeftDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned i,
                                                    NamedAttribute attribute) {
  return verify(op, "argument " + Twine(i), attribute);
}

LogicalResult WeftDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned i,
                                                       NamedAttribute attribute) {
  if (failed(verify(op, "result " + Twine(i), attribute)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (attribute.getName() != kWritesAttr || !function)
    return success();
  int64_t argument = cast<IntegerAttr>(attribute.getValue()).getInt();
  if (argument >= 0 && argument < static_cast<int64_t>(function.getNumArguments()))
    return success();
  return op->emitError() << "result " << i << " of @" << function.getName()
                         << " writes argument " << argument << " (weft.writes); there are "
                         << function.getNumArguments();
}

} // namespace weft::ir
