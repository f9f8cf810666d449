// Limits and heuristics of code generation, with their reasons, by what decides. What is no choice
// stands where it is used: the order of reductions (Schedule.h), lanes (ElementEmitter.h), and what
// else is legal beside what is preferred here (where a schedule asks its choices).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::compiler {

//===-- What is assumed of the machine --------------------------------------------------------===//

// Bytes of a vector, on machines with wide ones (AVX-512) and on others (AVX2).
inline constexpr int64_t kWideVectorBytes = 64, kNarrowVectorBytes = 32;

// A number for each of the two.
struct ByVector {
  int64_t wide, narrow;
  constexpr int64_t of(int64_t vectorBytes) const {
    return vectorBytes >= kWideVectorBytes ? wide : narrow;
  }
  constexpr ByVector operator*(int64_t by) const {
    return {wide * by, narrow * by};
  }
  constexpr ByVector operator/(int64_t by) const {
    return {wide / by, narrow / by};
  }
};

// Registers that hold such a vector.
inline constexpr ByVector kVectorRegisters{32, 16};
// Bytes of the narrowest elements for which there are masked loads of a vector.
inline constexpr int64_t kLeastMaskedBytes = 4;

// Bytes of a cache line, at which every part of scratch and of partial results begins; where lines
// are longer, some are asked for twice.
inline constexpr int64_t kLineBytes = 64;
// Bytes and sets of the L1 cache, bytes of the L2 cache: no more than most machines have.
inline constexpr int64_t kL1Bytes = 32 << 10, kL1Sets = 64;
inline constexpr int64_t kL2Bytes = 512 << 10;
// Ops of a loop beyond which it leaves the cache of decoded ops. Ops of a fusion, on vectors: each
// becomes some instructions.
inline constexpr int64_t kDecodedOps = 256;

// What a core does in a nanosecond. Rough: it only has to tell tiny kernels from large ones.
inline constexpr double kBytesPerNanosecond = 10, kOperationsPerNanosecond = 8;
// How many times as many operations a product does: it keeps its sums in registers, and adds by
// vectors of fused multiply-adds.
inline constexpr double kMatmulPace = 5;

//===-- Threads and pieces --------------------------------------------------------------------===//

// Work that is worth another thread: a fork and join costs under 1 us, and caches must follow.
inline constexpr double kGrainNanoseconds = 15'000;
// The grain of a kernel with more work than that: shares differ by one grain at most, and a kernel
// of two and a half of the above would give one of two threads four fifths of it.
inline constexpr double kFineGrainNanoseconds = 1'500;

// Pieces that threads are to have, for which columns are cut, or fewer rows go together, where
// there would not be as many.
inline constexpr int64_t kLeastPieces = 8;

// Elements of a piece where the domain is one run; a multiple of every unrolling.
inline constexpr int64_t kPieceElements = 1024;
// Elements of a piece of an elementwise kernel whose rows are at least twice as long: many vectors
// for each time that a row's dims are computed.
inline constexpr int64_t kRowBlock = 4096;
// Columns of a piece of a reduction over rows, at most: their sums stay in a near cache, while each
// row is read for some pages. (512 x 16384, 8192 x 8192 on one thread of Zen 4, GB/s: 2,048 columns
// 27 and 20, 4,096 30 and 21, 8,192 40 and 24, the bytes alone 45 and 30; 64 columns at a time down
// all rows, 15 and 11.) Less where there would be fewer than kLeastPieces, but pages.
inline constexpr int64_t kColumnBlock = 8192, kLeastColumnBlock = 1024;
// Columns of a piece of a scan down rows, at most and at least: a row of them is some pages or lines
// of a stream, and three values of each wait in scratch.
inline constexpr int64_t kScanColumns = 2048, kLeastScanColumns = 128;
// Columns of a piece of a scatter, at most and at least. Pieces hold different columns, and each
// reads all indices: a few vectors for each index that is found. Where the base is copied, longer
// runs of it are.
inline constexpr int64_t kScatterColumns = 2048, kLeastScatterColumns = 64;

