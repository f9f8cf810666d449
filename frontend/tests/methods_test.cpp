// Functions and members do not drift apart: what takes a tensor first is a member of it as well.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/weft.h"

namespace weft {
namespace {

std::string without_comments(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return std::regex_replace(text.str(), std::regex("//[^\n]*"), "");
}

std::set<std::string> names(const std::string &text, const std::string &pattern) {
  std::regex regex(pattern, std::regex::multiline);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.insert((*it)[1]);
  return found;
}

// Layers, activations and losses are functions only, as in PyTorch; so are those whose first
// operand is not what they are about.
const std::set<std::string> kFunctionsOnly = {"silu",
                                              "elu",
                                              "selu",
                                              "leaky_relu",
                                              "log_sigmoid",
                                              "mish",
                                              "hardtanh",
                                              "softsign",
                                              "tanhshrink",
                                              "hardshrink",
                                              "softshrink",
                                              "celu",
                                              "prelu",
                                              "glu",
                                              "linear",
                                              "layer_norm",
                                              "embedding",
                                              "one_hot",
                                              "pad",
                                              "attention",
                                              "scaled_dot_product_attention",
                                              "cross_entropy",
                                              "nll_loss",
                                              "binary_cross_entropy_with_logits",
                                              "l1_loss",
                                              "huber_loss",
                                              "smooth_l1_loss",
                                              "kl_div",
                                              "mse_loss",
                                              "normalize",
                                              "cosine_similarity",
                                              "cdist",
                                              "pairwise_distance",
                                              "std_mean",
                                              "var_mean",
                                              "where",
                                              "cast",
                                              "index_put"};

TEST(Methods, FunctionsThatTakeATensorFirstAreMembers) {
  std::set<std::string> members =
      names(without_comments("frontend/tensor.h"), R"((\w+)\([^;]*\)\s*const)");
  int functions = 0;
  for (const char *header : {"frontend/ops.h", "frontend/composites.h"})
    for (
        const std::string &name : names(
            without_comments(header),
            R"(^(?:Tensor|bool|std::vector<Tensor>|std::pair<Tensor, Tensor>) (\w+)\((?:const Tensor &|TensorArg )x\b)")) {
      ++functions;
      EXPECT_TRUE(members.contains(name) || kFunctionsOnly.contains(name))
          << name << " of " << header << " is no member of Tensor";
    }
  EXPECT_GT(functions, 80);
}

TEST(Methods, DoWhatTheFunctionsDo) {
  Tensor x = tensor({{3.f, 1.f, 2.f}, {4.f, 6.f, 5.f}});
  EXPECT_EQ(x.norm(1, 1).to_vector<float>(), norm(x, 1, 1).to_vector<float>());
  EXPECT_EQ(x.std(1).to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(x.sort(1, true).first.to_vector<float>(), (std::vector<float>{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(x.topk(1).second.to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(x.floor_divide(2).to_vector<float>(), (std::vector<float>{1, 0, 1, 2, 3, 2}));
  EXPECT_EQ(x.eq(1).to_vector<bool>(),
            (std::vector<bool>{false, true, false, false, false, false}));
  EXPECT_EQ(x.tril().to_vector<float>(), (std::vector<float>{3, 0, 0, 4, 6, 0}));
  EXPECT_EQ(x.roll(1, 1).to_vector<float>(), (std::vector<float>{2, 3, 1, 5, 4, 6}));
  EXPECT_EQ(x.gather(1, tensor<int64_t>({{2}, {0}})).to_vector<float>(),
            (std::vector<float>{2, 4}));
  EXPECT_TRUE(x.all_close(x + 1e-9));
  EXPECT_TRUE(x.allclose(x + 1e-9) && allclose(x, x + 1e-9));
  EXPECT_FALSE(x.allclose(x + 1) || allclose(x, x + 1e-3));
  EXPECT_TRUE(allclose(x, x + 1e-3, 0, 1e-2));
  EXPECT_FALSE(x.equal(x + 1));
  EXPECT_EQ(x.repeat({1, 2}).shape(), (Shape{2, 6}));
  EXPECT_EQ(x.unbind(0).size(), 2u);
  EXPECT_EQ(x.index_copy(0, tensor<int64_t>({1}), tensor({{7.f, 8.f, 9.f}})).to_vector<float>(),
            (std::vector<float>{3, 1, 2, 7, 8, 9}));
}

TEST(Methods, InPlaceWriteWhatTheFunctionsGive) {
  Tensor start = tensor({{0.5f, -1.f, 2.f}, {4.f, -0.25f, 1.f}}),
         other = tensor({{1.f, 2.f, 4.f}, {8.f, -3.f, 5.f}});
  Tensor rows = tensor<int64_t>({1, 1}), at = tensor<int64_t>({{0, 2, 2}, {1, 1, 0}});
  auto check = [&](const char *name, auto in_place, auto function) {
    Tensor x = start.clone(), seen = x, row = x[1];
    Tensor expected = function(start);
    EXPECT_TRUE(in_place(x).is_same(seen)) << name;
    EXPECT_TRUE(all_close(seen, expected, 0, 0, /*equal_nan=*/true)) << name;
    EXPECT_TRUE(all_close(row, expected[1], 0, 0, /*equal_nan=*/true)) << name << " in a view";
  };
#define WEFT_CHECK(name, ...)                                                                      \
  check(                                                                                           \
      #name, [&](Tensor &x) -> Tensor & { return x.name##_(__VA_ARGS__); },                        \
      [&](const Tensor &x) { return x.name(__VA_ARGS__); })
#define WEFT_UNARY(function, record, operands, doc)                                                \
  if (std::string(#function).find("log") == std::string::npos &&                                   \
      std::string(#function).find("sqrt") == std::string::npos)                                    \
    WEFT_CHECK(function);
#define WEFT_BINARY(function, record, operands, doc)
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  WEFT_CHECK(pow, 2);
  WEFT_CHECK(clamp, 0.0, 1.5);
  WEFT_CHECK(lerp, other, 0.25);
  WEFT_CHECK(addcmul, other, other, 0.5);
  WEFT_CHECK(addcdiv, other, other, 0.5);
  WEFT_CHECK(masked_fill, other > 3, -7.0);
  WEFT_CHECK(scatter, 1, at, other);
  WEFT_CHECK(scatter, 1, at, 9.0);
  WEFT_CHECK(scatter_add, 1, at, other);
  WEFT_CHECK(scatter_reduce, 1, at, other, "amax", false);
  WEFT_CHECK(index_add, 0, rows, other);
  WEFT_CHECK(index_copy, 0, tensor<int64_t>({1, 0}), other);
  WEFT_CHECK(index_fill, 0, rows, 3.0);
#undef WEFT_CHECK
}

TEST(Methods, InPlaceKeepsDtypeShapeAndHistory) {
  Tensor number = tensor<int64_t>({1, 2});
  EXPECT_NE(testing_support::message_of([&] { number.exp_(); }).find("exp_: the result is float32"),
            std::string::npos);
  EXPECT_NE(
      testing_support::message_of([&] { number.pow_(ones({3, 2}, int64)); }).find("does not fit"),
      std::string::npos);
  Tensor x = tensor({0.5f, -2.f}).set_requires_grad();
  EXPECT_NE(testing_support::message_of([&] { x.relu_(); }), "") << "a leaf that wants a gradient";
  Tensor sums = zeros({3}), messages = x * 2;
  sums.index_add_(0, tensor<int64_t>({2, 0}), messages);
  sums.relu_().mul_(3);
  sums.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{6, 0}));
}

TEST(Methods, OtherTensorsGiveTheForm) {
  Tensor x = arange(6, float32).eval(), matrix = zeros({2, 3}, int64);
  EXPECT_EQ(x.view_as(matrix).shape(), (Shape{2, 3}));
  x.reshape_as(matrix)[1] = 9.0;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 2, 9, 9, 9}));
  EXPECT_TRUE(x.contiguous().is_same(x));
  EXPECT_EQ(x.new_zeros({2, 2}).dtype(), float32);
  EXPECT_EQ(matrix.new_ones({3}).to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(x.new_ones({2}, boolean).dtype(), boolean);
  EXPECT_EQ(x.new_full({2}, 2.5).to_vector<float>(), (std::vector<float>{2.5, 2.5}));
  EXPECT_EQ(matrix.new_full({1}, 2).dtype(), int64);
  EXPECT_EQ(matrix.new_full({1}, 2.5, float32).item<float>(), 2.5f);
  EXPECT_THROW(matrix.new_full({1}, 1e30), Error);
  Tensor half = zeros({64}, bfloat16), drawn = randn_like(half);
  EXPECT_EQ(drawn.dtype(), bfloat16);
  manual_seed(3);
  std::vector<float> first = rand_like(x).to_vector<float>();
  manual_seed(3);
  EXPECT_EQ(rand({6}).to_vector<float>(), first);
  int line = __LINE__ + 1;
  EXPECT_NE(testing_support::message_of([&] { x.view_as(Tensor()); }, ErrorKind::kState, line), "");
  Tensor four = ones({4});
  line = __LINE__ + 1;
  EXPECT_NE(testing_support::message_of([&] { x.view_as(four); }, ErrorKind::kShape, line), "");
  EXPECT_NE(testing_support::message_of([] { Tensor().contiguous(); }, ErrorKind::kState), "");
  EXPECT_NE(testing_support::message_of([&] { randn_like(matrix); }, ErrorKind::kDType)
                .find("randn_like: samples are floating-point numbers, not int64"),
            std::string::npos);
}

TEST(Methods, SplitsIntoSizes) {
  Tensor x = arange(10).reshape({2, 5});
  std::vector<Tensor> parts = x.split({1, 4}, 1);
  EXPECT_EQ(parts[1].to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4, 6, 7, 8, 9}));
  EXPECT_EQ(x.split(Shape{1, 1}).size(), 2u);
  EXPECT_EQ(x.split(2, 1)[2].shape(), (Shape{2, 1}));
  EXPECT_EQ(x[0].expand_as(x).to_vector<int64_t>(),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
}

} // namespace
} // namespace weft
