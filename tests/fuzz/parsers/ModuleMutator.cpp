#include "tests/fuzz/parsers/ModuleMutator.h"

#include <cmath>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace weft::fuzz {
namespace {

class Mutator {
public:
  Mutator(mlir::ModuleOp module, Generator &random)
      : module_(module), random_(random), builder_(module.getContext()) {
    module->walk([&](mlir::Operation *op) {
      if (op != module_.getOperation())
        ops_.push_back(op);
    });
  }

  void step() {
    if (ops_.empty())
      return;
    mlir::Operation *op = ops_[below(ops_.size())];
    switch (below(8)) {
    case 0:
    case 1:
    case 2:
      return changeAttribute(op);
    case 3:
    case 4:
      return changeType(op);
    case 5:
      return changeOperand(op);
    case 6:
      return copyOp(op);
    default:
      return dropOp(op);
    }
  }

private:
  size_t below(size_t n) {
    return random_() % n;
  }
  bool chance(int percent) {
    return below(100) < static_cast<size_t>(percent);
  }

  int64_t integer(int64_t now) {
    constexpr uint64_t kLeast = uint64_t{1} << 63, kMost = kLeast - 1;
    uint64_t bits = static_cast<uint64_t>(now); // wraps around
    const uint64_t choices[] = {0,
                                1,
                                uint64_t(-1),
                                2,
                                3,
                                7,
                                bits + 1,
                                bits - 1,
                                -bits,
                                uint64_t{1} << 31,
                                uint64_t{1} << 40,
                                kMost,
                                kLeast};
    return static_cast<int64_t>(choices[below(std::size(choices))]);
  }
  double number(double now) {
    const double choices[] = {0,     -0.,    1,        -1,        now * 2, -now,
                              1e300, 1e-300, INFINITY, -INFINITY, NAN};
    return choices[below(std::size(choices))];
  }
  void changeIntegers(llvm::SmallVectorImpl<int64_t> &values) {
    if (values.empty() || chance(15))
      values.push_back(integer(1));
    else if (chance(15))
      values.pop_back();
    else
      values[below(values.size())] = integer(values[0]);
  }

  mlir::Type changed(mlir::Type type) {
    if (auto function = mlir::dyn_cast<mlir::FunctionType>(type)) {
      llvm::SmallVector<mlir::Type> inputs(function.getInputs()), results(function.getResults());
      llvm::SmallVector<mlir::Type> &side = chance(50) ? inputs : results;
      if (side.empty())
        return type;
      mlir::Type &one = side[below(side.size())];
      one = changed(one);
      return mlir::FunctionType::get(type.getContext(), inputs, results);
    }
    auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
    if (!tensor)
      return type;
    llvm::SmallVector<int64_t> shape(tensor.getShape());
    mlir::Type element = tensor.getElementType();
    mlir::Attribute encoding = tensor.getEncoding();
    if (chance(50)) {
      changeIntegers(shape);
    } else if (encoding && chance(50)) {
      encoding = {};
    } else {
      const mlir::Type choices[] = {builder_.getF32Type(),
                                    builder_.getF64Type(),
                                    builder_.getBF16Type(),
                                    builder_.getI1Type(),
                                    builder_.getI64Type(),
                                    builder_.getIndexType(),
                                    builder_.getIntegerType(8, false)};
      element = choices[below(std::size(choices))];
    }
    return mlir::RankedTensorType::get(shape, element, encoding);
  }

