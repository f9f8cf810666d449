// Bodies of elementwise kernels with transposed inputs or outputs, or with parts of inputs that lie
// so: tiles that are transposed in registers.
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/RowSchedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace weft::compiler {

using namespace mlir;
using Shape = FusionDomain::Shape;

// Rows and columns of a tile.
static constexpr int64_t kTile = kLanes;

// The elements of kTile rows of v.size() columns, row after row: each v is a column.
static SmallVector<Value> packColumns(ElementEmitter &e, ArrayRef<Value> v) {
  int64_t columns = static_cast<int64_t>(v.size());
  SmallVector<Value> packed;
  for (int64_t k = 0; k < columns; ++k) {
    Value lanes = v[0];
    for (int64_t column = 1; column < columns; ++column) {
      SmallVector<int64_t> from;
      for (int64_t lane = 0; lane < kTile; ++lane) {
        int64_t row = (k * kTile + lane) / columns, here = (k * kTile + lane) % columns;
        from.push_back(here == column ? kTile + row : column > 1 ? lane : here == 0 ? row : 0);
      }
      lanes = e.make<vector::ShuffleOp>(lanes, v[column], from);
    }
    packed.push_back(lanes);
  }
  return packed;
}

// What reads its operands at other positions than its own, by little code: an image that is turned
// and reversed, or padded. Its operands have no layout, so that its result is what a tile turns.
static bool isMovedPart(Operation *op) {
  auto concat = dyn_cast<ir::ConcatOp>(op);
  return isa<ir::SliceOp, ir::InsertSliceOp>(op) ||
         (concat && static_cast<int64_t>(concat.getInputs().size()) <= kTurnedInputs);
}

// The values of the body that a tile may have to turn before they are read in the row's order.
static SmallVector<Value> turnable(KernelBuilder &kernel) {
  auto arguments = kernel.arguments();
  SmallVector<Value> values(arguments.begin(), arguments.end());
  for (Operation *op : kernel.ops)
    if (isMovedPart(op) && !llvm::is_contained(kernel.outputs, op->getResult(0)))
      values.push_back(op->getResult(0));
  return values;
}

int32_t transposedAtom(KernelBuilder &kernel) {
  const FusionDomain &domain = kernel.domain;
  if (domain.shape() != Shape::Elementwise || domain.outer().empty())
    return -1;
  for (Value value : llvm::concat<Value>(turnable(kernel), kernel.outputs)) {
    const FusionDomain::Layout *layout = domain.layout(value);
    if (layout && domain.role(value) == FusionDomain::Role::Full &&
        layout->back() != domain.inner().back())
      // A tile's rows are not counted at run time.
      return kernel.sizes && layout->back() == domain.outer().front() ? -1 : layout->back();
  }
  return -1;
}

// Elementwise with transposed inputs or outputs: tiles of kTile x kTile, in which those inputs are
// read along `along`, where they are contiguous, are transposed in registers and wait in a scratch
// tile; what goes to those outputs waits likewise, and is written along `along`. In the other
// outputs' order, each vector would touch kLanes cache lines, often of one cache set, and be
// gathered, or scattered, lane by lane.
LogicalResult RowSchedule::emitTiles(int32_t along) {
  int64_t rows = domain.atoms()[along], columns = domain.rowSize();
  SmallVector<int32_t> others = outerWithout(domain, along);
  int64_t batches = domain.positions(others);
  struct Input {
    Value value; // an argument, or a part of one
    int64_t offset;
  };
  SmallVector<Input> inputs;
  for (Value value : turnable(kernel)) {
    const FusionDomain::Layout *layout = domain.layout(value);
    if (layout && domain.role(value) == Role::Full && layout->back() == along)
      inputs.push_back({value, 0});
  }
  struct Output {
    int64_t number, offset;
    Type element; // in memory
  };
  SmallVector<Output> transposedOutputs;
  const Sweep &sweep = sweeps[0];
  for (int64_t i : sweep.stores)
    if (domain.layout(kernel.outputs[i])->back() == along)
      transposedOutputs.push_back({i, 0, memoryType(elementOf(kernel.outputs[i]))});
  KernelFunction f(kernel, kernel.info.symbol);
  IndexSpace &space = f.e.space;
  int64_t wholeRows = rows / kTile, wholeColumns = columns / kTile,
          blockTiles = kernel.choices.number("tiles", kBlockTiles, {1, 2, 4, 8}),
          blocks = llvm::divideCeil(rows, kTile * blockTiles);
  kernel.info.count = batches * blocks;

  bool unrolled =
      kernel.ops.size() <= kUnrolledOps && llvm::all_of(inputs, [&](const Input &input) {
        return memoryType(elementOf(input.value)) == elementOf(input.value);
      });
  // Where rows of the result lie one after the other.
  bool packs = unrolled && transposedOutputs.empty() && columns <= kPackedColumns &&
               domain.outer().back() == along;

  if (!unrolled)
    for (Input &input : inputs)
      input.offset = kernel.claimScratch(kTile * kTile * memoryBytes(elementOf(input.value)));
  for (Output &output : transposedOutputs)
    output.offset = kernel.claimScratch(kTile * kTile * memoryBytes(output.element));

  // Asks for the lines of the tile to the right of this one, which comes kBlockTiles tiles later:
  // no machine's own prefetcher follows lines that are a row apart. The last element of each line
  // of the tile, since tiles need not begin where cache lines do.
  auto prefetchNext = [&](ArrayRef<Index> base, const Index &firstRow, const Index &firstColumn) {
    auto lines = [&](Value tensor, Value memory, bool isTransposed, bool write) {
      int32_t across = isTransposed ? domain.inner().back() : along;
      SmallVector<Index> atoms(base);
      atoms[along] = firstRow, atoms[domain.inner().back()] = firstColumn;
      Index first = f.placeOf(tensor, atoms);
      atoms[across] = space.add(atoms[across], 1);
      Index second = f.placeOf(tensor, atoms);
      if (first.terms != second.terms)
        return;
      int64_t stride = second.constant - first.constant,
              next = (isTransposed ? kTile * stride : kTile) + kTile - 1;
      bool crowded = stride * memoryBytes(elementOf(tensor)) % kCrowdedStride == 0;
      for (int64_t line = 0; line < kTile; ++line)
        f.e.prefetchLine(memory, space.add(first, next + line * stride), write && !crowded,
                         !crowded);
    };
    for (auto [i, argument] : llvm::enumerate(kernel.arguments())) {
      const FusionDomain::Layout *layout = domain.layout(argument);
      if (layout && domain.role(argument) == Role::Full &&
          (layout->back() == along || layout->back() == domain.inner().back()))
        lines(argument, f.function.getArgument(i), layout->back() == along, false);
    }
    for (int64_t i : sweep.stores)
      lines(kernel.outputs[i], f.output(i), domain.layout(kernel.outputs[i])->back() == along,
            true);
  };

  auto tile = [&](ArrayRef<Index> base, const Index &firstRow, int64_t height,
                  const Index &firstColumn, int64_t width) {
    SmallVector<Index> atoms(base);
    SmallVector<SmallVector<Value>> transposed;
    if (height == kTile && width == kTile)
      prefetchNext(base, firstRow, firstColumn);
    // Read out of step with the outputs' stores.
    trackOtherReads(f);
    for (const Input &input : inputs) {
      Type element = memoryType(elementOf(input.value));
      Value mask = f.e.tailMask(height);
      atoms[along] = space.add(firstRow, space.lane(height));
      // As they lie in memory: a bool is a byte.
      auto line = [&](const Index &column) -> Value {
        atoms[domain.inner().back()] = space.add(firstColumn, column);
        if (auto argument = dyn_cast<BlockArgument>(input.value)) {
          Index place = f.placeOf(argument, atoms);
          f.e.onRead(argument.getArgNumber(), place);
          return f.e.broadcast(
              f.e.load(f.function.getArgument(argument.getArgNumber()), element, place, mask));
        }
        Value lanes = f.e.broadcast(f.e.at(kernel.lowered.lookup(input.value),
                                           f.position(input.value, atoms), mask));
        return getElementTypeOrSelf(lanes.getType()) == element
                   ? lanes
                   : f.e.make<arith::ExtUIOp>(f.e.vectorOf(element), lanes);
      };
      // Of a part of an input each line is some code.
      bool loops = !unrolled && input.value.getDefiningOp();
      Value scratch = unrolled ? Value() : f.scratch(input.offset, kTile * kTile, element);
      auto lineInScratch = [&](const Index &number) {
        return space.add(space.lane(kTile), space.scale(number, kTile));
      };
      if (loops)
        f.loop(width, [&](Index column) {
          f.e.store(scratch, line(column), lineInScratch(column), nullptr);
        });
      SmallVector<Value> lines;
      for (int64_t column = 0; column < width; ++column) {
        Index number = Index::of(column);
        lines.push_back(loops ? f.e.load(scratch, element, lineInScratch(number), nullptr)
                              : line(number));
      }
      if (packs) {
        transposed.push_back(packColumns(f.e, lines));
        continue;
      }
      // Lanes of columns that do not exist hold what is never read.
      lines.resize(kTile, lines.front());
      transposeLanes(f.e, lines);
      for (int64_t row = 0; row < height && !unrolled; ++row)
        f.e.store(scratch, lines[row], lineInScratch(Index::of(row)), nullptr);
      transposed.push_back(std::move(lines));
    }
    // `lanes` elements, in the lanes of line `line` of each of `transposed`, else from scratch.
    auto emitLine = [&](const Index &row, const Index &column, int64_t lanes, const Index &line) {
      atoms[along] = row;
      atoms[domain.inner().back()] = column;
      Value mask = f.e.tailMask(lanes);
      trackReads(f, 0, atoms);
      for (auto [number, input] : llvm::enumerate(inputs)) {
        Value scratch =
            unrolled ? Value() : f.scratch(input.offset, kTile * kTile, elementOf(input.value));
        Value value = unrolled ? transposed[number][line.constant] : Value();
        auto here = f.position(input.value, atoms);
        Index at = space.add(space.scale(line, kTile), space.lane(lanes));
        f.e.setKnown(kernel.lowered.lookup(input.value),
                     [&f, scratch, value, here, at,
                      element = elementOf(input.value)](ArrayRef<Index> position, Value lanes) {
                       if (position != ArrayRef(here))
                         return Value();
                       return value ? value : f.e.load(scratch, element, at, lanes);
                     });
      }
      struct Element {
        Value value, memory;
        Index place;
      };
      SmallVector<Element> values;
      for (int64_t i : sweep.stores) {
        Value output = kernel.outputs[i];
        Value value = f.e.at(kernel.lowered.lookup(output), f.position(output, atoms), mask);
        auto *waits = llvm::find_if(transposedOutputs,
                                    [&](const Output &each) { return each.number == i; });
        if (waits != transposedOutputs.end())
          values.push_back({f.e.broadcast(value),
                            f.scratch(waits->offset, kTile * kTile, waits->element),
                            space.add(space.scale(line, kTile), space.lane(lanes))});
        else
          values.push_back({value, f.output(i), f.placeOf(output, atoms)});
      }
      for (const Element &element : values)
        f.e.store(element.memory, element.value, element.place, mask);
    };
    // What waits for a transposed output. Lanes of rows and columns that do not exist hold what is
    // never written.
    auto writeTransposed = [&](const Output &output) {
      Value memory = f.scratch(output.offset, kTile * kTile, output.element);
      SmallVector<Value> lines;
      for (int64_t row = 0; row < kTile; ++row)
        lines.push_back(row < height ? f.e.load(memory, output.element,
                                                space.add(space.lane(kTile), row * kTile), nullptr)
                                     : lines.front());
      transposeLanes(f.e, lines);
      Value tensor = kernel.outputs[output.number], mask = f.e.tailMask(height);
      atoms[along] = space.add(firstRow, space.lane(height));
      for (int64_t column = 0; column < width; ++column) {
        atoms[domain.inner().back()] = space.add(firstColumn, column);
        f.e.store(f.output(output.number), lines[column], f.placeOf(tensor, atoms), mask);
      }
      // Written out of step with what is read.
      for (size_t i = 0; i < kernel.fusion.getBody().front().getNumArguments(); ++i)
        inStep(output.number, i) = false;
    };
    auto emitRow = [&](const Index &row) {
      emitLine(space.add(firstRow, row), space.add(firstColumn, space.lane(width)), width, row);
    };
    auto emitPacked = [&](int64_t number) {
      int64_t first = number * kTile, lanes = std::min(height * columns - first, kTile);
      Index at = space.add(space.scale(firstRow, columns), space.add(space.lane(lanes), first));
      auto [row, column] = space.divide(at, columns);
      emitLine(row, column, lanes, Index::of(number));
    };
    if (packs)
      for (int64_t number = 0; number * kTile < height * columns; ++number)
        emitPacked(number);
    else if (unrolled)
      for (int64_t row = 0; row < height; ++row)
        emitRow(Index::of(row));
    else
      f.loop(height, [&](Index row) { emitRow(row); });
    for (const Input &input : inputs)
      f.e.dropKnown(kernel.lowered.lookup(input.value));
    for (const Output &output : transposedOutputs)
      writeTransposed(output);
  };
  f.loop(f.begin, f.end, std::max<int64_t>(kernel.info.count, 1),
         [&](Index piece) {
           auto [batch, block] = space.divide(piece, blocks);
           SmallVector<Index> base(domain.atoms().size());
           placeAtoms(space, domain, base, others, batch);
           // Tiles [n * blockTiles, (n + 1) * blockTiles) of `whole`, one loop variable for all of
           // them, so that positions stay linear.
           auto tilesOf = [&](const Index &number, int64_t whole,
                              function_ref<void(const Index &)> emit) {
             if (whole == 0)
               return;
             Value first = f.e.scalarIndex(space.scale(number, blockTiles));
             Value end = f.e.minSigned(f.e.add(first, blockTiles), whole);
             f.loop(first, end, whole, [&](Index number) { emit(space.scale(number, kTile)); });
           };
           if (wholeRows)
             f.loop(llvm::divideCeil(wholeColumns, blockTiles),
                    [&](Index columnBlock) {
                      tilesOf(columnBlock, wholeColumns, [&](const Index &column) {
                        tilesOf(block, wholeRows,
                                [&](const Index &row) { tile(base, row, kTile, column, kTile); });
                      });
                    });
           if (columns % kTile)
             tilesOf(block, wholeRows, [&](const Index &row) {
               tile(base, row, kTile, Index::of(wholeColumns * kTile), columns % kTile);
             });
           if (rows % kTile == 0)
             return;
           // Whoever has the last block does the rows that are left.
           Value isLast = f.e.compare(arith::CmpIPredicate::eq, block, blocks - 1);
           f.when(isLast, [&] {
             Index row = Index::of(wholeRows * kTile);
             f.loop(wholeColumns, [&](Index column) {
               tile(base, row, rows % kTile, space.scale(column, kTile), kTile);
             });
             if (columns % kTile)
               tile(base, row, rows % kTile, Index::of(wholeColumns * kTile), columns % kTile);
           });
         });
  return f.finish();
}

} // namespace weft::compiler
