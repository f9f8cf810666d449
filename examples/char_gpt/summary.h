// What the run cost and where its results lie.
#pragma once

#include <string>

#include "examples/char_gpt/ship.h"
#include "examples/char_gpt/trainer.h"
#include "weft/explain.h"

namespace char_gpt {

class Summary {
public:
  explicit Summary(std::string folder) : folder_(std::move(folder)) {}

  // To be called when a training step was just submitted: remembers how it was compiled.
  void note_step();

  void print(const TrainingReport &training, const Shipped &shipped, bool same_output,
             const ShippedTrainer &trainer) const;

private:
  std::string folder_;
  weft::Evaluation step_;
};

// The text on one line, in quotes, control characters as escapes.
std::string one_line(const std::string &text);

} // namespace char_gpt
