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

Var withdrawn(Var gradient) {
  forget_pending(gradient.value.get());
  gradient.value = ValueRef(gradient.value->node->operands[0]);
  return gradient;
}

void exchange_together(const RankSum &sum, std::span<Var> gradients,
                       std::span<const TypeInfo *const> types) {
  llvm::scope_exit restore([before = grad_mode()] { set_grad_mode(before); });
  set_grad_mode(false);
  auto give = [&](size_t i, Var own) {
    own.value->type = types[i]; // its elements are a part of it where it is cut
    gradients[i].value = std::move(own.value);
  };
  if (gradients.size() == 1)
    return give(
        0, emit_all_reduce(sum.reduction, gradients[0].without_history(), sum.group, sum.ranks));
  std::vector<Var> partial;
  std::string operand = "gradients of";
  for (const Var &gradient : gradients) {
    operand += " " + to_string(gradient.dims());
    partial.push_back(emit_reshape(gradient.without_history(), {gradient.type().elements}));
  }
  Var row = emit_all_reduce(sum.reduction, emit_concat(partial, 0), sum.group, sum.ranks, operand);
  int64_t at = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const TypeInfo &type = gradients[i].type();
    const int64_t start[] = {at}, limit[] = {at += type.elements}, step[] = {1};
    give(i, emit_reshape(emit_slice(row, start, limit, step), type.dims));
  }
}

} // namespace weft::recorder
