// A stored moment of a training run: everything that the rest of the run depends on.
#pragma once

#include <string>

#include "examples/char_gpt/model.h"
#include "weft/data/loader.h"

namespace char_gpt {

// What a run is, apart from the text.
struct RunOptions {
  ModelSizes sizes;
  int64_t steps = 1000;
  int64_t batch = 16;
  double lr = 3e-3;
  uint64_t seed = 1;
  bool operator==(const RunOptions &) const = default;
};

struct Checkpoint {
  RunOptions options;
  std::u32string characters; // the vocabulary
  uint64_t digest = 0;       // Corpus::digest
  int64_t step = 0;          // steps done
  double first_loss = 0, first_validation = 0, validation = 0;
  weft::data::LoaderState loader;
  weft::nn::NamedTensors model, optimizer;
  weft::Tensor random; // state of the default generator
};

// A safetensors file: tensors "model.*", "optimizer.*" and "random", the rest as metadata. Replaces
// `path` in one step, so that a process killed at any moment leaves the old or the new file. Throws
// weft::Error when it cannot be written.
void save_checkpoint(const std::string &path, const Checkpoint &checkpoint);

// Throws weft::Error when the file is missing, damaged, or not a checkpoint of this program.
Checkpoint load_checkpoint(const std::string &path);

} // namespace char_gpt
