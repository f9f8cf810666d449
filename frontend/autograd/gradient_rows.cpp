#include "frontend/autograd/gradient_rows.h"

namespace weft::recorder {

bool GradientRows::take(const GradRef &leaf, Var &gradient) {
  std::optional<RankSum> sum = rank_sum_of(gradient);
  int64_t bytes = gradient.type().bytes;
  if (!sum || gradient.value->type.get() != leaf->leaf_type.get() || bytes >= bound_)
    return false;
  auto row = std::ranges::find(rows_, *sum, &Row::sum);
  if (row == rows_.end())
    row = rows_.insert(row, Row{*sum, 0, {}, {}});
  else if (row->bytes + bytes > bound_)
    give(*row);
  row->bytes += bytes;
  row->leaves.push_back(leaf);
  row->gradients.push_back(std::move(gradient));
  return true;
}

void GradientRows::finish() {
  for (Row &row : rows_)
    give(row);
}

void GradientRows::give(Row &row) {
  Row full = std::exchange(row, Row{row.sum, 0, {}, {}});
  // A hook that asked for values has had all of them exchanged that were there, one by one.
  auto waits = [](const Var &gradient) {
    return rank_sum_of(gradient).has_value();
  };
  if (full.gradients.size() > 1 && std::ranges::all_of(full.gradients, waits))
    exchange_together(full.sum, full.gradients);
  for (size_t i = 0; i < full.leaves.size(); ++i)
    give_(*full.leaves[i], full.gradients[i]);
}

} // namespace weft::recorder
