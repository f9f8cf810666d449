#include "examples/digits/ship.h"

#include <filesystem>

#include "examples/common/link_model.h"
#include "weft/weft.h"

namespace digits {
namespace {

namespace fs = std::filesystem;

constexpr const char *kClassify =
#include "examples/digits/classify_source.inc"
    ;

} // namespace

std::string ship(const DigitsNet &trained, int64_t height, int64_t width,
                 const weft::data::ImageOptions &pixels, const std::string &folder) {
  DigitsNet model = weft::nn::clone(trained);
  model.eval();
  weft::NoGrad no_grad;
  weft::Program program = weft::trace(
      [&](const weft::Tensor &image) {
        return model((image / 255.0 - pixels.mean) / pixels.deviation);
      },
      {weft::zeros({1, 1, height, width})});
  weft::CompileOptions options;
  options.emit = weft::Emit::object;
  options.output = folder + "/digits.o";
  options.name = "digits";
  program.compile(options);
  return examples::link_model(folder, {.object = "digits.o",
                                       .source_name = "classify.c",
                                       .source = kClassify,
                                       .executable = "classify",
                                       .libraries = "-lpng16"});
}

std::string classify(const std::string &executable, const std::string &picture) {
  std::string text = examples::output_of({fs::absolute(executable), fs::absolute(picture)});
  return text.substr(0, text.find('\n'));
}

} // namespace digits
