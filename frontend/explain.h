// What was compiled and run, why, and what it cost. WEFT_EXPLAIN=1 prints one line an evaluation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/tensor.h"

namespace weft {

// Why the recorder stopped deferring and submitted a slice.
enum class CutReason : uint8_t {
  kValue, // somebody read a value: item, to_vector, data, printing, saving
  kEval,  // eval() was called
  kStep,  // an optimizer's step ended
  kInit,  // parameters or state were made
  kOps,   // too many ops were recorded
  kBytes, // recorded values would hold too many bytes
  kEager, // WEFT_EAGER=1
  kJit,   // a jit function was called
  kWrite, // mutable_data() wants the memory
  kMask,  // a boolean mask, nonzero() or bincount() decides a shape
};
// "value", "eval", "step", ..., as explain prints it.
const char *name(CutReason reason);

// Where an evaluation found its program: in memory, on disk, or nowhere.
enum class CacheOutcome : uint8_t { kMemoryHit, kDiskHit, kCompiled };

// A part of what a program holds at its peak.
struct MemoryHolder {
  int64_t bytes = 0;
  std::string what;   // what writes it: a kernel, a library call, or scratch of one
  std::string line;   // "train.cpp:12"; empty where it is of none
  std::string module; // "blocks.0.up"; empty where it is of none, or of a model as a whole
};
// As text: sums by module, sums by line, the largest parts; the first `rows` of each (0: all).
std::string memory_table(const std::vector<MemoryHolder> &holders, int64_t rows = 8);
// What is live over a run, `live_bytes` of an Evaluation or a MemoryEstimate, as two lines of text:
// the bytes at first, at most and at the end, and bars (UTF-8), a column for each part of the run.
// Empty for fewer than two numbers.
std::string memory_chart(const std::vector<int64_t> &live_bytes, int64_t columns = 64);

// One evaluation.
struct Evaluation {
  uint64_t number = 0; // counts from 1
  CutReason reason = CutReason::kValue;
  std::string file; // the line that asked
  int line = 0;
  int64_t ops = 0; // recorded ops of the slice
  int64_t inputs = 0, outputs = 0, donated = 0;
  // Values that tensors hold and that are not stored all the same: what was recorded at the line
  // that asks is taken for temporaries, which go with its statement. One that is used after all is
  // computed again, and from then on all of that line's are stored.
  int64_t temporaries = 0;
  CacheOutcome outcome = CacheOutcome::kCompiled;
  std::string difference; // of a miss: what differs from the most similar known program
  std::string disk_cache; // "off: REASON" where there is none
  // Of a symbolic program, which serves many sizes and slice starts. When it was compiled: what it
  // leaves open, "s0 in [2, 64] (dim 0 of input 1)". On a hit: the values, "s0=24".
  std::string symbolic;
  std::string not_symbolic; // of a static one after a miss that differs in ints only: why it was
                            // not made symbolic
  std::string backend;
  std::string device; // "cpu:0": what ran it, and what its results are on
  // Of what no program holds: "transfer from cpu:0 to cpu:1", "weft.all_reduce (train.cpp:12) over
  // world"; else empty.
  std::string exchange;
  int64_t exchanged_bytes = 0;     // of it: its operand's
  std::vector<uint64_t> exchanges; // numbers of those whose results it takes
  int64_t kernels = 0, library_calls = 0;
  int64_t planned_peak_bytes = 0, lower_bound_bytes = 0;
  int64_t recomputations = 0; // instructions that run again instead of keeping values
  int64_t stored_bytes = 0;   // of values that wait in files (Config::memory_folder)
  double record_ms = 0;       // slicing, key and look-up
  double compile_ms = 0;
  double run_ms = -1;  // -1 while it is still running
  double began_ms = 0; // when the run began, on a clock of the process
  int64_t output_bytes = 0;
  // Packed weights, and work on weights alone that was done ahead of the run: how many such results
  // it used (known when it has ended), their bytes, and how many of them it made itself; the others
  // were found. Waiting: weights that are packed after a few more runs with them; refused: those
  // that there was no memory to pack.
  int64_t prepared_results = 0, prepared_bytes = 0, prepared_computed = 0, prepared_waiting = 0,
          prepared_refused = 0;
  int64_t prepared_values = 0;    // of the program: values that it takes from work done ahead
  std::string failure;            // empty, or why it failed
  std::vector<std::string> notes; // refusals to fuse, claims, ... with their reasons
  // What planned_peak_bytes is made of, the largest first: values of the arena at the moment at
  // which they take most, outputs, scratch. Given by explain() and recent_evaluations(); empty for
  // a program of many sizes that ran at a smaller one, and where a backend plans no memory.
  std::vector<MemoryHolder> peak_holders;
  // The bytes of values that are live in the arena and in outputs, at most planned_peak_bytes: one
  // number an instruction of the plan, and of many the largest of each of 256 parts. Given as
  // peak_holders are; memory_chart() draws it.
  std::vector<int64_t> live_bytes;

  std::string to_string() const; // one line
};

// The evaluation that computes (or computed) this tensor; makes it happen where it did not. A
// tensor that was made from values gives number 0.
Evaluation explain(const Tensor &tensor, Location location = Location::current());
// The last evaluations, oldest first (at most 256 are kept).
std::vector<Evaluation> recent_evaluations();

// Counts of this process, since its start where nothing else is said.
struct Statistics {
  uint64_t evaluations = 0; // each found its program in one of the four ways below, or failed
  uint64_t compiles = 0;
  uint64_t memory_hits = 0;
  uint64_t symbolic_hits = 0; // those of memory_hits that found a symbolic program
  uint64_t disk_hits = 0;
  uint64_t replays =
      0; // a jitted function or a Program ran again: it holds its program, nothing is looked up
  uint64_t corrupt_entries = 0; // disk cache entries that were damaged, recompiled and replaced
  uint64_t cuts[static_cast<int>(CutReason::kMask) + 1] = {}; // by CutReason; kMask is the last
  uint64_t recorded_ops = 0;                                  // since the start
  uint64_t live_ops = 0;                                      // in the record now
  // Calls of jit functions that were plain calls: history is wanted of their results, or an
  // argument is what the function writes.
  uint64_t direct_calls = 0;
  uint64_t context_rebuilds = 0;
  uint64_t cache_entries = 0, cache_bytes = 0;
  // Results kept because the weights that they were made of did not change; made since the start;
  // dropped because a weight was written or died; dropped for want of memory.
  uint64_t prepared_results = 0, prepared_bytes = 0, prepared_made = 0, prepared_written = 0,
           prepared_reclaimed = 0;
};
// The counts now.
Statistics statistics();

// A cache of the process (docs/caches.md says what each is for).
struct CacheState {
  std::string name;
  // Now, and at most; -1 where it is not counted, or has no bound of that kind.
  int64_t entries = -1, bytes = -1;
  int64_t max_entries = -1, max_bytes = -1;
  std::string freed; // what frees it

  std::string to_string() const; // one line
};
// All of them, by name: what holds memory between calls beside tensors and compiled functions.
std::vector<CacheState> caches();

} // namespace weft
