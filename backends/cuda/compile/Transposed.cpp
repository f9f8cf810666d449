// Elementwise kernels that read an operand along another dim than they write (transposes, and what
// is fused with them): a block moves a tile of such operands through shared memory, so that
// neighbouring threads read neighbours and write neighbours.
//
// A tile is kTile elements of the outputs' innermost atom by kTile of the operands' innermost one.
// Each row of it in shared memory has one element more, so that a column lies in different banks.
#include "backends/cuda/compile/KernelPlan.h"

#include "backends/cuda/compile/Limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::backends::cuda {

using namespace mlir;
using Role = FusionDomain::Role;

// Lines of a tile that the block's threads take at a time: each has some elements of the tile.
static constexpr int64_t kRows = kSharingThreads / kTile;

namespace {

struct TransposedSchedule {
  explicit TransposedSchedule(KernelPlan &plan) : plan(plan), domain(plan.domain) {
    if (domain.shape() != FusionDomain::Shape::Elementwise)
      return;
    for (Value output : plan.kernel.outputs) {
      int32_t last = innermost(output);
      if (last == -1 || last == plan.namedAtom() || (written != -1 && last != written))
        return;
      written = last;
    }
    for (Value argument : plan.kernel.arguments()) {
      int32_t last = domain.role(argument) == Role::Full ? innermost(argument) : -1;
      if (last == -1 || last == plan.namedAtom() || last == written || staged.size() == kMostStaged)
        continue;
      if (read == -1)
        read = last;
      if (last == read)
        staged.push_back(argument);
    }
  }

  bool pays() const {
    return !staged.empty() && extent(written) >= kLeastSide && extent(read) >= kLeastSide;
  }

  LogicalResult emit(Geometry &geometry) {
    // Of the domain: an atom that was merged into another one still has its number.
    SmallVector<int32_t> others;
    SmallVector<int64_t> counts;
    for (ArrayRef<int32_t> some : {domain.outer(), domain.inner()})
      for (int32_t atom : some)
        if (atom != written && atom != read)
          others.push_back(atom), counts.push_back(extent(atom));
    counts.append({ceilDivide(extent(read), kTile), ceilDivide(extent(written), kTile)});
    int64_t tiles = 1;
    for (int64_t count : counts)
      tiles *= count;
    // The size that varies is the first of the others.
    geometry = Geometry::of(tiles, 1, kSharingThreads);
    GpuFunction f(plan.kernel, plan.kernel.info.symbol, geometry, 1);
    compiler::IndexSpace &space = f.e.space;
    SmallVector<Index> tile = space.delinearize(f.blockIndex(), counts);
    auto [row, column] = space.divide(f.threadIndex(), kTile);

    SmallVector<Index> atoms(domain.atoms().size());
    for (auto [i, atom] : llvm::enumerate(others))
      atoms[atom] = tile[i];
    // emit() where the thread's column is the position in the tile along one of the two atoms, and
    // its row of that round along the other.
    auto at = [&](int32_t fastAtom, int32_t slowAtom, int64_t round,
                  function_ref<void(const Index &slow)> emit) {
      Value guard;
      auto place = [&](int32_t atom, const Index &inTile) {
        const Index &number = atom == written ? tile.back() : tile[tile.size() - 2];
        Index position = space.add(space.scale(number, kTile), inTile);
        if (extent(atom) % kTile) {
          Value raw = f.e.scalarIndex(position), inside = f.lessThan(raw, extent(atom));
          guard = guard ? f.e.make<arith::AndIOp>(guard, inside) : inside;
          // Bounded, as positions must be; a value of its own for each extent.
          position = space.scalar(f.e.minSigned(raw, extent(atom) - 1), extent(atom));
        }
        atoms[atom] = position;
      };
      Index slow = space.add(row, round * kRows);
      place(fastAtom, column);
      place(slowAtom, slow);
      f.when(guard, [&] { emit(slow); });
    };
    SmallVector<Value> buffers;
    for (Value argument : staged)
      buffers.push_back(f.shared(kTile * (kTile + 1), plan.elementOf(argument)));
    auto place = [&](const Index &alongWritten, const Index &alongRead) {
      return space.add(space.scale(alongWritten, kTile + 1), alongRead);
    };

    // Other threads write what is read here.
    plan.trackOtherReads(f);
    for (int64_t round = 0; round < kTile / kRows; ++round)
      at(read, written, round, [&](const Index &slow) {
        for (auto [argument, buffer] : llvm::zip(staged, buffers))
          f.e.store(buffer,
                    f.e.at(plan.kernel.lowered.lookup(argument), f.position(argument, atoms)),
                    place(slow, column), nullptr);
      });
    f.barrier();
    for (int64_t round = 0; round < kTile / kRows; ++round)
      at(written, read, round, [&](const Index &slow) {
        plan.trackReads(f, 0, atoms);
        for (auto [argument, buffer] : llvm::zip(staged, buffers)) {
          auto here = f.position(argument, atoms);
          // Elsewhere (a slice of the same operand) it is read from memory.
          auto known = [&f, here, buffer = buffer, type = plan.elementOf(argument),
                        linear = place(column, slow)](ArrayRef<Index> position, Value) -> Value {
            if (position != ArrayRef(here))
              return nullptr;
            return f.e.load(buffer, type, linear, nullptr);
          };
          f.e.setKnown(plan.kernel.lowered.lookup(argument), known);
        }
        plan.store(f, plan.compute(f, plan.sweeps[0].stores, atoms));
      });
    return f.finish();
  }

private:
  int64_t extent(int32_t atom) const {
    return domain.atoms()[atom];
  }
  int32_t innermost(Value value) const {
    const FusionDomain::Layout *layout = domain.layout(value);
    return layout && !layout->empty() ? layout->back() : -1;
  }

  KernelPlan &plan;
  const FusionDomain &domain;
  int32_t written = -1, read = -1; // the innermost atoms of outputs and of staged operands
  SmallVector<Value> staged;
};

} // namespace

bool readsTransposed(KernelPlan &plan) {
  return TransposedSchedule(plan).pays();
}

LogicalResult scheduleTransposed(KernelPlan &plan, Geometry &geometry) {
  return TransposedSchedule(plan).emit(geometry);
}

} // namespace weft::backends::cuda
