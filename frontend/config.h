// Options of the process. Each has an environment variable, which gives its initial value.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weft/device.h"
#include "weft/error.h"

namespace weft {

namespace runtime {
class Allocator;
}

// How far results may be from those of the ops' formulas, computed term by term.
enum class Math : uint8_t {
  // As far as sums in another order are.
  kExact,
  // And where an algorithm's error has a bound of some times that: 3x3 convolutions may go by
  // Winograd's (docs/compiler.md, "claim").
  kStandard,
  // And NaN may get lost where a library is faster without it: relu() behind a product or a
  // convolution may make NaN 0. Finite values are as near as with kStandard.
  kFast,
};
// "exact", "standard" or "fast".
std::string_view name(Math math);

// The options of a process; config() has them as they are.
struct Config {
  bool eager = false;          // WEFT_EAGER=1: compute after every call
  bool explain = false;        // WEFT_EXPLAIN=1: one line an evaluation on stderr
  std::string dump_dir;        // WEFT_DUMP_DIR: one file per compiler phase and kernel
  std::string backend = "cpu"; // WEFT_BACKEND: the name of a registered one: cpu, reference, ...
  std::string device = "cpu";  // WEFT_DEVICE: where new tensors lie, outside of a DeviceScope
  int num_threads = 0;         // WEFT_NUM_THREADS: 0 for all cores
  bool symbolic = true; // WEFT_SYMBOLIC=0: a program of its own for each size and slice start
  // WEFT_PREPARE=0: weights that do not change are like any other input; nothing is computed ahead
  // or packed.
  bool prepare = true;
  // WEFT_MEMORY_LIMIT: bytes that a program may take beside its inputs. One that would take more
  // computes values again instead of keeping them; results keep their bits. Where that does not
  // suffice it takes the least that was found, and explain() says so. 0: no limit; large programs
  // compute again what costs next to nothing.
  int64_t memory_limit = 0;
  // WEFT_MEMORY_FOLDER: a folder on a disk. Values of programs under a memory_limit wait in a file
  // there until they are read next, where that costs less than to compute them again. The file has
  // no name and ends with the process; a program has its room in it while it is cached. Such
  // programs are for one size each, and those that ran already stay in the folder that they had.
  // Empty: nothing waits in files. On CPUs.
  std::string memory_folder;
  Math math = Math::kStandard; // WEFT_MATH=exact or fast: how programs compute; see MathScope
  // WEFT_TUNE=1: the kernels of programs that are compiled from now on are measured with other
  // schedules, and take what is faster. What was found stands in a file of cache_dir, which all
  // later processes read; results keep their bits. A process measures for tune_seconds at most
  // (WEFT_TUNE_SECONDS); what it did not come to is left to the next one.
  bool tune = false;
  int64_t tune_seconds = 60;
  bool jit_check = false; // WEFT_JIT_CHECK=1: record jit functions again at each call and compare

  std::string cache_dir; // WEFT_CACHE_DIR: folder of the disk cache; "off" for none; default
                         // $XDG_CACHE_HOME/weft
  // Bounds. A program over one is dropped, least recently used first.
  int64_t cache_entries = 512; // programs in memory
  // What these programs hold, by an estimate.
  int64_t cache_bytes = int64_t(512) << 20;
  // Files of the disk cache.
  int64_t disk_cache_bytes = int64_t(1) << 30;
  // Input signatures (dtypes and shapes) that one jitted function holds programs for. A function
  // called with more shapes records again, which finds its program in the memory cache. As many
  // batch sizes of a Program with a range.
  int64_t jit_signatures = 64;
  // A record longer or holding more bytes than this is submitted (WEFT_BUDGET_OPS,
  // WEFT_BUDGET_BYTES).
  int64_t budget_ops = 400000;
  // Bytes as if every value had a buffer of its own: fusion and reuse usually leave a tenth of it.
  // Inputs that nobody else holds any more, as the batches of a metric that is added up, have a
  // budget of 256 MiB, or this one where it is less.
  int64_t budget_bytes = int64_t(32) << 30;
  // Distinct types, source lines and signatures of ops that the recorder keeps beyond those in use:
  // the next call mostly wants the same ones. Its MLIR context is made anew after so many.
  int64_t context_bound = 100000;
};

// While it lives, programs that this thread asks for compute so, whatever Config::math is: what it
// evaluates, calls of jit functions and Programs, and compile(). What was only recorded in the
// scope and is evaluated behind it computes as the process does. Scopes nest, the innermost
// decides.
//
//   {
//     weft::MathScope fast(weft::Math::kFast);
//     y = model(x).eval();
//   }
class MathScope {
public:
  explicit MathScope(Math math);
  ~MathScope();
  MathScope(const MathScope &) = delete;
  MathScope &operator=(const MathScope &) = delete;

private:
  std::optional<Math> before_;
};
// That of this thread's innermost scope, or of the process.
Math current_math();

// The options now.
Config config();
// Takes effect for what is recorded and evaluated from now on. Errors: an unknown backend.
void set_config(const Config &config, Location location = Location::current());

// Memory for all tensors and programs that are made on the device from now on; null for its default
// allocator.
void set_allocator(std::shared_ptr<runtime::Allocator> allocator, Device device = current_device());
// What the device has where none was set, so that another one may stand before it: a bound for a
// GPU is set_allocator(std::make_shared<LimitAllocator>(default_allocator(gpu), bytes), gpu).
std::shared_ptr<runtime::Allocator> default_allocator(Device device = current_device());

} // namespace weft
