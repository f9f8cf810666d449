#include "examples/char_gpt/checkpoint.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "examples/common/training_state.h"
#include "weft/data/text.h"

namespace char_gpt {
namespace {

constexpr const char *kFormat = "weft char_gpt checkpoint 1";

std::string shown(int64_t value) {
  return std::to_string(value);
}
std::string shown(uint64_t value) {
  return std::to_string(value);
}
// Hexadecimal, so that a value comes back with all its bits.
std::string shown(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

void parse(const std::string &text, double &value, bool &ok) {
  char *end = nullptr;
  value = std::strtod(text.c_str(), &end);
  ok = !text.empty() && *end == '\0';
}
template <typename T> void parse(const std::string &text, T &value, bool &ok) {
  auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  ok = result.ec == std::errc() && result.ptr == text.data() + text.size();
}

// Every number of a checkpoint with its name in the file.
template <typename C, typename Visit> void visit_fields(C &checkpoint, const Visit &visit) {
  auto &options = checkpoint.options;
  visit("vocabulary", options.sizes.vocabulary);
  visit("context", options.sizes.context);
  visit("width", options.sizes.width);
  visit("heads", options.sizes.heads);
  visit("layers", options.sizes.layers);
  visit("dropout", options.sizes.dropout);
  visit("steps", options.steps);
  visit("batch", options.batch);
  visit("lr", options.lr);
  visit("seed", options.seed);
  visit("digest", checkpoint.digest);
  visit("step", checkpoint.step);
  visit("first_loss", checkpoint.first_loss);
  visit("first_validation", checkpoint.first_validation);
  visit("validation", checkpoint.validation);
  visit("loader.seed", checkpoint.loader.seed);
  visit("loader.epoch", checkpoint.loader.epoch);
  visit("loader.batch", checkpoint.loader.batch);
}

} // namespace

void save_checkpoint(const std::string &path, const Checkpoint &checkpoint) {
  examples::TrainingState state{checkpoint.model, checkpoint.optimizer, checkpoint.random, {}};
  state.metadata["characters"] = weft::data::encode_utf8(checkpoint.characters);
  visit_fields(checkpoint,
               [&](const char *name, const auto &value) { state.metadata[name] = shown(value); });
  examples::save_training_state(path, kFormat, state);
}

Checkpoint load_checkpoint(const std::string &path) {
  auto fail = [&](const std::string &why) {
    throw weft::Error(weft::ErrorKind::kFile, "'" + path + "' " + why);
  };
  examples::TrainingState state = examples::load_training_state(path, kFormat);
  Checkpoint checkpoint;
  visit_fields(checkpoint, [&](const char *name, auto &value) {
    auto found = state.metadata.find(name);
    bool ok = found != state.metadata.end();
    if (ok)
      parse(found->second, value, ok);
    if (!ok)
      fail(std::string("is a damaged checkpoint: its '") + name + "' is missing or not a number");
  });
  auto characters = state.metadata.find("characters");
  if (characters == state.metadata.end())
    fail("is a damaged checkpoint: it has no vocabulary");
  checkpoint.characters =
      weft::data::decode_utf8(characters->second, "the vocabulary of '" + path + "'");
  const ModelSizes &sizes = checkpoint.options.sizes;
  if (static_cast<int64_t>(checkpoint.characters.size()) != sizes.vocabulary ||
      checkpoint.step < 0 || checkpoint.options.steps < 1 || checkpoint.options.batch < 1 ||
      sizes.context < 1 || sizes.layers < 1 || sizes.heads < 1 || sizes.width < 1)
    fail("is a damaged checkpoint: its numbers contradict each other");
  checkpoint.model = std::move(state.model);
  checkpoint.optimizer = std::move(state.optimizer);
  checkpoint.random = std::move(state.random);
  return checkpoint;
}

} // namespace char_gpt
