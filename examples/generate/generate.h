// Texts from a language model, several at a time.
#pragma once

#include <functional>
#include <vector>

#include "examples/generate/decoder.h"
#include "examples/generate/sampling.h"

namespace generate {

struct GenerateOptions {
  int64_t length = 100; // tokens to add to each prompt, at most
  SamplingOptions sampling;
  uint64_t seed = 1;       // each row has a stream of its own
  int64_t chunk = 32;      // tokens of prompts that are read at a time
  bool stop_at_end = true; // a row ends with a token that ends a text
};

struct Generated {
  std::vector<std::vector<int64_t>> added; // of each prompt, without the token that ended it
  double prompt_seconds = 0, seconds = 0;  // for reading prompts, and for all steps
  double fastest = 0;                      // step, in seconds
  int64_t steps = 0;
};

// Called with each token: the prompt's number and its id.
using OnToken = std::function<void(int64_t row, int64_t id)>;

// Continues the prompts, each as it would be continued alone. Throws weft::Error when there is no
// prompt, one is empty or has an id that the model lacks, or a text would be longer than the model
// takes.
Generated generate(const Decoder &decoder, const std::vector<std::vector<int64_t>> &prompts,
                   const GenerateOptions &options, const OnToken &on_token = {});

} // namespace generate
