#include "examples/common/classifier.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "examples/common/curve.h"
#include "examples/common/training_state.h"
#include "weft/io/progress.h"
#include "weft/weft.h"

namespace examples {
namespace {

// AdamW's weight decay, and the share of the highest learning rate that is left at the end.
constexpr double kWeightDecay = 1e-2, kFinalShare = 0.01;

// A number of steps or epochs in a checkpoint, at most `most`; -1 for another text.
int64_t count_in(const std::string &text, int64_t most) {
  bool is_number = !text.empty() && text.size() < 10 &&
                   text.find_first_not_of("0123456789") == std::string::npos;
  return is_number && std::stoll(text) <= most ? std::stoll(text) : -1;
}

} // namespace

double Tested::top_share() const {
  int64_t total = confusion.total();
  return total == 0 ? 0 : static_cast<double>(in_top) / static_cast<double>(total);
}

ClassifierTrainer::ClassifierTrainer(ClassifierOptions options, weft::nn::Module module,
                                     Model model, weft::data::DatasetPtr train,
                                     weft::data::DatasetPtr test)
    : options_(std::move(options)), module_(std::move(module)), model_(std::move(model)),
      test_(std::move(test)),
      optimizer_(module_.parameters(), {.lr = options_.lr, .weight_decay = kWeightDecay}),
      scaler_({.enabled = options_.precision == weft::float16}),
      // A batch of the rest would be a program of its own, and statistics of few images.
      loader_(std::move(train), {.batch_size = options_.batch,
                                 .shuffle = true,
                                 .drop_last = true,
                                 .seed = options_.seed}) {
  if (test_->size() < 1)
    throw weft::Error(weft::ErrorKind::kValue, "there are no images to test on");
}

void ClassifierTrainer::save(const std::string &path) {
  TrainingState state = training_state(module_, optimizer_);
  state.scaler = scaler_.state();
  state.metadata = {
      {"run", options_.run}, {"epoch", std::to_string(epoch_)}, {"batch", std::to_string(batch_)}};
  save_training_state(path, options_.format, state);
}

void ClassifierTrainer::resume(const std::string &path) {
  TrainingState state = load_training_state(path, options_.format);
  auto fail = [&](const std::string &why) {
    throw weft::Error(weft::ErrorKind::kFile, "'" + path + "' " + why);
  };
  if (state.metadata["run"] != options_.run)
    fail("holds another run: " + state.metadata["run"] + "; this one is " + options_.run);
  int64_t epoch = count_in(state.metadata["epoch"], options_.epochs),
          batch = count_in(state.metadata["batch"], loader_.batches() - 1);
  if (epoch < 0)
    fail("is a damaged checkpoint: its epoch is '" + state.metadata["epoch"] + "'");
  if (batch < 0)
    fail("is a damaged checkpoint, or of other images: it stands at batch '" +
         state.metadata["batch"] + "' of " + std::to_string(loader_.batches()));
  if (epoch == options_.epochs && batch > 0)
    fail("is a damaged checkpoint: it stands at batch '" + state.metadata["batch"] +
         "' behind the last epoch");
  restore(state, module_, optimizer_);
  scaler_.load_state(state.scaler);
  epoch_ = epoch;
  batch_ = batch;
  loader_.restore({.seed = options_.seed, .epoch = epoch_, .batch = batch_});
}

weft::Tensor ClassifierTrainer::step(const weft::data::Batch &batch) {
  weft::Tensor loss = weft::nn::cross_entropy(logits(batch.input), batch.target);
  optimizer_.zero_grad();
  scaler_.scale(loss).backward();
  scaler_.step(optimizer_);
  return loss;
}

weft::Tensor ClassifierTrainer::logits(const weft::Tensor &images) {
  const bool lower = options_.precision != weft::float32;
  weft::Autocast scope(lower ? options_.precision : weft::bfloat16, lower);
  return model_(images).to(weft::float32);
}

void ClassifierTrainer::run(const std::string &folder) {
  const int64_t steps = loader_.batches(), total = options_.epochs * steps;
  const std::string checkpoint = folder + "/checkpoint.safetensors";
  Curve curve(folder + "/curve.csv", "test", steps_done());
  double accuracy = epoch_ > 0 ? test().confusion.accuracy() : 0;
  weft::io::ProgressBar bar({.total = total, .start = steps_done()});
  float shown = 0;
  weft::Tensor unread; // the loss of the step before: reading it while the next one runs keeps the
                       // processor busy
  auto read = [&](int64_t step, std::optional<double> tested) {
    shown = unread.item<float>();
    unread = weft::Tensor();
    if (!std::isfinite(shown))
      throw weft::Error(weft::ErrorKind::kValue, "the loss is " + std::to_string(shown) +
                                                     " after step " + std::to_string(step) +
                                                     "; a lower --lr than " +
                                                     std::to_string(options_.lr) + " may help");
    curve.add(step, shown, tested);
  };
  auto keep = [&] {
    curve.flush();
    save(checkpoint);
  };
  while (epoch_ < options_.epochs) {
    module_.train();
    while (batch_ < steps) {
      const int64_t before = steps_done();
      weft::data::Batch batch = loader_.next();
      optimizer_.set_lr(weft::optim::cosine_lr(before, {.lr = options_.lr,
                                                        .warmup = std::min(steps, total / 10),
                                                        .total = total,
                                                        .final_share = kFinalShare}));
      weft::Tensor loss = step(batch);
      if (unread.defined())
        read(before, {});
      unread = loss;
      char status[80];
      std::snprintf(status, sizeof status, "epoch %lld  loss %.4f  test %.2f %%",
                    static_cast<long long>(epoch_ + 1), shown, 100 * accuracy);
      bar.update(before + 1, status);
      ++batch_;
      if (options_.checkpoint_every > 0 && batch_ < steps &&
          batch_ % options_.checkpoint_every == 0) {
        read(steps_done(), {});
        keep();
      }
    }
    ++epoch_;
    batch_ = 0;
    accuracy = test().confusion.accuracy();
    read(epoch_ * steps, accuracy);
    keep();
  }
}

Tested ClassifierTrainer::test() {
  weft::NoGrad no_grad;
  module_.eval();
  Tested tested{.confusion = Confusion(options_.classes)};
  const size_t classes = static_cast<size_t>(options_.classes);
  weft::data::DataLoader loader(test_, {.batch_size = std::min(test_->size(), options_.batch)});
  for (auto [images, labels] : loader) {
    std::vector<float> logits = this->logits(images).to_vector<float>();
    // Comparisons with what is no number are false: it would pass for the likeliest class.
    if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
      throw weft::Error(weft::ErrorKind::kValue,
                        "the model gives logits that are not finite for images to test on; a "
                        "lower --lr than " +
                            std::to_string(options_.lr) + " may help");
    std::vector<int64_t> is = labels.to_vector<int64_t>();
    for (size_t i = 0; i < is.size(); ++i) {
      auto row = logits.begin() + static_cast<std::ptrdiff_t>(i * classes);
      auto end = row + static_cast<std::ptrdiff_t>(classes);
      tested.confusion.add(is[i], std::max_element(row, end) - row);
      tested.in_top += std::count_if(row, end, [&](float x) { return x > row[is[i]]; }) < kTop;
    }
  }
  return tested;
}

} // namespace examples
