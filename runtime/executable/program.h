// A compiled program as plain data: buffers, instructions, constants and the names that they refer
// to. The compiler writes it, the executor runs it (program_executable.h), and the same bytes serve
// the cache on disk and ahead-of-time objects. The code of the kernels travels beside it; a program
// knows them by symbol name only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/core/alignment.h"
#include "runtime/core/dtype.h"

namespace weft::runtime {

// Written into files; a file of another version is refused. Raise it with every change to the
// layout or the meaning of a field.
inline constexpr uint32_t kProgramVersion = 7;

enum class BufferKind : uint8_t {
  kArena = 0,    // offset into the arena; not defined when a run starts
  kInput = 1,    // the buffer bound as input `index`, from `offset` on
  kOutput = 2,   // the buffer bound as output `index`, from `offset` on
  kConstant = 3, // offset into Program::constants; never written
  kState =
      4, // offset into the executable's own bytes: zero when it is loaded, kept from run to run
  kPrepared =
      5, // output `index` of the program in Program::prepare, from `offset` on; never written
};

// One row of the buffers table. Several rows may overlap: a view, an in-place result, values whose
// lifetimes do not meet.
struct BufferEntry {
  BufferKind kind = BufferKind::kArena;
  int32_t index = -1; // of the input, output or prepared value; -1 for the other kinds
  int64_t offset = 0; // bytes; a part of a value may begin anywhere in it
  int64_t bytes = 0;
};

// The bounds of indices that a kernel reads from data: each must be in [lower, upper), or equal
// `ignored`. The kernel checks its indices itself; this serves the message when a check fails
// (index_check.h).
struct IndexCheck {
  std::string op;       // "weft.index_select"
  int32_t operand = -1; // of the launch: the indices; -1 where the kernel computes them
  DType dtype = DType::kInt64;
  int64_t lower = 0, upper = 0;
  bool ignores = false; // whether there is an `ignored`
  int64_t ignored = 0;
  int32_t location = -1; // into Program::locations, or -1
};

// Runs kernel(buffers, begin, end) over [0, count), split between threads at multiples of `grain`
// unless `serial`; then finish(0, count) on one thread, if there is one. Operands: inputs, then
// outputs; `partials` follows them in the array that the kernel sees.
struct Launch {
  int32_t kernel = -1;           // into Program::symbols
  int32_t finish = -1;           // into Program::symbols, or -1
  std::vector<int32_t> operands; // into Program::buffers
  int32_t partials = -1;         // into Program::buffers, or -1
  int64_t count = 1;
  int64_t grain = 1; // the smallest range worth handing to another thread, in pieces
  bool serial = false;
  int32_t location = -1; // into Program::locations, or -1
  std::vector<IndexCheck> checks = {};
  std::vector<int32_t> lines = {}; // as `location`, of all that it computes; empty: that one
  std::vector<int64_t> sizes = {}; // that the kernel is told behind the count
};

// A tensor as a library call sees it: strides in elements, as many as dims; a stride of 0 repeats.
struct TensorRef {
  int32_t buffer = -1; // into Program::buffers
  int64_t offset = 0;  // bytes from the buffer's start to element [0, ..., 0]
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

using ConfigValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
// Sorted by key, each key once.
using Config = std::vector<std::pair<std::string, ConfigValue>>;

// Calls an entry of the backend's registry, resolved by name when the program is loaded. What
// operands and config mean is the entry's own affair (backends/cpu/device/*.h).
struct LibraryCall {
  std::string entry; // "onednn.matmul"
  Config config;
  std::vector<TensorRef> operands; // inputs, then outputs, in the entry's order
  int32_t inputs = 0;              // how many of them are inputs
  // Memory that the call may use while it runs: a row of Program::buffers, or -1. What the entry
  // needs beyond it, the executable takes from its allocator before the first instruction.
  int32_t scratch = -1;
  int32_t location = -1;
  std::vector<int32_t> lines = {}; // as those of a launch
};

// Copies `bytes` bytes; the buffers are the same or do not overlap.
struct Copy {
  int32_t source = -1; // into Program::buffers
  int32_t target = -1;
  int64_t bytes = 0;
  int32_t location = -1;
};

// Repeats the low `width` bytes of `pattern` over the first `bytes` bytes of the target; width 1,
// 2, 4 or 8 divides bytes.
struct Fill {
  int32_t target = -1; // into Program::buffers
  uint64_t pattern = 0;
  int32_t width = 1;
  int64_t bytes = 0;
  int32_t location = -1;
};

using Instruction = std::variant<Launch, LibraryCall, Copy, Fill>;

// What a profile says of a kernel; nothing runs by it.
struct KernelNote {
  std::string types; // of operands and results: "f32[64,8] f32[8] -> f32[64,8]"
  // Operations, and bytes read and written, of a launch of `count` pieces: those that are
  // proportional to them, and those that are the same at every size.
  double flops_of_piece = 0;
  double bytes_of_piece = 0;
  double fixed_bytes = 0;
};

struct InputSpec {
  std::string name; // of a parameter or an argument; may be empty
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  int64_t bytes = 0;
  bool donatable =
      false; // the caller gives the buffer up: the run may write it, and an output may be it
  bool stable = false; // seldom changes between runs (a weight): worth preparing
};

// At most one of the three indices is set. With none the output has a buffer of its own, bound by
// the caller.
struct OutputSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  int64_t bytes = 0;
  int32_t donated_input = -1; // written into this donatable input's buffer: bind that buffer
  int32_t alias_input = -1;   // is this input, unchanged: bind that buffer; nothing is written
  int32_t alias_output = -1;  // is this earlier output: bind that buffer
};

// A part of what a program holds at its planned peak, for reports.
struct PeakHolder {
  int64_t bytes = 0;
  std::string what; // "weft_tanh_0123456789abcdef", "onednn.matmul", "scratch of onednn.matmul"
  std::string line, module; // of what writes it; either may be empty
};

// What a program holds beside its inputs, for reports; empty where it is not known.
struct MemoryReport {
  // At the planned peak, the largest first; they sum to peak_bytes.
  std::vector<PeakHolder> peak_holders;
  // Bytes of values that are live, from the first instruction to the last one, of parts of the run
  // that are equally long in instructions; at most peak_bytes.
  std::vector<int64_t> live_bytes;
};

struct Program {
  std::string target; // the CPU and features that the kernels need, as the compiler names them; ""
                      // runs anywhere
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<BufferEntry> buffers;
  std::vector<Instruction> instructions;
  std::vector<std::string> symbols;   // kernels
  std::vector<KernelNote> notes;      // of the kernels, by symbol; there may be fewer, or none
  std::vector<std::string> locations; // "train.cpp:31", for errors
  // Of the locations, by index: the module that ran the line, "blocks.0.up", or empty; there may be
  // fewer, or none.
  std::vector<std::string> modules;
  std::vector<std::byte> constants;
  // None, or one program, which computes from stable inputs and constants what later runs find
  // ready. It has no donatable inputs, no outputs tied to inputs, and no `prepare` of its own. Its
  // inputs are the rows `prepare_inputs` of `buffers`: each is a whole stable input or a part of
  // the constants.
  std::vector<Program> prepare;
  std::vector<int32_t> prepare_inputs;
  // Of a program that prepares another one: what it computes, as the compiler names it, so that all
  // that prepare the same share the values; "" where it is one of its own.
  std::string recipe;
  int64_t arena_bytes = 0;
  int64_t state_bytes = 0;
  int64_t thread_scratch_bytes = 0; // the most that one launch asks for each thread
  // For the report. peak_bytes: the planned peak of live bytes, arena and outputs.
  // live_bytes_bound: the largest sum of live bytes at one instruction; no packing of this order
  // takes less.
  int64_t peak_bytes = 0;
  int64_t live_bytes_bound = 0;
  MemoryReport memory;
};

// Whether every index, offset and size in the program is within what it refers to, so that running
// it cannot leave its buffers (kernels' own accesses aside). Both functions below call it.
absl::Status validate(const Program &program);

// The bytes of a valid program. They start with a magic number, the version and a checksum; the
// constants lie at a multiple of kBufferAlignment from the start. InvalidArgument for an invalid
// program.
absl::StatusOr<std::string> serialize(const Program &program);

// The inverse. DataLoss for bytes that are cut off, altered or not a program; FailedPrecondition
// for another version. Allocates no more than a small multiple of bytes.size().
absl::StatusOr<Program> deserialize(std::span<const std::byte> bytes);

// Whether no instruction of the program uses more than one thread or calls a library: such a
// program may run on any thread. one_thread: where a run is given one. libraries: where those
// that it calls may be called there, too (ConcurrentEntry).
bool is_serial(const Program &program, bool one_thread = false, bool libraries = false);

} // namespace weft::runtime
