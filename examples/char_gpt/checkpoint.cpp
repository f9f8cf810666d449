#include "examples/char_gpt/checkpoint.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "weft/data/text.h"
#include "weft/io/safetensors.h"

namespace char_gpt {
namespace {

constexpr const char *kFormat = "weft char_gpt checkpoint 1";

std::string shown(int64_t value) { return std::to_string(value); }
std::string shown(uint64_t value) { return std::to_string(value); }
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
  std::map<std::string, std::string> metadata = {{"format", kFormat}, {"characters", weft::data::encode_utf8(checkpoint.characters)}};
  visit_fields(checkpoint, [&](const char *name, const auto &value) { metadata[name] = shown(value); });
  weft::nn::NamedTensors tensors;
  for (const auto &[name, tensor] : checkpoint.model) tensors.emplace_back("model." + name, tensor);
  for (const auto &[name, tensor] : checkpoint.optimizer) tensors.emplace_back("optimizer." + name, tensor);
  tensors.emplace_back("random", checkpoint.random);
  weft::io::save_safetensors(path, tensors, metadata);
}

Checkpoint load_checkpoint(const std::string &path) {
  auto [tensors, metadata] = weft::io::load_safetensors(path);
  auto fail = [&](const std::string &why) { throw weft::Error(weft::ErrorKind::kFile, "'" + path + "' " + why); };
  auto format = metadata.find("format");
  if (format == metadata.end() || format->second != kFormat) fail("is a safetensors file, but no checkpoint of this program");
  Checkpoint checkpoint;
  visit_fields(checkpoint, [&](const char *name, auto &value) {
    auto found = metadata.find(name);
    bool ok = found != metadata.end();
    if (ok) parse(found->second, value, ok);
    if (!ok) fail(std::string("is a damaged checkpoint: its '") + name + "' is missing or not a number");
  });
  auto characters = metadata.find("characters");
  if (characters == metadata.end()) fail("is a damaged checkpoint: it has no vocabulary");
  checkpoint.characters = weft::data::decode_utf8(characters->second, "the vocabulary of '" + path + "'");
  const ModelSizes &sizes = checkpoint.options.sizes;
  if (static_cast<int64_t>(checkpoint.characters.size()) != sizes.vocabulary || checkpoint.step < 0 || checkpoint.options.steps < 1 ||
      checkpoint.options.batch < 1 || sizes.context < 1 || sizes.layers < 1 || sizes.heads < 1 || sizes.width < 1)
    fail("is a damaged checkpoint: its numbers contradict each other");
  for (auto &[name, tensor] : tensors) {
    if (name.starts_with("model.")) checkpoint.model.emplace_back(name.substr(6), tensor);
    else if (name.starts_with("optimizer.")) checkpoint.optimizer.emplace_back(name.substr(10), tensor);
    else if (name == "random") checkpoint.random = tensor;
    else fail("is a damaged checkpoint: it holds an unknown tensor '" + name + "'");
  }
  if (!checkpoint.random.defined()) fail("is a damaged checkpoint: it lacks the state of the random generator");
  return checkpoint;
}

} // namespace char_gpt
