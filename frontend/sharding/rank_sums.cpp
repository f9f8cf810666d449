// Gradients that are sums over ranks, exchanged together.
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/state_api.h"
#include "frontend/recorder/runs/exchange.h"
#include "frontend/sharding/sharding.h"
#include "llvm/ADT/ScopeExit.h"

namespace weft::recorder {

const Node *unread_sum(const Var &gradient) {
  constexpr uint32_t kOwn = 2; // the caller's handle, and that of what is to be exchanged
  const Value *value = gradient.value.get();
  bool is_sum = value && value->node && is<ir::AllReduceOp>(value->node) && value->uses == 0 &&
                value->handles <= kOwn && is_pending(value);
  return is_sum ? value->node : nullptr;
}

std::optional<RankSum> rank_sum_of(const Var &gradient) {
  const Node *node = unread_sum(gradient);
  if (!node)
    return std::nullopt;
  const auto &properties = *properties_if<ir::AllReduceOp>(*node->signature);
  return RankSum{properties.group.getValue().str(),
                 static_cast<attributes::Reduction>(properties.reduction.getValue()),
                 properties.ranks.getInt(), gradient.dtype(), gradient.device()};
}

void exchange_together(const RankSum &sum, std::span<Var> gradients) {
  llvm::scope_exit restore([before = grad_mode()] { set_grad_mode(before); });
  set_grad_mode(false);
  std::vector<Var> partial;
  std::string operand = "gradients of";
  for (const Var &gradient : gradients) {
    const Node *node = gradient.value->node;
    const TypeInfo &type = *node->operands[0]->type;
    operand += " " + to_string(type.dims);
    partial.push_back(
        emit_reshape(Var{ValueRef(node->operands[0]), GradRef(), 0}, {type.elements}));
    forget_pending(gradient.value.get());
  }
  Var row = emit_all_reduce(sum.reduction, emit_concat(partial, 0), sum.group, sum.ranks, operand);
  int64_t at = 0;
  for (Var &gradient : gradients) {
    const TypeInfo &type = *gradient.value->node->operands[0]->type;
    const int64_t start[] = {at}, limit[] = {at += type.elements}, step[] = {1};
    Var own = emit_reshape(emit_slice(row, start, limit, step), type.dims);
    own.value->type = gradient.value->type; // its elements are a part of it where it is cut
    gradient.value = std::move(own.value);
  }
}

} // namespace weft::recorder
