// Text from a trained model.
#pragma once

#include <functional>
#include <string>

#include "examples/char_gpt/model.h"
#include "weft/data/text.h"

namespace char_gpt {

// ids int64 [1, context] -> logits [1, context, vocabulary].
using Predict = std::function<weft::Tensor(const weft::Tensor &ids)>;

struct GenerateOptions {
  int64_t length = 400;     // characters to add
  double temperature = 0.8; // 0: always the likeliest character (greedy; the first of equals)
  uint64_t seed = 1;
};

// The prompt's continuation. Each character is predicted from the last `context` ones; a shorter
// beginning is filled up behind with id 0, which a causal model does not see. Throws weft::Error
// when the prompt is empty or has a character that the vocabulary lacks.
std::string generate(const Predict &predict, int64_t context,
                     const weft::data::Vocabulary &vocabulary, const std::string &prompt,
                     const GenerateOptions &options);

} // namespace char_gpt
