// The training step of examples/char_gpt as benchmarks run it: the example's model and optimizer on
// random tokens.
#pragma once

#include <optional>

#include "examples/char_gpt/model.h"
#include "weft/optim/optim.h"
#include "weft/tensor.h"

namespace weft::benchmarks {

inline constexpr int64_t kVocabulary = 86; // as many characters as Debian's licence texts have

class CharGptStep {
public:
  // lower: what forward is cast to (weft/autocast.h); none: float32.
  explicit CharGptStep(int64_t batch, std::optional<weft::DType> lower = {});

  // Records and submits one step; the loss is not read.
  weft::Tensor run();

private:
  char_gpt::CharGpt model_;
  weft::optim::AdamW optimizer_;
  weft::Tensor input_, target_;
  std::optional<weft::DType> lower_;
};

} // namespace weft::benchmarks
