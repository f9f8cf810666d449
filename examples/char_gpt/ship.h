// The trained model without Weft around it: an object, its C header, and an executable that needs
// no compiler. Its trainer, likewise.
#pragma once

#include <string>

#include "examples/char_gpt/model.h"
#include "examples/char_gpt/trainer.h"
#include "weft/data/text.h"

namespace char_gpt {

struct Shipped {
  std::string object, header, executable;
};

// Compiles the model (in evaluation) ahead of time to folder/char_gpt.o and folder/char_gpt.h,
// writes folder/vocabulary.h and folder/generate.c, and links them to folder/generate with the
// machine's C compiler. Throws weft::Error when one of these fails.
Shipped ship(const CharGpt &model, const weft::data::Vocabulary &vocabulary,
             const std::string &folder);

// What `generate PROMPT LENGTH` prints. Throws weft::Error when it cannot be run or fails.
std::string run_executable(const std::string &executable, const std::string &prompt,
                           int64_t length);

struct ShippedTrainer {
  std::string executable;
  std::string state; // what it begins with
  int64_t steps = 0; // that were compared
  bool same = false; // losses, and all that the steps write, to the last bit
};

// Compiles the training step ahead of time, with the model in evaluation beside it, to
// folder/trainer, with what both hold now in folder/trainer.safetensors. Then takes some steps in
// this process and lets the executable take them, too, on the same batches: folder/input.npy,
// target.npy and lr.npy. What it computes is folder/loss.npy and trained.safetensors. Throws
// weft::Error when a file cannot be written, or the executable fails.
ShippedTrainer ship_trainer(Trainer &trainer, const std::string &folder);

// From its construction to end(), what is compiled leaves the IR of each phase and kernel in the
// folder. What an earlier run left there goes.
class DumpScope {
public:
  explicit DumpScope(const std::string &folder);
  void end();
  ~DumpScope() {
    end();
  }

private:
  std::string previous_;
  bool open_ = true;
};

} // namespace char_gpt
