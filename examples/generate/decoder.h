// A language model of any kind, as decoding sees it.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "weft/jit.h"
#include "weft/models/gpt2.h"
#include "weft/models/llama.h"

namespace generate {

// What decoding calls, for one cache: both functions go on where the cache's texts end.
struct Steps {
  weft::nn::KeyValueCache cache;
  std::function<void(const weft::Tensor &)> read; // ids int64 [N, T]: into the cache
  std::function<weft::Tensor(const weft::Tensor &)>
      next; // [N, 1] -> logits float32 [N, vocabulary]
};

struct Decoder {
  std::string kind; // "gpt2", "llama"
  int64_t vocabulary = 0, parameters = 0;
  int64_t positions = 0; // of a text, at most
  std::vector<int64_t> end_tokens;
  std::function<Steps(int64_t batch, int64_t capacity)> start;
};

// The model's functions, each recorded once and replayed: one program for all chunks of prompts,
// one for all steps.
template <typename M> Decoder decoder_of(const M &model) {
  Decoder decoder;
  decoder.parameters = model.parameter_count();
  decoder.positions = std::numeric_limits<int32_t>::max();
  decoder.start = [model](int64_t batch, int64_t capacity) {
    weft::nn::KeyValueCache cache = model.make_cache(batch, capacity);
    // No logits are made of what is read, nor what they alone need.
    auto read = weft::jit([=](const weft::Tensor &ids) { model.features(ids, cache); });
    auto next = weft::jit(
        [=](const weft::Tensor &ids) { return model(ids, cache).select(1, 0).to(weft::float32); });
    return Steps{.cache = cache,
                 .read = [read](const weft::Tensor &ids) { read(ids); },
                 .next = [next](const weft::Tensor &ids) { return next(ids); }};
  };
  return decoder;
}

// A folder as Hugging Face's save_pretrained() leaves it. Throws weft::Error when it is missing,
// damaged, or of another kind of model. dtype: of weights, cache and computing.
Decoder load_decoder(const std::string &folder, weft::DType dtype = weft::float32);

} // namespace generate
