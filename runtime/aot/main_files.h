// What an executable reads and writes: arrays in files, one batch after another. Private to this
// folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/aot/weft_model.h"
#include "runtime/io/array.h"

namespace weft::runtime {

bool ends_with(std::string_view text, std::string_view end);

// Which dim of a tensor varies; -1 for none.
int32_t varying_dim(const weft_tensor_info &info);
using Shape = std::vector<int64_t>;

// The inputs of all steps. An array of an input's own shape is the same in each of them; one with a
// leading dim more holds a batch for each step, and begins again where there are more steps. Where
// the batch of an input may vary, an array of its own shape can also be cut into batches of so many
// rows, of which the last one has what is left.
class Batches {
public:
  // files: "FILE", "NAME=FILE" or "NUMBER=FILE", .npy or .safetensors. rows: of a batch; 0: arrays
  // are not cut. Errors: an input that is missing, given twice or of another shape or range, or
  // that has another number of batches than the input before.
  static absl::StatusOr<Batches> read(const std::vector<std::string> &files,
                                      const std::vector<weft_tensor_info> &inputs, int64_t rows);

  // 0 where no input has batches for several steps.
  int64_t count() const {
    return count_;
  }
  std::vector<const void *> at(int64_t step) const;
  // The shapes of the inputs.
  std::vector<Shape> shapes(int64_t step) const;

private:
  struct Input {
    const std::byte *data = nullptr; // null until it is given
    Shape dims;                      // of one batch, the last one of those that are cut excepted
    int64_t bytes = 0;               // of one batch
    int64_t rows = 0;                // of all batches, where the array is cut
    bool varies = false;             // from step to step
  };
  absl::Status give(size_t i, const ArrayView &array, std::shared_ptr<const void> storage,
                    const std::vector<weft_tensor_info> &infos, const std::string &path);

  std::vector<std::shared_ptr<const void>> storage_;
  std::vector<Input> inputs_;
  int64_t rows_ = 0;
  int64_t count_ = 0;
};

// Where the outputs of all steps go: to files, or printed step by step.
class Results {
public:
  // files: "FILE" or "NAME=FILE"; none for printing. steps: 0 for one run, whose outputs have no
  // leading dim. joins: outputs of all steps whose size varies are one array, along that dim; else
  // they have a leading dim, as all others do. Errors: a name that is not there, a file too many,
  // of another kind, or that cannot be written; more memory than there is.
  static absl::StatusOr<Results> plan(const std::vector<std::string> &files,
                                      const std::vector<weft_tensor_info> &outputs, int64_t steps,
                                      bool joins);

  // shapes: of the outputs in this step, which follows the one before.
  std::vector<void *> at(const std::vector<Shape> &shapes);
  // What at() gave holds the outputs now: prints them unless they go to files.
  void show(int64_t step) const;
  absl::Status write() const;

private:
  struct Target {
    std::string path;
    size_t output; // the number of outputs for all of them
  };
  bool keeps(size_t output) const;
  // The memory of the next output, of so many steps.
  absl::Status reserve(size_t output, int64_t steps);

  std::vector<weft_tensor_info> infos_;
  int64_t steps_ = 0;
  bool joins_ = false;
  std::vector<Target> targets_;
  struct Output {
    Shape dims;                   // of the last step
    int64_t joined = 0;           // the size of the dim that varies, in all steps together
    std::vector<std::byte> bytes; // of all steps where a file takes them, else of one
  };
  std::vector<Output> values_;
};

} // namespace weft::runtime