//===-- Loads ---------------------------------------------------------------------------------===//

// Elements between lanes up to which whole vectors are loaded and shuffled: with 4, four loads and
// three shuffles, where a gather takes two dozen steps of a machine that has one.
inline constexpr int64_t kMostStride = 4;
// A part of a concat, or what is written into another value, is a branch for vectors that meet it
// where it has fewer of the positions than kMostPart, or where they reach kFarElements beyond it: a
// masked load of nothing far outside of a buffer takes a hundred cycles, as its page is looked up.
inline constexpr double kMostPart = 15.0 / 16;
inline constexpr int64_t kFarElements = 1024;
// Elements from one that is written (a diagonal's) to the next from which on a branch leads around
// those that a vector does not meet, and is foreseen; of closer ones a lane is selected in each
// vector. (Diagonals on Zen 4, selected: of rows of 512 numbers as fast, of 1,024 a tenth slower.)
inline constexpr int64_t kFarWrites = 1024;
// Lanes of a period below which vectors run across its end all the same: they would be a quarter
// full.
inline constexpr int64_t kLeastPeriod = 5;
// And how full the vectors of a period are at least where elements are expensive: lanes without one
// cost more than the division that they save.
inline constexpr double kLeastFilled = 0.75;

// How far ahead loops ask for what they will read, in bytes of an input: some 1000 cycles, several
// times the latency of an L3 cache. It is some rows or runs, each of which may lie on a page of its
// own, where no machine's own prefetcher follows.
inline constexpr int64_t kAheadBytes = 4096;
// The same in steps, where each reads lines that lie apart from those of the step before and does
// work of its own on them: steps of a product's depth, of a scatter's source, tiles of a scan.
inline constexpr int64_t kMatmulAhead = 8, kScatterAhead = 8, kScanAhead = 8;
// Bytes of all inputs and outputs of a row up to which a row is asked for ahead; with two rows of
// that many, what is asked for would leave the L1 cache before it is used.
inline constexpr int64_t kMostAheadRowBytes = kL1Bytes / 2;
// Lines that are a multiple of so many bytes apart share one or two sets of the L1 cache: those of
// a tile that is to come would drive out each other there, and are asked for into the L2 cache.
inline constexpr int64_t kCrowdedStride = kL1Sets * kLineBytes / 2;

//===-- Registers and tiles -------------------------------------------------------------------===//

// The tile of a product: rows, which share the vectors of one row of the right side; vectors where
// it has all its rows; sums, beside which there must be registers for those vectors and for an
// element of the left side. With fewer rows it has more vectors.
inline constexpr ByVector kTileRows = kVectorRegisters / 4;
inline constexpr int64_t kTileVectors = 3;
inline constexpr ByVector kTileSums = kTileRows * kTileVectors;
// Rows of a tile that converts its right side as it lies, across the depth: fewer, so that it has
// more vectors of each row. (int8 of 4096 x 4096 on one thread of Zen 5, 8 rows: 2.7 ms by 8 rows,
// 2.0 by 4.)
inline constexpr ByVector kNarrowTileRows = kTileRows / 2;
// Rows of a product whose sums stay in registers beside a square, which takes half of them. Of more
// rows, a copy of the matrix is earned back. (8192 x 8192 on one thread of Zen 4, GB/s: 1 row 16, 4
// rows 16, 8 rows 10.)
inline constexpr ByVector kFewRows = kVectorRegisters / 4;

