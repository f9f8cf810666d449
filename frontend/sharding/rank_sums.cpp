// Gradients that are sums over ranks, exchanged together.
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/runs/exchange.h"
#include "frontend/sharding/sharding.h"

namespace weft::recorder {

const ir::AllReduceOp::Properties *unread_sum(const Var &gradient) {
  constexpr uint32_t kOwn = 2; // the caller's handle, and that of what is to be exchanged
  const Value *value = gradient.value.get();
  bool is_unread = value && value->node && value->uses == 0 && value->handles <= kOwn;
  return is_unread && is_pending(value) ? properties_if<ir::AllReduceOp>(*value->node->signature)
                                        : nullptr;
}

std::optional<RankSum> rank_sum_of(const Var &gradient) {
  const auto *sum = unread_sum(gradient);
  if (!sum)
    return std::nullopt;
  return RankSum{sum->group.getValue().str(),
                 static_cast<attributes::Reduction>(sum->reduction.getValue()), sum->ranks.getInt(),
                 gradient.dtype(), gradient.device()};
}

Var withdrawn(Var gradient) {
  forget_pending(gradient.value.get());
  gradient.value = ValueRef(gradient.value->node->operands[0]);
  return gradient;
}

void exchange_together(const RankSum &sum, std::span<Var> gradients,
                       std::span<const TypeInfo *const> types) {
  DerivativeScope mode(false);
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
