// Limits and heuristics of planning, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::compiler {

// Packings other than the one in program order visit each pair of values that live at the same
// time. Past this many pairs (about a second of work) only the one in program order is tried: such
// programs hold tens of thousands of values at once.
inline constexpr int64_t kMaxPackingConflicts = 20'000'000;

// The local search that follows ends after this many rounds, or pairs visited in all of them (some
// 0.2 s): what it gains it gains early.
inline constexpr int64_t kPackingRefinementRounds = 1'000;
inline constexpr int64_t kPackingRefinementPairs = 2'000'000;

// So many fusions that are equal but for where they read are worth one kernel that reads parts of
// several runs, or some parts of one operand: each kernel takes some milliseconds to compile.
inline constexpr int kLeastAlikeFusions = 4;
// Of one operand at most so many parts become operands: a kernel has some tens at most.
inline constexpr size_t kMostPartsOfOperand = 8;

// Outputs lend their buffers to values of at least kLeastLoan bytes where all values take an arena
// of at least kLeastLendingArena: a smaller one is in the caches, where its bytes are used again
// and again, and lent ones would lie apart. Past kMaxLoanVisits looks at lenders and what lies in
// them (some 10 ms) values stay in the arena.
inline constexpr int64_t kLeastLoan = 64 << 10;
inline constexpr int64_t kLeastLendingArena = 2 << 20;
inline constexpr int64_t kMaxLoanVisits = 2'000'000;

// Recomputation. A step's cost is the bytes that it moves, or kBytesPerFlop for each of its
// floating-point operations where that is more: the cores multiply and add some four times while
// memory moves a byte. Values of less than kLeastRecomputed bytes, or less than a part of
// kLeastRecomputedPart of the budget, are kept: they are many, and little. A value is computed
// again through at most kMaxRecomputeChain steps. No more values are given up when recomputation
// takes kMaxRecomputedShare of what the program takes without, or after kMaxRecomputeVisits looks
// at values and steps (some 0.3 s a walk). A program that misses the limit all the same is taken
// where it saves kLeastSaving of its bytes. Of several such plans the cheapest is taken that is
// within kSameBytes of the smallest.
//
// Without a limit, programs whose arena values take kLeastFreeRecompute in all give up what costs
// kFreeRecomputedShare of them: less than a step's time varies by. Smaller ones are in the caches
// or fast to plan, as they shall stay. The budget is found in kFreeRecomputeWalks (to 2 % of the
// peak). Then up to kFurtherShare is taken where that saves kFurtherSaving of the peak that is left
// and the inputs: MNasNet's step of 16 images takes 542 MB instead of 723 so, for 2 % of its time
// (what is computed again is in the caches where it is read), while AlexNet's would be 10 % slower
// for 2 % less.
inline constexpr int64_t kLeastRecomputed = 64 << 10;
inline constexpr int64_t kLeastRecomputedPart = 1024;
inline constexpr double kLeastSaving = 0.02;
inline constexpr double kSameBytes = 0.001;
inline constexpr double kBytesPerFlop = 0.25;
inline constexpr size_t kMaxRecomputeChain = 32;
inline constexpr double kMaxRecomputedShare = 1;
inline constexpr int64_t kLeastFreeRecompute = 64 << 20;
inline constexpr double kFreeRecomputedShare = 0.02;
inline constexpr double kFurtherShare = 0.05;
inline constexpr double kFurtherSaving = 0.12;
inline constexpr int kFreeRecomputeWalks = 6;
inline constexpr int64_t kMaxFreeRecomputeVisits = 3'000'000; // some 30 ms a walk
inline constexpr int64_t kMaxRecomputeVisits = 30'000'000;
// What is live in a walk over the steps is a little less than what a plan takes: walks with smaller
// budgets follow, each by this part of the limit smaller than the one before.
inline constexpr int kRecomputeWalks = 6;
inline constexpr double kRecomputeStep = 0.03;
// Of a limit that is out of reach the least budget that is not is found by so many bisections (to
// 0.4 % of what the program takes without).
inline constexpr int kLeastBudgetWalks = 8;

// Files, in bytes of memory traffic: a byte that is written or read goes through pages of the
// system's cache, some 2 and 4 GB/s, and on to a disk that is as fast, while a core moves 16 GB/s;
// a call of the system takes some 4 us.
inline constexpr double kStoreCost = 8;
inline constexpr double kLoadCost = 4;
inline constexpr double kFileCallCost = 64 << 10;

// Of what holds memory at the peak, so many parts are told apart by line, module and kernel; what
// is left is one more. A report shows fewer; sums by module need most of them.
inline constexpr size_t kPeakParts = 256;

// What is live over a run is kept at so many points: more than a line of text or a small plot
// shows, and 2 KiB of a program, whose instructions may be 100,000.
inline constexpr size_t kLivePoints = 256;

// A gradient of kLeastInPieces is computed in pieces of at most kPieceBytes, or of the fewest rows
// that a library cuts, and at least a kLeastShareOfPiece-th of that: a call and a launch each, which
// take some us, while a core writes that many bytes in some hundred.
inline constexpr int64_t kLeastInPieces = 16 << 20;
inline constexpr int64_t kPieceBytes = 4 << 20;
inline constexpr int64_t kLeastShareOfPiece = 16;

// Two checks of indices count as one where the same few ops compute both; of longer chains each
// check counts for itself.
inline constexpr size_t kMaxIndexValues = 64;

// A launch that takes less than this stays on one thread: a fork and join of the team takes 0.5 us
// when its threads are awake, and ten times that when they sleep.
inline constexpr double kSerialMicroseconds = 8;
// What one thread does in a microsecond, for that estimate: bytes of memory traffic at the speed of
// L2, floating-point operations of vectorized code with some transcendental functions among them.
// Low on purpose: a wrong "parallel" costs more than a wrong "serial".
inline constexpr double kBytesPerMicrosecond = 20'000;
inline constexpr double kFlopsPerMicrosecond = 10'000;

} // namespace weft::compiler
