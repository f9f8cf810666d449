#include "examples/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/error.h"

namespace generate {

Sampler::Sampler(const SamplingOptions &options) : options_(options) {
  auto fail = [](const std::string &what) {
    throw weft::Error(weft::ErrorKind::kValue, what);
  };
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    fail("the temperature must be 0 or above, it is " + std::to_string(options.temperature));
  if (options.top_k < 0)
    fail("top-k must be 0 or above, it is " + std::to_string(options.top_k));
  if (!(options.top_p > 0 && options.top_p <= 1))
    fail("top-p must be above 0 and at most 1, it is " + std::to_string(options.top_p));
}

// Makes the likeliest tokens the first of order_ and gives how many may be drawn; weights_ has
// theirs.
int64_t Sampler::keep_likely(std::span<const float> logits) {
  const int64_t all = static_cast<int64_t>(logits.size());
  const int64_t most = options_.top_k > 0 ? std::min(options_.top_k, all) : all;
  const float highest = *std::max_element(logits.begin(), logits.end());
  auto weight = [&](int64_t id) {
    return std::exp((static_cast<double>(logits[static_cast<size_t>(id)]) - highest) /
                    options_.temperature);
  };
  auto likelier = [&](int64_t a, int64_t b) {
    float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (most < all)
    std::nth_element(order_.begin(), order_.begin() + (most - 1), order_.end(), likelier);
  weights_.resize(static_cast<size_t>(most));
  if (options_.top_p == 1) {
    std::transform(order_.begin(), order_.begin() + most, weights_.begin(), weight);
    return most;
  }
  double total = 0;
  for (int64_t i = 0; i < most; ++i)
    total += weight(order_[static_cast<size_t>(i)]);
  // The few that are needed are mostly among the first of a vocabulary: so many are sorted at a
  // time, more where they do not suffice.
  constexpr int64_t kFirst = 64, kFactor = 8;
  double sum = 0;
  for (int64_t done = 0, count = kFirst; done < most; count *= kFactor) {
    int64_t end = std::min(count, most);
    std::partial_sort(order_.begin() + done, order_.begin() + end, order_.begin() + most, likelier);
    for (; done < end; ++done) {
      sum += weights_[static_cast<size_t>(done)] = weight(order_[static_cast<size_t>(done)]);
      if (sum >= options_.top_p * total)
        return done + 1;
    }
  }
  return most; // rounding left the sum below its share
}

int64_t Sampler::choose(std::span<const float> logits, weft::data::SplitMix64 &random) {
  bool is_number =
      std::none_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
  auto likeliest = std::max_element(logits.begin(), logits.end());
  if (!is_number || likeliest == logits.end() || !std::isfinite(*likeliest))
    throw weft::Error(weft::ErrorKind::kValue,
                      "the model gives no finite logits: are these the weights of this model?");
  if (options_.temperature == 0 || options_.top_k == 1)
    return likeliest - logits.begin();
  const int64_t count = keep_likely(logits);
  double left = random.uniform() * std::accumulate(weights_.begin(), weights_.begin() + count, 0.0);
  int64_t last = 0; // that may be drawn: it is what rounding leaves over
  for (int64_t i = 0; i < count; ++i) {
    const double weight = weights_[static_cast<size_t>(i)];
    if (weight > 0)
      last = i;
    if ((left -= weight) < 0)
      break;
  }
  return order_[static_cast<size_t>(last)];
}

} // namespace generate