// Vectors of a group where a sweep does maxima or minima only, and those from which on a group is
// joined by comparisons, with a branch for NaN: IEEE's maximum takes six instructions in a chain,
// some 15 cycles.
inline constexpr ByVector kExactVectors = kVectorRegisters / 4;
inline constexpr int64_t kLeastMaxima = 4;
// Vectors of columns whose sums over some rows stay in registers, and the rows: few enough streams
// for a machine's prefetchers, enough that sums are seldom loaded and stored.
inline constexpr int64_t kColumnVectors = 4, kAddedRows = 8;
// Rows of a scan that are walked side by side: as kAddedRows, and as many streams are written.
inline constexpr int64_t kScanRows = 8;
// Vectors of a row up to which all their sums stay in registers.
inline constexpr int64_t kFewVectors = 4;
// Sums that a step of such rows adds to, of several chains where a row has fewer: an addition takes
// some four cycles, and the next one of its chain waits for it.
inline constexpr int64_t kSideBySide = 4;
// Columns up to which many rows are summed up by tiles that are turned, which takes four shuffles a
// vector: a quarter of a vector, or half of one where an element takes more than that. (1.6 million
// elements on one thread of Zen 4, ms, turned and not: 2 columns 0.19 and 0.50, 3 columns 0.12 and
// 0.25, 8 columns 0.13 and 0.14.)
inline constexpr int64_t kNarrowRow = 4, kNarrowDearRow = 8;
// Vectors of columns whose parts are added up together: as many loads from a far cache on their way
// at once, and all in registers: totals of float32 are of 64 bits, and vectors of 32 bytes are two
// of 16 registers a vector of lanes.
inline constexpr ByVector kFinishVectors = kVectorRegisters / 8;
// Vectors of kept elements of a nest whose sums stay in registers; one piece of the kernel.
inline constexpr int64_t kNestVectors = 4;
// Vectors of rows that lie side by side, which are swept together, and bytes of one of their values
// beyond which there are fewer: with what waits in scratch they stay in an L2 cache.
inline constexpr int64_t kLaneVectors = 4, kPreferredLaneBytes = kL2Bytes / 8;
// Accumulators of rows together: with them, a vector that is shared and one of its own, all are in
// registers. A vector of lanes takes one register where vectors are wide, and two elsewhere.
inline constexpr ByVector kTogetherSums = kVectorRegisters / 4;

// Tiles side by side and one above the other that are transposed together: with a single tile, each
// line of a page is read or written alone, and no hardware prefetcher sees a stream.
inline constexpr int64_t kBlockTiles = 4;
// With at most so many columns (an image's channels), a tile's rows are packed into whole vectors,
// one a column. Stored one by one, rows of so few lanes would be masked.
inline constexpr int64_t kPackedColumns = 4;

// Inputs of a concat up to which tiles of it are turned: each line of a tile may meet all of them.
inline constexpr int64_t kTurnedInputs = 4;

// Elements of a scatter, where each has its own target: those that one step of the loop takes, so
// that the loop's own work is little beside theirs, and those whose targets are found before the
// first of them is added, a few vectors that wait in the L1 cache.
inline constexpr int64_t kScatterUnroll = 4, kScatterBatch = 256;

//===-- Caches --------------------------------------------------------------------------------===//

// Bytes of a product's right side that are copied at a time: beside them, the L2 cache has room for
// what goes by.
inline constexpr int64_t kBlockBytes = kL2Bytes * 3 / 4;
// Bytes of the right side, a part of the depth, that are read where they lie: they stay in the L2
// cache, and their pages and lines are few. Beyond it, a copy takes so many rows to be earned back.
inline constexpr int64_t kPlainBytes = kL2Bytes / 2;
inline constexpr int64_t kPlainRows = 16;
// Rows of scratch beyond this do not stay in the L2 cache; then computing twice is no worse.
inline constexpr int64_t kMostScratchRow = kL2Bytes / 2;
// Bytes that rows share from which on they go together: half of an L1 cache. Below it they stay
// there, and a row after the other is one stream through memory, which a machine's prefetchers
// follow best. (Zen 4, one thread, GB/s, rows of 1,024 / 4,096 / 8,192 floats: one row 39 / 24 /
// 18, four rows 25 / 23 / 25, the bytes alone 41 / 32 / 30.)
inline constexpr int64_t kSharedBytes = kL1Bytes / 2;
// Rows of one matrix that meet rows of another one, for which the latter are turned once; and from
// how many on that pays.
inline constexpr int64_t kPairedRows = 64, kLeastPaired = 4;
// Bytes of the inputs and outputs of a group of short rows: with as much that is asked for ahead
// they are in the L1 cache in every sweep. Beyond the second number no schedule may have groups, or
// pairs: their scratch would not stay in an L2 cache.
inline constexpr int64_t kPreferredGroupBytes = kL1Bytes / 2, kMostGroupBytes = kL2Bytes / 4;

