// Tensors without dimensions, and without elements: along dim 0 or -1 the former are vectors of one
// element where PyTorch takes them so; else a clear error.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::error_of;

using Ints = std::vector<int64_t>;

struct Call {
  const char *name;
  std::function<Tensor(const Tensor &x, int64_t dim)> of;
  double expected; // of 2.5
};

const std::vector<Call> kAlong = {
    {"sum", [](auto &x, auto dim) { return x.sum(dim); }, 2.5},
    {"sum keepdim", [](auto &x, auto dim) { return x.sum(dim, true); }, 2.5},
    {"mean", [](auto &x, auto dim) { return x.mean(dim); }, 2.5},
    {"max", [](auto &x, auto dim) { return x.max(dim); }, 2.5},
    {"min", [](auto &x, auto dim) { return x.min(dim); }, 2.5},
    {"prod", [](auto &x, auto dim) { return x.prod(dim); }, 2.5},
    {"any", [](auto &x, auto dim) { return x.any(dim); }, 1},
    {"all", [](auto &x, auto dim) { return x.all(dim); }, 1},
    {"var", [](auto &x, auto dim) { return x.var(dim); }, NAN},
    {"var of all", [](auto &x, auto dim) { return x.var(dim, 0); }, 0},
    {"std of all", [](auto &x, auto dim) { return x.std(dim, 0); }, 0},
    {"norm", [](auto &x, auto dim) { return x.norm(2, dim); }, 2.5},
    {"norm 3", [](auto &x, auto dim) { return x.norm(3, dim, true); }, 2.5},
    {"argmax", [](auto &x, auto dim) { return x.argmax(dim); }, 0},
    {"argmin", [](auto &x, auto dim) { return x.argmin(dim, true); }, 0},
    {"cumsum", [](auto &x, auto dim) { return x.cumsum(dim); }, 2.5},
    {"cumprod", [](auto &x, auto dim) { return x.cumprod(dim); }, 2.5},
    {"cummax", [](auto &x, auto dim) { return x.cummax(dim).first; }, 2.5},
    {"cummin", [](auto &x, auto dim) { return x.cummin(dim).second; }, 0},
    {"logcumsumexp", [](auto &x, auto dim) { return x.logcumsumexp(dim); }, 2.5},
    {"logsumexp", [](auto &x, auto dim) { return x.logsumexp(dim); }, 2.5},
    {"count_nonzero", [](auto &x, auto dim) { return x.count_nonzero(dim); }, 1},
    {"nansum", [](auto &x, auto dim) { return x.nansum(dim); }, 2.5},
    {"nanmean", [](auto &x, auto dim) { return x.nanmean(dim); }, 2.5},
    {"softmax", [](auto &x, auto dim) { return x.softmax(dim); }, 1},
    {"log_softmax", [](auto &x, auto dim) { return log_softmax(x, dim); }, 0},
    {"normalize", [](auto &x, auto dim) { return normalize(x, dim); }, 1},
    {"cosine_similarity", [](auto &x, auto dim) { return cosine_similarity(x, x, dim); }, 1},
    {"sort", [](auto &x, auto dim) { return x.sort(dim).first; }, 2.5},
    {"argsort", [](auto &x, auto dim) { return x.argsort(dim); }, 0},
    {"topk", [](auto &x, auto dim) { return x.topk(1, dim).first; }, 2.5},
    {"topk places", [](auto &x, auto dim) { return x.topk(1, dim).second; }, 0},
    {"kthvalue", [](auto &x, auto dim) { return x.kthvalue(1, dim, true).first; }, 2.5},
    {"median", [](auto &x, auto dim) { return x.median(dim).first; }, 2.5},
    {"median keepdim", [](auto &x, auto dim) { return x.median(dim, true).second; }, 0},
    {"mode", [](auto &x, auto dim) { return x.mode(dim).first; }, 2.5},
    {"quantile", [](auto &x, auto dim) { return x.quantile(0.3, dim); }, 2.5},
    {"quantile keepdim", [](auto &x, auto dim) { return x.quantile(0.3, dim, true); }, 2.5},
    {"max_with_indices", [](auto &x, auto dim) { return x.max_with_indices(dim).first; }, 2.5},
    {"min_with_indices", [](auto &x, auto dim) { return x.min_with_indices(dim, true).second; }, 0},
    {"flip", [](auto &x, auto dim) { return x.flip(dim); }, 2.5},
    {"squeeze", [](auto &x, auto dim) { return x.squeeze(dim); }, 2.5},
    {"transpose", [](auto &x, auto dim) { return x.transpose(dim, dim); }, 2.5},
    {"movedim", [](auto &x, auto dim) { return x.movedim(dim, dim); }, 2.5},
    {"index_select", [](auto &x, auto dim) { return x.index_select(dim, scalar(0)); }, 2.5},
    {"gather", [](auto &x, auto dim) { return x.gather(dim, scalar(0)); }, 2.5},
    {"scatter", [](auto &x, auto dim) { return x.scatter(dim, scalar(0), 3.5); }, 3.5},
    {"scatter_add", [](auto &x, auto dim) { return x.scatter_add(dim, scalar(0), scalar(1.0)); },
     3.5},
    {"scatter_reduce",
     [](auto &x, auto dim) { return x.scatter_reduce(dim, scalar(0), scalar(2.0), "prod"); }, 5},
};

