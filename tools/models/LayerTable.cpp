// One walk over @main in its order. A value is a layer's where it is computed from that layer's
// parameters alone; an op that reads such a value and others is the layer's, and so are cheap ops
// behind it. The op's first reader of that kind decides: weights that are shared by two layers
// stand with the first.
#include "tools/models/LayerTable.h"

#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <iterator>

#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/statements/Statement.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace weft::tools {
namespace {

// Without "tensor<>".
std::string typeName(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  for (int64_t size : tensor.getShape())
    stream << size << "x";
  stream << tensor.getElementType();
  return text;
}

int64_t elementsOf(mlir::Type type) {
  return mlir::cast<mlir::RankedTensorType>(type).getNumElements();
}

int64_t bytesOf(mlir::Type type) {
  int64_t bits = mlir::getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  return elementsOf(type) * ((bits + 7) / 8);
}

// "layer1.0.conv1" of "layer1.0.conv1.weight"; a parameter of the model itself is its own layer.
std::string layerOf(llvm::StringRef parameter) {
  size_t dot = parameter.rfind('.');
  return (dot == llvm::StringRef::npos ? parameter : parameter.substr(0, dot)).str();
}

// Scalar operations, of a composite those of what it falls apart into where its record names none.
double operationsOf(mlir::Operation *op) {
  auto weft = mlir::cast<ir::WeftOp>(op);
  if (weft.kind() != ir::Kind::Composite || weft.cost() > 0)
    return ir::operationsOf(op);
  mlir::Operation *before = op->getPrevNode();
  mlir::OpBuilder builder(op);
  if (mlir::failed(weft.decompose(builder)))
    return 0;
  double operations = 0;
  // What a part falls apart into stands before it, so that the loop does not meet it.
  while (op->getPrevNode() != before) {
    mlir::Operation *part = op->getPrevNode();
    if (mlir::isa<ir::WeftOp>(part))
      operations += operationsOf(part);
    part->erase();
  }
  return operations;
}

// Ops that belong to the layer before them.
bool isCheap(ir::Kind kind) {
  return kind == ir::Kind::Elementwise || kind == ir::Kind::Movement || kind == ir::Kind::Creation;
}

class Reader {
public:
  explicit Reader(const std::set<std::string> &buffers) : buffers_(buffers) {}
  LayerTable read(mlir::func::FuncOp main) {
    for (mlir::Operation &op : main.getBody().front().without_terminator())
      visit(&op);
    for (mlir::Type type : main.getResultTypes())
      table_.outputs.push_back(typeName(type));
    return std::move(table_);
  }

private:
  struct Origin {
    std::string layer;     // of which parameters; "" for numbers of no parameter
    bool constant = false; // computed from parameters and numbers alone
    size_t row = 0;        // else: what made it, counted from 1; 0 for an input
    std::vector<mlir::Operation *> parameters = {}; // read so far without a row
  };

  void visit(mlir::Operation *op) {
    auto weft = mlir::dyn_cast<ir::WeftOp>(op);
    if (!weft)
      return;
    if (auto name = op->getAttrOfType<mlir::StringAttr>(ir::kParameterAttr)) {
      origins_[op->getResult(0)] = {layerOf(name), true, 0, {op}};
      return;
    }
    Origin mine{.layer = "", .constant = true};
    for (mlir::Value operand : op->getOperands()) {
      const Origin &from = origins_[operand]; // an input is none: no constant, no row
      if (!from.constant) {
        mine.constant = false;
        if (mine.row == 0)
          mine.row = from.row;
      } else if (mine.layer.empty()) {
        mine.layer = from.layer;
      }
      if (from.constant)
        mine.parameters.insert(mine.parameters.end(), from.parameters.begin(),
                               from.parameters.end());
    }
    bool cheap = isCheap(weft.kind());
    if (mine.constant || (mine.layer.empty() && mine.row == 0 && cheap)) {
      // Work on parameters or on inputs alone is counted where it is used.
      pending_[op->getResult(0)] = operationsOf(op);
    } else {
      size_t row = !mine.layer.empty()      ? rowOf(mine.layer, mine.row)
                   : mine.row != 0 && cheap ? mine.row
                                            : newRow(op->getName().stripDialect().str());
      add(row, op, mine, /*named=*/!mine.layer.empty() || !cheap);
      mine.row = row;
      mine.parameters.clear();
    }
    for (mlir::Value result : op->getResults())
      origins_[result] = mine;
  }

