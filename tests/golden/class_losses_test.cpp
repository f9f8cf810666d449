// Losses over classes with weights, label smoothing and probabilities as targets, and their
// derivatives, against PyTorch's.
#include <algorithm>

#include "tests/golden/golden_case.h"
#include "tests/support/errors.h"
#include "weft/losses.h"

namespace weft::golden {
namespace {

using testing_support::message_of;

// Targets and weights come as inputs, and have no derivative in PyTorch.
Tensor fixed(const Tensor &x) {
  return x.detach();
}

const CaseFunctions kFunctions = {
    {"weighted",
     [](auto &name, auto &in) {
       return nn::cross_entropy(in[0], in[2],
                                {.weight = fixed(in[1]), .reduction = reduction_of(name)});
     }},
    {"smooth",
     [](auto &name, auto &in) {
       return nn::cross_entropy(in[0], in[1],
                                {.reduction = reduction_of(name), .label_smoothing = 0.2});
     }},
    {"both",
     [](auto &name, auto &in) {
       return nn::cross_entropy(
           in[0], in[2],
           {.weight = fixed(in[1]), .reduction = reduction_of(name), .label_smoothing = 0.2});
     }},
    {"soft_",
     [](auto &name, auto &in) {
       return nn::cross_entropy(in[0], fixed(in[1]), {.reduction = reduction_of(name)});
     }},
    {"softall",
     [](auto &name, auto &in) {
       return nn::cross_entropy(
           in[0], fixed(in[2]),
           {.weight = fixed(in[1]), .reduction = reduction_of(name), .label_smoothing = 0.1});
     }},
    {"ignored3",
     [](auto &name, auto &in) {
       return nn::cross_entropy(in[0], in[2],
                                {.weight = fixed(in[1]),
                                 .reduction = reduction_of(name),
                                 .ignore_index = 3,
                                 .label_smoothing = 0.3});
     }},
    {"nll",
     [](auto &name, auto &in) {
       return nn::nll_loss(in[0], in[2], {.weight = fixed(in[1]), .reduction = reduction_of(name)});
     }},
    {"row_mean",
     [](auto &, auto &in) {
       return nn::cross_entropy(in[0], in[2], {.weight = fixed(in[1]), .label_smoothing = 0.2});
     }},
};

const GoldenFile &file() {
  static const GoldenFile file("class_losses.safetensors");
  return file;
}

class ClassLosses : public ::testing::TestWithParam<std::string> {};

TEST_P(ClassLosses, AgreesWithPyTorch) {
  check_case(file(), GetParam(), kFunctions);
}

INSTANTIATE_TEST_SUITE_P(, ClassLosses, ::testing::ValuesIn(file().cases()),
                         [](const auto &info) { return info.param; });

// The classes of a picture's pixels: [N, C, H, W], as the same numbers with the classes last.
TEST(ClassLossDims, AreWhereTheOptionSays) {
  Tensor x = 3 * randn({2, 5, 3, 4}).eval();
  Tensor targets = randint(0, 5, {2, 3, 4}).eval(), some = targets.clone();
  some.index({0, 1}) = -100;
  Tensor soft = softmax(randn({2, 5, 3, 4}), 1).eval(), weight = rand({5}).eval();
  auto last = [](const Tensor &scores) {
    return scores.permute({0, 2, 3, 1});
  };
  using Loss = std::function<Tensor(const Tensor &, bool)>;
  auto expect_same = [&](const char *what, const Loss &loss) {
    std::vector<Tensor> of_both;
    for (bool moved : {false, true}) {
      Tensor scores = x.clone();
      scores.requires_grad_();
      Tensor each = loss(moved ? last(scores) : scores, moved);
      (each * (each + 1)).sum().backward();
      of_both.insert(of_both.end(), {each.detach(), scores.grad()});
    }
    EXPECT_TRUE(allclose(of_both[0], of_both[2], 1e-5, 1e-6)) << what;
    EXPECT_TRUE(allclose(of_both[1], of_both[3], 1e-5, 1e-6)) << what << ", the gradient";
  };
  for (Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone})
    for (const Tensor &given : {Tensor(), weight})
      for (double smoothing : {0.0, 0.2}) {
        ClassLossOptions options{
            .weight = given, .reduction = reduction, .label_smoothing = smoothing};
        auto at = [&](bool moved) {
          options.dim = moved ? -1 : 1;
          return options;
        };
        for (const Tensor &indices : {targets, some})
          expect_same("indices", [&](const Tensor &scores, bool moved) {
            return nn::cross_entropy(scores, indices, at(moved));
          });
        expect_same("probabilities", [&](const Tensor &scores, bool moved) {
          return nn::cross_entropy(scores, moved ? last(soft) : soft, at(moved));
        });
        if (smoothing == 0)
          expect_same("nll_loss", [&](const Tensor &scores, bool moved) {
            return nn::nll_loss(scores, some, at(moved));
          });
      }
  std::string message =
      message_of([&] { nn::cross_entropy(x, targets.select(0, 0), {.dim = 1}); });
  EXPECT_NE(message.find("classes in dim 1, targets must be [2, 3, 4]"), std::string::npos)
      << message;
  EXPECT_NE(message_of([&] { nn::cross_entropy(x, targets); }).find("ClassLossOptions{.dim = 1}"),
            std::string::npos);
  EXPECT_NE(message_of([&] { nn::cross_entropy(x, targets, {.dim = 4}); }).find("dim"),
            std::string::npos);
}

TEST(ClassLossErrors, NameWhatIsWrong) {
  Tensor x = randn({4, 3}), t = tensor<int64_t>({0, 1, 2, 0});
  auto expect = [&](const std::string &part, const ClassLossOptions &options,
                    const Tensor &targets) {
    std::string message = message_of([&] { nn::cross_entropy(x, targets, options); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect("weight must be float32 [3]", {.weight = ones({4})}, t);
  expect("weight must be float32 [3]", {.weight = ones({3}, float64)}, t);
  expect("label_smoothing is 1.5", {.label_smoothing = 1.5}, t);
  expect("probabilities must have the logits' shape", {}, randn({4}));
  expect("ignore_index is 0, but targets are probabilities", {.ignore_index = 0}, randn({4, 3}));
  EXPECT_NE(message_of([&] {
              nn::nll_loss(x, t, {.label_smoothing = 0.1});
            }).find("option of cross_entropy"),
            std::string::npos);
  // A class that does not exist fails the run.
  EXPECT_THROW(nn::cross_entropy(x, tensor<int64_t>({0, 1, 3, 0}), {.weight = ones({3})}).eval(),
               Error);
}

} // namespace
} // namespace weft::golden
