#include "examples/char_gpt/ship.h"

#include <filesystem>

#include "examples/common/link_model.h"
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
