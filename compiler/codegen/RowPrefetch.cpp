// Asks for the lines of a row before they are needed, in kernels that sweep each row several times.
//
// The first sweep of a row waits for memory, the others find the row in the L1 cache and only
// compute: without help the two take turns, since the machine's own prefetchers begin anew with
// each page and each row's first sweep. So a later sweep asks for inputs of rows to come, and the
// sweep before the one that stores asks for the lines of the output, which must be read before they
// can be written in part.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

using mlir::Value;

void RowSchedule::planPrefetch() {
  int64_t rows = domain.rows(), n = domain.rowSize(), bytes = 0, widest = 0;
  if (lastLevel == 0 || rows == 1 || kernel.sizes || body == Body::Lanes)
    return;
  auto isRow = [&](Value value) {
    const FusionDomain::Layout *layout = domain.layout(value);
    return layout && !layout->empty() && domain.role(value) == Role::Full &&
           layout->back() == domain.inner().back();
  };
  auto add = [&](Value value, int64_t number, int64_t level, bool isOutput) {
    ahead.push_back({value, number, level, isOutput});
    bytes += n * memoryBytes(elementOf(value));
    widest = std::max(widest, memoryBytes(elementOf(value)));
  };
  int64_t busy = lastLevel;
  for (int64_t l = lastLevel; l > 0; --l)
    if (keepsAt(l))
      busy = l;
  for (auto [i, argument] : llvm::enumerate(kernel.arguments()))
    if (isRow(argument))
      add(argument, i, busy, false);
  for (auto [i, output] : llvm::enumerate(kernel.outputs))
    if (isRow(output) && level(output) > 0)
      add(output, i, level(output) - 1, true);
  if (bytes > kMostAheadRowBytes)
    ahead.clear();
  if (ahead.empty())
    return;
  llvm::SmallVector<int64_t> legal;
  for (int64_t count : {0, 1, 4, 16})
    if (count < rows)
      legal.push_back(count);
  int64_t enough = body == Body::RowGroups ? kLanes : llvm::divideCeil(kAheadBytes, n * widest);
  rowsAhead = kernel.choices.number("ahead", std::min(rows - 1, enough), legal);
  if (rowsAhead == 0)
    ahead.clear();
}

void RowSchedule::prefetch(KernelFunction &f, int64_t l, const Index &row,
                           const KernelFunction::Unit &unit) {
  for (const Ahead &what : ahead) {
    if (what.level != l)
      continue;
    Index at = what.isOutput ? row : f.ahead(row, rowsAhead, domain.rows());
    Index place = f.placeOf(what.value, atomPositions(f, at, unit.position));
    Value memory =
        what.isOutput ? f.output(what.number) : Value(f.function.getArgument(what.number));
    f.e.prefetch(memory, place, what.isOutput);
  }
}

} // namespace weft::compiler
