#include "benchmarks/decode/cases.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "examples/generate/decoder.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

// peers.py has the same.
constexpr int64_t kCapacity = 512, kSeen = 256, kChunk = 32;
constexpr int64_t kVocabulary = 32000;

models::Llama grouped_llama() { // of GPT-2's size, each key for three queries
  return models::Llama({.vocabulary = kVocabulary,
                        .size = 768,
                        .hidden = 2048,
                        .layers = 12,
                        .heads = 12,
                        .key_heads = 4});
}

template <typename M> std::function<void()> case_of(M model, const std::string &name) {
  model.eval();
  const int64_t batch = decode_case_batch(name);
  const bool is_prompt = name.find("_prompt_") != std::string::npos;
  generate::Steps steps = generate::decoder_of(model).start(batch, kCapacity);
  Tensor ids = randint(0, kVocabulary, {batch, is_prompt ? kChunk : 1});
  eval(ids);
  // Back to the same place each time, so that all runs do the same.
  const std::vector<int64_t> lengths(static_cast<size_t>(batch), kSeen);
  return [=]() mutable {
    NoGrad no_history;
    steps.cache.set_lengths(lengths);
    if (is_prompt) {
      steps.read(ids);
      synchronize();
    } else {
      steps.next(ids).eval();
    }
  };
}

} // namespace

const std::vector<std::string> &decode_case_names() {
  static const std::vector<std::string> names = {"gpt2_step_1",  "gpt2_step_8",  "gpt2_prompt_1",
                                                 "llama_step_1", "llama_step_8", "llama_prompt_1"};
  return names;
}

int64_t decode_case_batch(const std::string &name) {
  return std::atoll(name.c_str() + name.rfind('_') + 1);
}

std::function<void()> make_decode_case(const std::string &name) {
  const std::vector<std::string> &names = decode_case_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw std::runtime_error("no case '" + name + "'");
  manual_seed(1);
  return name.starts_with("gpt2") ? case_of(models::Gpt2(models::Gpt2Config::gpt2()), name)
                                  : case_of(grouped_llama(), name);
}

} // namespace weft::benchmarks
