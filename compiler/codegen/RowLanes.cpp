// Bodies of kernels over rows that lie side by side: softmax over dim 1 of [N, C, H, W].
//
// A piece is some neighbouring rows, one a lane. Each sweep walks down their elements, a vector of
// each row's next element after the other, so that sums, and what depends on them, are vectors.
// Elements are added in the order of a reduction alone (NestSchedule), and so are the bits. Weakness:
// a piece is read in parts of laneWidth elements, which only an L2 cache makes up for.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

using namespace mlir;

void RowSchedule::chooseLanes() {
  int64_t vectors = kLaneVectors, sideBySide = domain.atoms()[domain.lanes()],
          others = domain.rows() / sideBySide;
  auto isTooWide = [&] {
    int64_t width = vectors * kLanes;
    return domain.rowSize() * width * int64_t(sizeof(float)) > kPreferredLaneBytes ||
           others * llvm::divideCeil(sideBySide, width) < kLeastPieces;
  };
  while (vectors > 1 && isTooWide())
    vectors /= 2;
  unroll = kernel.choices.number("vectors", vectors, {1, 2, 4, 8});
  laneWidth = unroll * kLanes;
}

// Whether the elements of a row lie so far apart in memory that the vectors of a piece drive each
// other out of near caches. They wait in scratch for the next sweep then.
bool RowSchedule::isCrowded(Value value) const {
  const FusionDomain::Layout *layout = domain.layout(value);
  if (body != Body::Lanes || !layout || domain.role(value) != Role::Full ||
      layout->back() != domain.lanes())
    return false;
  int64_t apart = memoryBytes(elementOf(value));
  for (int32_t atom : llvm::reverse(*layout)) {
    if (atom == domain.inner().back())
      break;
    apart *= domain.atoms()[atom];
  }
  return apart % kCrowdedStride == 0;
}

// `units`: vectors of rows, of the piece that begins at `base`. `other`: the position of the other
// atoms of O.
void RowSchedule::sweepLanes(KernelFunction &f, ArrayRef<int32_t> others, const Index &other,
                             const Index &base, ArrayRef<KernelFunction::Unit> units) {
  IndexSpace &space = f.e.space;
  int64_t copies = static_cast<int64_t>(units.size());
  SmallVector<Index> atoms(domain.atoms().size());
  placeAtoms(space, domain, atoms, others, other);
  auto at = [&](const Index &step, const KernelFunction::Unit &unit) {
    placeAtoms(space, domain, atoms, domain.inner(), step);
    atoms[domain.lanes()] = unit.position;
  };
  // Asks for what the next piece reads, and for what the next sweep writes: a vector of it. Where
  // rows are far apart no machine's own prefetcher follows.
  auto prefetchLanes = [&](int64_t l, int64_t number) {
    auto ask = [&](Value value, Value memory, int64_t lane, bool write) {
      const FusionDomain::Layout *layout = domain.layout(value);
      if (!layout || domain.role(value) != Role::Full || layout->back() != domain.lanes())
        return;
      atoms[domain.lanes()] = space.add(base, lane);
      f.e.prefetchLine(memory, f.placeOf(value, atoms), write, /*nearest=*/write);
    };
    if (l == 0)
      for (auto [i, argument] : llvm::enumerate(kernel.arguments()))
        ask(argument, f.function.getArgument(i), laneWidth + number * kLanes, false);
    for (auto [i, output] : llvm::enumerate(kernel.outputs))
      if (level(output) == l + 1)
        ask(output, f.output(i), number * kLanes, true);
  };
  for (int64_t l = 0; l <= lastLevel; ++l) {
    const Sweep &sweep = sweeps[l];
    trackOtherReads(f);
    for (int64_t i : sweep.rowStores)
      for (const KernelFunction::Unit &unit : units) {
        at(Index::of(0), unit);
        store(f, compute(f, i, atoms, unit.mask), unit.mask);
      }
    if (sweep.reductions.empty() && sweep.stores.empty() && !keepsAt(l))
      continue;
    auto reductions = generics(sweep.reductions);
    auto step = [&](Index number, KernelFunction::State &inside) {
      for (auto [u, unit] : llvm::enumerate(units)) {
        at(number, unit);
        trackReads(f, l, atoms);
        keepOrKnow(f, l, unit, atoms,
                   space.add(space.scale(number, laneWidth), space.scale(base, -1)));
        f.accumulateAll(sweep.reductions, atoms, inside, u, copies, unit.mask);
        store(f, compute(f, sweep.stores, atoms, unit.mask), unit.mask);
        prefetchLanes(l, static_cast<int64_t>(u));
      }
    };
    int64_t n = domain.rowSize();
    KernelFunction::State sums;
    if (reductions.empty())
      f.loop(n, {}, step);
    else
      sums = f.reduceRows(n, reductions, copies, true, step);
    forgetKept(f);
    for (auto [i, op] : llvm::enumerate(sweep.reductions)) {
      SmallVector<SmallVector<Index>> places;
      SmallVector<Value> mine;
      for (auto [u, unit] : llvm::enumerate(units)) {
        at(Index::of(0), unit);
        places.push_back(f.position(op->getResult(0), atoms));
        mine.push_back(sums[i * copies + u]);
      }
      f.e.setKnown(kernel.lowered.lookup(op->getResult(0)),
                   [&f, places, mine](ArrayRef<Index> position, Value) {
                     for (auto [place, sum] : llvm::zip(places, mine))
                       if (position == ArrayRef(place))
                         return sum;
                     f.e.fail("a row's sum is read from another row");
                     return mine.front();
                   });
    }
  }
  for (const Sweep &sweep : sweeps)
    for (Operation *op : sweep.reductions)
      f.e.dropKnown(kernel.lowered.lookup(op->getResult(0)));
}

LogicalResult RowSchedule::emitLanes() {
  KernelFunction f(kernel, kernel.info.symbol);
  SmallVector<int32_t> others = outerWithout(domain, domain.lanes());
  int64_t sideBySide = domain.atoms()[domain.lanes()],
          blocks = llvm::divideCeil(sideBySide, laneWidth);
  kernel.info.count = domain.positions(others) * blocks;
  f.loop(f.begin, f.end, kernel.info.count, [&](Index piece) {
    auto [other, block] = f.e.space.divide(piece, blocks);
    f.block(block, sideBySide, laneWidth, [&, other = other](const Index &base, int64_t size) {
      f.run(size, unroll, base, [&](ArrayRef<KernelFunction::Unit> units) {
        sweepLanes(f, others, other, base, units);
      });
    });
  });
  return f.finish();
}

} // namespace weft::compiler
