#include "examples/digits/trainer.h"

#include <cstdio>
#include <memory>

#include "weft/weft.h"

namespace digits {
namespace {

// Everything of a run that a checkpoint must agree with, as text.
std::string spell(const RunOptions &options) {
  char text[200];
  std::snprintf(
      text, sizeof text, "width %lld, classes %lld, epochs %lld, batch %lld, lr %a, seed %llu",
      static_cast<long long>(options.sizes.width), static_cast<long long>(options.sizes.classes),
      static_cast<long long>(options.epochs), static_cast<long long>(options.batch), options.lr,
      static_cast<unsigned long long>(options.seed));
  return text;
}

} // namespace

Trainer::Trainer(const RunOptions &options, weft::data::IdxDataset train,
                 weft::data::IdxDataset test)
    : model_((weft::manual_seed(options.seed), options.sizes)),
      trainer_(
          {.classes = options.sizes.classes,
           .epochs = options.epochs,
           .batch = options.batch,
           .lr = options.lr,
           .seed = options.seed,
           .format = "weft digits checkpoint 2",
           .run = spell(options)},
          model_, [model = model_](const weft::Tensor &images) { return model(images); },
          std::make_shared<weft::data::IdxDataset>(std::move(train)),
          std::make_shared<weft::data::IdxDataset>(std::move(test))) {}

} // namespace digits
