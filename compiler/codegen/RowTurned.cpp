// Bodies of kernels over rows with inputs whose memory goes across the rows: the sum of each row of
// a transposed matrix, layer_norm over the channels of [N, C, H, W] moved last.
//
// A vector of such a row would be gathered, each lane from a cache line of its own, of which rows
// to come want the rest. So a piece is some rows that lie side by side: tiles of those inputs are
// read as they lie, transposed in registers, and wait in scratch as rows, which are swept one by
// one. The operations on an element, and their order, are those of a row by itself, and so are the
// bits.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/RowSchedule.h"
#include "compiler/fusion/FusionLimits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::compiler {

using namespace mlir;
using Role = FusionDomain::Role;
using Shape = FusionDomain::Shape;

// What fusing leaves to this body, it takes.
static_assert(limits::kMaxLaneStride == kMostStride);
static_assert(limits::kMaxTurnedRow * kLanes * int64_t(sizeof(double)) <= kMostTurnedBytes);

bool RowSchedule::liesAcross(Value value, int32_t along) const {
  const FusionDomain::Layout *layout = domain.layout(value);
  return layout && !layout->empty() && domain.role(value) == Role::Full && layout->back() == along;
}

// The atom of O that lies innermost in some input; -1 where there is none that pays.
int32_t RowSchedule::turnedAtom() const {
  if (domain.shape() != Shape::Rows || kernel.sizes || hasColumns || hasParts ||
      domain.lanes() >= 0)
    return -1;
  for (Value argument : kernel.arguments())
    for (int32_t atom : domain.outer())
      if (liesAcross(argument, atom) && domain.atoms()[atom] > kMostStride &&
          turnedBytes(atom) <= kMostTurnedBytes)
        return atom;
  return -1;
}

// Elements from a row in scratch to the next: rows begin in different sets of a cache.
int64_t RowSchedule::turnedStride() const {
  return paddedRow() + kLanes;
}

// Of kLanes rows of all inputs that are turned.
int64_t RowSchedule::turnedBytes(int32_t along) const {
  int64_t bytes = 0;
  for (Value argument : kernel.arguments())
    if (liesAcross(argument, along))
      bytes += kLanes * turnedStride() * memoryBytes(elementOf(argument));
  return bytes;
}

// Rows of a piece: some vectors of them, so that a page is left for the next one less often.
void RowSchedule::planTurned() {
  turned = turnedAtom();
  int64_t extent = domain.atoms()[turned], others = domain.rows() / extent, vectors = 4;
  while (vectors > 1 && (vectors * turnedBytes(turned) > kPreferredTurnedBytes ||
                         others * llvm::divideCeil(extent, vectors * kLanes) < kLeastPieces))
    vectors /= 2;
  turnedRows = kLanes * kernel.choices.number("turned_vectors", vectors, {1, 2, 4});
  for (Value argument : kernel.arguments())
    if (liesAcross(argument, turned))
      kept[argument] = {kernel.claimScratch(turnedRows * turnedStride() *
                                            memoryBytes(elementOf(argument))),
                        kTurnedLevel};
}

// `count` rows from `first` on, which `atoms` place but for the turned atom, into scratch.
void RowSchedule::turnRows(KernelFunction &f, MutableArrayRef<Index> atoms, const Index &first,
                           int64_t count) {
  IndexSpace &space = f.e.space;
  int64_t n = domain.rowSize(), stride = turnedStride();
  auto tile = [&](BlockArgument argument, const Index &column, int64_t width, const Index &above,
                  int64_t height) {
    Type element = memoryType(elementOf(argument));
    Value memory = f.function.getArgument(argument.getArgNumber()),
          scratch = f.scratch(kept[argument].offset, turnedRows * stride, element);
    Value mask = f.e.tailMask(height);
    auto placeOf = [&](int64_t c, const Index &lanes) {
      placeAtoms(space, domain, atoms, domain.inner(), space.add(column, c));
      atoms[turned] = space.add(space.add(first, above), lanes);
      return f.placeOf(argument, atoms);
    };
    if (width == kLanes) {
      // No machine's own prefetcher follows lines that are a row apart.
      Index here = placeOf(0, Index::of(kLanes - 1)), next = placeOf(1, Index::of(kLanes - 1));
      int64_t apart = next.constant - here.constant;
      for (int64_t c = 0; c < width && here.terms == next.terms; ++c)
        f.e.prefetchLine(memory, space.add(here, (kTurnedAhead * kLanes + c) * apart), false,
                         /*nearest=*/false);
    }
    SmallVector<Value> lines;
    for (int64_t c = 0; c < width; ++c) {
      Index place = placeOf(c, space.lane(height));
      f.e.onRead(argument.getArgNumber(), place);
      lines.push_back(f.e.broadcast(f.e.load(memory, element, place, mask)));
    }
    // Columns that do not exist are padding.
    lines.resize(kLanes, lines.front());
    transposeLanes(f.e, lines);
    for (int64_t row = 0; row < height; ++row)
      f.e.store(scratch, lines[row],
                space.add(space.add(column, space.lane(kLanes)),
                          space.scale(space.add(above, row), stride)),
                nullptr);
  };
  trackOtherReads(f);
  f.blocks(n, kLanes, [&](const Index &column, int64_t width) {
    for (BlockArgument argument : kernel.arguments()) {
      if (!liesAcross(argument, turned))
        continue;
      f.blocks(count, kLanes, [&](const Index &above, int64_t height) {
        tile(argument, column, width, above, height);
      });
    }
  });
}

LogicalResult RowSchedule::emitTurned() {
  KernelFunction f(kernel, kernel.info.symbol);
  IndexSpace &space = f.e.space;
  SmallVector<int32_t> others = outerWithout(domain, turned);
  int64_t extent = domain.atoms()[turned], blocks = llvm::divideCeil(extent, turnedRows);
  kernel.info.count = domain.positions(others) * blocks;
  f.loop(f.begin, f.end, kernel.info.count, [&](Index piece) {
    auto [other, block] = space.divide(piece, blocks);
    SmallVector<Index> atoms(domain.atoms().size());
    placeAtoms(space, domain, atoms, others, other);
    for (int32_t atom : others)
      (void)f.e.scalarIndex(atoms[atom]);
    f.block(block, extent, turnedRows,
            [&](const Index &first, int64_t count) { turnRows(f, atoms, first, count); });
    Index base = space.scale(block, turnedRows);
    Value from = f.e.scalarIndex(base), to = f.e.min(f.e.add(from, turnedRows), extent);
    f.loop(from, to, extent, [&](Index at) {
      atoms[turned] = at;
      SmallVector<Index> position;
      for (int32_t atom : domain.outer())
        position.push_back(atoms[atom]);
      turnedRow = space.scale(space.add(at, space.scale(base, -1)), turnedStride());
      oneRow(f, space.linearize(position, domain.extents(domain.outer())), nullptr);
    });
  });
  return f.finish();
}

} // namespace weft::compiler
