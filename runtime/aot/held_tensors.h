// What a model holds: weights, which nobody writes, and state, which its runs change.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/aot/weft_model.h"
#include "runtime/io/safetensors.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"

namespace weft::runtime {

// "float32[2, 3]", or "float32[1..64, 3]".
std::string show(const weft_tensor_info &info);
bool is_aligned(const void *data, int32_t dtype);

// Not safe for threads. The model's code must outlive it.
class HeldTensors {
public:
  // Gives each tensor its first value. path: a safetensors file for those that the code has no
  // value of, or null. Weights are not copied where they are aligned. Errors: a file that is
  // missing, or that lacks one; one that would be ignored, as a whole or in part, since the code
  // has the values. The message names the model or the file.
  absl::Status open(const weft_model_code &code, const char *path, std::shared_ptr<Memory> memory);

  size_t size() const {
    return tensors_.size();
  }
  const weft_tensor_info &info(size_t i) const {
    return tensors_[i].info;
  }
  bool is_state(size_t i) const {
    return tensors_[i].is_state;
  }
  Buffer *buffer(size_t i) const {
    return tensors_[i].buffer.get();
  }

  // Numbers of the tensors that are state.
  const std::vector<size_t> &state() const {
    return state_;
  }
  // NotFound names the state that there is.
  absl::StatusOr<size_t> find_state(const std::string &name) const;

  // A new value is written beside the old one where a program has no way to write it in its place.
  // So many buffers are there at once, one for each of `bytes`.
  absl::Status reserve(const std::vector<int64_t> &bytes);
  // One of those, until it is given back or becomes a tensor's.
  std::shared_ptr<Buffer> take(int64_t bytes);
  void give_back(std::shared_ptr<Buffer> buffer);
  // The buffer of a state's value. It may be that of another state, which gets another one by the
  // next call: exchange() gives them all at once, and keeps what they no longer need.
  std::shared_ptr<Buffer> share(size_t i) const {
    return tensors_[i].buffer;
  }
  void exchange(std::vector<std::pair<size_t, std::shared_ptr<Buffer>>> values);

  // After a run that has failed with the state half written. All that needs the state fails then,
  // until load().
  void lose(const absl::Status &failure);
  absl::Status check() const {
    return lost_;
  }

  absl::Status save(const std::string &path) const;
  absl::Status load(const std::string &path);

private:
  struct Tensor {
    weft_tensor_info info;
    bool is_state = false;
    std::shared_ptr<Buffer> buffer;
  };
  absl::Status copy_in(Tensor &tensor, const void *value);

  std::string name_; // of the model
  std::shared_ptr<Memory> memory_;
  std::vector<Tensor> tensors_;
  std::vector<size_t> state_;
  std::multimap<int64_t, std::shared_ptr<Buffer>> spares_;
  absl::Status lost_;
};

} // namespace weft::runtime
