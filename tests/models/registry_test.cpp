// Every record of the registry: its names and shapes are those of the full model of torchvision or
// transformers, and it can be recorded as a whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

#include "tests/models/formula.h"
#include "tests/support/errors.h"
#include "weft/models/models.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

using testing_support::error_of;

// A line of full.txt: how many tensors and elements of parameters, and a digest of names, dtypes
// and shapes.
struct Full {
  size_t tensors = 0;
  int64_t parameters = 0;
  std::string digest;
  bool operator==(const Full &) const = default;
};

std::ostream &operator<<(std::ostream &stream, const Full &full) {
  return stream << full.tensors << " tensors, " << full.parameters << " parameters, digest "
                << full.digest;
}

std::map<std::string, Full> full_models() {
  std::ifstream file("tests/models/data/full.txt");
  std::map<std::string, Full> found;
  std::string name;
  Full full;
  while (file >> name >> full.tensors >> full.parameters >> full.digest)
    found[name] = full;
  return found;
}

Full describe(const nn::Module &module) {
  std::vector<std::string> lines;
  for (const auto &[name, tensor] : module.state()) {
    std::string line = name + " " + weft::name(tensor.dtype()) + " ";
    for (size_t i = 0; i < tensor.shape().size(); ++i)
      line += (i ? "x" : "") + std::to_string(tensor.shape()[i]);
    lines.push_back(line + "\n");
  }
  std::ranges::sort(lines);
  std::string all;
  for (const std::string &line : lines)
    all += line;
  std::ostringstream digest;
  digest << std::hex << std::setw(16) << std::setfill('0') << fnv<uint64_t>(all);
  return {lines.size(), module.parameter_count(), digest.str()};
}

TEST(Registry, HasTheModelsOfTheListing) {
  std::vector<std::string> here, there;
  for (const models::Record &record : models::all())
    here.push_back(record.name);
  for (const auto &[name, full] : full_models())
    there.push_back(name);
  EXPECT_EQ(here, there);
}

TEST(Registry, NamesAndShapesAreThoseOfTheFullModels) {
  std::map<std::string, Full> full = full_models();
  for (const models::Record &record : models::all())
    EXPECT_EQ(describe(record.make().module()), full[record.name]) << record.name;
}

TEST(Registry, SaysWhoDescribesAModelAndWhatItTakes) {
  for (const models::Record &record : models::all()) {
    EXPECT_FALSE(record.kind.empty()) << record.name;
    EXPECT_FALSE(record.source.empty()) << record.name;
    ASSERT_FALSE(record.inputs.empty()) << record.name;
    std::vector<Tensor> example = record.example(2);
    ASSERT_EQ(example.size(), record.inputs.size()) << record.name;
    for (const Tensor &input : example)
      EXPECT_EQ(input.size(0), 2) << record.name;
  }
}

TEST(Registry, UnknownNamesAreRefusedWithTheNearest) {
  Error error = error_of([] { models::find("resnet5"); });
  EXPECT_EQ(error.kind(), ErrorKind::kValue);
  EXPECT_EQ(error.message().find("there is no model 'resnet5'; the nearest names are resnet50"), 0u)
      << error.message();
  EXPECT_EQ(error_of([] { models::find("resnet50").example(0); }).kind(), ErrorKind::kValue);
  EXPECT_EQ(error_of([] { models::add(models::find("vae")); }).kind(), ErrorKind::kState);
}

TEST(Models, RefuseConfigsAtTheCallersLine) {
  using testing_support::message_of;
  using namespace models;
  EXPECT_NE(message_of([] { Gpt2({.size = 10, .heads = 3}); }, ErrorKind::kValue).find("10 and 3"),
            std::string::npos);
  EXPECT_NE(message_of([] { ResNet({.blocks = {}}); }, ErrorKind::kValue).find("ResNet"),
            std::string::npos);
  EXPECT_NE(message_of([] { Llama({.heads = 32, .key_heads = 5}); }, ErrorKind::kValue)
                .find("multiple of key_heads"),
            std::string::npos);
  EXPECT_NE(message_of([] { VisionTransformer({.image = 30, .patch = 16}); }, ErrorKind::kValue)
                .find("patch must divide image"),
            std::string::npos);
  Gpt2 model({.vocabulary = 5, .positions = 4, .size = 4, .layers = 1, .heads = 1});
  EXPECT_NE(message_of([&] { model(zeros({1, 5}, int64)); }, ErrorKind::kShape)
                .find("length of at most 4"),
            std::string::npos);
}

TEST(Models, OfAnyTypeSayWhatTheyTake) {
  models::AnyModel vae = models::find("vae").make();
  EXPECT_NE(testing_support::message_of([&] { vae({}); }, ErrorKind::kValue)
                .find("does not take 0 inputs"),
            std::string::npos);
  EXPECT_NE(
      testing_support::message_of([&] { vae({zeros({2, 3}), zeros({2, 20})}); }, ErrorKind::kShape)
          .find("3"),
      std::string::npos);
}

