#include "examples/char_gpt/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <numeric>

#include "examples/common/curve.h"
#include "weft/data/data.h"
#include "weft/io/progress.h"
#include "weft/weft.h"

namespace char_gpt {
namespace {

namespace nn = weft::nn;
using Clock = std::chrono::steady_clock;

// Found by trying on the licence texts: 3e-3 with these reaches 1.5 nats a character in 1,000
// steps, 1e-3 needs twice as long.
constexpr double kBeta2 = 0.99; // 1,000 steps are few: a second moment averaged over 100 of them
                                // follows the gradients better
constexpr double kWeightDecay = 0.1;   // the text is small, four passes over it are one run
constexpr double kMaxGradientNorm = 1; // what a first step at a full learning rate could break
constexpr double kFinalShare = 0.1;    // of the learning rate, at the end of the cosine
constexpr int64_t kWarmupSteps = 100;  // at most a tenth of the run

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

} // namespace

Trainer::Trainer(const RunOptions &options, const Cadence &cadence, const Corpus &corpus,
                 const std::optional<Checkpoint> &checkpoint, const weft::distributed::Group &ranks)
    : options_(options), cadence_(cadence), corpus_(corpus),
      model_((weft::manual_seed(options.seed), options.sizes)),
      optimizer_(model_.parameters(),
                 {.lr = options.lr, .beta2 = kBeta2, .weight_decay = kWeightDecay}),
      loader_(weft::data::TextDataset(corpus.training, options.sizes.context),
              {.batch_size = options.batch, .replacement = true, .seed = options.seed}),
      ranks_(ranks) {
  model_.recompute_blocks(cadence.recompute);
  if (ranks_.defined()) {
    if (options.batch % ranks_.size() != 0)
      throw weft::Error(weft::ErrorKind::kValue,
                        "a batch of " + std::to_string(options.batch) + " does not divide among " +
                            std::to_string(ranks_.size()) + " ranks; choose another --batch");
    replicas_.emplace(model_.parameters(), ranks_);
    weft::default_generator().set_part(ranks_.rank(), ranks_.size());
  }
  if (!checkpoint)
    return;
  model_.load_state(checkpoint->model);
  optimizer_.load_state(checkpoint->optimizer);
  weft::default_generator().set_state(checkpoint->random);
  loader_.restore(checkpoint->loader);
  step_ = checkpoint->step;
  report_.first_loss = checkpoint->first_loss;
  report_.first_validation = checkpoint->first_validation;
  report_.validation = checkpoint->validation;
}

weft::data::Batch Trainer::share_of(const weft::data::Batch &batch) const {
  if (!ranks_.defined())
    return batch;
  int64_t rows = options_.batch / ranks_.size(), first = ranks_.rank() * rows;
  return {batch.input.narrow(0, first, rows), batch.target.narrow(0, first, rows)};
}

void Trainer::leave_ranks() {
  replicas_.reset();
  ranks_ = {};
  weft::default_generator().set_part(0, 1);
}

double Trainer::validate() {
  weft::NoGrad no_grad;
  model_.eval();
  int64_t context = options_.sizes.context;
  weft::data::TextDataset windows(corpus_.validation, context, context);
  // Whole batches only: a ragged one would be a program of its own for a few windows' sake.
  int64_t batch = std::min(options_.batch, windows.size());
  weft::data::DataLoader loader(std::move(windows), {.batch_size = batch, .drop_last = true});
  double sum = 0;
  for (auto [input, target] : loader)
    sum += nn::cross_entropy(model_(input), target).item<float>();
  model_.train();
  return sum / static_cast<double>(loader.batches());
}

void Trainer::save(const std::string &path) {
  save_checkpoint(path, {.options = options_,
                         .characters = corpus_.vocabulary.characters(),
                         .digest = corpus_.digest,
                         .step = step_,
                         .first_loss = report_.first_loss,
                         .first_validation = report_.first_validation,
                         .validation = report_.validation,
                         .loader = loader_.state(),
                         .model = model_.state(),
                         .optimizer = optimizer_.state(),
                         .random = weft::default_generator().state()});
}

weft::Tensor Trainer::step(const weft::Tensor &input, const weft::Tensor &target) {
  weft::Tensor loss = nn::cross_entropy(model_(input), target);
  optimizer_.zero_grad();
  loss.backward();
  if (replicas_) {
    replicas_->reduce_gradients();
    loss =
        weft::distributed::all_reduce(loss.detach(), weft::distributed::Reduction::kMean, ranks_);
  }
  weft::optim::clip_grad_norm(optimizer_.parameters(), kMaxGradientNorm);
  optimizer_.step();
  return loss;
}

TrainingReport Trainer::run(const std::string &folder,
                            const std::function<void()> &before_first_step,
                            const std::function<void()> &after_first_step) {
  std::optional<examples::Curve> curve;
  if (writes())
    curve.emplace(folder + "/curve.csv", "validation", step_);
  if (step_ == 0)
    report_.first_validation = report_.validation = validate();
  std::optional<weft::io::ProgressBar> bar;
  if (writes())
    bar.emplace(weft::io::ProgressOptions{.total = options_.steps, .start = step_});
  weft::optim::CosineOptions schedule{.lr = options_.lr,
                                      .warmup = std::min(kWarmupSteps, options_.steps / 10),
                                      .total = options_.steps,
                                      .final_share = kFinalShare};
  double tokens_per_step = static_cast<double>(options_.batch * options_.sizes.context);
  // Steps run behind the loop: the time of one is that of a span between two points where all is
  // done, over its steps. The first step, which compiles, is in none.
  std::vector<double> step_seconds;
  Clock::time_point span_start = Clock::now();
  int64_t span_steps = 0;
  std::deque<float> last_losses;
  Clock::time_point start = Clock::now();
  weft::Tensor unread; // the loss of the step before: reading it while the next one runs keeps the
                       // processor busy
  auto read = [&](int64_t of_step, const weft::Tensor &loss, std::optional<double> validation) {
    float value = loss.item<float>();
    if (!std::isfinite(value))
      throw weft::Error(weft::ErrorKind::kRun, "the loss is " + std::to_string(value) +
                                                   " after step " + std::to_string(of_step) +
                                                   "; a lower --lr may help");
    if (of_step == 1)
      report_.first_loss = value;
    last_losses.push_back(value);
    if (last_losses.size() > 10)
      last_losses.pop_front();
    if (curve)
      curve->add(of_step, value, validation);
  };
  for (bool first = true; step_ < options_.steps; first = false) {
    if (first)
      before_first_step();
    auto [input, target] = share_of(next_batch());
    optimizer_.set_lr(weft::optim::cosine_lr(step_, schedule));
    weft::Tensor loss = step(input, target);
    ++step_;
    if (unread.defined())
      read(step_ - 1, unread, {});
    unread = loss;
    if (first) {
      loss.item<float>();
      after_first_step();
      span_start = Clock::now();
    } else {
      ++span_steps;
    }

    bool last = step_ == options_.steps;
    bool validates = last || step_ % cadence_.validate == 0,
         saves = last || step_ % cadence_.checkpoint == 0;
    if (validates || saves) {
      unread.item<float>();
      if (span_steps > 0)
        step_seconds.push_back(seconds_since(span_start) / static_cast<double>(span_steps));
      if (validates)
        report_.validation = validate();
      read(step_, unread, validates ? std::optional(report_.validation) : std::nullopt);
      unread = weft::Tensor();
    }
    if (saves && writes()) {
      curve->flush();
      save(folder + "/checkpoint.safetensors");
    }
    char status[96];
    double pace = tokens_per_step * static_cast<double>(++report_.steps) / seconds_since(start);
    // The first loss is known once the second step is under way.
    char loss_text[16] = "-";
    if (!last_losses.empty())
      std::snprintf(loss_text, sizeof loss_text, "%.3f", last_losses.back());
    std::snprintf(status, sizeof status, "loss %s  validation %.3f  %s tokens/s", loss_text,
                  report_.validation, weft::io::format_count(pace).c_str());
    if (bar)
      bar->update(step_, status);
  }
  report_.seconds = seconds_since(start);
  if (!last_losses.empty())
    report_.last_loss = std::accumulate(last_losses.begin(), last_losses.end(), 0.0) /
                        static_cast<double>(last_losses.size());
  if (!step_seconds.empty()) {
    std::nth_element(step_seconds.begin(), step_seconds.begin() + step_seconds.size() / 2,
                     step_seconds.end());
    report_.ms_per_step = 1e3 * step_seconds[step_seconds.size() / 2];
  }
  return report_;
}

} // namespace char_gpt
