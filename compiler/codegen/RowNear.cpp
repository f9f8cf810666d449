// What a kernel over rows computes of slices of a row, once the row's reductions are known: the maxima over the windows of a normalised
// image.
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

using mlir::Value;

// After the sweeps of a row. Its elements are computed again for each window that reads them: they are rarely all in a near cache, and the
// fuse phase sees to it that they are cheap. Vectors lie along the innermost dim, whose neighbours are a fixed step apart in the row.
void RowSchedule::storeNear(KernelFunction &f, const Index &row) {
  if (nearStores.empty()) return;
  llvm::ArrayRef<int32_t> lines = domain.near().drop_back();
  llvm::SmallVector<int64_t> extents;
  int64_t count = 1;
  for (int32_t atom : lines) {
    extents.push_back(domain.atoms()[atom]);
    count *= extents.back();
  }
  // Windows of other elements read what an element's store would overwrite.
  trackReads(f, nullptr, 0, {});
  f.loop(count, {}, [&](Index line, KernelFunction::State &) {
    f.run(domain.atoms()[domain.near().back()], 1, Index::of(0), {},
          [&](llvm::ArrayRef<KernelFunction::Unit> units, KernelFunction::State &) {
            for (const KernelFunction::Unit &unit : units) {
              auto atoms = atomPositions(f, row, Index::of(0));
              for (auto [atom, at] : llvm::zip(lines, f.e.space.delinearize(line, extents))) atoms[atom] = at;
              atoms[domain.near().back()] = unit.position;
              for (int64_t i : nearStores) {
                Value output = kernel.outputs[i];
                auto position = f.position(output, atoms);
                Value value = f.e.at(kernel.lowered.lookup(output), position, unit.mask);
                auto shape = mlir::cast<mlir::RankedTensorType>(output.getType()).getShape();
                f.e.store(f.output(i), value, f.e.space.linearize(position, shape), unit.mask);
              }
            }
          });
  });
}

} // namespace weft::compiler