// A model is a module like any other: a clone computes the same and shares nothing.
TEST(Models, AreModules) {
  using namespace models;
  Gpt2 model({.vocabulary = 11, .positions = 8, .size = 8, .layers = 2, .heads = 2, .dropout = 0});
  Gpt2 copy = nn::clone(model);
  Tensor ids = indices("ids", {2, 6}, 11);
  std::vector<float> before = model(ids).to_vector<float>();
  EXPECT_EQ(copy(ids).to_vector<float>(), before);
  {
    NoGrad no_grad;
    for (Tensor &parameter : copy.parameters())
      parameter.mul_(0.5);
  }
  EXPECT_EQ(model(ids).to_vector<float>(), before);
  EXPECT_NE(copy(ids).to_vector<float>(), before);
  // A tied head is the token table: the file has it once, as save_pretrained writes it.
  for (const auto &[name, tensor] : model.state())
    EXPECT_EQ(name.find("lm_head"), std::string::npos);
  Gpt2 untied(
      {.vocabulary = 11, .positions = 8, .size = 8, .layers = 1, .heads = 2, .tied = false});
  EXPECT_EQ(untied.state().back().first, "lm_head.weight");
  Llama tied({.vocabulary = 11,
              .size = 8,
              .hidden = 12,
              .layers = 1,
              .heads = 2,
              .key_heads = 2,
              .tied = true});
  EXPECT_EQ(tied(ids).shape(), (Shape{2, 6, 11}));
  EXPECT_EQ(tied.state().back().first, "model.norm.weight");
}

// Converted, or made in another dtype, they compute in it; what counts batches stays whole.
template <typename M, typename Config>
void expect_narrow(const Config &config, const std::vector<Tensor> &inputs, double tolerance) {
  manual_seed(1);
  M wide(config);
  wide.eval();
  M narrow = nn::to(wide, bfloat16);
  NoGrad no_grad;
  std::vector<Tensor> given;
  for (const Tensor &input : inputs)
    given.push_back(is_floating(input.dtype()) ? input.to(bfloat16) : input);
  Tensor expected = models::AnyModel(wide)(inputs)[0], actual = models::AnyModel(narrow)(given)[0];
  EXPECT_EQ(actual.dtype(), bfloat16);
  EXPECT_LT((actual.to(float32) - expected).norm().template item<float>(),
            tolerance * expected.norm().template item<float>());
  nn::DTypeScope scope(bfloat16);
  for (const auto &[name, tensor] : M(config).state())
    EXPECT_EQ(tensor.dtype(), name.ends_with("num_batches_tracked") ? int64 : bfloat16) << name;
}

TEST(Models, ComputeInBfloat16) {
  using namespace models;
  // bfloat16 has 8 bits: a few layers lose two or three of them.
  constexpr double kTolerance = 0.05;
  expect_narrow<Llama>(
      LlamaConfig{
          .vocabulary = 11, .size = 16, .hidden = 24, .layers = 2, .heads = 4, .key_heads = 2},
      {indices("ids", {2, 6}, 11)}, kTolerance);
  expect_narrow<Bert>(
      BertConfig{
          .vocabulary = 11, .positions = 8, .size = 16, .hidden = 24, .layers = 2, .heads = 2},
      {indices("ids", {2, 6}, 11)}, kTolerance);
  expect_narrow<ResNet>(ResNetConfig{.blocks = {1, 1}, .width = 8, .classes = 4},
                        {unit("images", {2, 3, 24, 24})}, kTolerance);
  expect_narrow<ConvNext>(ConvNextConfig{.blocks = {1, 1}, .widths = {8, 16}, .classes = 4},
                          {unit("images", {2, 3, 16, 16})}, kTolerance);
}

// In training whole samples of a branch are left out, and the others grow by as much.
TEST(Models, StochasticDepthDropsSamples) {
  manual_seed(7);
  models::StochasticDepth drop(0.25);
  std::vector<float> y = drop(ones({64, 3})).to_vector<float>();
  int64_t dropped = 0;
  for (size_t i = 0; i < 64; ++i) {
    float first = y[3 * i];
    EXPECT_TRUE(first == 0 || std::abs(first - 4.0f / 3) < 1e-6f);
    EXPECT_EQ(y[3 * i + 1], first);
    EXPECT_EQ(y[3 * i + 2], first);
    dropped += first == 0;
  }
  EXPECT_GT(dropped, 4);
  EXPECT_LT(dropped, 32);
  drop.eval();
  EXPECT_EQ(drop(ones({2, 3})).to_vector<float>(), std::vector<float>(6, 1.0f));
  EXPECT_EQ(error_of([] { models::StochasticDepth(1.0); }).kind(), ErrorKind::kValue);
}

} // namespace
} // namespace weft::tests
