// The next token, drawn from what a model says of all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/data/random.h"

namespace generate {

struct SamplingOptions {
  double temperature = 0.8; // 0: always the likeliest token (greedy; the first of equals)
  int64_t top_k = 0;        // among this many likeliest ones; 0: all
  double top_p = 1;         // among the fewest likeliest ones with this much of the probability
};

// Draws tokens. Temperature acts first, then top_k, then top_p of what is left.
class Sampler {
public:
  // Throws weft::Error unless temperature >= 0, top_k >= 0 and 0 < top_p <= 1.
  explicit Sampler(const SamplingOptions &options);

  // Throws weft::Error when a logit is NaN or all are -infinity.
  int64_t choose(std::span<const float> logits, weft::data::SplitMix64 &random);

private:
  int64_t keep_likely(std::span<const float> logits);

  SamplingOptions options_;
  std::vector<int64_t> order_;
  std::vector<double> weights_; // of order_'s first ones
};

} // namespace generate
