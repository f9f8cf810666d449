// What a kernel over rows computes of slices of a row, once the row's reductions are known: the
// maxima over the windows of a normalised image.
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

// After the sweeps of a row. Its elements are computed again for each window that reads them: they
// are rarely all in a near cache, and the fuse phase sees to it that they are cheap. Vectors lie
// along the innermost dim, whose neighbours are a fixed step apart in the row.
void RowSchedule::storeNear(KernelFunction &f, const Index &row) {
  if (nearStores.empty())
    return;
  llvm::ArrayRef<int32_t> lines = domain.near().drop_back();
  int32_t lanes = domain.near().back();
  // Windows of other elements read what an element's store would overwrite.
  trackOtherReads(f);
  f.loop(domain.positions(lines), [&](Index line) {
    f.each(domain.atoms()[lanes], 1, Index::of(0), [&](const KernelFunction::Unit &unit) {
      auto atoms = atomPositions(f, row, Index::of(0));
      placeAtoms(f.e.space, domain, atoms, lines, line);
      atoms[lanes] = unit.position;
      storeOutputs(f, Role::Near, atoms, unit.mask);
    });
  });
}

} // namespace weft::compiler
