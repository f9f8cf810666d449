#include "examples/digits/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/common/curve.h"
#include "examples/common/training_state.h"
#include "weft/io/progress.h"
#include "weft/weft.h"

namespace digits {
namespace {

constexpr const char *kFormat = "weft digits checkpoint 1";
// AdamW's weight decay, and the share of the highest learning rate that is left at the end.
constexpr double kWeightDecay = 1e-2, kFinalShare = 0.01;

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

int64_t Confusion::total() const {
  int64_t sum = 0;
  for (int64_t count : counts)
    sum += count;
  return sum;
}

double Confusion::accuracy() const {
  int64_t right = 0;
  for (int64_t i = 0; i < classes; ++i)
    right += at(i, i);
  return total() == 0 ? 0 : static_cast<double>(right) / static_cast<double>(total());
}

Trainer::Trainer(RunOptions options, weft::data::IdxDataset train, weft::data::IdxDataset test)
    : options_(options), test_(std::move(test)),
      model_((weft::manual_seed(options.seed), options.sizes)),
      optimizer_(model_.parameters(), {.lr = options.lr, .weight_decay = kWeightDecay}),
      // A batch of the rest would be a program of its own, and statistics of few images.
      loader_(
          std::move(train),
          {.batch_size = options.batch, .shuffle = true, .drop_last = true, .seed = options.seed}) {
}

void Trainer::save(const std::string &path) {
  examples::TrainingState state = examples::training_state(model_, optimizer_);
  state.metadata = {{"run", spell(options_)}, {"epoch", std::to_string(epoch_)}};
  examples::save_training_state(path, kFormat, state);
}

void Trainer::resume(const std::string &path) {
  examples::TrainingState state = examples::load_training_state(path, kFormat);
  auto fail = [&](const std::string &why) {
    throw weft::Error(weft::ErrorKind::kFile, "'" + path + "' " + why);
  };
  if (state.metadata["run"] != spell(options_))
    fail("holds another run: " + state.metadata["run"] + "; this one is " + spell(options_));
  const std::string &epoch = state.metadata["epoch"];
  bool is_number = !epoch.empty() && epoch.size() < 10 &&
                   epoch.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || std::stoll(epoch) > options_.epochs)
    fail("is a damaged checkpoint: its epoch is '" + epoch + "'");
  examples::restore(state, model_, optimizer_);
  epoch_ = std::stoll(epoch);
  loader_.restore({.seed = options_.seed, .epoch = epoch_, .batch = 0});
}

void Trainer::run(const std::string &folder) {
  int64_t steps = loader_.batches(), total = options_.epochs * steps;
  examples::Curve curve(folder + "/curve.csv", "test", epoch_ * steps);
  double accuracy = epoch_ > 0 ? test().accuracy() : 0;
  weft::io::ProgressBar bar({.total = total, .start = epoch_ * steps});
  float shown = 0;
  weft::Tensor unread; // the loss of the step before: reading it while the next one runs keeps the
                       // processor busy
  auto read = [&](int64_t step, std::optional<double> tested) {
    shown = unread.item<float>();
    if (!std::isfinite(shown))
      throw weft::Error(weft::ErrorKind::kValue, "the loss is " + std::to_string(shown) +
                                                     " after step " + std::to_string(step) +
                                                     "; a lower --lr than " +
                                                     std::to_string(options_.lr) + " may help");
    curve.add(step, shown, tested);
  };
  while (epoch_ < options_.epochs) {
    model_.train();
    for (int64_t i = 0; i < steps; ++i) {
      auto [images, labels] = loader_.next();
      int64_t step = epoch_ * steps + i;
      optimizer_.set_lr(weft::optim::cosine_lr(step, {.lr = options_.lr,
                                                      .warmup = std::min(steps, total / 10),
                                                      .total = total,
                                                      .final_share = kFinalShare}));
      weft::Tensor loss = weft::nn::cross_entropy(model_(images), labels);
      optimizer_.zero_grad();
      loss.backward();
      optimizer_.step();
      if (i > 0)
        read(step, {});
      unread = loss;
      char status[80];
      std::snprintf(status, sizeof status, "epoch %lld  loss %.4f  test %.2f %%",
                    static_cast<long long>(epoch_ + 1), shown, 100 * accuracy);
      bar.update(step + 1, status);
    }
    ++epoch_;
    accuracy = test().accuracy();
    read(epoch_ * steps, accuracy);
    curve.flush();
    save(folder + "/checkpoint.safetensors");
  }
}

Confusion Trainer::test() {
  weft::NoGrad no_grad;
  model_.eval();
  Confusion confusion{options_.sizes.classes,
                      std::vector<int64_t>(
                          static_cast<size_t>(options_.sizes.classes * options_.sizes.classes), 0)};
  weft::data::DataLoader loader(
      test_, {.batch_size = test_.size() < options_.batch ? test_.size() : options_.batch});
  for (auto [images, labels] : loader) {
    std::vector<float> logits = model_(images).to_vector<float>();
    std::vector<int64_t> is = labels.to_vector<int64_t>();
    size_t classes = static_cast<size_t>(options_.sizes.classes);
    for (size_t i = 0; i < is.size(); ++i) {
      auto row = logits.begin() + static_cast<std::ptrdiff_t>(i * classes);
      int64_t taken = std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row;
      ++confusion.counts[static_cast<size_t>(is[i]) * classes + static_cast<size_t>(taken)];
    }
  }
  return confusion;
}

} // namespace digits