TEST(ZeroDims, AreVectorsOfOneElementAlongADim) {
  for (const Call &call : kAlong) {
    for (int64_t dim : {0, -1}) {
      Tensor result = call.of(scalar(2.5), dim);
      EXPECT_EQ(result.shape(), Shape{}) << call.name;
      double value = result.item<double>();
      EXPECT_TRUE(std::isnan(call.expected) ? std::isnan(value)
                                            : std::fabs(value - call.expected) < 1e-6)
          << call.name << " is " << value;
    }
    for (int64_t dim : {1, -2}) {
      Error error = error_of([&] { call.of(scalar(2.5), dim); });
      EXPECT_EQ(error.kind(), ErrorKind::kIndex) << call.name << ": " << error.what();
      EXPECT_NE(error.message().find("out of range for a tensor of 0 dim"), std::string::npos)
          << call.name << ": " << error.message();
    }
  }
  EXPECT_EQ(quantile(scalar(2.5), {0.25, 0.5}, 0).shape(), Shape{2});
}

TEST(ZeroDims, HaveNoDimToTakeApart) {
  Tensor x = scalar(2.5), at = tensor<int64_t>({0});
  const std::vector<std::pair<const char *, std::function<void()>>> refused = {
      {"roll", [&] { x.roll(1, 0); }},
      {"roll by several", [&] { x.roll({1, 2}, {0, -1}); }},
      {"flip twice", [&] { x.flip({0, -1}); }},
      {"sum twice", [&] { x.sum({0, -1}); }},
      {"select", [&] { x.select(0, 0); }},
      {"[]", [&] { x[0]; }},
      {"narrow", [&] { x.narrow(0, 0, 1); }},
      {"slice", [&] { x.slice(0, 0, 1); }},
      {"size", [&] { (void)x.size(0); }},
      {"split", [&] { split(x, 1); }},
      {"split into", [&] { split(x, Shape{1}); }},
      {"chunk", [&] { chunk(x, 1); }},
      {"unbind", [&] { x.unbind(); }},
      {"unflatten", [&] { x.unflatten(0, {1, 1}); }},
      {"diff", [&] { x.diff(); }},
      {"diagonal", [&] { x.diagonal(); }},
      {"diag", [&] { x.diag(); }},
      {"diag_embed", [&] { x.diag_embed(); }},
      {"rot90", [&] { x.rot90(); }},
      {"tril", [&] { x.tril(); }},
      {"trace", [&] { x.trace(); }},
      {"cat", [&] { cat({x, x}); }},
      {"glu", [&] { glu(x); }},
      {"permute", [&] { x.permute({0}); }},
      {"topk", [&] { x.topk(2, 0); }},
      {"index_add", [&] { x.index_add(0, at, tensor({1.f})); }},
      {"index_copy", [&] { x.index_copy(0, at, tensor({1.f})); }},
      {"index_fill", [&] { x.index_fill(0, at, 1.0); }},
      {"index_reduce", [&] { x.index_reduce(0, at, tensor({1.f}), "prod"); }},
      {"take_along_dim", [&] { x.take_along_dim(scalar(0), 0); }},
      {"repeat_interleave", [&] { x.repeat_interleave(3, 1); }},
      {"cross", [&] { x.cross(x); }},
      {"dot", [&] { x.dot(x); }},
      {"outer", [&] { x.outer(x); }},
      {"matmul", [&] { x.matmul(x); }},
      {"cdist", [&] { cdist(x, x); }},
      {"pad", [&] { pad(x, {1, 1}); }},
      {"layer_norm", [&] { layer_norm(x, {}); }},
      {"cross_entropy", [&] { cross_entropy(x, scalar(0)); }},
      {"bincount", [&] { scalar(0).bincount(); }},
      {"searchsorted", [&] { searchsorted(x, x); }},
  };
  for (const auto &[name, call] : refused)
    EXPECT_NE(error_of(call).message(), "nothing was thrown") << name;
  EXPECT_NE(
      error_of(refused[0].second).message().find("roll: dims is 0, but the tensor has no dim"),
      std::string::npos)
      << error_of(refused[0].second).message();
}

