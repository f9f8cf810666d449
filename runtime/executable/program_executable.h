// Runs a Program: its instruction table, by one loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/abi/weft_runtime.h"
#include "runtime/executable/executable.h"
#include "runtime/executable/library_call.h"
#include "runtime/memory/prepared_store.h"

namespace weft::runtime {

// The kernel of that symbol, or null.
using KernelResolver = std::function<weft_kernel(std::string_view symbol)>;

struct ProfileLabels;

class ProgramExecutable : public Executable {
public:
  // Resolves all names once. The constants move into a buffer of `memory`. `code` is kept while the
  // executable lives: whoever owns the machine code that the kernels point to (may be null).
  // `other_sizes` is an executable of the same program at other sizes (may be null): both have the
  // same prepared values, which are computed once.
  // InvalidArgument for a program that does not validate, NotFound for a kernel or a library entry
  // that does not resolve, ResourceExhausted for the constants.
  static absl::StatusOr<std::shared_ptr<ProgramExecutable>>
  create(Program program, const KernelResolver &kernels, const LibraryResolver &libraries,
         std::shared_ptr<Memory> memory, std::shared_ptr<const void> code = nullptr,
         const ProgramExecutable *other_sizes = nullptr);
  ~ProgramExecutable() override;

  std::span<const InputSpec> input_specs() const override {
    return program_.inputs;
  }
  std::span<const OutputSpec> output_specs() const override {
    return program_.outputs;
  }
  int64_t arena_bytes() const override {
    return program_.arena_bytes;
  }
  const MemoryReport &memory_report() const override {
    return program_.memory;
  }
  bool is_serial() const override {
    return serial_;
  }
  bool is_serial_with_one_thread() const override {
    return serial_with_one_thread_;
  }
  int64_t work_bytes() const override {
    return work_bytes_;
  }
  absl::StatusOr<std::unique_ptr<RunResources>> acquire(const RunContext &context) override;
  absl::Status prepare(const RunContext &context, RunResources &resources,
                       std::span<Buffer *const> inputs) override;
  // Computes what prepare() reserved and no other run has computed. run() does so, too; a program
  // that is loaded once does it right after loading.
  absl::Status compute_prepared(const RunContext &context, RunResources &resources);
  absl::Status run(const RunContext &context, RunResources &resources,
                   std::span<Buffer *const> inputs, std::span<Buffer *const> outputs) override;

  // The program, with its constants left out: they are in constants().
  const Program &program() const {
    return program_;
  }
  std::span<const std::byte> constants() const;
  // runtime::serialize() of the program as it was given to create().
  absl::StatusOr<std::string> serialize() const;

private:
  struct Resources;
  struct Operand {
    int32_t
        base; // into the bases of a run: arena, constants, state, inputs, outputs, prepared values
    int64_t offset; // bytes
  };
  enum class Op : uint8_t { kSerialLaunch, kParallelLaunch, kLibraryCall, kCopy, kFill };
  // An instruction with everything resolved.
  struct Step {
    Op op;
    uint8_t width = 0;         // of a fill
    int32_t first_operand = 0; // into operands_
    int32_t operands = 0;
    int32_t location = -1;
    int32_t library_call = -1; // into the library states
    weft_kernel kernel = nullptr;
    weft_kernel finish = nullptr;
    const Launch *launch = nullptr; // for errors
    int64_t count = 0; // pieces of a launch, bytes of a copy or fill, or of the scratch that the
                       // plan holds ready for a library call as its last operand; -1 for none
    int64_t grain = 1;
    uint64_t pattern = 0;
    const int64_t *ints = nullptr; // of a launch that is told more than its count, in ints_
  };
  struct PlannedCall {
    const LibraryEntry *entry;
    const LibraryCall *call;
    int32_t step;
  };
  // The operand of a library call that has a packed form. All that each run asks of it lies here
  // side by side: what it is part of has left the processor's caches since the last run.
  struct PackedOperand {
    int32_t call;                   // into the library states
    int32_t operand;                // into operands_
    BufferEntry source;             // the row that it lies in
    int64_t offset;                 // in the row's buffer
    int64_t bytes;                  // of the packed form
    std::shared_ptr<Prepared> last; // what the last run had; under mutex_
    std::string recipe;
  };
  // The library calls of the program for one number of threads.
  struct LibraryStates {
    std::vector<std::unique_ptr<LibraryCallState>> calls;
    std::vector<std::unique_ptr<PackedCallState>> packed; // by call, null for one without
    std::vector<PackedOperand> operands;                  // of those with one
    int64_t scratch_bytes = 0;                            // the most that one call needs
  };

  ProgramExecutable() = default;
  absl::Status build(const KernelResolver &kernels, const LibraryResolver &libraries);
  absl::Status build_prepare(const KernelResolver &kernels, const LibraryResolver &libraries,
                             std::shared_ptr<Memory> memory, std::shared_ptr<const void> code,
                             const ProgramExecutable *other_sizes);
  void add_operand(int32_t buffer, int64_t offset = 0);
  absl::Status add_packed(LibraryStates &states, size_t call, int threads);
  // The buffer of a row: a stable input, a constant or a prepared value; null for rows of other
  // kinds.
  Buffer *source_of(const BufferEntry &row, std::span<Buffer *const> inputs,
                    const Resources &resources) const;
  absl::Status prepare_values(const RunContext &context, Resources &resources,
                              std::span<Buffer *const> inputs);
  absl::Status compute_values(const RunContext &context, Resources &resources, void *block);
  absl::StatusOr<std::unique_ptr<LibraryStates>> make_library_states(int threads);
  absl::StatusOr<LibraryStates *> library_states(int threads);
  // For one run alone, which gives them back.
  absl::StatusOr<LibraryStates *> take_library_states();
  void give_back(LibraryStates *states);
  absl::Status run_step(const RunContext &context, Resources &resources, const Step &step) const;
  absl::Status run_profiled(const RunContext &context, Resources &resources);
  absl::Status failure(const Step &step, int32_t code, void *const *buffers) const;
  absl::Status at(const Step &step, const absl::Status &status) const;
  // The profile's, made when a run is first profiled.
  const ProfileLabels &profile_labels();

  Program program_;
  std::shared_ptr<Buffer> constants_;
  std::shared_ptr<Buffer> state_;
  std::shared_ptr<const void> code_;
  std::vector<Operand> operands_;
  std::vector<Step> steps_;
  std::deque<std::vector<int64_t>> ints_;
  std::vector<PlannedCall> library_calls_;
  // What Program::prepare makes lies in one block, each value at its offset. The same for all sizes
  // of a program.
  struct Prepare {
    std::shared_ptr<ProgramExecutable> executable; // null where nothing is prepared
    std::vector<int64_t> offsets;
    int64_t bytes = 0;
    std::string recipe;
  };
  Prepare prepare_;
  std::shared_ptr<Prepared> last_values_; // what the last run had of it; under mutex_
  bool serial_ = false;
  bool serial_with_one_thread_ = false;
  int64_t work_bytes_ = 0;
  std::mutex mutex_;
  // Under mutex_.
  std::vector<std::pair<int, std::unique_ptr<LibraryStates>>> states_; // by number of threads
  std::vector<std::unique_ptr<LibraryStates>> free_states_; // for one thread, of runs that ended
  std::unique_ptr<const ProfileLabels> profile_labels_;
};

} // namespace weft::runtime
