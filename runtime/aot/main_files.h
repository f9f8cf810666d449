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

// The inputs of all steps. An array of an input's own shape is the same in each of them; one with a
// leading dim more holds a batch for each step, and begins again where there are more steps.
class Batches {
public:
  // files: "FILE" or "NAME=FILE", .npy or .safetensors. Errors: an input that is missing, given
  // twice or of another shape, or that has another number of batches than the input before.
  static absl::StatusOr<Batches> read(const std::vector<std::string> &files,
                                      const std::vector<weft_tensor_info> &inputs);

  // 0 where no input has a leading dim of batches.
  int64_t count() const {
    return count_;
  }
  std::vector<const void *> at(int64_t step) const;

private:
  struct Input {
    const std::byte *data = nullptr; // null until it is given
    int64_t bytes = 0;               // of one batch
    bool varies = false;
  };
  absl::Status give(size_t i, const ArrayView &array, std::shared_ptr<const void> storage,
                    const std::vector<weft_tensor_info> &infos, const std::string &path);

  std::vector<std::shared_ptr<const void>> storage_;
  std::vector<Input> inputs_;
  int64_t count_ = 0;
};

// Where the outputs of all steps go: to files, or printed step by step.
class Results {
public:
  // files: "FILE" or "NAME=FILE"; none for printing. steps: 0 for one run, whose outputs have no
  // leading dim. Errors: a name that is not there, a file too many, or of another kind.
  static absl::StatusOr<Results> plan(const std::vector<std::string> &files,
                                      const std::vector<weft_tensor_info> &outputs, int64_t steps);

  std::vector<void *> at(int64_t step);
  // What at(step) holds now: prints it unless it goes to files.
  void show(int64_t step) const;
  absl::Status write() const;

private:
  struct Target {
    std::string path;
    size_t output; // the number of outputs for all of them
  };
  bool keeps(size_t output) const;

  std::vector<weft_tensor_info> infos_;
  int64_t steps_ = 0;
  std::vector<Target> targets_;
  std::vector<std::vector<std::byte>> values_; // of all steps where a file takes them, else of one
};

} // namespace weft::runtime
