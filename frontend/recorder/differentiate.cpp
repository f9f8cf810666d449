// Runs a record's derivative rule, and takes the ops that it builds into the record.
#include <unordered_map>

#include "frontend/recorder/state.h"
#include "frontend/recorder/state_api.h"

namespace weft::recorder {
namespace {

using llvm::SmallVector;

// Enters each op as the rule builds it.
class Scribe : public mlir::OpBuilder::Listener {
public:
  explicit Scribe(SourceLine *line) : line_(line) {}

  // The value that stands for x in the rule. One IR value may stand for two histories (x and x.detach()): the second gets a stand-in.
  mlir::Value introduce(const Var &x) {
    IrState &ir = *recorder().ir;
    mlir::Value value = ir.value(x.value.get());
    auto [it, fresh] = known_.try_emplace(value, x);
    if (fresh || (it->second.grad.get() == x.grad.get() && it->second.grad_index == x.grad_index)) return value;
    mlir::OperationState state(value.getLoc(), ir::LeafOp::getOperationName());
    state.addTypes(value.getType());
    mlir::Operation *stand_in = mlir::Operation::create(state);
    stand_ins_.push_back(stand_in);
    known_.try_emplace(stand_in->getResult(0), x);
    return stand_in->getResult(0);
  }

  const Var &var(mlir::Value value) const { return known_.find(value)->second; }

  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    SmallVector<const Var *, 4> operands;
    SmallVector<Value *, 4> values;
    for (mlir::OpOperand &operand : op->getOpOperands()) {
      const Var &x = var(operand.get());
      operands.push_back(&x);
      values.push_back(x.value.get());
    }
    for (size_t i = 0; i < values.size(); ++i)
      if (op->getOperand(i).getAsOpaquePointer() != values[i]->ir) op->setOperand(i, to_value(values[i]->ir));
    Node *node = recorder().ir->enter(op, values, line_);
    SmallVector<Var, 2> results;
    results_of(node, operands, results);
    for (size_t i = 0; i < results.size(); ++i) known_.try_emplace(op->getResult(i), std::move(results[i]));
  }

  ~Scribe() override {
    known_.clear();
    for (mlir::Operation *op : stand_ins_) op->destroy();
  }

private:
  SourceLine *line_;
  // Handles to everything that the rule made, until it is known what is used. Node-based: references stay valid while it grows.
  struct Hash {
    size_t operator()(mlir::Value value) const { return mlir::hash_value(value); }
  };
  std::unordered_map<mlir::Value, Var, Hash> known_;
  SmallVector<mlir::Operation *> stand_ins_;
};

} // namespace

uint32_t result_count(const GradNode &node) { return static_cast<uint32_t>(node.signature->results.size()); }

std::optional<Band> band_of(const GradNode &node) {
  Signature *s = node.signature;
  if (!s || s->name.getStringRef() != ir::SliceOp::getOperationName()) return std::nullopt;
  const auto &properties = *s->opaque().as<const ir::SliceOp::Properties *>();
  llvm::ArrayRef<int64_t> starts = properties.starts.asArrayRef(), steps = properties.steps.asArrayRef();
  const Shape &from = s->operands[0]->dims, &to = s->results[0]->dims;
  std::optional<Band> band;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i] && starts[i] == 0 && steps[i] == 1) continue;
    if (band || (steps[i] != 1 && to[i] > 1)) return std::nullopt;
    band = Band{static_cast<int64_t>(i), starts[i], starts[i] + to[i], s->operands[0]};
  }
  return band;
}

std::optional<RowProduct> row_product_of(const GradNode &node, int64_t rows) {
  Signature *s = node.signature;
  if (!s || s->name.getStringRef() != ir::MatmulOp::getOperationName()) return std::nullopt;
  const auto &properties = *s->opaque().as<const ir::MatmulOp::Properties *>();
  bool transpose_x = properties.transpose_lhs && properties.transpose_lhs.getValue();
  if (transpose_x || s->operands[0]->ndim() != 2 || s->operands[1]->ndim() != 2 || s->operands[0]->dims[0] > rows) return std::nullopt;
  return RowProduct{properties.transpose_rhs && properties.transpose_rhs.getValue()};
}

std::vector<Var> differentiate(GradNode &node, std::span<const Var> cotangents, bool with_history, std::optional<uint32_t> except) {
  IrState &ir = *recorder().ir;
  Signature *s = node.signature;
  bool before = grad_mode();
  set_grad_mode(with_history);
  struct Restore {
    bool mode;
    ~Restore() { set_grad_mode(mode); }
  } restore{before};

  Scribe scribe(node.line);
  mlir::OpBuilder builder(&ir.context(), &scribe);
  builder.setInsertionPointToEnd(&ir.block());
  SmallVector<mlir::Type, 4> operand_types, result_types;
  for (const TypeInfo *type : s->operands) operand_types.push_back(ir.type(type));
  for (const TypeInfo *type : s->results) result_types.push_back(ir.type(type));
  SmallVector<mlir::Value, 4> operands, results, gs;
  SmallVector<bool, 4> needs;
  for (uint32_t i = 0; i < node.operands.size(); ++i) {
    const GradEdge &edge = node.edges[i];
    needs.push_back(edge.node && except != i);
    operands.push_back(node.operands[i] ? scribe.introduce(Var{node.operands[i], edge.node, edge.index}) : mlir::Value());
  }
  for (uint32_t i = 0; i < node.results.size(); ++i)
    results.push_back(node.results[i] ? scribe.introduce(Var{node.results[i], GradRef(&node), i}) : mlir::Value());
  for (const Var &g : cotangents) gs.push_back(g ? scribe.introduce(g) : mlir::Value());

  ir::GradContext context(builder, ir.location(node.line), s->name, s->opaque(), operand_types, result_types, operands, results, gs, needs);
  if (mlir::failed(s->rules->differentiate(context)))
    fail(ErrorKind::kState, "the derivative of " + s->name.getStringRef().str() + " cannot be recorded: " + ir.take_diagnostic());
  std::vector<Var> gradients(node.operands.size());
  for (uint32_t i = 0; i < gradients.size(); ++i)
    if (mlir::Value g = context.gradients()[i]) gradients[i] = scribe.var(g);
  return gradients;
}

} // namespace weft::recorder
