#include "examples/char_gpt/generate.h"

#include <algorithm>
#include <cmath>

#include "weft/data/random.h"
#include "weft/weft.h"

namespace char_gpt {
namespace {

int64_t choose(const float *logits, int64_t count, double temperature,
               weft::data::SplitMix64 &random) {
  int64_t likeliest = std::max_element(logits, logits + count) - logits;
  if (temperature <= 0)
    return likeliest;
  std::vector<double> weights(count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += weights[i] = std::exp((logits[i] - logits[likeliest]) / temperature);
  double left = random.uniform() * sum;
  for (int64_t i = 0; i < count; ++i)
    if ((left -= weights[i]) < 0)
      return i;
  return likeliest;
}

} // namespace

std::string generate(const Predict &predict, int64_t context,
                     const weft::data::Vocabulary &vocabulary, const std::string &prompt,
                     const GenerateOptions &options) {
  weft::NoGrad no_grad;
  std::vector<int64_t> ids = vocabulary.encode(weft::data::decode_utf8(prompt, "the prompt"));
  size_t given = ids.size();
  weft::data::SplitMix64 random(options.seed);
  for (int64_t i = 0; i < options.length; ++i) {
    int64_t seen = std::min<int64_t>(context, static_cast<int64_t>(ids.size()));
    std::vector<int64_t> window(ids.end() - seen, ids.end());
    window.resize(context);
    weft::Tensor logits = predict(weft::Tensor::from(window, {1, context}));
    ids.push_back(choose(logits.data<float>() + (seen - 1) * vocabulary.size(), vocabulary.size(),
                         options.temperature, random));
  }
  return weft::data::encode_utf8(vocabulary.decode(std::span(ids).subspan(given)));
}

} // namespace char_gpt
