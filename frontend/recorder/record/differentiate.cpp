// The ops of a call's derivative: what its rule builds the first time, repeated from then on.
#include "llvm/ADT/DenseSet.h"

#include "frontend/recorder/record/call_user.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/limits.h"
#include "frontend/recorder/record/state.h"

namespace weft::recorder {
namespace {

using llvm::SmallVector;

// Runs the rule on stand-ins.
std::shared_ptr<const Derivative> run_rule(const GradNode &node, SmallVector<bool, 8> asked) {
  IrState &ir = *recorder().ir;
  Signature *s = node.signature;
  size_t operand_count = s->operands.size(), result_count = s->results.size();
  mlir::Block block;
  SmallVector<mlir::Type, 4> operand_types, result_types;
  for (const TypeInfo *type : s->operands)
    operand_types.push_back(ir.whole_type(type));
  for (const TypeInfo *type : s->results)
    result_types.push_back(ir.whole_type(type));
  NumberedValues values;
  auto stand_in = [&](const TypeInfo *type, bool given) {
    mlir::Value value = given ? ir.stand_in(block, type) : mlir::Value();
    values.add(value, type);
    return value;
  };
  SmallVector<mlir::Value, 4> operands, results, cotangents;
  for (uint32_t i = 0; i < operand_count; ++i)
    operands.push_back(stand_in(s->operands[i], static_cast<bool>(node.saved[i])));
  for (uint32_t i = 0; i < result_count; ++i)
    results.push_back(stand_in(s->results[i], static_cast<bool>(node.saved[operand_count + i])));
  for (uint32_t i = 0; i < result_count; ++i)
    cotangents.push_back(stand_in(s->results[i], asked[operand_count + i]));

  mlir::OpBuilder builder(&ir.context());
  builder.setInsertionPointToEnd(&block);
  ir::GradContext context(builder, ir.location(node.line), s->name, s->properties, operand_types,
                          result_types, operands, results, cotangents,
                          llvm::ArrayRef(asked).take_front(operand_count));
  (void)ir.take_diagnostic(); // what an earlier call may have left
  std::string refusal =
      "the derivative of " + s->name.getStringRef().str() + " cannot be recorded: ";
  auto rule = [&] {
    return s->rules->differentiate(context);
  };
  bool is_right = mlir::succeeded(call_user(refusal + "its rule", rule)) && !context.isWrong();
  // A rule may build what is invalid, and not notice.
  std::string why = ir.take_diagnostic().message;
  if (!is_right || !why.empty())
    fail(ErrorKind::kState, refusal + (why.empty() ? "its rule failed, and says nothing" : why));

  for (mlir::Operation &op : block)
    if (!mlir::isa<ir::WeftOp>(op))
      fail(ErrorKind::kState, refusal + "its rule makes " + op.getName().getStringRef().str() +
                                  ", which is no weft op; make it of Vals (Rules.h)");

  // Ops that no gradient needs are left out, but for exchanges: other ranks need them.
  llvm::DenseSet<mlir::Operation *> needed;
  auto need = [&](mlir::Value value) {
    if (value && !values.numbers.count(value))
      needed.insert(value.getDefiningOp());
  };
  for (mlir::Value gradient : context.gradients())
    need(gradient);
  for (mlir::Operation &op : llvm::reverse(block)) {
    if (mlir::cast<ir::WeftOp>(op).kind() == ir::Kind::Exchange)
      needed.insert(&op);
    if (needed.count(&op))
      for (mlir::Value operand : op.getOperands())
        need(operand);
  }
  auto derivative = std::make_shared<Derivative>();
  derivative->asked = std::move(asked);
  for (mlir::Operation &op : block) {
    if (!needed.count(&op))
      continue;
    // A transfer leads back to where the operand is; nothing else changes the device.
    uint8_t device = mlir::isa<ir::TransferOp>(op) ? s->operands[0]->device
                     : op.getNumOperands() == 0    ? s->device
                                                   : values.type(op.getOperand(0))->device;
    derivative->steps.push_back(values.add(ir, &op, device));
    derivative->made += op.getNumResults();
  }
  for (mlir::Value gradient : context.gradients())
    derivative->gradients.push_back(gradient ? std::optional(values[gradient]) : std::nullopt);
  if (s->derivatives.size() < kLimits.derivatives)
    s->derivatives.push_back(derivative);
  return derivative;
}

std::shared_ptr<const Derivative> derivative_of(const GradNode &node,
                                                std::span<const Var> cotangents,
                                                std::optional<uint32_t> except) {
  SmallVector<bool, 8> asked;
  for (uint32_t i = 0; i < node.edges.size(); ++i)
    asked.push_back(node.edges[i].node && except != i);
  for (const Var &cotangent : cotangents)
    asked.push_back(static_cast<bool>(cotangent));
  for (const auto &known : node.signature->derivatives)
    if (known->asked == asked)
      return known;
  return run_rule(node, std::move(asked));
}

} // namespace

uint32_t result_count(const GradNode &node) {
  return static_cast<uint32_t>(node.signature->results.size());
}

// Of an op whose rule has run: an operand whose gradient was asked for, and to which it gave none.
static std::optional<size_t> given_nothing(const Signature &s) {
  for (const auto &known : s.derivatives)
    for (size_t i = 0; i < known->gradients.size(); ++i)
      if (known->asked[i] && !known->gradients[i])
        return i;
  return std::nullopt;
}

std::string without_derivative(const Var &output) {
  auto is_number = [](const TypeInfo *type) {
    return is_floating(type->dtype);
  };
  SmallVector<const Value *, 16> path{output.value.get()};
  llvm::DenseSet<const Value *> seen;
  for (size_t i = 0; i < path.size() && i < kLimits.searched_values; ++i) {
    const Node *node = path[i]->node;
    if (!node)
      continue;
    const Signature &s = *node->signature;
    if (!s.differentiable && s.rules && is_number(path[i]->type) &&
        llvm::any_of(s.operands, is_number))
      return "; " + describe(node) +
             " has no derivative: " + s.rules->missingRule(ir::RuleKind::Derivative).str();
    if (auto operand = given_nothing(s))
      return "; the derivative of " + describe(node) + " gives operand " +
             std::to_string(*operand) + " nothing";
    for (const Value *operand : node->operands)
      if (seen.insert(operand).second)
        path.push_back(operand);
  }
  return "";
}

std::optional<Band> band_of(const GradNode &node) {
  Signature *s = node.signature;
  const auto *properties = s ? properties_if<ir::SliceOp>(*s) : nullptr;
  if (!properties)
    return std::nullopt;
  llvm::ArrayRef<int64_t> starts = properties->starts.asArrayRef(),
                          steps = properties->steps.asArrayRef();
  const Shape &from = s->operands[0]->dims, &to = s->results[0]->dims;
  std::optional<Band> band;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i] && starts[i] == 0 && steps[i] == 1)
      continue;
    if (band || (steps[i] != 1 && to[i] > 1))
      return std::nullopt;
    band = Band{static_cast<int64_t>(i), starts[i], starts[i] + to[i], s->operands[0]};
  }
  return band;
}

