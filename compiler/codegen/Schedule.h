// What the schedules of kernels share: the fusion as linalg, the functions that they emit, loops
// over vectors, and reductions whose order depends on extents alone.
#pragma once

#include "compiler/codegen/Choices.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/codegen/ElementEmitter.h"
#include "compiler/codegen/Kernel.h"
#include "compiler/codegen/Limits.h"
#include "compiler/codegen/Sizes.h"
#include "compiler/fusion/FusionDomain.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace weft::compiler {

// The order of reductions is fixed by these and by the reduced extents, so that neither fusion nor
// threads nor the machine change a sum.
inline constexpr int64_t kSlots =
    2; // accumulators of kLanes lanes: hides the latency of an addition
inline constexpr int64_t kReductionBlock =
    8192; // elements of a run whose lanes are folded together; the sums of such are totals
// Terms that one accumulator adds one by one before it starts anew: what they lose, some 32
// roundings at worst, does not grow with the length of a sum.
inline constexpr int64_t kChain = 32;
// Elements of a run that the accumulators of its lanes take so.
inline constexpr int64_t kSumBlock = kChain * kSlots * kLanes;
// Elements that a scan adds up by themselves: a tile of rows has as many columns.
inline constexpr int64_t kScanBlock = kLanes;

inline int64_t roundUp(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

// A reduction over rows adds up chunks of them. Where a chunk lies follows from its number alone:
// fewer rows are fewer chunks of the same ones, so that a kernel for many counts of rows has the
// sums of each. Chunks are as the numbers of a floating-point format: 2 * kOctaveChunks of
// kLeastChunk rows, then kOctaveChunks of twice as many, and so on. So none has more than a part of
// 1 / kOctaveChunks of all rows, and the partial results of 2^20 rows are 352.
inline constexpr int64_t kOctaveChunks = 32;
inline constexpr int64_t kLeastChunk = kChain; // rows in one of the first chunks

// How often the chunk that begins at `rows`, or ends there, is twice as large as the first ones.
inline int64_t octaveOf(int64_t rows) {
  int64_t octave = 0;
  for (int64_t end = 2 * kOctaveChunks * kLeastChunk; rows > end; end *= 2)
    ++octave;
  return octave;
}
// The rows of the largest of the chunks that so many rows have: at multiples of it chunks begin.
inline int64_t largestChunk(int64_t rows) {
  return std::min(rows, kLeastChunk << octaveOf(rows));
}
inline int64_t chunkCount(int64_t rows) {
  int64_t octave = octaveOf(rows), size = kLeastChunk << octave;
  return octave * kOctaveChunks + (rows + size - 1) / size;
}

// A fusion on its way to a kernel.
struct KernelBuilder {
  ir::FusionOp fusion;
  FusionDomain domain;
  mlir::ModuleOp module;                    // where functions are emitted
  llvm::SmallVector<mlir::Operation *> ops; // of the body
  llvm::SmallVector<mlir::Value> outputs;   // what it yields
  llvm::DenseMap<mlir::Value, mlir::Value>
      lowered; // values of the body -> tensors of the linalg function
  KernelInfo info;
  KernelSizes sizes; // of the fusion before its names were dropped
  Choices choices;
  // Lanes after which positions begin anew that vectors had to compute by a division
  // (ElementEmitter::periods).
  llvm::SmallSetVector<int64_t, 4> periods;
  // Of the vectors that code for the machine is made of. It decides how much is done together, and
  // no bit.
  int64_t vectorBytes = kWideVectorBytes;
  // Of a sized kernel whose pieces are rows or elements, so that the end of the last range says how
  // many there are: ranges begin at multiples of it.
  int64_t rangeUnit = 1;

  mlir::func::FuncOp tensors; // the linalg function; gone once the kernel is scheduled

  // The inputs, as the body names them.
  mlir::Block::BlockArgListType arguments() {
    return fusion.getBody().front().getArguments();
  }
  int64_t numInputs() {
    return fusion.getInputs().size();
  }
  // How many of the launch's ints its functions take, behind the range (kLengthsAttr).
  int64_t numInts() const {
    return sizes.lengthDims.empty() ? 0 : static_cast<int64_t>(info.sizes.size());
  }
  // The same of an argument of the body or a result.
  LengthDim lengthDim(mlir::Value value) {
    if (sizes.lengthDims.empty())
      return LengthDim();
    auto output = llvm::find(outputs, value);
    if (output != outputs.end())
      return lengthDim(numInputs() + (output - outputs.begin()));
    auto argument = mlir::dyn_cast<mlir::BlockArgument>(value);
    return argument ? lengthDim(int64_t(argument.getArgNumber())) : LengthDim();
  }
  // KernelSizes::lengthDims of an operand; none where there are none.
  LengthDim lengthDim(int64_t operand) const {
    return sizes.lengthDims.empty() ? LengthDim() : sizes.lengthDims[operand];
  }
  // Bytes of partials and of scratch that the schedule claims; returns the offset.
  int64_t claimPartials(int64_t bytes);
  int64_t claimScratch(int64_t bytes);
  // Writes what was chosen into `info`; the schedule is complete.
  void noteChoices();
  mlir::linalg::GenericOp generic(mlir::Operation *op) const {
    return lowered.lookup(op->getResult(0)).getDefiningOp<mlir::linalg::GenericOp>();
  }
};

// Prints and verifies what the stages of a kernel make.
mlir::LogicalResult stageDone(mlir::ModuleOp module, const CodegenOptions &options,
                              llvm::StringRef stage);
// The front of code generation for every target: the ops of the fusion, lowered to linalg on
// tensors in `module`, and their domain.
mlir::FailureOr<KernelBuilder> startKernel(ir::FusionOp fusion, llvm::StringRef symbol,
                                           mlir::ModuleOp module, const CodegenOptions &options);
// To the llvm dialect; functions take bare pointers. Ops of `machineDialect` (intrinsics of one
// kind of machine) stay. halfConversions: as of lowerStorageTypes, which comes first.
mlir::LogicalResult convertToLlvm(mlir::ModuleOp module, llvm::StringRef machineDialect = {},
                                  bool halfConversions = true);
// Whether a value is cheaper to keep in a near cache than to compute again.
inline bool isCheaperToKeep(mlir::Operation *op) {
  return mlir::cast<ir::WeftOp>(op).cost() >= kKeptCost;
}

// Fills the kernel's estimates of flops and bytes; returns nanoseconds of one core.
double estimate(KernelBuilder &kernel);

// What is done with the chains of a reduction's steps, kChain of them each.
struct StepChains {
  // Of so many a step each side by side, as a step waits for the one before it.
  int64_t together = 1;
  // Where more than 1, before those: `sums` of so many chains from a step on, those of the first
  // chain before those of the second.
  int64_t many = 1;
  std::function<llvm::SmallVector<mlir::Value>(mlir::Value)> sums = nullptr;
  // Where set: called with a chain's first step before its steps are emitted, of one at a time.
  std::function<void(mlir::Value)> begin = nullptr;
};

// One function being emitted: (buffers..., partials, scratch, begin, end) -> i32.
class KernelFunction {
public:
  KernelFunction(KernelBuilder &kernel, llvm::StringRef name);
  virtual ~KernelFunction() = default;

  KernelBuilder &kernel;
  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
  ElementEmitter e;
  mlir::Value begin, end;

  mlir::Value output(int64_t i) {
    return function.getArgument(kernel.numInputs() + i);
  }
  // `count` elements at `offset` bytes of the partials or the scratch.
  mlir::Value partials(int64_t offset, int64_t count, mlir::Type element);
  mlir::Value scratch(int64_t offset, int64_t count, mlir::Type element);
  // Ends the function; gives partials and scratch their sizes.
  mlir::LogicalResult finish();

  using State = llvm::SmallVector<mlir::Value>;
  // A vector's worth of a run.
  struct Unit {
    Index position;   // in the run
    mlir::Value mask; // null: all lanes
    int64_t lanes;
    int64_t slot; // number of the vector modulo kSlots
  };
  // emit(i, state) for i in [begin, end); returns the final state. `extent` bounds i.
  State loop(const Number &begin, const Number &end, int64_t extent, State state,
             llvm::function_ref<void(Index, State &)> emit);
  State loop(int64_t count, State state, llvm::function_ref<void(Index, State &)> emit);
  // Here and below: the same with nothing that is carried.
  void loop(const Number &begin, const Number &end, int64_t extent,
            llvm::function_ref<void(Index)> emit);
  void loop(int64_t count, llvm::function_ref<void(Index)> emit);
  // emit() where the condition holds, otherwise() where not. No condition: it always does.
  void when(mlir::Value condition, llvm::function_ref<void()> emit,
            llvm::function_ref<void()> otherwise = nullptr);
  // All vectors of a run of n elements from `base` on, `unroll` (1 or even) at a time. Vectors go
  // to emit in groups, so that a group can do all its reads before its writes. `atBlock`: called
  // for the state before each kSumBlock elements.
  State run(int64_t n, int64_t unroll, const Index &base, State state,
            llvm::function_ref<void(llvm::ArrayRef<Unit>, State &)> emit,
            llvm::function_ref<void(State &)> atBlock = nullptr);
  void run(int64_t n, int64_t unroll, const Index &base,
           llvm::function_ref<void(llvm::ArrayRef<Unit>)> emit);
  // Vector by vector.
  void each(int64_t n, int64_t unroll, const Index &base,
            llvm::function_ref<void(const Unit &)> emit);
  // `steps` after `at`, but at most the last of `count`: where a loop asks for what it will read.
  Index ahead(const Index &at, int64_t steps, int64_t count);
  // Code for one block of `extent` elements cut into blocks of `size`: emit(its first element, how
  // many it has). The last may have fewer.
  void block(const Index &number, int64_t extent, int64_t size,
             llvm::function_ref<void(const Index &, int64_t)> emit);

  // emit(the first element of each, how many it has, state) for all blocks that `extent` elements
  // are cut into: a loop over the whole ones, and the rest.
  State blocks(int64_t extent, int64_t size, State state,
               llvm::function_ref<void(const Index &, int64_t, State &)> emit);
  void blocks(int64_t extent, int64_t size, llvm::function_ref<void(const Index &, int64_t)> emit);

  // The same as `run` for n elements, known when the kernel runs, of at most `largest`: every
  // vector is masked by what is left.
  State runUpTo(mlir::Value n, int64_t largest, int64_t unroll, const Index &base, State state,
                llvm::function_ref<void(llvm::ArrayRef<Unit>, State &)> emit);

  // a and b folded by the reduction's body; scalars, or vectors of any width.
  mlir::Value combine(mlir::linalg::GenericOp reduction, mlir::Value a, mlir::Value b);
  // The reduction of several vectors, where any order gives the same bits.
  mlir::Value combineAll(mlir::linalg::GenericOp reduction, llvm::ArrayRef<mlir::Value> values);
  mlir::Value identity(mlir::linalg::GenericOp reduction, bool vector);
  // One more element a lane.
  virtual mlir::Value accumulate(mlir::linalg::GenericOp reduction, llvm::ArrayRef<Index> position,
                                 mlir::Value accumulator, mlir::Value mask);
  // The same for the operand of each of the ops, where the atoms are: the first one's accumulator
  // is number `first` of the state, the next one's is `apart` further on.
  void accumulateAll(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<Index> atoms,
                     State &state, int64_t first, int64_t apart, mlir::Value mask);
  // The lanes of a vector as one scalar, in a fixed tree.
  mlir::Value foldLanes(mlir::linalg::GenericOp reduction, mlir::Value lanes);

  // Totals add up parts of a reduction, `copies` of each, however many there are. Those of float32
  // are float64. Those of float64 have a second value beside them, which adds up what each addition
  // loses (addKeeping; T. Dekker's form, which is exact where the total is no smaller than the
  // part, and else off by a rounding of the part); settle adds it in the end. So parts x, y, ...
  // give their sum within some 3 roundings of |x| + |y| + ..., in any number, and the first parts'
  // total does not depend on how many follow.
  mlir::Value addKeeping(mlir::Value total, mlir::Value part, mlir::Value &lost);
  mlir::Value settle(mlir::Value total, mlir::Value lost);
  State noTotals(llvm::ArrayRef<mlir::linalg::GenericOp> reductions, int64_t copies, bool vector);
  void addToTotals(State &totals, llvm::ArrayRef<mlir::linalg::GenericOp> reductions,
                   int64_t copies, llvm::ArrayRef<mlir::Value> parts);
  State fromTotals(llvm::ArrayRef<mlir::Value> totals,
                   llvm::ArrayRef<mlir::linalg::GenericOp> reductions, int64_t copies);
  // Several reductions over a run of n elements in one sweep: emit gets accumulators (kSlots a
  // reduction) in its state.
  llvm::SmallVector<mlir::Value>
  reduceRun(int64_t n, int64_t unroll, const Index &base,
            llvm::ArrayRef<mlir::linalg::GenericOp> reductions,
            llvm::function_ref<void(llvm::ArrayRef<Unit>, State &)> emit);
  // The same for n of at most `largest` elements: the same bits as for n known.
  llvm::SmallVector<mlir::Value>
  reduceRunUpTo(mlir::Value n, int64_t largest, const Index &base,
                llvm::ArrayRef<mlir::linalg::GenericOp> reductions,
                llvm::function_ref<void(llvm::ArrayRef<Unit>, State &)> emit);
  // What emit makes of accumulators over steps [begin, end), at most `most` of them, each below
  // `extent`: kChain steps at a time, whose results are totals. `vector`: many at once.
  State reduceSteps(mlir::Value begin, mlir::Value end, int64_t extent, int64_t most,
                    llvm::ArrayRef<mlir::linalg::GenericOp> reductions, int64_t copies, bool vector,
                    llvm::function_ref<void(Index, State &)> emit, const StepChains &chains = {});
  State reduceSteps(int64_t count, llvm::ArrayRef<mlir::linalg::GenericOp> reductions,
                    int64_t copies, bool vector, llvm::function_ref<void(Index, State &)> emit,
                    const StepChains &chains = {});
  // The rows [first, last) of the chunk of this number, where there are `rows` of them, of at most
  // `largest`; and how many chunks `rows` of them have, or those before a row at which one begins.
  std::pair<mlir::Value, mlir::Value> chunkAt(const Index &chunk, mlir::Value rows,
                                              int64_t largest);
  mlir::Value chunksOf(mlir::Value rows, int64_t largest);
  // The same in chunks: a reduction over rows.
  State reduceRows(int64_t count, llvm::ArrayRef<mlir::linalg::GenericOp> reductions,
                   int64_t copies, bool vector, llvm::function_ref<void(Index, State &)> emit,
                   const StepChains &chains = {});

  // What `op` gives is `sum`: at any position; or where `atoms` are, and it is read nowhere else.
  void know(mlir::Operation *op, mlir::Value sum);
  void know(mlir::Operation *op, llvm::ArrayRef<Index> atoms, std::function<mlir::Value()> sum);

  // a + b of floats or integers.
  mlir::Value sum(mlir::Value a, mlir::Value b);

  // The position in `value`'s shape of the element that `atoms` (one Index an atom) choose.
  llvm::SmallVector<Index> position(mlir::Value value, llvm::ArrayRef<Index> atoms);
  // The same in `value`'s elements as they lie, row-major.
  Index placeOf(mlir::Value value, llvm::ArrayRef<Index> atoms);

protected:
  // For functions of other signatures, which derived classes make: fusion arguments first, outputs
  // after them.
  explicit KernelFunction(KernelBuilder &kernel)
      : kernel(kernel), builder(kernel.module.getContext()), e(builder, kernel.fusion.getLoc()) {}
  mlir::Value view(mlir::Value bytes, int64_t offset, int64_t count, mlir::Type element);

private:
  // The largest, or smallest, of several vectors of floats, as IEEE 754 has it.
  mlir::Value extremeOf(bool largest, llvm::ArrayRef<mlir::Value> values);
  State identities(llvm::ArrayRef<mlir::linalg::GenericOp> reductions, int64_t copies, bool vector);
  // Accumulators of a run, kSlots for each reduction and a vector of what earlier blocks gave; what
  // starts a block; the results. `inBlocks`: as of reductions whose order shows.
  void nextBlock(State &state, llvm::ArrayRef<mlir::linalg::GenericOp> reductions);
  State foldSlots(State state, llvm::ArrayRef<mlir::linalg::GenericOp> reductions, bool inBlocks);
};

// w[r][c] = v[c][r], of as many vectors as they have lanes, a power of two.
void transposeLanes(ElementEmitter &e, llvm::MutableArrayRef<mlir::Value> v);

// Sets the positions of some atoms of the domain, given their common linear position.
void placeAtoms(IndexSpace &space, const FusionDomain &domain, llvm::MutableArrayRef<Index> atoms,
                llvm::ArrayRef<int32_t> some, const Index &linear);
// The atoms of the outer dims but this one.
llvm::SmallVector<int32_t> outerWithout(const FusionDomain &domain, int32_t atom);
// Positions of all atoms, given those of a row and inside it.
llvm::SmallVector<Index> atomPositions(KernelFunction &f, const Index &row, const Index &inner);
// Computes the dims of a row here, where all that is emitted next sees them.
void emitRowDims(KernelFunction &f, const Index &row);

// The schedules, by the shape of the domain.
mlir::LogicalResult scheduleRows(KernelBuilder &kernel); // Elementwise, Rows, Total
mlir::LogicalResult scheduleNest(KernelBuilder &kernel);
// The atom along which lanes of a nest lie that are not folded into a sum; -1 where they are.
int32_t keptInnermost(KernelBuilder &kernel);
// The atom along which inputs of an elementwise kernel lie whose elements are not neighbours in the
// row, for which it goes by tiles; -1 where there is none.
int32_t transposedAtom(KernelBuilder &kernel);
mlir::LogicalResult scheduleAlone(KernelBuilder &kernel); // Alone, Empty
mlir::LogicalResult scheduleScan(KernelBuilder &kernel);  // of Alone

} // namespace weft::compiler
