#include "examples/common/training_state.h"

#include "weft/io/safetensors.h"
#include "weft/random.h"

namespace examples {

TrainingState training_state(const weft::nn::Module &model,
                             const weft::optim::Optimizer &optimizer) {
  return {model.state(), optimizer.state(), weft::default_generator().state(), {}};
}

void restore(const TrainingState &state, weft::nn::Module &model,
             weft::optim::Optimizer &optimizer) {
  model.load_state(state.model);
  optimizer.load_state(state.optimizer);
  weft::default_generator().set_state(state.random);
}

void save_training_state(const std::string &path, const std::string &format,
                         const TrainingState &state) {
  std::map<std::string, std::string> metadata = state.metadata;
  metadata["format"] = format;
  weft::nn::NamedTensors tensors;
  for (const auto &[name, tensor] : state.model)
    tensors.emplace_back("model." + name, tensor);
  for (const auto &[name, tensor] : state.optimizer)
    tensors.emplace_back("optimizer." + name, tensor);
  for (const auto &[name, tensor] : state.scaler)
    tensors.emplace_back("scaler." + name, tensor);
  tensors.emplace_back("random", state.random);
  weft::io::save_safetensors(path, tensors, metadata);
}

TrainingState load_training_state(const std::string &path, const std::string &format) {
  auto fail = [&](const std::string &why) {
    throw weft::Error(weft::ErrorKind::kFile, "'" + path + "' " + why);
  };
  auto [tensors, metadata, unread] = weft::io::load_safetensors(path);
  if (auto found = metadata.find("format"); found == metadata.end() || found->second != format)
    fail("is a safetensors file, but no checkpoint of this program");
  for (const auto &each : unread)
    fail("is a damaged checkpoint: '" + each.name + "' is " + each.text());
  TrainingState state;
  state.metadata = std::move(metadata);
  for (auto &[name, tensor] : tensors) {
    if (name.starts_with("model."))
      state.model.emplace_back(name.substr(6), tensor);
    else if (name.starts_with("optimizer."))
      state.optimizer.emplace_back(name.substr(10), tensor);
    else if (name.starts_with("scaler."))
      state.scaler.emplace_back(name.substr(7), tensor);
    else if (name == "random")
      state.random = tensor;
    else
      fail("is a damaged checkpoint: it holds an unknown tensor '" + name + "'");
  }
  if (!state.random.defined())
    fail("is a damaged checkpoint: it lacks the state of the random generator");
  return state;
}

} // namespace examples
