// Trains a small character GPT on a text, shows what the compiler made of it, and ships it as an
// executable. See README.md.
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "examples/char_gpt/corpus.h"
#include "examples/char_gpt/generate.h"
#include "examples/char_gpt/ship.h"
#include "examples/char_gpt/summary.h"
#include "examples/char_gpt/trainer.h"
#include "examples/common/command_line.h"
#include "weft/io/files.h"
#include "weft/io/progress.h"
#include "weft/weft.h"

namespace {

namespace fs = std::filesystem;
using namespace char_gpt;

constexpr int64_t kSampleLength = 400; // characters: a paragraph
constexpr int64_t kCompareLength =
    200; // characters, of the ahead-of-time executable and of the JIT

struct Arguments {
  std::string text = "/usr/share/common-licenses";
  std::string out = "char_gpt_out";
  std::string prompt;
  bool resume = false, train_only = false, is_rank = false;
  Cadence cadence;
  RunOptions run;
};

// Fills in what is not given from the checkpoint, and checks that what is given agrees with it.
void adopt(const CLI::App &app, const Checkpoint &checkpoint, const Corpus &corpus,
           Arguments &arguments) {
  auto fail = [&](const std::string &why) {
    throw weft::Error(weft::ErrorKind::kValue,
                      "cannot resume from '" + arguments.out + "/checkpoint.safetensors': " + why);
  };
  RunOptions stored = checkpoint.options;
  // More or fewer steps may be asked for; they change the learning rates from here on.
  if (app.count("--steps"))
    stored.steps = arguments.run.steps;
  const std::pair<const char *, bool> same[] = {
      {"--context", stored.sizes.context == arguments.run.sizes.context},
      {"--width", stored.sizes.width == arguments.run.sizes.width},
      {"--heads", stored.sizes.heads == arguments.run.sizes.heads},
      {"--layers", stored.sizes.layers == arguments.run.sizes.layers},
      {"--dropout", stored.sizes.dropout == arguments.run.sizes.dropout},
      {"--batch", stored.batch == arguments.run.batch},
      {"--lr", stored.lr == arguments.run.lr},
      {"--seed", stored.seed == arguments.run.seed}};
  for (const auto &[option, is_same] : same)
    if (app.count(option) && !is_same)
      fail(std::string(option) + " differs from the run that it holds; leave it out");
  if (checkpoint.digest != corpus.digest)
    fail("it was trained on another text than '" + arguments.text + "'");
  arguments.run = stored;
}

// All but the first rank train, and leave the rest to it.
int run_rank(const Arguments &arguments, const Corpus &corpus,
             const std::optional<Checkpoint> &checkpoint, const weft::distributed::Group &ranks) {
  auto nothing = [] {
  };
  Trainer(arguments.run, arguments.cadence, corpus, checkpoint, ranks)
      .run(arguments.out, nothing, nothing);
  return 0;
}

int run(const CLI::App &app, Arguments arguments) {
  const std::string checkpoint_path = arguments.out + "/checkpoint.safetensors";
  std::optional<Checkpoint> checkpoint;
  if (arguments.resume) {
    checkpoint = load_checkpoint(checkpoint_path);
    if (!app.count("--context"))
      arguments.run.sizes.context = checkpoint->options.sizes.context;
  }
  Corpus corpus = read_corpus(arguments.text, arguments.run.sizes.context);
  arguments.run.sizes.vocabulary = corpus.vocabulary.size();
  if (checkpoint)
    adopt(app, *checkpoint, corpus, arguments);
  weft::distributed::Group ranks;
  if (arguments.is_rank)
    ranks = weft::distributed::init();
  if (ranks.defined() && ranks.rank() > 0)
    return run_rank(arguments, corpus, checkpoint, ranks);
  weft::io::make_writable_folder(arguments.out);

  const RunOptions &options = arguments.run;
  Trainer trainer(options, arguments.cadence, corpus, checkpoint, ranks);
  if (ranks.defined())
    std::printf("ranks       %d, each with %lld of %lld windows a step\n", ranks.size(),
                static_cast<long long>(options.batch / ranks.size()),
                static_cast<long long>(options.batch));
  std::printf("text        %s: %zu file%s, %s characters to train on, %s to validate on, %lld "
              "different ones\n",
              arguments.text.c_str(), corpus.files, corpus.files == 1 ? "" : "s",
              weft::io::format_count(corpus.training.size()).c_str(),
              weft::io::format_count(corpus.validation.size()).c_str(),
              static_cast<long long>(corpus.vocabulary.size()));
  std::printf(
      "model       %lld layers, width %lld, %lld heads, context %lld: %s parameters\n",
      static_cast<long long>(options.sizes.layers), static_cast<long long>(options.sizes.width),
      static_cast<long long>(options.sizes.heads), static_cast<long long>(options.sizes.context),
      weft::io::format_count(static_cast<double>(trainer.model().parameter_count())).c_str());
  if (checkpoint)
    std::printf("resuming    after step %lld of %lld\n", static_cast<long long>(checkpoint->step),
                static_cast<long long>(options.steps));
  std::fflush(stdout);

  Summary summary(arguments.out);
  std::optional<DumpScope> dumps; // of the phases of the step's program
  TrainingReport training = trainer.run(
      arguments.out, [&] { dumps.emplace(arguments.out + "/ir"); },
      [&] {
        summary.note_step(); // waits for it
        dumps.reset();
      });

  trainer.leave_ranks();

  if (arguments.train_only) {
    std::printf("validation  %.3f -> %.3f nats per character\n", training.first_validation,
                training.validation);
    return 0;
  }
  CharGpt model = trainer.model();
  model.eval();
  auto jit = weft::jit([model](const weft::Tensor &ids) { return model(ids); });
  std::string prompt = arguments.prompt.empty() ? weft::data::encode_utf8(corpus.vocabulary.decode(
                                                      std::span(corpus.validation).first(32)))
                                                : arguments.prompt;
  int64_t context = options.sizes.context;
  std::printf("\nsample (temperature 0.8) after %s\n", one_line(prompt).c_str());
  std::printf("%s\n\n", generate(jit, context, corpus.vocabulary, prompt,
                                 {.length = kSampleLength, .seed = options.seed})
                            .c_str());
  std::string greedy = generate(jit, context, corpus.vocabulary, prompt,
                                {.length = kCompareLength, .temperature = 0});

  Shipped shipped = ship(model, corpus.vocabulary, arguments.out);
  std::string from_executable = run_executable(shipped.executable, prompt, kCompareLength);
  ShippedTrainer shipped_trainer = ship_trainer(trainer, arguments.out);
  summary.print(training, shipped, from_executable == greedy, shipped_trainer);
  if (!shipped_trainer.same)
    std::fprintf(stderr, "char_gpt: the trainer's executable computes other losses\n");
  if (from_executable == greedy)
    return shipped_trainer.same ? 0 : 1;
  std::fprintf(stderr, "char_gpt: the executable continues differently:\n  jit: %s\n  exe: %s\n",
               one_line(greedy).c_str(), one_line(from_executable).c_str());
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app(
      "Trains a character-level GPT on a text, samples from it, and compiles it ahead of time.");
  RunOptions &options = arguments.run;
  app.add_option("--text", arguments.text, "a UTF-8 file, or a folder of such files")
      ->capture_default_str();
  app.add_option("--out", arguments.out,
                 "folder for the checkpoint, the curve, the IR and the executable")
      ->capture_default_str();
  app.add_flag("--resume", arguments.resume, "continue from the checkpoint in --out");
  app.add_option("--steps", options.steps, "training steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch", options.batch, "windows a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--lr", options.lr, "highest learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of initial weights, dropout and batches")
      ->capture_default_str();
  app.add_option("--context", options.sizes.context, "characters that a prediction sees")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--width", options.sizes.width, "of the model")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--heads", options.sizes.heads, "of the attention; divides the width")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--layers", options.sizes.layers, "transformer blocks")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dropout", options.sizes.dropout, "on embeddings and residual branches")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  app.add_flag("--recompute", arguments.cadence.recompute,
               "compute each block again for its gradient instead of keeping it: the same losses "
               "in less memory");
  app.add_option("--prompt", arguments.prompt,
                 "what the samples continue; default: the start of the validation text");
  app.add_option("--validate-every", arguments.cadence.validate, "steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--checkpoint-every", arguments.cadence.checkpoint, "steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--distributed", arguments.is_rank,
               "be one rank of a job (tools/launch.sh, torchrun, mpirun, srun): all share each "
               "batch, and the first one writes");
  app.add_flag("--train-only", arguments.train_only, "neither sample nor compile ahead of time");
  return examples::run_program("char_gpt", app, argc, argv, [&] {
    if (options.sizes.width % options.sizes.heads != 0)
      throw weft::Error(weft::ErrorKind::kValue, "--heads must divide --width");
    return run(app, arguments);
  });
}