  // Of the same kind: where an op's properties have no room for another one, there is none to
  // write.
  mlir::Attribute changed(mlir::Attribute attribute) {
    if (auto value = mlir::dyn_cast<mlir::IntegerAttr>(attribute)) {
      unsigned width = value.getType().isIndex() ? 64 : value.getType().getIntOrFloatBitWidth();
      int64_t now = value.getValue().getSExtValue();
      return mlir::IntegerAttr::get(
          value.getType(), llvm::APInt(64, static_cast<uint64_t>(integer(now))).sextOrTrunc(width));
    }
    if (auto value = mlir::dyn_cast<mlir::FloatAttr>(attribute))
      return mlir::FloatAttr::get(value.getType(), number(value.getValueAsDouble()));
    if (auto value = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(attribute)) {
      llvm::SmallVector<int64_t> values(value.asArrayRef());
      changeIntegers(values);
      return mlir::DenseI64ArrayAttr::get(attribute.getContext(), values);
    }
    if (auto value = mlir::dyn_cast<mlir::StringAttr>(attribute)) {
      std::string text = value.str();
      if (text.empty() || chance(30))
        text += static_cast<char>(random_());
      else if (chance(30))
        text.resize(below(text.size()));
      else
        text[below(text.size())] = static_cast<char>(random_());
      return mlir::StringAttr::get(attribute.getContext(), text);
    }
    if (auto value = mlir::dyn_cast<mlir::TypeAttr>(attribute))
      return mlir::TypeAttr::get(changed(value.getValue()));
    if (auto value = mlir::dyn_cast<mlir::DenseElementsAttr>(attribute)) {
      auto type = mlir::cast<mlir::ShapedType>(chance(50) ? changed(mlir::Type(value.getType()))
                                                          : mlir::Type(value.getType()));
      if (!type.hasStaticShape())
        return attribute;
      if (mlir::isa<mlir::FloatType>(type.getElementType()))
        return mlir::DenseElementsAttr::get(type,
                                            mlir::FloatAttr::get(type.getElementType(), number(1)));
      if (type.getElementType().isIntOrIndex())
        return mlir::DenseElementsAttr::get(
            type, mlir::IntegerAttr::get(type.getElementType(), static_cast<int64_t>(below(2))));
      return attribute;
    }
    if (auto values = mlir::dyn_cast<mlir::DictionaryAttr>(attribute)) {
      llvm::SmallVector<mlir::NamedAttribute> entries(values.begin(), values.end());
      if (entries.empty())
        return attribute;
      mlir::NamedAttribute &entry = entries[below(entries.size())];
      entry.setValue(changed(entry.getValue()));
      return mlir::DictionaryAttr::get(attribute.getContext(), entries);
    }
    return attribute;
  }

  void changeAttribute(mlir::Operation *op) {
    llvm::SmallVector<mlir::NamedAttribute> attributes(op->getAttrDictionary().getValue());
    if (attributes.empty())
      return changeType(op);
    const mlir::NamedAttribute &chosen = attributes[below(attributes.size())];
    op->setAttr(chosen.getName(), changed(chosen.getValue()));
    if (!op->getAttr(chosen.getName()))
      op->setAttr(chosen.getName(), chosen.getValue());
  }

  void changeType(mlir::Operation *op) {
    llvm::SmallVector<mlir::Value> values(op->getResults());
    for (mlir::Region &region : op->getRegions())
      for (mlir::Block &block : region)
        values.append(block.getArguments().begin(), block.getArguments().end());
    if (values.empty())
      return changeOperand(op);
    mlir::Value value = values[below(values.size())];
    value.setType(changed(value.getType()));
    // Mostly the function keeps up, so that something else is wrong.
    auto main = mlir::dyn_cast<mlir::func::FuncOp>(op->getParentOp());
    if (auto function = mlir::dyn_cast<mlir::func::FuncOp>(op))
      main = function;
    if (!main || main.getBody().empty() || !chance(80))
      return;
    mlir::Operation &end = main.getBody().front().back();
    main.setFunctionType(
        builder_.getFunctionType(main.getBody().front().getArgumentTypes(), end.getOperandTypes()));
  }

  void changeOperand(mlir::Operation *op) {
    if (op->getNumOperands() == 0)
      return;
    llvm::SmallVector<mlir::Value> values(op->getBlock()->getArguments());
    for (mlir::Operation &before : *op->getBlock()) {
      if (&before == op)
        break;
      values.append(before.result_begin(), before.result_end());
    }
    unsigned at = static_cast<unsigned>(below(op->getNumOperands()));
    if (!values.empty())
      op->setOperand(at, values[below(values.size())]);
  }

  void copyOp(mlir::Operation *op) {
    if (op->hasTrait<mlir::OpTrait::IsTerminator>() && chance(90))
      return;
    builder_.setInsertionPoint(op);
    ops_.push_back(builder_.clone(*op));
  }

  void dropOp(mlir::Operation *op) {
    if (!op->use_empty() || ops_.size() < 3)
      return changeAttribute(op);
    llvm::DenseSet<mlir::Operation *> gone;
    op->walk([&](mlir::Operation *inner) { gone.insert(inner); });
    llvm::erase_if(ops_, [&](mlir::Operation *other) { return gone.contains(other); });
    op->erase();
  }

  mlir::ModuleOp module_;
  Generator &random_;
  mlir::OpBuilder builder_;
  std::vector<mlir::Operation *> ops_;
};

} // namespace

void mutate(mlir::ModuleOp module, Generator &random) {
  Mutator mutator(module, random);
  for (int i = 1 + static_cast<int>(random() % 3); i > 0; --i)
    mutator.step();
}

} // namespace weft::fuzz