  // A layer that is called twice has a row for each call, unless nothing came between.
  size_t rowOf(const std::string &layer, size_t before) {
    if (before != 0 && table_.layers[before - 1].name == layer)
      return before;
    if (!table_.layers.empty() && table_.layers.back().name == layer)
      return table_.layers.size();
    return newRow(layer);
  }

  size_t newRow(std::string name) {
    table_.layers.emplace_back().name = std::move(name);
    return table_.layers.size();
  }

  void add(size_t row, mlir::Operation *op, const Origin &origin, bool named) {
    Layer &layer = table_.layers[row - 1];
    layer.operations += operationsOf(op);
    for (mlir::Value operand : op->getOperands())
      if (auto found = pending_.find(operand); found != pending_.end()) {
        layer.operations += found->second;
        pending_.erase(found);
      }
    for (mlir::Operation *parameter : origin.parameters)
      if (counted_.insert(parameter).second) {
        if (!buffers_.contains(
                parameter->getAttrOfType<mlir::StringAttr>(ir::kParameterAttr).str()))
          layer.parameters += elementsOf(parameter->getResult(0).getType());
        layer.weight_bytes += bytesOf(parameter->getResult(0).getType());
      }
    if (named || layer.output.empty()) {
      layer.output = typeName(op->getResult(0).getType());
      layer.output_bytes = bytesOf(op->getResult(0).getType());
    }
  }

  const std::set<std::string> &buffers_;
  LayerTable table_;
  llvm::DenseMap<mlir::Value, Origin> origins_;
  llvm::DenseMap<mlir::Value, double> pending_; // work on parameters or inputs alone
  llvm::DenseSet<mlir::Operation *> counted_;
};

// 1234567 as "1.235 M".
std::string scaled(double value) {
  constexpr const char *kUnits[] = {"", " K", " M", " G", " T"};
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.3f%s", value, kUnits[unit]);
  return text;
}

} // namespace

void LayerTable::print(std::ostream &stream) const {
  Layer sum;
  sum.name = "total";
  for (const Layer &layer : layers) {
    sum.parameters += layer.parameters;
    sum.weight_bytes += layer.weight_bytes;
    sum.output_bytes += layer.output_bytes;
    sum.operations += layer.operations;
  }
  for (const std::string &type : outputs)
    sum.output += (sum.output.empty() ? "" : ", ") + type;
  size_t name = 5, output = 6;
  for (const Layer &layer : layers) {
    name = std::max(name, layer.name.size());
    output = std::max(output, layer.output.size());
  }
  output = std::max(output, sum.output.size());
  auto row = [&](const std::string &a, const std::string &b, const std::string &c,
                 const std::string &d, const std::string &e, const std::string &f) {
    stream << std::left << std::setw(static_cast<int>(name)) << a << "  "
           << std::setw(static_cast<int>(output)) << b << std::right << std::setw(12) << c
           << std::setw(12) << d << std::setw(13) << e << std::setw(13) << f << "\n";
  };
  row("layer", "output", "parameters", "flops", "weight bytes", "output bytes");
  auto print = [&](const Layer &layer) {
    row(layer.name, layer.output, scaled(static_cast<double>(layer.parameters)),
        scaled(layer.operations), scaled(static_cast<double>(layer.weight_bytes)),
        scaled(static_cast<double>(layer.output_bytes)));
  };
  for (const Layer &layer : layers)
    print(layer);
  print(sum);
}

LayerTable describeLayers(mlir::ModuleOp module, const std::set<std::string> &buffers) {
  return Reader(buffers).read(module.lookupSymbol<mlir::func::FuncOp>("main"));
}

} // namespace weft::tools
