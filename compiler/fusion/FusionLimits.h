// The numbers by which the fuse phase decides, each with its reason. FusionDomain.h holds the one
// for ops per kernel.
#pragma once

#include <cstdint>

namespace weft::compiler::limits {

// Operands and results of one kernel. Each is a pointer that lives in a register or on the stack of
// the inner loop; beyond some tens the address arithmetic shows, and hardware prefetchers follow
// about as many streams as this.
inline constexpr int64_t kMaxBuffers = 48;

// Inputs of one weft.concat; wider ones become a tree. Below kMaxBuffers, so that something may
// fuse with a concat of so many.
inline constexpr int64_t kMaxConcatInputs = 32;

// Ops that are computed again in each kernel that reads them instead of once in memory (broadcasts,
// iotas, widening casts, comparisons of indices): at most so many in a row. A mask of positions
// takes 5, with room for a shift and a cast.
inline constexpr int64_t kMaxFreeOps = 8;

// Results that are one value everywhere and have at least so many bytes are written by a kernel.
// Smaller ones are constants of the program: a kernel takes some ten milliseconds to compile, and
// these bytes in a program and its file cost less.
inline constexpr int64_t kMinFilledBytes = 256 << 10;

// A value with more readers than this stays in memory whatever reads it: to look at all of them for
// each candidate would not be linear. kMaxReads counts the free ops between as well: each of the 9
// slices of a pooling's 3 x 3 windows has some.
inline constexpr int64_t kMaxReaders = 64;
inline constexpr int64_t kMaxReads = 128;

// Edges that one search for a path between two groups may follow before the fusion is refused: what
// keeps the phase linear. Of the training steps that were looked at, the largest search took some
// hundreds.
inline constexpr int64_t kMaxSearch = 4096;

// Ops that a kernel may compute again for each element that a broadcast, slice or gather inside of
// it reads, if they are cheap.
inline constexpr int64_t kMaxRecomputedOps = 4;

// The same for what is read at other positions of a row whose reductions have normalised it. To
// keep the row instead means to write all of it and to read it: a norm takes five and its
// activation one, each of them on 9 / 4 as many elements in a pooling of 3 x 3 by twos.
inline constexpr int64_t kMaxWindowOps = 6;

// What depends on no element of a row (a channel's factor, in the kernel of an inference's
// batch_norm) is computed once a row: whatever it costs is little beside a row of so many elements.
inline constexpr int64_t kMinHoistedRow = 256;

// Ops of a value that a later kernel computes again from what is in memory anyway, instead of
// reading it: so many cheap ones take less time than the write and the read of the value. Values
// below kMinRematerializedBytes are not worth the look.
inline constexpr size_t kMaxRematerializedOps = 4;
inline constexpr int64_t kMinRematerializedBytes = 4 << 10;
// An operand of such a value may come into memory for its sake if it has at most this part of its
// bytes (a statistic of each row).
inline constexpr int64_t kSmallOperandPart = 8;

// Kernels that share an input but nothing else are joined if it has at least so many bytes: below
// it the read is in a near cache anyway.
inline constexpr int64_t kMinSharedBytes = 16 << 10;

// How often the phase goes over all candidates: a fusion can make one legal that was refused before
// it. What more rounds find is nothing.
inline constexpr int kMaxRounds = 3;

} // namespace weft::compiler::limits
