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
  row->gradients.push_back(withdrawn(std::exchange(gradient, Var())));
  return true;
}

void GradientRows::finish() {
  for (Row &row : rows_)
    give(row);
}

void GradientRows::give(Row &row) {
  Row full = std::exchange(row, Row{row.sum, 0, {}, {}});
  std::vector<const TypeInfo *> types;
  for (const GradRef &leaf : full.leaves)
    types.push_back(leaf->leaf_type);
  if (!types.empty())
    exchange_together(full.sum, full.gradients, types);
  for (size_t i = 0; i < full.leaves.size(); ++i)
    give_(*full.leaves[i], full.gradients[i]);
}

} // namespace weft::recorder
