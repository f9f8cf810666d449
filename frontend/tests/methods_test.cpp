// Functions and members do not drift apart: what takes a tensor first is a member of it as well.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

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
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) found.insert((*it)[1]);
  return found;
}

// Layers, activations and losses are functions only, as in PyTorch; so are those whose first operand is not what they are about.
const std::set<std::string> kFunctionsOnly = {"silu",
                                              "elu",
                                              "selu",
                                              "leaky_relu",
                                              "log_sigmoid",
                                              "mish",
                                              "hardsigmoid",
                                              "hardswish",
                                              "hardtanh",
                                              "relu6",
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
                                              "where",
                                              "cast",
                                              "index_put"};

TEST(Methods, FunctionsThatTakeATensorFirstAreMembers) {
  std::set<std::string> members = names(without_comments("frontend/tensor.h"), R"((\w+)\([^;]*\)\s*const)");
  int functions = 0;
  for (const char *header : {"frontend/ops.h", "frontend/composites.h"})
    for (const std::string &name :
         names(without_comments(header),
               R"(^(?:Tensor|bool|std::vector<Tensor>|std::pair<Tensor, Tensor>) (\w+)\((?:const Tensor &|TensorArg )x\b)")) {
      ++functions;
      EXPECT_TRUE(members.contains(name) || kFunctionsOnly.contains(name)) << name << " of " << header << " is no member of Tensor";
    }
  EXPECT_GT(functions, 80);
}

TEST(Methods, DoWhatTheFunctionsDo) {
  Tensor x = tensor({{3.f, 1.f, 2.f}, {4.f, 6.f, 5.f}});
  EXPECT_EQ(x.norm(1).to_vector<float>(), norm(x, 1).to_vector<float>());
  EXPECT_EQ(x.std(1).to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(x.sort(1, true).first.to_vector<float>(), (std::vector<float>{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(x.topk(1).second.to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(x.floor_divide(2).to_vector<float>(), (std::vector<float>{1, 0, 1, 2, 3, 2}));
  EXPECT_EQ(x.eq(1).to_vector<bool>(), (std::vector<bool>{false, true, false, false, false, false}));
  EXPECT_EQ(x.tril().to_vector<float>(), (std::vector<float>{3, 0, 0, 4, 6, 0}));
  EXPECT_EQ(x.roll(1, 1).to_vector<float>(), (std::vector<float>{2, 3, 1, 5, 4, 6}));
  EXPECT_EQ(x.gather(1, tensor<int64_t>({{2}, {0}})).to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_TRUE(x.all_close(x + 1e-9));
  EXPECT_FALSE(x.equal(x + 1));
  EXPECT_EQ(x.repeat({1, 2}).shape(), (Shape{2, 6}));
  EXPECT_EQ(x.unbind(0).size(), 2u);
  EXPECT_EQ(x.index_copy(0, tensor<int64_t>({1}), tensor({{7.f, 8.f, 9.f}})).to_vector<float>(), (std::vector<float>{3, 1, 2, 7, 8, 9}));
}

} // namespace
} // namespace weft