TEST(ZeroDims, Further) {
  Tensor x = scalar(2.5);
  EXPECT_EQ(x.roll(Shape{1}).shape(), Shape{});
  EXPECT_EQ(x.flip(Dims()).item<double>(), 2.5);
  EXPECT_EQ(x.flatten().shape(), Shape{1});
  EXPECT_EQ(x.unsqueeze(-1).shape(), Shape{1});
  EXPECT_EQ(x.repeat({2, 2}).shape(), (Shape{2, 2}));
  EXPECT_EQ(x.repeat_interleave(3, 0).shape(), Shape{3});
  EXPECT_EQ(x.t().shape(), Shape{});
  EXPECT_EQ(pad(x, {}).shape(), Shape{});
  EXPECT_EQ(stack({x, x}, -1).shape(), Shape{2});
  EXPECT_EQ(kron(x, x).item<double>(), 6.25);
  EXPECT_EQ(unique(x).inverse.shape(), Shape{});
  EXPECT_EQ(x.histc(4).shape(), Shape{4});
  EXPECT_EQ(x.isin(tensor({2.5f})).item<bool>(), true);
  EXPECT_EQ(tensor({2.5f, 1.f}).isin(x).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(bucketize(x, tensor({1.f, 3.f})).item<int64_t>(), 1);
  EXPECT_EQ(one_hot(scalar(0), 3).shape(), Shape{3});
  EXPECT_EQ(embedding(scalar(0), ones({3, 2})).shape(), Shape{2});
  EXPECT_EQ(nonzero(x).shape(), (Shape{1, 0}));
  EXPECT_EQ(nonzero(scalar(0)).shape(), (Shape{0, 0}));
  EXPECT_EQ(nonzero(zeros({0, 3})).shape(), (Shape{0, 2}));
  // Derivatives come back in the shape.
  Tensor leaf = scalar(2.5).requires_grad_();
  Tensor total = sort(leaf, 0).first + gather(leaf, 0, scalar(0)) + topk(leaf, 1, 0).first +
                 scatter_add(leaf, 0, scalar(0), leaf) + leaf.cumprod(0) + leaf.norm(2, 0);
  Tensor slope = grad({total}, {leaf})[0];
  EXPECT_EQ(slope.shape(), Shape{});
  EXPECT_EQ(slope.item<double>(), 7);
}

TEST(NewTensors, WithoutValuesOrDimensions) {
  EXPECT_EQ(tensor<int64_t>({}).shape(), Shape{0});
  EXPECT_EQ(tensor<float>({}).dtype(), float32);
  EXPECT_EQ(sum(tensor<float>({})).item<float>(), 0);
  EXPECT_EQ(Tensor::from(std::vector<float>{1.5f}, {}).shape(), Shape{});
  EXPECT_EQ(Tensor::from(std::vector<float>{}, {0, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(Tensor::from(std::vector<float>{1, 2}).shape(), Shape{2});
  EXPECT_MESSAGE(Tensor::from(std::vector<float>{1, 2}, {}), "2 values do not fill shape []");
}

// Not one of size 0 that came of an overflow.
TEST(NoElements, FlattenCountsTheOtherDimensions) {
  int64_t large = int64_t(1) << 40;
  Tensor x = zeros({0, large, large});
  EXPECT_MESSAGE(x.flatten(1), "dimensions 1 to 2 of shape [0, 1099511627776, 1099511627776] have "
                               "together more elements than an int64 counts");
  EXPECT_EQ(x.flatten().shape(), Shape{0});
  EXPECT_EQ(x.flatten(0, 1).shape(), (Shape{0, large}));
  EXPECT_EQ(zeros({0, large, large, 0}).flatten(1).shape(), (Shape{0, 0}));
}

// The order comes first, as in libtorch; a keepdim in the place of dims does not compile.
TEST(Norms, OrderThenDims) {
  Tensor x = tensor({{3.f, -4.f}, {0.f, 2.f}});
  EXPECT_EQ(x.norm(1).item<float>(), 9);
  EXPECT_EQ(x.norm(INFINITY).item<float>(), 4);
  EXPECT_FLOAT_EQ(x.norm().item<float>(), std::sqrt(29.f));
  EXPECT_FLOAT_EQ(x.norm(2).item<float>(), std::sqrt(29.f));
  EXPECT_EQ(x.norm(2, 1).to_vector<float>(), (std::vector<float>{5, 2}));
  EXPECT_EQ(norm(x, 1, {0}, true).to_vector<float>(), (std::vector<float>{3, 6}));
  EXPECT_EQ(x.norm(2, {0, 1}).item<float>(), x.norm().item<float>());
  static_assert(!std::is_convertible_v<bool, Dims> && !std::is_convertible_v<bool, NormOrder>);
}

// A batch of no rows has nothing to normalize with: an empty result, statistics that stay, and
// gradients of 0, as in PyTorch.
TEST(NoElements, BatchNormInTraining) {
  for (Shape shape : {Shape{0, 3}, Shape{0, 3, 4, 4}, Shape{2, 3, 0, 4}}) {
    Tensor x = ones(shape).requires_grad_(), mean = full({3}, 0.5), variance = full({3}, 2.0),
           weight = ones({3}).requires_grad_(), bias = zeros({3}).requires_grad_();
    Tensor y = batch_norm(x, mean, variance, weight, bias, {.training = true});
    EXPECT_EQ(y.shape(), shape);
    y.sum().backward();
    EXPECT_EQ(x.grad().shape(), shape);
    EXPECT_EQ(weight.grad().to_vector<float>(), std::vector<float>(3, 0));
    EXPECT_EQ(bias.grad().to_vector<float>(), std::vector<float>(3, 0));
    EXPECT_EQ(mean.to_vector<float>(), std::vector<float>(3, 0.5));
    EXPECT_EQ(variance.to_vector<float>(), std::vector<float>(3, 2));
  }
  EXPECT_EQ(nn::BatchNorm1d(3)(ones({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_NE(error_of([] { nn::BatchNorm1d(3)(ones({1, 3})); })
                .message()
                .find("training needs more than one element a channel"),
            std::string::npos);
}

} // namespace
} // namespace weft