std::optional<bool> row_product_of(const GradNode &node, int64_t rows) {
  Signature *s = node.signature;
  const auto *properties = s ? properties_if<ir::MatmulOp>(*s) : nullptr;
  if (!properties)
    return std::nullopt;
  bool transpose_x = properties->transpose_lhs && properties->transpose_lhs.getValue();
  if (transpose_x || s->operands[0]->ndim() != 2 || s->operands[1]->ndim() != 2 ||
      s->operands[0]->dims[0] > rows)
    return std::nullopt;
  return properties->transpose_rhs && properties->transpose_rhs.getValue();
}

std::vector<Var> differentiate(GradNode &node, std::span<const Var> cotangents, bool with_history,
                               std::optional<uint32_t> except) {
  DerivativeScope mode(with_history);

  std::shared_ptr<const Derivative> derivative = derivative_of(node, cotangents, except);
  // By number; reserved, so that they stay where they are.
  SmallVector<const Var *, 16> values;
  SmallVector<Var, 8> saved, made;
  saved.reserve(node.saved.size());
  made.reserve(derivative->made);
  uint32_t operand_count = node.edges.size();
  for (uint32_t i = 0; i < node.saved.size(); ++i) {
    GradEdge history = i < operand_count ? node.edges[i] : GradEdge{&node, i - operand_count};
    values.push_back(
        &saved.emplace_back(Var{node.saved[i], std::move(history.node), history.index}));
  }
  for (const Var &cotangent : cotangents)
    values.push_back(&cotangent);
  // The steps are for whole tensors; what is cut goes through other types.
  bool is_cut = llvm::any_of(values, [](const Var *x) { return x->value && x->type().part; });
  for (const Derivative::Step &step : derivative->steps) {
    SmallVector<const Var *, 4> operands;
    for (uint32_t number : step.operands)
      operands.push_back(values[number]);
    size_t first = made.size();
    Signature *signature = step.signature;
    if (is_cut)
      signature = recorder().ir->fit(signature, operands);
    record_op(signature, operands, node.line, made);
    for (size_t i = first; i < made.size(); ++i) {
      // A gradient that a mask chooses, as relu's, depends on what the mask is of, by a derivative
      // of 0. A user's own x > 0 has no history: it would keep that of x.
      if (with_history && !is_floating(made[i].dtype()))
        made[i] = with_flat_history(made[i], {operands.begin(), operands.size()});
      values.push_back(&made[i]);
    }
  }
  std::vector<Var> gradients(operand_count);
  for (uint32_t i = 0; i < gradients.size(); ++i)
    if (std::optional<uint32_t> number = derivative->gradients[i])
      gradients[i] = *values[*number];
  return gradients;
}

} // namespace weft::recorder
