#include "benchmarks/models/char_gpt_step.h"

#include "weft/data/random.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

Tensor random_tokens(int64_t batch, int64_t context, uint64_t seed) {
  data::SplitMix64 random(seed);
  std::vector<int64_t> ids(batch * context);
  for (int64_t &id : ids)
    id = static_cast<int64_t>(random.below(kVocabulary));
  return Tensor::from(ids, {batch, context});
}

} // namespace

CharGptStep::CharGptStep(int64_t batch, std::optional<DType> lower)
    : model_(char_gpt::ModelSizes{.vocabulary = kVocabulary}),
      optimizer_(model_.parameters(), {.lr = 1e-3, .beta2 = 0.99, .weight_decay = 0.1}),
      input_(random_tokens(batch, model_.sizes().context, 1)),
      target_(random_tokens(batch, model_.sizes().context, 2)), lower_(lower) {}

Tensor CharGptStep::run() {
  optimizer_.set_lr(1e-3);
  Tensor loss;
  {
    Autocast scope(lower_.value_or(bfloat16), lower_.has_value());
    loss = nn::cross_entropy(model_(input_), target_);
  }
  optimizer_.zero_grad();
  loss.backward();
  optim::clip_grad_norm(optimizer_.parameters(), 1.0);
  optimizer_.step();
  return loss;
}

} // namespace weft::benchmarks
