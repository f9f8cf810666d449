// The numbers by which the fuse phase decides, each with its reason. FusionDomain.h holds the one
// for ops per kernel.
#pragma once

#include <cstdint>

namespace weft::compiler::limits {

// Operands and results of one kernel. Each is a pointer that lives in a register or on the stack of
// the inner loop; beyond some tens the address arithmetic shows, and hardware prefetchers follow
// about as many streams as this.
inline constexpr int64_t kMaxBuffers = 48;

// Inputs of one weft.concat; wider ones are cut into a tree. Less than kMaxBuffers, so that other
// ops may fuse with a concat of this many.
inline constexpr int64_t kMaxConcatInputs = 32;

// The longest chain of free ops: those that each kernel which reads them computes again, instead of
// reading memory (broadcasts, iotas, widening casts, comparisons of indices). A mask of positions
// takes 5; eight leaves room for a shift and a cast.
inline constexpr int64_t kMaxFreeOps = 8;

// A result that is one value everywhere is written by a kernel if it has at least this many bytes.
// A smaller one is a constant of the program: a kernel takes some ten milliseconds to compile,
// which is more than such bytes in a program and its file cost.
inline constexpr int64_t kMinFilledBytes = 256 << 10;

// A write of at most kMaxWrittenBytes, and of one part in kWrittenPart, of a value that may be
// overwritten, of at least kMinOverwritten bytes, is a kernel of its own that writes the part
// alone. One thread does, within some microseconds; below, the other bytes take less than a launch.
// The places in the value, of 8 bytes each, are at most kMaxWrittenBytes as well.
inline constexpr double kMaxWrittenBytes = 64 << 10;
inline constexpr double kWrittenPart = 4;
inline constexpr double kMinOverwritten = 64 << 10;
// Writes into one value are kernels of their own as long as their parts, each of which counts as
// kLaunchBytes at least, are fewer bytes than it has: a launch takes as long as to write so many.
// So they are, whatever they are written to, where they are kManyWrites: a kernel of several writes
// compares each of its elements with each place, is a kernel for these places alone, and takes some
// ten milliseconds to compile.
inline constexpr double kLaunchBytes = 4 << 10;
inline constexpr int64_t kManyWrites = 8;
// A check of indices is a kernel of its own, for the sake of what is written in place before it, if
// its indices are at most one part in kCheckedPart of what that kernel would copy otherwise.
inline constexpr double kCheckedPart = 4;

// A value with more readers than kMaxReaders stays in memory, whatever reads it: to look at all of
// them for each candidate would not be linear. kMaxReads counts free ops between a value and its
// readers as well; each of the 9 slices of a 3 x 3 pooling has some.
inline constexpr int64_t kMaxReaders = 64;
inline constexpr int64_t kMaxReads = 128;

// Edges that the search for a path between two groups may follow before the fusion is refused. This
// bound keeps the phase linear. In the training steps that were tried, the largest search took some
// hundreds.
inline constexpr int64_t kMaxSearch = 4096;

// The cost of an op (its record says it) from which computing it again is no longer free beside a
// read: a division or a root, and all functions.
inline constexpr int64_t kExpensiveCost = 4;

// Cheap ops that a kernel may compute again for each element that a broadcast, slice or gather
// inside of it reads.
inline constexpr int64_t kMaxRecomputedOps = 4;

// The same for values along a normalised row that are read at other positions of it. Keeping the
// row instead means to write it and to read it again. A norm takes five ops and its activation one;
// a 3 x 3 pooling with stride 2 computes each for 9 / 4 as many elements.
inline constexpr int64_t kMaxWindowOps = 6;

// A value that depends on no element of a row (a channel's factor, in an inference's batch_norm) is
// computed once a row. In rows of at least this many elements its cost does not show, whatever it
// is.
inline constexpr int64_t kMinHoistedRow = 256;

// A kernel computes a value again from what is in memory, instead of reading it, if that takes at
// most this many cheap ops: they take less time than the value's write and read. Values below
// kMinRematerializedBytes are not looked at.
inline constexpr size_t kMaxRematerializedOps = 4;
inline constexpr int64_t kMinRematerializedBytes = 4 << 10;
// A kernel with so many times its elements computes no such value again: each element would be
// computed as often (the places that all channels of an image are sampled at), and those in memory
// stay in a near cache.
inline constexpr int64_t kRepeatedElements = 2;
// An operand of such a value may be written to memory for its sake if it has at most this part of
// the value's bytes (a statistic of each row).
inline constexpr int64_t kSmallOperandPart = 8;

// Random samples are made kDrawnTogether at a time, four words by each call of Philox. Rows of a
// slice that begin or end in the middle of them take four times as long a sample. Then a kernel
// draws what a slice reads where that is at most one in kLeastDrawn of all samples: it takes twice
// the time of drawing all at worst, and no memory for the others.
inline constexpr int64_t kDrawnTogether = 64, kLeastDrawn = 2;

// A transpose of at least so many bytes is a kernel of its own before reductions that would gather
// what it reads: a line of a cache is then read once for each element of it. Smaller ones stay in
// the L1 cache, from which gathering takes no longer than a launch. A slice that all rows read is
// one as well, where its elements lie in so many bytes of lines.
inline constexpr int64_t kMinTurnedBytes = 64 << 10;
// Bytes of a line of a cache, as codegen has it.
inline constexpr int64_t kLineBytes = 64;
// The longest rows that codegen turns in scratch of its own (kMostTurnedBytes there, of float64),
// and elements between lanes up to which it shuffles whole vectors.
inline constexpr int64_t kMaxTurnedRow = 32'000, kMaxLaneStride = 4;

// Two kernels that share an input and nothing else are joined if the input has at least this many
// bytes. A smaller one is read from a near cache anyway.
inline constexpr int64_t kMinSharedBytes = 16 << 10;

// A loop over rows, y[i] = tanh(matmul(x[i], w)), makes equal reductions that read one operand. Of
// at least kLeastRepeats of them kRepeatsTogether share a kernel for the operand's sake; the next
// ones are launches of the same code. 32 rows times a matrix of 64 x 64 compile in 70 ms instead of
// 260. Gates, heads and other parts of a network that read one value are fewer.
inline constexpr int kLeastRepeats = 8;
inline constexpr int kRepeatsTogether = 4;

// Rows up to which a product is a kernel of ours that converts its matrix in registers
// (NarrowMatrix.h). (int8 of 4096 x 4096 stored as [columns, depth], one thread of Zen 5, ms, by
// rows: 4 1.1, 8 1.6, 16 3.0, 32 5.3; written as float32 and oneDNN 5.1, 5.6, 6.9, 9.5; a float32
// matrix 1.8, 2.3, 3.4, 5.6.)
inline constexpr int64_t kNarrowRows = 32;
// How many times fewer bytes there are to read at least: 8 bits and their scales. Of numbers of 16
// bits a float32 copy is kept instead, which oneDNN reads as fast from 4 rows on.
inline constexpr int64_t kNarrowGain = 3;
// The ops that convert it, a zero point and a scale among them, beside constants.
inline constexpr int64_t kMaxNarrowOps = 8;

// How often the phase goes over all candidates: one fusion can make another legal that was refused
// before. Further rounds found nothing.
inline constexpr int kMaxRounds = 3;

} // namespace weft::compiler::limits