// Rows that are turned into scratch: as many as leave an L2 cache most of its room, up to four
// vectors of them. Beyond the second number not even one vector is: each lane is gathered, for
// which a cache line is read sixteen times, but no scratch grows without an end.
inline constexpr int64_t kPreferredTurnedBytes = kL2Bytes / 4, kMostTurnedBytes = 8 * kL2Bytes;
// Tiles before which their lines are asked for.
inline constexpr int64_t kTurnedAhead = 2;

// LLVM's machines, with their passes, that wait for the next kernel: as many as threads compile
// at a time on a large computer; each takes some 100 kB.
inline constexpr size_t kMostIdleEmitters = 64;

//===-- Size of the code ----------------------------------------------------------------------===//

// Ops of the loop that adds some rows to sums of columns.
inline constexpr int64_t kAddedOps = kDecodedOps;
// Ops of the code for a vector of all rows together, of which the loop has two.
inline constexpr int64_t kTogetherOps = kDecodedOps / 2;
// And beyond that no schedule may go: compile time would grow without an end.
inline constexpr int64_t kMostTogetherOps = 512;
// Ops of the code of a group of short rows: each op of the fusion once a column. Beyond it compile
// time would grow as well.
inline constexpr int64_t kGroupOps = 512;
// Ops of a fusion up to which the rows of a tile are emitted one by one, each from the register
// that it is in; others loop over a scratch tile, or their code would grow sixteenfold.
inline constexpr size_t kUnrolledOps = 4;
// Reduced positions of a nest up to which they are no loop (a window of 3 x 3), and ops of the code
// that this makes of them.
inline constexpr int64_t kWindow = 9, kWindowOps = 96;

//===-- What pays -----------------------------------------------------------------------------===//

// Operations of a value from which on it is cheaper to keep in a near cache than to compute again:
// those of a draw of random numbers.
inline constexpr int64_t kKeptCost = 12;
// Groups of short rows below which there is nothing to gain.
inline constexpr int64_t kLeastGroups = 4;
// Rows of the last outer dim from which on groups end where it does. A row that is left over takes
// as long as one of a group that divides, and of fewer most would be left over.
inline constexpr int64_t kLeastLine = 64;
// Reductions of a row from which on folding together pays where rows are longer than a vector. One
// is hidden behind the next row's reads (measured: a sum of rows of 256, an rms_norm of 128, 5 and
// 20 percent slower together; layer_norm of 128 a third faster), but for an extreme, each step of
// which is several instructions (a maximum of rows of 32, 64 and 256: 1.8, 1.6 and 1.1 times as
// fast together).
inline constexpr size_t kLeastReductions = 2;

//===-- Cuts of sums --------------------------------------------------------------------------===//

// What stands here is part of what a sum's value is: another number gives other bits. So none
// follows from what is assumed of the machine.

// Products of a part of the depth, a multiple of every vector. A tile's rows of the left side, 8 of
// float64, take half of an L1 cache.
inline constexpr int64_t kMostDepth = 256;
// Parts of a product that are added up one by one. Of more, what is lost is added up beside them.
inline constexpr int64_t kPlainParts = 64;

// Queries and keys of a block of attention, at most. A block of scores takes 16 KiB in float32.
inline constexpr int64_t kQueryBlock = 64, kKeyBlock = 64;
// Keys of a block are a multiple of this: of the rows of any machine's tile.
inline constexpr int64_t kKeyUnit = 8;
static_assert(kKeyUnit % kTileRows.wide == 0 && kKeyUnit % kTileRows.narrow == 0);
// Matrices of the leading dims below which the keys of attention's derivative are cut into parts,
// so that there are about as many pieces.
inline constexpr int64_t kLeastMatrices = 8;

} // namespace weft::compiler
