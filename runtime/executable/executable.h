// What can be run: a compiled program, or a program that a backend interprets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/executable/program.h"
#include "runtime/executable/size_table.h"

namespace weft::runtime {

class ArenaPool;
class Buffer;
class Memory;

// What a run takes from its surroundings. Made once per device, or per thread for serial programs.
struct RunContext {
  std::shared_ptr<Memory> memory; // for arenas, scratch and whatever else the run takes
  int threads = 1;                // for parallel launches; 1 wherever parallel_for must not be used
  bool pack_at_once =
      false; // the stable inputs will serve many runs: pack them before they have shown it
  ArenaPool *arenas = nullptr; // shared by runs that never overlap; null: each run takes its own
                               // arena from `memory`
};

// What a run had of earlier ones' work on stable inputs and constants.
struct PreparedUse {
  int64_t results = 0;  // packed operands, and 1 where a program of its own made the rest
  int64_t bytes = 0;    // that they hold
  int64_t computed = 0; // of the results, how many this run made; the others it found
  int64_t waiting = 0;  // operands that are packed once they have served a few runs more
  int64_t refused = 0;  // operands that stayed as they are for want of memory
};

// Memory that one run has taken besides its inputs and outputs; gives it back when destroyed.
class RunResources {
public:
  virtual ~RunResources() = default;
  // What acquire() took: intermediate values and scratch, on the device that runs the program.
  int64_t bytes = 0;
  PreparedUse prepared; // complete when the run has ended
};

class Executable {
public:
  virtual ~Executable() = default;

  virtual std::span<const InputSpec> input_specs() const = 0;
  virtual std::span<const OutputSpec> output_specs() const = 0;
  // What acquire() takes, without outputs and per-thread scratch.
  virtual int64_t arena_bytes() const = 0;
  // What arena and outputs hold, as far as it is known.
  virtual const MemoryReport &memory_report() const {
    static const MemoryReport unknown;
    return unknown;
  }
  // Whether run() uses one thread and no library, so that it may be called from any thread, several
  // at once. The others are run by their device's executor only, one at a time.
  virtual bool is_serial() const = 0;
  // The same of a run whose context has one thread, and a library's state of its own.
  virtual bool is_serial_with_one_thread() const {
    return is_serial();
  }
  // An estimate of the bytes that one run moves: small serial programs run on the caller's thread.
  // 0 if not known.
  virtual int64_t work_bytes() const {
    return 0;
  }

  // Takes everything that a run needs, and creates library state on first use. ResourceExhausted
  // names the requester and the sizes. After a failure nothing has been written: every input is
  // what it was, and a retry is legal.
  virtual absl::StatusOr<std::unique_ptr<RunResources>> acquire(const RunContext &context) = 0;

  // Finds or reserves what is prepared of the stable inputs' contents (inputs that are not stable
  // may be null); it is computed when the run starts, as inputs may still be in flight. Between
  // acquire() and run(), with the same context; called again for every run when resources serve
  // several. ResourceExhausted as above.
  virtual absl::Status prepare(const RunContext &, RunResources &, std::span<Buffer *const>) {
    return absl::OkStatus();
  }

  // Runs to the end. `resources` comes from acquire() with an equal context. Inputs and outputs
  // have the bytes of their specs; an output with donated_input, alias_input or alias_output is
  // bound to that very buffer. InvalidArgument before the first instruction when they do not fit.
  // Any other failure leaves outputs and donated inputs undefined: the message holds the location
  // recorded for the instruction that failed.
  virtual absl::Status run(const RunContext &context, RunResources &resources,
                           std::span<Buffer *const> inputs, std::span<Buffer *const> outputs) = 0;

  // Of an executable that was compiled for many sizes (specs are those of the largest): the one for
  // these, which shares its code. Unimplemented for all others.
  virtual absl::StatusOr<std::shared_ptr<Executable>> at_sizes(const Sizes &sizes) const;

  // acquire(), prepare() and run().
  absl::Status acquire_and_run(const RunContext &context, std::span<Buffer *const> inputs,
                               std::span<Buffer *const> outputs);
};

// Checks that the buffers fit the specs: counts, sizes, and that tied outputs are bound to what
// they are tied to.
absl::Status check_bindings(const Executable &executable, std::span<Buffer *const> inputs,
                            std::span<Buffer *const> outputs);

} // namespace weft::runtime
