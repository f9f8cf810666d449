// Limits and heuristics of the schedules of GPU kernels, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::backends::cuda {

//===-- What is assumed of the GPU ------------------------------------------------------------===//

// Threads that go step by step together.
inline constexpr int64_t kWarp = 32;
// Bytes of the widest access of a thread; what the device's allocator and the planner align every
// buffer to, at least.
inline constexpr int64_t kAccessBytes = 16;
// Multiprocessors of the largest GPU, about.
inline constexpr int64_t kMultiprocessors = 128;
// Bytes of memory that the threads of a block share, of the 48 KiB that every GPU gives unasked.
inline constexpr int64_t kSharedBytes = 32 << 10;
// Registers of 4 bytes that the threads of a block share.
inline constexpr int64_t kBlockRegisters = 64 << 10;

//===-- Threads of a block --------------------------------------------------------------------===//

// Where a thread walks a loop of its own: small kernels have more blocks so.
inline constexpr int64_t kLoopThreads = 4 * kWarp;
// Where a thread has little to do, or a block's threads share what they do: an element each, one
// partial result, a tile.
inline constexpr int64_t kSharingThreads = 8 * kWarp;
// Of a group that has a row. More would leave each fewer than 128 registers.
inline constexpr int64_t kMostRowThreads = kBlockRegisters / 128;
// Groups of one warp in a block: a multiprocessor holds fewer blocks than warps.
inline constexpr int64_t kWarpsPerBlock = 4;

//===-- Blocks and pieces ---------------------------------------------------------------------===//

// Threads that a scatter should have: a thousand for each multiprocessor. Each takes a range of the
// targets, and reads all indices.
inline constexpr int64_t kScatterThreads = kMultiprocessors * 1024;
// Indices that a thread of those reads before it looks at the first: one after the other each would
// take the latency of the memory, 0.13 us on an H200. Of 8 the registers are too few, in float64.
inline constexpr int64_t kIndicesTogether = 4;
// Blocks of a reduction over the rows alone: they fill the largest GPU some times over. A chunk of
// fewer rows is not worth its partial result.
inline constexpr int64_t kMostColumnBlocks = 4 * kMultiprocessors;
inline constexpr int64_t kLeastChunkRows = 16;
// Chunks of rows of a reduction over the rows beside others.
inline constexpr int64_t kMostRowChunks = 2 * kMultiprocessors;
// Blocks of a reduction of everything: they fill the largest GPU some times over as well. Each
// leaves a partial result, and one block of the second launch adds up all of them.
inline constexpr int64_t kMostTotalBlocks = 8 * kMultiprocessors;
// Vectors a thread of those, at least: what threads fold together, and partial results, are little
// beside them.
inline constexpr int64_t kLeastTotalRounds = 4;

// Partial results that a warp adds up, at least, where the warps of a block share those of a
// column: fewer are not worth a barrier, and up to so many rows a sum goes row by row in whatever
// kernel. One after the other each takes 0.3 us on an H200.
inline constexpr int64_t kLeastPartsOfWarp = kLeastChunkRows;
// Of more, 8-bit and 16-bit elements would not fit the registers of a thread, in vectors of 8.
inline constexpr int64_t kMostFinishThreads = 8 * kWarp;

//===-- Vectors and registers -----------------------------------------------------------------===//

// Elements of a vector, at most, so that a thread's values fit its registers: those of any kernel,
// and those of a product, each of which has a sum.
inline constexpr int64_t kMostWidth = 8, kMostProductWidth = 4;
// Of sines and cosines, which look up their angle's digits of pi in a table: beyond that the table
// goes to memory.
inline constexpr int64_t kMostAngleWidth = 4;
// Vectors of a row that one thread keeps, and elements of it: 16 registers a value of 4 bytes, in
// which those of 1 and 2 bytes are computed as well.
inline constexpr int64_t kMostUnits = 4, kMostRowElements = 16;
// Elements that the columns of a partial result are a multiple of, so that the next one begins
// where the widest access may, of bytes as well.
inline constexpr int64_t kPartialUnit = kAccessBytes;

//===-- Tiles ---------------------------------------------------------------------------------===//

// The sides of a tile: a warp reads and writes a line of it.
inline constexpr int64_t kTile = kWarp;
// Sides of which a tile would be mostly empty: there, strided reads hit lines that other threads of
// the block have fetched.
inline constexpr int64_t kLeastSide = kTile / 2;
// Operands that are staged, at most: 8448 bytes of shared memory each where elements take 8.
inline constexpr size_t kMostStaged = 4;

//===-- Libraries -----------------------------------------------------------------------------===//

// Multiplications below which a launch of our own kernel takes no longer than the library's.
inline constexpr int64_t kMinMultiplications = 16 * 16 * 16;
// Products of a batch, at most: cuBLASLt counts them in an int32.
inline constexpr int64_t kMostProducts = (int64_t{1} << 31) - 1;
// Elements of a convolution's tensor, at most: of cuDNN's engines, most count them in an int32.
inline constexpr int64_t kMostConvolutionElements = (int64_t{1} << 31) - 1;

} // namespace weft::backends::cuda
