// Bodies of kernels whose rows are pairs, one of each of two matrices: the distances of all points
// x [n, 1, d] from all points y [1, m, d].
//
// A row by itself is folded over its lanes, which takes as long as its few vectors. Here sixteen
// rows, of sixteen points of y, lie side by side, one a lane: y's elements are turned into scratch
// once for many points of x, each of which is the same in all lanes. The operations on an element,
// and the order in which a row's are folded, are those of a row by itself, and so are the bits: an
// accumulator here is one lane of a row's there.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/RowSchedule.h"

#include "llvm/ADT/SetVector.h"

namespace weft::compiler {

using namespace mlir;
using Shape = FusionDomain::Shape;

// Ops that compute what the first sweep folds: the code has each once a column.
int64_t RowSchedule::foldedOps() const {
  llvm::SetVector<Operation *> ops;
  for (Operation *op : sweeps[0].reductions)
    ops.insert(op);
  for (size_t i = 0; i < ops.size(); ++i)
    for (Value operand : ops[i]->getOperands())
      if (Operation *op = operand.getDefiningOp())
        ops.insert(op);
  return ops.size();
}

// The inputs that differ from lane to lane: to be turned. Empty where rows are no such pairs.
SmallVector<BlockArgument> RowSchedule::pairedInputs() const {
  if (!hasLoneSums() || domain.outer().size() < 2 || domain.rowSize() > kSumBlock ||
      domain.rowSize() <= kLanes || sweeps[0].reductions.size() != 1)
    return {};
  ArrayRef<int32_t> outer = domain.outer();
  int32_t along = outer.back(), again = outer.drop_back().back();
  if (domain.atoms()[along] < kLanes || foldedOps() * kSlots * kLanes > kMostTogetherOps)
    return {};
  SmallVector<BlockArgument> turnedInputs;
  int64_t bytes = 0;
  for (BlockArgument argument : kernel.arguments()) {
    const FusionDomain::Layout *layout = domain.layout(argument);
    if (!layout)
      return {};
    bool hasRow = llvm::any_of(domain.inner(),
                               [&](int32_t atom) { return llvm::is_contained(*layout, atom); });
    if (!hasRow || !llvm::is_contained(*layout, along))
      continue;
    if (llvm::is_contained(*layout, again) || elementOf(argument).isInteger(1))
      return {};
    turnedInputs.push_back(argument);
    bytes += pairedBytes(argument);
  }
  return bytes <= kMostGroupBytes ? turnedInputs : SmallVector<BlockArgument>();
}

// Of kLanes rows.
int64_t RowSchedule::pairedBytes(BlockArgument argument) const {
  return domain.rowSize() * kLanes * memoryBytes(elementOf(argument));
}

// Where vectors are narrow, sixteen accumulators do not stay in registers.
bool RowSchedule::paysToPair() const {
  return kernel.vectorBytes >= kWideVectorBytes && pairedPieces(kLeastPaired) >= kLeastPieces &&
         domain.atoms()[domain.outer().drop_back().back()] >= kLeastPaired;
}

// Pieces, of so many rows that meet kLanes others.
int64_t RowSchedule::pairedPieces(int64_t rows) const {
  ArrayRef<int32_t> outer = domain.outer();
  return domain.positions(outer.drop_back(2)) *
         llvm::divideCeil(domain.atoms()[outer.drop_back().back()], rows) *
         llvm::divideCeil(domain.atoms()[outer.back()], kLanes);
}

// The elements of kLanes rows from `first` on, which `atoms` place but for the innermost outer
// atom, into scratch: element c of all of them, then element c + 1.
void RowSchedule::turnPairs(KernelFunction &f, MutableArrayRef<Index> atoms, const Index &first,
                            int64_t count) {
  IndexSpace &space = f.e.space;
  int64_t n = domain.rowSize();
  trackOtherReads(f);
  for (auto [argument, offset] : paired) {
    Type element = elementOf(argument);
    Value memory = f.function.getArgument(argument.getArgNumber()),
          panel = f.scratch(offset, n * kLanes, element);
    f.blocks(n, kLanes, [&, argument = argument](const Index &column, int64_t width) {
      SmallVector<Value> lines;
      placeAtoms(space, domain, atoms, domain.inner(), space.add(column, space.lane(width)));
      for (int64_t row = 0; row < kLanes; ++row) {
        // Lanes without a row have one twice, and are not stored.
        atoms[domain.outer().back()] = space.add(first, std::min(row, count - 1));
        Index place = f.placeOf(argument, atoms);
        f.e.onRead(argument.getArgNumber(), place);
        lines.push_back(f.e.broadcast(f.e.load(memory, element, place, f.e.tailMask(width))));
      }
      transposeLanes(f.e, lines);
      for (int64_t c = 0; c < width; ++c)
        f.e.store(panel, lines[c],
                  space.add(space.scale(space.add(column, c), kLanes), space.lane(kLanes)),
                  nullptr);
    });
  }
}

// The rows in the lanes, which `atoms` place.
void RowSchedule::sweepPair(KernelFunction &f, MutableArrayRef<Index> atoms, Value mask) {
  IndexSpace &space = f.e.space;
  int64_t n = domain.rowSize(), whole = n / kLanes, rest = n % kLanes;
  Operation *op = sweeps[0].reductions[0];
  linalg::GenericOp reduction = kernel.generic(op);
  SmallVector<Index> place;
  for (int32_t atom : domain.outer())
    place.push_back(atoms[atom]);
  Index rows = space.linearize(place, domain.extents(domain.outer()));
  placeAtoms(space, domain, atoms, domain.inner(), Index::of(0));
  storeRows(f, sweeps[0], rows, atoms, mask);
  auto add = [&](const Index &column, Value &lane) {
    placeAtoms(space, domain, atoms, domain.inner(), column);
    for (auto [argument, offset] : paired) {
      Value panel = f.scratch(offset, n * kLanes, elementOf(argument));
      f.e.setKnown(kernel.lowered.lookup(argument),
                   [&f, panel, here = f.position(argument, atoms), element = elementOf(argument),
                    at = space.add(space.scale(column, kLanes), space.lane(kLanes))](
                       ArrayRef<Index> position, Value) {
                     return position == ArrayRef(here) ? f.e.load(panel, element, at, nullptr)
                                                       : Value();
                   });
    }
    lane = f.accumulate(reduction, f.position(op->getOperand(0), atoms), lane, mask);
  };
  // Number s of a row's accumulators has every kSlots-th of its vectors.
  SmallVector<KernelFunction::State> slots;
  for (int64_t s = 0; s < kSlots; ++s) {
    KernelFunction::State lanes(kLanes, f.identity(reduction, true));
    lanes = f.loop((whole + kSlots - 1 - s) / kSlots, lanes,
                   [&](Index number, KernelFunction::State &inside) {
                     Index vector = space.add(space.scale(number, kSlots * kLanes), s * kLanes);
                     for (int64_t lane = 0; lane < kLanes; ++lane)
                       add(space.add(vector, lane), inside[lane]);
                   });
    if (whole % kSlots == s)
      for (int64_t lane = 0; lane < rest; ++lane)
        add(Index::of(whole * kLanes + lane), lanes[lane]);
    slots.push_back(std::move(lanes));
  }
  static_assert(kSlots == 2);
  for (auto [first, second] : llvm::zip(slots[0], slots[1]))
    first = f.combine(reduction, first, second);
  for (auto [argument, offset] : paired)
    f.e.dropKnown(kernel.lowered.lookup(argument));
  placeAtoms(space, domain, atoms, domain.inner(), Index::of(0));
  f.know(op, atoms, [sum = foldTogether(f, reduction, slots[0])] { return sum; });
  storeRows(f, sweeps[1], rows, atoms, mask);
  f.e.dropKnown(kernel.lowered.lookup(op->getResult(0)));
}

LogicalResult RowSchedule::emitPairs() {
  for (BlockArgument argument : pairedInputs())
    paired.emplace_back(argument, kernel.claimScratch(pairedBytes(argument)));
  KernelFunction f(kernel, kernel.info.symbol);
  IndexSpace &space = f.e.space;
  ArrayRef<int32_t> outer = domain.outer(), others = outer.drop_back(2);
  int32_t along = outer.back(), again = outer.drop_back().back();
  int64_t extent = domain.atoms()[along], repeats = domain.atoms()[again],
          blocks = llvm::divideCeil(extent, kLanes), preferred = kPairedRows;
  while (preferred > kLeastPaired && pairedPieces(preferred) < kLeastPieces)
    preferred /= 4;
  int64_t some = std::min(repeats, kernel.choices.number("rows", preferred, {4, 16, 64, 256})),
          groups = llvm::divideCeil(repeats, some);
  kernel.info.count = pairedPieces(some);
  f.loop(f.begin, f.end, kernel.info.count, [&](Index piece) {
    auto [outside, block] = space.divide(piece, blocks);
    auto [other, group] = space.divide(outside, groups);
    SmallVector<Index> atoms(domain.atoms().size());
    placeAtoms(space, domain, atoms, others, other);
    for (int32_t atom : others)
      (void)f.e.scalarIndex(atoms[atom]);
    Index base = space.scale(group, some);
    Value from = f.e.scalarIndex(base), to = f.e.min(f.e.add(from, some), repeats);
    f.block(block, extent, kLanes, [&](const Index &first, int64_t count) {
      turnPairs(f, atoms, first, count);
      f.loop(from, to, repeats, [&](Index at) {
        atoms[again] = at;
        atoms[along] = space.add(first, space.lane(count));
        sweepPair(f, atoms, f.e.tailMask(count));
      });
    });
  });
  return f.finish();
}

} // namespace weft::compiler
