// What a kernel over rows computes of slices of a row, once the row's reductions are known: the
// maxima over the windows of a normalised image.
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

using mlir::Value;

// After the sweeps of a row. Its elements are computed again for each window that reads them: they
// are rarely all in a near cache, and the fuse phase sees to it that they are cheap. Vectors lie
// along the innermost dim, whose neighbours are a fixed step apart in the row.
void RowSchedule::storeNear(KernelFunction &f, const Index &row) {
  if (nearStores.empty())
    return;
  llvm::ArrayRef<int32_t> near = domain.near(), lines = near.drop_back();
  int32_t lanes = near.back();
  // Windows of other elements read what an element's store would overwrite.
  trackOtherReads(f);
  auto vector = [&](const Index &line, const KernelFunction::Unit &unit) {
    auto atoms = atomPositions(f, row, Index::of(0));
    placeAtoms(f.e.space, domain, atoms, lines, line);
    atoms[lanes] = unit.position;
    storeOutputs(f, Role::Near, atoms, unit.mask);
  };
  auto storeLine = [&](const Index &line) {
    f.each(domain.atoms()[lanes], 1, Index::of(0),
           [&](const KernelFunction::Unit &unit) { vector(line, unit); });
  };
  // Of one row that is as long as a size says, the slices have the dim that varies: the slowest.
  int32_t varying = domain.inner().front();
  if (!isSizedRow() || near.front() != varying)
    return f.loop(domain.positions(lines), storeLine);
  int64_t most = domain.atoms()[varying];
  Value there = f.e.div(rowEnd, domain.rowSize() / most);
  if (lines.empty()) {
    f.runUpTo(there, most, 1, Index::of(0), {},
              [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
                for (const KernelFunction::Unit &unit : units)
                  vector(Index::of(0), unit);
              });
    return;
  }
  int64_t each = domain.positions(lines) / most;
  f.loop(0, f.e.mul(there, each), domain.positions(lines), storeLine);
}

} // namespace weft::compiler
