#include "examples/char_gpt/ship.h"

#include <cstring>
#include <filesystem>

#include "examples/common/link_model.h"
#include "weft/io/io.h"
#include "weft/weft.h"

namespace char_gpt {
namespace {

namespace fs = std::filesystem;

constexpr const char *kGenerate =
#include "examples/char_gpt/generate_source.inc"
    ;

std::string vocabulary_header(const weft::data::Vocabulary &vocabulary, int64_t context) {
  std::string text = "// The characters that the model knows, by number, and how many of them it "
                     "sees.\n#include <stdint.h>\n#define VOCABULARY " +
                     std::to_string(vocabulary.size()) + "\n#define CONTEXT " +
                     std::to_string(context) +
                     "\nstatic const uint32_t kVocabulary[VOCABULARY] = {";
  for (char32_t character : vocabulary.characters())
    text += std::to_string(static_cast<uint32_t>(character)) + ",";
  text.back() = '}';
  return text + ";\n";
}

} // namespace

Shipped ship(const CharGpt &trained, const weft::data::Vocabulary &vocabulary,
             const std::string &folder) {
  CharGpt model = weft::nn::clone(trained);
  model.eval();
  int64_t context = model.sizes().context;
  weft::NoGrad no_grad;
  weft::Program program = weft::trace(model, {weft::zeros({1, context}, weft::int64)});
  Shipped shipped{.object = folder + "/char_gpt.o",
                  .header = folder + "/char_gpt.h",
                  .executable = folder + "/generate"};
  weft::CompileOptions options;
  options.emit = weft::Emit::object;
  options.output = shipped.object;
  options.name = "char_gpt";
  program.compile(options);
  weft::io::write_file(folder + "/vocabulary.h", vocabulary_header(vocabulary, context));
  examples::link_model(folder, {.object = "char_gpt.o",
                                .source_name = "generate.c",
                                .source = kGenerate,
                                .executable = "generate"});
  return shipped;
}

std::string run_executable(const std::string &executable, const std::string &prompt,
                           int64_t length) {
  return examples::output_of({fs::absolute(executable), prompt, std::to_string(length)});
}

namespace {

weft::Tensor find(const weft::nn::NamedTensors &tensors, const std::string &name) {
  for (const auto &[known, tensor] : tensors)
    if (known == name)
      return tensor;
  throw weft::Error(weft::ErrorKind::kState, "there is no tensor '" + name + "'");
}

bool same_bits(const weft::Tensor &a, const weft::Tensor &b) {
  std::vector<float> left = a.to_vector<float>(), right = b.to_vector<float>();
  return a.shape() == b.shape() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

} // namespace

ShippedTrainer ship_trainer(Trainer &trainer, const std::string &folder) {
  constexpr int64_t kSteps = 4;
  CharGpt &model = trainer.model();
  weft::optim::Optimizer &optimizer = trainer.optimizer();
  std::vector<weft::Tensor> inputs, targets;
  for (int64_t i = 0; i < kSteps; ++i) {
    auto [input, target] = trainer.next_batch();
    inputs.push_back(input);
    targets.push_back(target);
  }
  // The learning rate of each step is an input beside its batch.
  weft::Tensor rate = find(optimizer.state(), "lr");
  weft::StateNames names = {{"model", model}, {"optimizer", optimizer}};
  model.train();
  weft::Program train = weft::trace(
      [&](const weft::Tensor &input, const weft::Tensor &target, const weft::Tensor &lr) {
        rate.copy_(lr);
        return trainer.step(input, target);
      },
      {inputs[0], targets[0], rate.clone()}, names);
  model.eval();
  weft::Program predict =
      weft::trace(model, {weft::zeros({1, model.sizes().context}, weft::int64)}, names);
  model.train();
  ShippedTrainer shipped{
      .executable = folder + "/trainer", .state = folder + "/trainer.safetensors", .steps = kSteps};
  weft::compile({{"train", train}, {"predict", predict}},
                {.output = shipped.executable, .embed_weights = false, .name = "char_gpt_trainer"});

  weft::io::save_npy(folder + "/input.npy", weft::stack(inputs));
  weft::io::save_npy(folder + "/target.npy", weft::stack(targets));
  weft::io::save_npy(folder + "/lr.npy", weft::stack(std::vector<weft::Tensor>(kSteps, rate)));
  std::vector<weft::Tensor> losses;
  for (int64_t i = 0; i < kSteps; ++i)
    losses.push_back(trainer.step(inputs[i], targets[i]));
  examples::output_of({fs::absolute(shipped.executable), "--weights", shipped.state, "--output",
                       folder + "/loss.npy", "--save", folder + "/trained.safetensors",
                       folder + "/input.npy", folder + "/target.npy", folder + "/lr.npy"});
  shipped.same = same_bits(weft::io::load_npy(folder + "/loss.npy"), weft::stack(losses));
  weft::nn::NamedTensors trained =
      weft::io::load_safetensors(folder + "/trained.safetensors").tensors;
  for (const auto &[name, tensor] : model.state())
    shipped.same = shipped.same && same_bits(find(trained, "model." + name), tensor);
  return shipped;
}

DumpScope::DumpScope(const std::string &folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  weft::Config config = weft::config();
  previous_ = config.dump_dir;
  config.dump_dir = folder;
  weft::set_config(config);
}

void DumpScope::end() {
  if (!open_)
    return;
  open_ = false;
  weft::Config config = weft::config();
  config.dump_dir = previous_;
  weft::set_config(config);
}

} // namespace char_gpt
