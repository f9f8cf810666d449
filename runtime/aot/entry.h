// The entries of a model that is open: their programs, what they share, and what they read and
// write of it. Private to this folder.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/aot/held_tensors.h"
#include "runtime/aot/weft_model.h"
#include "runtime/executable/program_executable.h"
#include "runtime/executable/sized_programs.h"
#include "runtime/memory/arena_pool.h"

namespace weft::runtime {

inline constexpr int32_t kCaller =
    -1; // who gives an input or gets an output that the model does not hold

// All that the entries of a model share.
struct SharedModel {
  weft_model_code code = {}; // what it points to outlives the model
  std::string name;
  HeldTensors held;
  ArenaPool arenas;
  std::vector<std::unique_ptr<weft_model>> entries; // gone before the arenas are
  std::mutex mutex;                                 // of a run, and of the state
};

// An entry's program at one size.
struct SizedProgram {
  int64_t size = 0;
  std::shared_ptr<Executable> executable;
  std::shared_ptr<ProgramExecutable> host; // the same, or null where another device runs it
  RunContext context;
  std::unique_ptr<RunResources> resources;
};

} // namespace weft::runtime

// An entry.
struct weft_model {
  weft::runtime::SharedModel *shared = nullptr;
  std::string name;
  const weft_entry_code *code = nullptr;
  weft::runtime::SizedPrograms programs;
  int threads = 1;
  // Those that were run last, the newest first; one where nothing varies.
  std::deque<weft::runtime::SizedProgram> sized;
  std::vector<int32_t> reads, writes; // by the program's input, output: what is held, or kCaller
  weft::runtime::Program smallest;    // without constants: for min_dims
  std::vector<weft_tensor_info> input_infos, output_infos;
};

namespace weft::runtime {

// Opens the model with all its entries. The arena is that of the largest program.
absl::Status open_entries(const weft_model_code &given, const weft_model_options &options,
                          SharedModel &model);

// The size that inputs of these shapes have; dims as in weft_model_run_sized(). InvalidArgument
// names the input, its shape and the range.
absl::StatusOr<int64_t> size_of(const weft_model &entry, const int64_t *const *dims);
// The entry's program at a size of its range. Under the model's lock.
absl::StatusOr<SizedProgram *> at_size(weft_model &entry, int64_t size);

} // namespace weft::runtime
