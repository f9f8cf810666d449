// The training run: steps, validation, checkpoints, the curve.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "examples/char_gpt/checkpoint.h"
#include "examples/char_gpt/corpus.h"
#include "weft/data/data.h"
#include "weft/distributed/distributed.h"
#include "weft/optim/optim.h"

namespace char_gpt {

struct TrainingReport {
  double first_loss = 0,
         last_loss = 0; // of a batch: the first step's, and the mean over the last ten steps
  double first_validation = 0, validation = 0;
  int64_t steps = 0;      // done in this process
  double seconds = 0;     // of all of them
  double ms_per_step = 0; // median over the steps after the first, which compiles
};

// How often, in steps, and in how much memory. None of it changes what is learned.
struct Cadence {
  int64_t validate = 100;  // takes as long as about five steps
  int64_t checkpoint = 50; // 10 MB a time; a killed run loses so many steps
  bool recompute = false;  // CharGpt::recompute_blocks
};

class Trainer {
public:
  // A new run, or the rest of the one that `checkpoint` was taken of. ranks: those that share each
  // batch; undefined for one process. Only rank 0 writes files.
  Trainer(const RunOptions &options, const Cadence &cadence, const Corpus &corpus,
          const std::optional<Checkpoint> &checkpoint, const weft::distributed::Group &ranks = {});

  // Runs the steps that are left. `folder`/checkpoint.safetensors and `folder`/curve.csv are kept
  // up to date; what a killed run wrote to the curve after its checkpoint is taken back first.
  // after_first_step is called once. Throws weft::Error when a file cannot be written, or the loss
  // is not finite.
  TrainingReport run(const std::string &folder, const std::function<void()> &before_first_step,
                     const std::function<void()> &after_first_step);

  // One step on a batch, at the optimizer's learning rate; gives the loss. It reads no value, so
  // that it can be traced.
  weft::Tensor step(const weft::Tensor &input, const weft::Tensor &target);
  // From now on steps are this process's alone.
  void leave_ranks();

  CharGpt &model() {
    return model_;
  }
  weft::optim::AdamW &optimizer() {
    return optimizer_;
  }
  weft::data::Batch next_batch() {
    return loader_.next();
  }

private:
  // This rank's rows of a batch.
  weft::data::Batch share_of(const weft::data::Batch &batch) const;
  bool writes() const {
    return !ranks_.defined() || ranks_.rank() == 0;
  }
  double validate();
  void save(const std::string &path);

  RunOptions options_;
  Cadence cadence_;
  const Corpus &corpus_;
  CharGpt model_;
  weft::optim::AdamW optimizer_;
  weft::data::DataLoader loader_;
  weft::distributed::Group ranks_;
  std::optional<weft::distributed::DataParallel> replicas_;
  int64_t step_ = 0;
  TrainingReport report_;
};

} // namespace char_gpt
