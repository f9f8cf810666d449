// The tensors that the rest of a training run depends on, in a file.
#pragma once

#include <map>
#include <string>

#include "weft/nn/module.h"
#include "weft/optim/optimizer.h"

namespace examples {

struct TrainingState {
  weft::nn::NamedTensors model, optimizer;
  weft::Tensor random; // state of the default generator
  std::map<std::string, std::string> metadata;
  weft::nn::NamedTensors scaler = {}; // of the loss; empty where there is none
};

TrainingState training_state(const weft::nn::Module &model,
                             const weft::optim::Optimizer &optimizer);
void restore(const TrainingState &state, weft::nn::Module &model,
             weft::optim::Optimizer &optimizer);

// A safetensors file: tensors "model.*", "optimizer.*", "scaler.*" and "random", and metadata,
// which names the program in "format". Replaces `path` in one step, so that a process killed at any
// moment leaves the old or the new file. Throws weft::Error when it cannot be written.
void save_training_state(const std::string &path, const std::string &format,
                         const TrainingState &state);
// Throws weft::Error when the file is missing, damaged, or of another format.
TrainingState load_training_state(const std::string &path, const std::string &format);

} // namespace examples
