// Wrong calls: each throws at the caller's line, and its message names the op, the argument, the
// shapes or dtypes, and what to do.
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/weft.h"

namespace weft {
namespace {

using testing_support::error_of;

struct Wrong {
  const char *name;
  ErrorKind kind;
  std::vector<std::string> parts; // of the message
  std::function<void()> call;
};

Tensor ints() {
  return tensor<int64_t>({1, 2, 3});
}
Tensor image() {
  return ones({1, 2, 5, 6});
}

void expect_refused(const std::vector<Wrong> &calls) {
  for (const Wrong &wrong : calls) {
    SCOPED_TRACE(wrong.name);
    Error error = error_of(wrong.call);
    EXPECT_EQ(name(error.kind()), std::string(name(wrong.kind))) << error.what();
    EXPECT_EQ(error.file(), std::string(__FILE__)) << error.what();
    for (const std::string &part : wrong.parts)
      EXPECT_NE(error.message().find(part), std::string::npos)
          << part << " is not in: " << error.what();
  }
}

TEST(Errors, FunctionsOfFloatsOnly) {
  std::vector<std::string> integers = {"int64 [3]", "it must be floating", "to(float32)"};
  auto with = [&](const char *op) {
    std::vector<std::string> parts = integers;
    parts.insert(parts.begin(), std::string(op) + ": ");
    return parts;
  };
  expect_refused({
      {"softmax", ErrorKind::kDType, with("softmax"), [] { softmax(ints(), 0); }},
      {"log_softmax", ErrorKind::kDType, with("log_softmax"), [] { ints().log_softmax(0); }},
      {"layer_norm", ErrorKind::kDType, with("layer_norm"), [] { layer_norm(ints(), {3}); }},
      {"rms_norm", ErrorKind::kDType, with("rms_norm"), [] { rms_norm(ints(), {3}); }},
      {"mean", ErrorKind::kDType, with("mean"), [] { mean(ints()); }},
      {"var", ErrorKind::kDType, with("var"), [] { var(ints()); }},
      {"norm", ErrorKind::kDType, with("norm"), [] { norm(ints()); }},
      {"std", ErrorKind::kDType, {"std: x is int64", "to(float32)"}, [] { ints().std(); }},
      {"cross_entropy",
       ErrorKind::kDType,
       {"cross_entropy: logits is int64 [3]"},
       [] { cross_entropy(ints(), tensor<int64_t>({0})); }},
      {"nll_loss",
       ErrorKind::kDType,
       {"nll_loss: log_probs is int64 [3]"},
       [] { nll_loss(ints(), scalar(0)); }},
      {"rand",
       ErrorKind::kDType,
       {"rand: samples are floating-point numbers, not int64"},
       [] { rand({2}, int64); }},
  });
}

TEST(Errors, OptionsAndDevicesThatAreNone) {
  auto with = [](auto change) {
    return [change] {
      Config changed = config();
      change(changed);
      set_config(changed);
    };
  };
  expect_refused({
      {"backend",
       ErrorKind::kValue,
       {"set_config: no backend named 'nowhere'", "cpu"},
       with([](Config &c) { c.backend = "nowhere"; })},
      {"bound",
       ErrorKind::kValue,
       {"set_config: budget_ops must be at least 1, it is 0"},
       with([](Config &c) { c.budget_ops = 0; })},
      {"device",
       ErrorKind::kDevice,
       {"set_config: there is no device 'nowhere'"},
       with([](Config &c) { c.device = "nowhere"; })},
      {"index",
       ErrorKind::kDevice,
       {"there is no device of index 1000"},
       [] { device_at(1000); }},
  });
}

TEST(Errors, TensorsThatNoMachineHolds) {
  int64_t large = int64_t(1) << 40, more = int64_t(1) << 20;
  std::vector<std::string> parts = {"a tensor of shape [1099511627776, 1048576] takes "
                                    "4611686018427387904 bytes as float32"};
  expect_refused({
      {"zeros", ErrorKind::kShape, parts, [&] { zeros({large, more}); }},
      {"expand", ErrorKind::kShape, parts, [&] { ones({1}).expand({large, more}); }},
      {"elements",
       ErrorKind::kShape,
       {"more elements than an int64 counts"},
       [&] { zeros({large, large}); }},
      {"pad",
       ErrorKind::kShape,
       {"pad: padding [9223372036854775807, 9223372036854775807] of dimension 0 of shape [2]"},
       [] { pad(ones({2}), {INT64_MAX, INT64_MAX}); }},
      {"diag",
       ErrorKind::kShape,
       {"diag: offset is -9223372036854775808, x has shape [2]"},
       [] { diag(ones({2}), INT64_MIN); }},
      {"diag_embed",
       ErrorKind::kShape,
       {"diag_embed: offset is 9223372036854775807, x has shape [2]"},
       [] { diag_embed(ones({2}), INT64_MAX); }},
      {"pixel_shuffle",
       ErrorKind::kValue,
       {"pixel_shuffle: factor is 4294967296", "[1, 2147483647]"},
       [] { pixel_shuffle(ones({1, 4, 2, 2}), int64_t{1} << 32); }},
  });
}

TEST(Errors, HeadsOfAttention) {
  Tensor query = ones({1, 6, 3, 4}), key = ones({1, 2, 5, 4}), four = ones({1, 4, 5, 4});
  auto grouped = [&](const Tensor &q, const Tensor &k) {
    attention(q, k, k, Tensor(), {.causal = false, .scale = {}, .grouped = true});
  };
  std::string shapes = "attention: query [1, 6, 3, 4], key [1, 4, 5, 4] and value [1, 4, 5, 4]";
  expect_refused({
      {"fewer heads",
       ErrorKind::kShape,
       {"attention: query [1, 6, 3, 4], key [1, 2, 5, 4] and value [1, 2, 5, 4]",
        "do not broadcast", "AttentionOptions::grouped"},
       [&] { attention(query, key, key); }},
      {"no divisor", ErrorKind::kShape, {shapes, "Hk a divisor of H"},
       [&] { grouped(query, four); }},
      {"no heads", ErrorKind::kShape, {"query [3, 4]", "[.., H, Tq, D]"},
       [&] { grouped(ones({3, 4}), ones({5, 4})); }},
  });
}

TEST(Errors, MasksOfAttention) {
  Tensor query = ones({1, 2, 3, 4}), key = ones({1, 2, 5, 4});
  std::vector<std::string> others = {"which does not broadcast to the scores' [1, 2, 3, 5]",
                                     "query [1, 2, 3, 4]", "key [1, 2, 5, 4]"};
  auto with = [&](const char *start) {
    std::vector<std::string> parts = others;
    parts.insert(parts.begin(), start);
    return parts;
  };
  expect_refused({
      {"a dimension", ErrorKind::kShape, with("attention: mask has shape [4, 5]"),
       [&] { attention(query, key, key, ones({4, 5}, boolean)); }},
      {"more dimensions", ErrorKind::kShape, with("attention: mask has shape [1, 1, 1, 3, 5]"),
       [&] { attention(query, key, key, ones({1, 1, 1, 3, 5})); }},
      {"PyTorch's name", ErrorKind::kShape,
       with("scaled_dot_product_attention: mask has shape [3, 1, 3, 5]"),
       [&] { scaled_dot_product_attention(query, key, key, ones({3, 1, 3, 5}, boolean)); }},
      {"where",
       ErrorKind::kShape,
       {"condition has shape [2], x and y have shape [3]"},
       [] { where(ones({2}, boolean), ones({3}), ones({3})); }},
  });
}

TEST(Errors, ProductsOfTwoDtypes) {
  Tensor x = ones({2, 3});
  std::vector<std::string> both = {"matmul: x is float32 [2, 3], y is bfloat16 [3, 4]", "one dtype",
                                   "to()"};
  expect_refused({
      {"matmul", ErrorKind::kDType, both, [&] { matmul(x, ones({3, 4}, bfloat16)); }},
      {"method", ErrorKind::kDType, both, [&] { x.matmul(ones({3, 4}, bfloat16)); }},
      {"integers",
       ErrorKind::kDType,
       {"matmul: x is int64 [3], y is float32 [3]"},
       [&] { matmul(ints(), ones({3})); }},
      {"bools", ErrorKind::kDType, {"both operands are bool"}, [&] { matmul(x > 0, (x > 0).t()); }},
  });
  EXPECT_EQ(matmul(x, ones({3, 4}, bfloat16).to(float32)).dtype(), float32);
}

TEST(Errors, ValuesThatDoNotFit) {
  auto fits = [](const char *value, const char *type) {
    return std::vector<std::string>{"full: value is " + std::string(value), type,
                                    "without overflow"};
  };
  expect_refused({
      {"uint8", ErrorKind::kValue, fits("300", "uint8"), [] { full({2}, 300, uint8); }},
      {"uint8 below", ErrorKind::kValue, fits("-256", "uint8"), [] { full({2}, -256, uint8); }},
      {"int8", ErrorKind::kValue, fits("128", "int8"), [] { full({2}, 128, int8); }},
      {"int32", ErrorKind::kValue, fits("3000000000", "int32"),
       [] { full({2}, int64_t(3'000'000'000), int32); }},
      {"int64", ErrorKind::kValue, fits("1e+19", "int64"), [] { full({2}, 1e19, int64); }},
      {"NaN", ErrorKind::kValue, fits("nan", "int32"), [] { full({2}, std::nan(""), int32); }},
      {"float16", ErrorKind::kValue, fits("70000", "float16"), [] { full({2}, 70000.0, float16); }},
      {"float32", ErrorKind::kValue, fits("1e+300", "float32"), [] { full({2}, 1e300, float32); }},
      {"scalar", ErrorKind::kValue, {"256", "uint8"}, [] { scalar(256, uint8); }},
      {"full_like", ErrorKind::kValue, {"1000", "int8"}, [] { full_like(zeros({2}, int8), 1000); }},
      {"fill_", ErrorKind::kValue, {"1000", "int8"}, [] { zeros({2}, int8).fill_(1000); }},
      {"masked_fill",
       ErrorKind::kValue,
       {"masked_fill", "1e+10", "int32"},
       [] { zeros({2}, int32).masked_fill(ones({2}, boolean), 1e10); }},
      {"masked_fill's shape",
       ErrorKind::kShape,
       {"masked_fill", "value", "[4, 3]", "[2, 3]"},
       [] { ones({2, 3}).masked_fill(ones({2, 3}, boolean), ones({4, 3})); }},
  });
  EXPECT_EQ(full({1}, 255, uint8).item<int64_t>(), 255);
  EXPECT_EQ(full({1}, -1, uint8).item<int64_t>(), 255); // as PyTorch
  EXPECT_EQ(full({1}, -128, int8).item<int64_t>(), -128);
  EXPECT_EQ(full({1}, 2.7, int64).item<int64_t>(), 2);
  EXPECT_EQ(full({1}, std::numeric_limits<int64_t>::min(), int64).item<int64_t>(),
            std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(std::isinf(full({1}, INFINITY, float16).item<float>()));
  EXPECT_EQ(full({1}, 65504.0, float16).item<float>(), 65504.f);
}

// By the name that the caller wrote, and once.
TEST(Errors, NamesOfFunctionsThatCallOthers) {
  const double most = std::numeric_limits<double>::infinity();
  expect_refused({
      {"broadcast_to",
       ErrorKind::kShape,
       {"broadcast_to: shape [3]"},
       [] {
         broadcast_to(ones({3}), {2});
       }},
      {"broadcast_to",
       ErrorKind::kShape,
       {"broadcast_to: shape [3]"},
       [] {
         ones({3}).broadcast_to({2});
       }},
      {"tensor",
       ErrorKind::kValue,
       {"tensor: value is 1e+300"},
       [] {
         tensor(1e300);
       }},
      {"scalar",
       ErrorKind::kValue,
       {"scalar: value is 1e+300"},
       [] {
         scalar(1e300);
       }},
      {"max_pool2d_with_indices",
       ErrorKind::kShape,
       {"max_pool2d_with_indices: x has shape [2]"},
       [] {
         max_pool2d_with_indices(ones({2}), 2);
       }},
      {"uniform",
       ErrorKind::kValue,
       {"uniform: low is 0", "finite numbers of float32"},
       [=] {
         uniform({2}, 0, most);
       }},
      {"uniform",
       ErrorKind::kValue,
       {"finite numbers of float32"},
       [] {
         uniform({2}, -3e38, 3e38);
       }},
      {"uniform",
       ErrorKind::kValue,
       {"finite numbers of float16"},
       [] {
         uniform({2}, 0, 1e6, float16);
       }},
  });
  EXPECT_EQ(error_of([] { multinomial(zeros({3}), 1, true).eval(); })
                .message()
                .find("multinomial: each row of probabilities must be finite"),
            0u);
}

TEST(Errors, IndicesOfClasses) {
  expect_refused({
      {"one_hot",
       ErrorKind::kRun,
       {"weft.one_hot: index 3 at position 1 is out of range", "[0, 3)"},
       [] { one_hot(tensor<int64_t>({0, 3}), 3).to_vector<int64_t>(); }},
      {"one_hot below 0",
       ErrorKind::kRun,
       {"weft.one_hot: index -1 at position 0"},
       [] { one_hot(tensor<int64_t>({-1}), 3).eval(); }},
      {"one_hot dtype",
       ErrorKind::kDType,
       {"one_hot: indices is float32 [1]", "int32 or int64"},
       [] { one_hot(ones({1}), 3); }},
      {"one_hot classes", ErrorKind::kValue, {"one_hot: classes is 0"}, [] { one_hot(ints(), 0); }},
      {"nll_loss",
       ErrorKind::kRun,
       {"weft.nll_loss: index 5 at position 0"},
       [] { nll_loss(zeros({1, 3}), tensor<int64_t>({5})).eval(); }},
      {"multi_margin",
       ErrorKind::kRun,
       {"weft.multi_margin_loss: index 4"},
       [] { multi_margin_loss(zeros({1, 3}), tensor<int64_t>({4})).eval(); }},
      {"label dtype",
       ErrorKind::kDType,
       {"cross_entropy: targets is uint8 [1]", "int32 or int64"},
       [] { cross_entropy(zeros({1, 3}), zeros({1}, uint8)); }},
      {"label shape",
       ErrorKind::kShape,
       {"logits have shape [2, 3]", "targets have shape [3]"},
       [] { cross_entropy(zeros({2, 3}), ints()); }},
  });
}

// By the name of what was called, with the bounds of the dimension that the index is for.
TEST(Errors, IndicesOutOfRange) {
  const Tensor x = arange(6, float32).reshape({2, 3}).clone().eval(), two = ones({2, 2}).eval(),
               bad = tensor<int64_t>({0, 5}), good = tensor<int64_t>({1, 0}),
               places = tensor<int64_t>({{0, 5}, {1, 0}}), narrow = tensor<int32_t>({0, 5});
  Tensor written = x.clone().eval(), weight = ones({4, 2}).requires_grad_();
  auto at = [](const std::string &name, int64_t size) {
    std::string bound = std::to_string(size);
    return std::vector<std::string>{"weft." + name + ": index 5 at position 1 is out of range; it "
                                                     "must lie in [-" +
                                    bound + ", " + bound + ")"};
  };
  auto in_place = [&](auto write) {
    return [&written, write] {
      write(written);
      (void)written.to_vector<float>();
    };
  };
  expect_refused({
      {"index", ErrorKind::kRun, at("index", 2), [&] { x.index({bad}).eval(); }},
      {"index, dim 1", ErrorKind::kRun, at("index", 3), [&] { x.index({Slice(), bad}).eval(); }},
      {"index, first of two", ErrorKind::kRun, at("index:indices[0]", 2),
       [&] { x.index({bad, good}).eval(); }},
      {"index, second of two", ErrorKind::kRun, at("index:indices[1]", 3),
       [&] { x.index({good, narrow}).eval(); }},
      {"index, computed",
       ErrorKind::kRun,
       {"weft.index:indices[1]: an index is out of range; it must lie in [-3, 3)"},
       [&] { x.index({good, bad + 2}).eval(); }},
      {"index_put_", ErrorKind::kRun, at("index_put_", 2),
       in_place([&](Tensor &y) { y.index_put_({bad}, 1); })},
      {"index_put_, two", ErrorKind::kRun, at("index_put_:indices[1]", 3),
       in_place([&](Tensor &y) { y.index_put_({good, bad}, 1); })},
      {"index_put", ErrorKind::kRun, at("index_put:indices[1]", 3),
       [&] { index_put(x, {good, bad}, 1, true).eval(); }},
      {"embedding", ErrorKind::kRun, at("embedding", 2), [&] { embedding(bad, x).eval(); }},
      {"embedding's gradient", ErrorKind::kRun, at("embedding", 4),
       [&] { grad({sum(embedding(bad, weight))}, {weight})[0].eval(); }},
      {"gather", ErrorKind::kRun, at("gather", 2), [&] { gather(x, 0, places).eval(); }},
      {"take_along_dim", ErrorKind::kRun, at("take_along_dim", 3),
       [&] { take_along_dim(x, places, 1).eval(); }},
      {"scatter", ErrorKind::kRun, at("scatter", 3), [&] { scatter(x, 1, places, 1).eval(); }},
      {"scatter of a tensor", ErrorKind::kRun, at("scatter", 2),
       [&] { scatter(x, 0, places, two).eval(); }},
      {"scatter_", ErrorKind::kRun, at("scatter_", 3),
       in_place([&](Tensor &y) { y.scatter_(1, places, 1); })},
      {"scatter_add", ErrorKind::kRun, at("scatter_add", 3),
       [&] { scatter_add(x, 1, places, two).eval(); }},
      {"scatter_reduce", ErrorKind::kRun, at("scatter_reduce", 3),
       [&] { scatter_reduce(x, 1, places, two, "amax").eval(); }},
      {"scatter_reduce by mean", ErrorKind::kRun, at("scatter_reduce", 3),
       [&] { scatter_reduce(x, 1, places, two, "mean", false).eval(); }},
      {"index_add", ErrorKind::kRun, at("index_add", 3), [&] { index_add(x, 1, bad, two).eval(); }},
      {"index_copy", ErrorKind::kRun, at("index_copy", 3),
       [&] { index_copy(x, 1, bad, two).eval(); }},
      {"index_fill", ErrorKind::kRun, at("index_fill", 3),
       [&] { index_fill(x, 1, bad, 2).eval(); }},
      {"index_reduce", ErrorKind::kRun, at("index_reduce", 3),
       [&] { index_reduce(x, 1, bad, two, "prod").eval(); }},
  });
  EXPECT_EQ(x.index({good, tensor<int64_t>({-3, 2})}).to_vector<float>(),
            (std::vector<float>{3, 2}));
}

// Before anything runs: kernels of a result without elements read no indices.
TEST(Errors, NoIndexIsInADimWithoutElements) {
  Tensor none = zeros({0, 3}), rows = ones({2, 3}), first = tensor<int64_t>({0, 0}),
         places = zeros({2, 3}, int64);
  const std::vector<std::string> texts = {"dim 0 of base, float32[0",
                                          "has no elements, so that every index is out of range"};
  expect_refused({
      {"index_add", ErrorKind::kShape, texts, [&] { index_add(none, 0, first, rows); }},
      {"index_copy", ErrorKind::kShape, texts, [&] { index_copy(none, 0, first, rows); }},
      {"index_put_", ErrorKind::kShape, texts, [&] { none.index_put_({first}, 1); }},
      {"scatter", ErrorKind::kShape, texts, [&] { scatter(none, 0, places, rows); }},
      {"scatter_add", ErrorKind::kShape, texts, [&] { scatter_add(none, 0, places, rows); }},
      {"scatter_reduce", ErrorKind::kShape, texts,
       [&] { scatter_reduce(none, 0, places, rows, "amax"); }},
  });
  const std::vector<std::string> reads = {"dim 0 of input, float32[0", texts[1]};
  expect_refused({
      {"index_select", ErrorKind::kShape, reads, [&] { index_select(none, 0, first); }},
      {"embedding", ErrorKind::kShape, reads, [&] { embedding(first, none); }},
      {"gather", ErrorKind::kShape, reads, [&] { gather(none, 0, places); }},
      {"index", ErrorKind::kShape, reads, [&] { none.index({first}); }},
  });
  EXPECT_EQ(index_select(none, 0, first.slice(0, 0, 0)).shape(), (Shape{0, 3}));
  EXPECT_EQ(index_add(none, 0, first.slice(0, 0, 0), none).shape(), (Shape{0, 3}));
  EXPECT_EQ(scatter_add(none, 0, places.slice(0, 0, 0), none).shape(), (Shape{0, 3}));
}

// An operand that has its shape and another dtype: a program that branches on the kind converts it.
TEST(Errors, DTypesOfFittingShapes) {
  Tensor x = ones({2, 3}), weight = ones({4, 3}), leaf = ones({3}).set_requires_grad();
  expect_refused({
      {"bias",
       ErrorKind::kDType,
       {"linear: bias is float64 [4]", "float32 [4]"},
       [&] { linear(x, weight, ones({4}, float64)); }},
      {"layer_norm",
       ErrorKind::kDType,
       {"layer_norm: weight is float64 [3]", "float32 [3]"},
       [&] { layer_norm(x, {3}, ones({3}, float64)); }},
      {"grad",
       ErrorKind::kDType,
       {"grad: the gradient is float64 [3]", "float32 [3]"},
       [&] { grad({leaf * 2.0}, {leaf}, {.grad_outputs = {ones({3}, float64)}}); }},
      {"set_grad",
       ErrorKind::kDType,
       {"set_grad: the gradient is float64 [3], the tensor is float32 [3]", "one dtype"},
       [&] { leaf.set_grad(ones({3}, float64)); }},
      {"shapes",
       ErrorKind::kShape,
       {"linear: bias is float32 [5]", "float32 [4]"},
       [&] { linear(x, weight, ones({5})); }},
  });
}

// Values that go to places of their own are not converted in silence.
TEST(Errors, SourcesOfAnotherDType) {
  Tensor x = ones({2}, int32), at = zeros({1}, int64), source = full({1}, 0.5);
  auto parts = [](std::string op, std::string self = "x", std::string argument = "source") {
    return std::vector<std::string>{op + ": " + self + " is int32 [2], " + argument +
                                        " is float32 [1]",
                                    "one dtype", "to()"};
  };
  expect_refused({
      {"index_add", ErrorKind::kDType, parts("index_add"), [&] { index_add(x, 0, at, source); }},
      {"index_add_", ErrorKind::kDType, parts("index_add_"), [&] { x.index_add_(0, at, source); }},
      {"index_copy", ErrorKind::kDType, parts("index_copy"), [&] { index_copy(x, 0, at, source); }},
      {"index_copy_",
       ErrorKind::kDType,
       parts("index_copy_"),
       [&] { x.index_copy_(0, at, source); }},
      {"scatter", ErrorKind::kDType, parts("scatter"), [&] { scatter(x, 0, at, source); }},
      {"scatter_", ErrorKind::kDType, parts("scatter_"), [&] { x.scatter_(0, at, source); }},
      {"scatter_add_",
       ErrorKind::kDType,
       parts("scatter_add_"),
       [&] { x.scatter_add_(0, at, source); }},
      {"index_put",
       ErrorKind::kDType,
       parts("index_put", "self", "value"),
       [&] { index_put(x, {at}, source); }},
      {"index_put_",
       ErrorKind::kDType,
       parts("index_put_", "self", "value"),
       [&] { x.index_put_({at}, source, /*accumulate=*/true); }},
      {"several for a mask",
       ErrorKind::kDType,
       {"index_put_: self is int32 [2], value is float32 [2]"},
       [&] { x.index_put_({x > 0}, ones({2})); }},
  });
  x.index_put_({tensor({true, false})}, full({1}, 2.5)); // as masked_fill_, and so is PyTorch's
  x[1] = full({1}, 3.5);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{2, 3}));
}

// A member in place has its own name in the errors of the function that it calls.
TEST(Errors, MembersInPlaceAreNamed) {
  Tensor x = ones({3});
  expect_refused({
      {"masked_fill_",
       ErrorKind::kShape,
       {"masked_fill_: x has shape [3], mask has shape [2]"},
       [&] { x.masked_fill_(ones({2}, boolean), 1.0); }},
      {"pow_", ErrorKind::kShape, {"pow_: "}, [&] { x.pow_(ones({2})); }},
      {"lerp_", ErrorKind::kShape, {"lerp_: "}, [&] { x.lerp_(ones({2}), 0.5); }},
      {"exp_", ErrorKind::kDType, {"exp_: "}, [] { ints().exp_(); }},
      {"fill_", ErrorKind::kShape, {"fill_: ", "value"}, [&] { x.fill_(ones({2})); }},
      {"fill_ of none", ErrorKind::kState, {"fill_: 'self' is"}, [] { Tensor().fill_(1); }},
      {"zero_", ErrorKind::kState, {"zero_: 'self' is"}, [&] { x.grad().zero_(); }},
      {"zero_ of a leaf",
       ErrorKind::kState,
       {"zero_: a leaf"},
       [] { ones({2}).set_requires_grad().zero_(); }},
  });
}

TEST(Errors, DimensionsAndShapes) {
  Tensor x = ones({2, 3});
  expect_refused({
      {"dim below",
       ErrorKind::kIndex,
       {"sum: dim -3 is out of range", "2 dimensions", "[-2, 1]"},
       [&] { x.sum(-3); }},
      {"dim above", ErrorKind::kIndex, {"softmax: dim 2 is out of range"}, [&] { softmax(x, 2); }},
      {"dim twice", ErrorKind::kValue, {"names a dimension twice"}, [&] { x.sum({0, -2}); }},
      {"max of nothing",
       ErrorKind::kShape,
       {"max: x has shape [0, 3]", "no largest or smallest"},
       [] { ones({0, 3}).max(0); }},
      {"argmax of nothing",
       ErrorKind::kShape,
       {"argmax: x has shape [0]"},
       [] { ones({0}).argmax(); }},
      {"two unknown sizes",
       ErrorKind::kShape,
       {"reshape", "[-1, -1]"},
       [&] { x.reshape({-1, -1}); }},
      {"reshape", ErrorKind::kShape, {"reshape", "[2, 3]", "[4, 2]"}, [&] { x.reshape({4, 2}); }},
      {"cat shapes",
       ErrorKind::kShape,
       {"cat: tensor 0 has shape [2, 3], tensor 1 has shape [2, 4]"},
       [&] { cat({x, ones({2, 4})}, 0); }},
      {"stack shapes",
       ErrorKind::kShape,
       {"stack: tensor 0 has shape [2, 3], tensor 1 has shape [3, 2]"},
       [&] { stack({x, x.t()}); }},
      {"matmul's leading dims",
       ErrorKind::kShape,
       {"matmul: x has shape [2, 2, 3], y has shape [3, 3, 4]", "equal or 1"},
       [] { matmul(ones({2, 2, 3}), ones({3, 3, 4})); }},
      {"take_along_dim",
       ErrorKind::kShape,
       {"take_along_dim: x has shape [2, 3], indices have shape [3, 2]", "each dimension but 0"},
       [&] { take_along_dim(x, zeros({3, 2}, int64), 0); }},
      {"cat of undefined",
       ErrorKind::kState,
       {"cat: 'tensor 1' is an undefined tensor"},
       [&] { cat({x, Tensor()}); }},
      {"stack of undefined",
       ErrorKind::kState,
       {"stack: 'tensor 1' is an undefined tensor"},
       [&] { stack({x, Tensor()}); }},
      {"cat of nothing", ErrorKind::kValue, {"cat: there are no tensors"}, [] { cat({}); }},
      {"mask dtype",
       ErrorKind::kDType,
       {"masked_fill: mask is int64 [3]", "bool"},
       [&] { x.masked_fill(ints(), 0); }},
      {"condition dtype",
       ErrorKind::kDType,
       {"where: condition is int64 [3]", "bool"},
       [&] { where(ints(), x, x); }},
      {"broadcast", ErrorKind::kShape, {"[2, 3]", "[2]", "neither is 1"}, [&] { x + ones({2}); }},
      {"one_hot of unit",
       ErrorKind::kShape,
       {"index_copy: source has shape [2]", "must be [3, 3]"},
       [&] { x.index_copy(0, ints(), ones({2})); }},
  });
}

// The line is that of the assignment, which C++ gives no parameter for it.
TEST(Errors, Assignments) {
  Tensor x = ones({2, 3}), row = ones({4});
  expect_refused({
      {"a view",
       ErrorKind::kShape,
       {"operator=: value has shape [4], the view on the left has shape [3]"},
       [&] { x[0] = row; }},
      {"a temporary",
       ErrorKind::kShape,
       {"operator=: value has shape [4], the view on the left has shape [2]"},
       [&] { x.select(1, 2) = row * 2.0; }},
      {"more dims",
       ErrorKind::kShape,
       {"operator=: value is float32 [2, 3], the view on the left is float32 [3]"},
       [&] { x[0] = ones({2, 3}); }},
      {"copy_ takes no more dims",
       ErrorKind::kShape,
       {"copy_: source is float32 [1, 4], self is float32 [4]"},
       [&] { row.copy_(ones({1, 4})); }},
      {"an index",
       ErrorKind::kShape,
       {"index_put_: value has shape [4], the view of the index has shape [3]"},
       [&] { x.index_put_({0}, row); }},
      {"a copy",
       ErrorKind::kState,
       {"index() with tensors gives a copy", "index_put_"},
       [&] { x.index({tensor<int64_t>({0})}) = row; }},
  });
  x[1] = tensor<float>({5, 6, 7}), x[0] = x[1];
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{5, 6, 7, 5, 6, 7}));
}

TEST(Errors, UndefinedOperandsAreNamed) {
  expect_refused({
      {"first", ErrorKind::kState, {"add: ", "'x' is an undefined"}, [] { Tensor() + ones({2}); }},
      {"second", ErrorKind::kState, {"add: ", "'y' is an undefined"}, [] { ones({2}) + Tensor(); }},
      {"shape", ErrorKind::kState, {"has no shape"}, [] { ones({2}).grad().shape(); }},
      {"dtype", ErrorKind::kState, {"has no shape and no dtype"}, [] { Tensor().dtype(); }},
      {"count", ErrorKind::kState, {"never given a value"}, [] { Tensor().numel(); }},
      {"grad", ErrorKind::kState, {"grad: ", "undefined"}, [] { Tensor().grad(); }},
      {"zero_grad", ErrorKind::kState, {"undefined"}, [] { Tensor().zero_grad(); }},
      {"mark", ErrorKind::kState, {"undefined"}, [] { Tensor().requires_grad(); }},
  });
}

TEST(Errors, Windows) {
  expect_refused({
      {"kernel",
       ErrorKind::kShape,
       {"conv2d", "[1, 2, 5, 6]", "[3, 2, 7, 7]"},
       [] { conv2d(image(), ones({3, 2, 7, 7})); }},
      {"channels",
       ErrorKind::kShape,
       {"conv2d: x has shape [1, 2, 5, 6], weight has shape [3, 4, 3, 3]: weight is of 4 channels, "
        "x has 2"},
       [] { conv2d(image(), ones({3, 4, 3, 3})); }},
      {"channels of a norm",
       ErrorKind::kShape,
       {"batch_norm: x is float32 [1, 2, 5, 6], weight is float32 [3]",
        "float32 [2], a number for each channel of x"},
       [] { batch_norm(image(), zeros({2}), ones({2}), ones({3}), zeros({2})); }},
      {"dtype of a norm's statistics",
       ErrorKind::kDType,
       {"batch_norm: x is float64 [1, 2, 5, 6], weight is float16 [2]"},
       [] { batch_norm(ones({1, 2, 5, 6}, float64), zeros({2}), ones({2}), ones({2}, float16)); }},
      {"batch_norm's statistics",
       ErrorKind::kDType,
       {"batch_norm: x is bfloat16 [1, 2, 5, 6], running_mean is bfloat16 [2]; it must be float32",
        "as weight and the statistics all are"},
       [] {
         Tensor narrow = zeros({2}, bfloat16);
         batch_norm(ones({1, 2, 5, 6}, bfloat16), narrow, narrow, ones({2}), zeros({2}));
       }},
      {"stride",
       ErrorKind::kValue,
       {"conv2d: stride is 0; it must lie in [1, 2147483647]"},
       [] { conv2d(image(), ones({3, 2, 3, 3}), {}, {.stride = 0}); }},
      {"padding",
       ErrorKind::kValue,
       {"conv2d", "padding"},
       [] { conv2d(image(), ones({3, 2, 3, 3}), {}, {.padding = -1}); }},
      {"dilation",
       ErrorKind::kValue,
       {"conv2d", "dilation"},
       [] { conv2d(image(), ones({3, 2, 3, 3}), {}, {.dilation = 0}); }},
      {"groups",
       ErrorKind::kShape,
       {"conv2d", "groups"},
       [] { conv2d(image(), ones({3, 2, 3, 3}), {}, {.groups = 0}); }},
      {"dtype",
       ErrorKind::kDType,
       {"conv2d: x is float32 [1, 2, 5, 6], weight is float64 [3, 2, 3, 3]"},
       [] { conv2d(image(), ones({3, 2, 3, 3}, float64)); }},
      {"rank",
       ErrorKind::kShape,
       {"conv2d: x has shape [5, 6]", "[batch, channels, height, width]"},
       [] { conv2d(ones({5, 6}), ones({3, 2, 3, 3})); }},
      {"pool padding",
       ErrorKind::kShape,
       {"max_pool2d", "padding"},
       [] { max_pool2d(image(), 2, {.stride = {}, .padding = 2}); }},
      {"pool window",
       ErrorKind::kShape,
       {"avg_pool2d", "[1, 2, 5, 6]"},
       [] { avg_pool2d(image(), 9); }},
      {"signal",
       ErrorKind::kShape,
       {"conv1d: x has shape [5]", "[batch, channels, length]"},
       [] { conv1d(ones({5}), ones({1, 5, 2})); }},
      {"signal kernel",
       ErrorKind::kShape,
       {"conv1d: x has shape [1, 2, 4]", "reaches over 5"},
       [] { conv1d(ones({1, 2, 4}), ones({3, 2, 5})); }},
      {"signal channels",
       ErrorKind::kShape,
       {"conv1d: x has shape [1, 2, 4], weight has shape [3, 3, 2]"},
       [] { conv1d(ones({1, 2, 4}), ones({3, 3, 2})); }},
      {"signal stride",
       ErrorKind::kValue,
       {"max_pool1d: stride is 0"},
       [] { max_pool1d(ones({1, 2, 4}), 2, {.stride = 0}); }},
      {"transposed stride",
       ErrorKind::kValue,
       {"conv_transpose2d: stride is 9223372036854775807", "2147483647]"},
       [] { conv_transpose2d(image(), ones({2, 3, 3, 3}), {}, {.stride = INT64_MAX}); }},
      {"transposed signal",
       ErrorKind::kShape,
       {"conv_transpose1d: x has shape [1, 3, 5], weight has shape [4, 2, 3]"},
       [] { conv_transpose1d(ones({1, 3, 5}), ones({4, 2, 3})); }},
      {"transposed signal's dtype",
       ErrorKind::kDType,
       {"conv_transpose1d: x is float32 [1, 3, 5], weight is float64 [3, 2, 3]"},
       [] { conv_transpose1d(ones({1, 3, 5}), ones({3, 2, 3}, float64)); }},
      {"unfold's stride",
       ErrorKind::kValue,
       {"unfold: stride is 0"},
       [] { unfold(image(), 2, {.stride = 0}); }},
      {"one of a pair",
       ErrorKind::kValue,
       {"unfold: stride is (1, 0); both must lie in [1, 2147483647]"},
       [] { unfold(image(), 2, {.stride = {1, 0}}); }},
      {"unfold's window",
       ErrorKind::kShape,
       {"unfold: kernel_size is (7, 7)", "images of [5, 6]"},
       [] { unfold(image(), 7); }},
      {"adaptive signal",
       ErrorKind::kValue,
       {"adaptive_avg_pool1d: x has shape [1, 2, 4], output_size is 1000000000000", "2^28"},
       [] { adaptive_avg_pool1d(ones({1, 2, 4}), 1000000000000); }},
      {"adaptive image",
       ErrorKind::kValue,
       {"adaptive_avg_pool2d: x has shape [1, 2, 5, 6]", "2^28", "smaller size"},
       [] { adaptive_avg_pool2d(image(), 1000000000); }},
      {"resize", ErrorKind::kValue, {"resize: ", "2^28"}, [] { resize(image(), {INT64_MAX, 4}); }},
      {"pad", ErrorKind::kShape, {"pad"}, [] { pad(ones({2}), {3, 3}, PadMode::kReflect); }},
      {"dropout",
       ErrorKind::kValue,
       {"dropout: p is 1.5", "[0, 1]"},
       [] { dropout(ones({2}), 1.5); }},
      {"Dropout", ErrorKind::kValue, {"Dropout: the rate"}, [] { nn::Dropout(-0.1); }},
  });
}

TEST(Errors, ModulesAndOptimizers) {
  nn::Linear layer(3, 2);
  std::vector<Tensor> parameters = layer.parameters();
  expect_refused({
      {"lr",
       ErrorKind::kValue,
       {"SGD: lr must be at least 0, it is -0.1"},
       [&] { optim::SGD(parameters, {.lr = -0.1}); }},
      {"lr later",
       ErrorKind::kValue,
       {"set_lr"},
       [&] { optim::SGD(parameters, {.lr = 0.1}).set_lr(std::nan("")); }},
      {"betas",
       ErrorKind::kValue,
       {"Adam: betas", "1.000000"},
       [&] { optim::Adam(parameters, {.beta1 = 1.0}); }},
      {"momentum",
       ErrorKind::kValue,
       {"SGD: momentum"},
       [&] { optim::SGD(parameters, {.lr = 0.1, .momentum = -1}); }},
      {"clip",
       ErrorKind::kValue,
       {"clip_grad_value: max must be positive"},
       [&] { optim::clip_grad_value(parameters, 0); }},
      {"state shape",
       ErrorKind::kShape,
       {"load_state: 'weight' is float32 [2, 3]", "float32 [3, 2]"},
       [&] { layer.load_state({{"weight", ones({3, 2})}, {"bias", ones({2})}}); }},
      {"state dtype",
       ErrorKind::kDType,
       {"load_state: 'weight' is float32 [2, 3]", "float64 [2, 3]"},
       [&] { layer.load_state({{"weight", ones({2, 3}, float64)}, {"bias", ones({2})}}); }},
      {"state name",
       ErrorKind::kValue,
       {"load_state: there is no tensor for 'bias'"},
       [&] { layer.load_state({{"weight", ones({2, 3})}}); }},
      {"linear", ErrorKind::kShape, {"[4, 5]", "[2, 3]"}, [&] { layer(ones({4, 5})); }},
      {"padding row",
       ErrorKind::kValue,
       {"Embedding: padding_idx is 7", "[-5, 5)"},
       [] { nn::Embedding(5, 3, {.padding_idx = 7}); }},
      {"to",
       ErrorKind::kDType,
       {"to: parameters are floating-point numbers, not int32"},
       [&] { nn::to(layer, int32); }},
      {"BatchNorm1d",
       ErrorKind::kShape,
       {"BatchNorm1d: x has shape [2]"},
       [] { nn::BatchNorm1d(2)(ones({2})); }},
      {"split",
       ErrorKind::kValue,
       {"random_split: the parts have 3 items, the data set has 4"},
       [] {
         data::random_split(std::make_shared<data::TensorDataset>(ones({4, 1}), ones({4})), {1, 2});
       }},
      {"weights",
       ErrorKind::kValue,
       {"DataLoader: weight 1 is -1"},
       [] {
         data::DataLoader(data::TensorDataset(ones({2, 1}), ones({2})), {.weights = {1, -1}});
       }},
  });
}

// An optimizer's list may hold some: parameters that a module has not.
TEST(Errors, UndefinedTensorsAreLeftOutOfLists) {
  Tensor x = ones({2}).eval();
  std::vector<Tensor> list = {Tensor(), x};
  x += 1;
  auto failing = [&]() -> std::vector<Tensor> {
    x += 5;
    throw std::runtime_error("no");
  };
  EXPECT_THROW(make_step(list, failing), std::runtime_error);
  // The handle that was given may go meanwhile.
  Tensor gone = ones({2}).eval();
  auto rebinding = [&]() -> std::vector<Tensor> {
    gone += 1;
    gone = gone * 2;
    throw std::runtime_error("no");
  };
  EXPECT_THROW(make_step({&gone, 1}, rebinding), std::runtime_error);
  make_step(list, [&] { return list; });
  eval(list);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Errors, ProgramsThatAreNone) {
  Program none;
  std::vector<std::string> parts = {"an empty program", "neither traced nor loaded"};
  expect_refused({
      {"run", ErrorKind::kState, parts, [&] { none.run({}); }},
      {"memory", ErrorKind::kState, parts, [&] { none.memory(); }},
      {"state", ErrorKind::kState, parts, [&] { none.state(); }},
      {"batch", ErrorKind::kState, parts, [&] { none.batch(); }},
      {"input_shapes", ErrorKind::kState, parts, [&] { none.input_shapes(); }},
      {"input_dtypes", ErrorKind::kState, parts, [&] { none.input_dtypes(); }},
      {"output_shapes", ErrorKind::kState, parts, [&] { none.output_shapes(); }},
      {"output_dtypes", ErrorKind::kState, parts, [&] { none.output_dtypes(); }},
  });
}

TEST(Errors, HandlesThatWereMovedFrom) {
  const char *module_left = "the module was moved from";
  nn::Linear layer(2, 2), kept = std::move(layer);
  nn::Dropout dropout(0.5), kept_dropout = std::move(dropout);
  nn::Sequential chain(nn::Linear(2, 2)), kept_chain = std::move(chain);
  nn::KeyValueCache cache({.layers = 1, .heads = 1, .size = 2, .capacity = 4});
  nn::KeyValueCache::Places places = cache.next(1);
  nn::KeyValueCache kept_cache = std::move(cache);
  optim::SGD optimizer(kept.parameters(), {.lr = 0.1}), kept_optimizer = std::move(optimizer);
  Generator generator(1), kept_generator = std::move(generator);
  auto jitted = jit([](const Tensor &x) { return x; });
  auto kept_jitted = std::move(jitted);
  auto again = checkpoint([](const Tensor &x) { return x; });
  auto kept_again = std::move(again);
  nn::AnyLayer any(kept), kept_any = std::move(any);
  nn::Sequential other_chain;
  optim::LossScaler scaler, kept_scaler = std::move(scaler);
  data::DataLoader loader(data::TensorDataset(ones({2, 1}), ones({2})), {});
  auto looping = loader.begin();
  data::DataLoader kept_loader = std::move(loader);
  struct Net : nn::Module {
    explicit Net(const nn::Linear &inner) {
      child("fc", inner);
    }
  };
  Net net(kept);
  const optim::SGD &optimizer_left = optimizer;
  Tensor x = ones({1, 2}), token = ones({1, 1, 1, 2});
  auto module_says = [&](const char *what) {
    return std::vector<std::string>{std::string(what) + ": ", module_left, "use the one"};
  };
  auto says = [&](const char *what, const char *who) {
    return std::vector<std::string>{std::string(what) + ": the " + who + " was moved from"};
  };
  const ErrorKind state = ErrorKind::kState;
  expect_refused({
      {"call", state, module_says("Linear"), [&] { layer(x); }},
      {"dropout", state, module_says("Dropout"), [&] { dropout(x); }},
      {"sequence", state, module_says("Sequential"), [&] { chain(x); }},
      {"next", state, module_says("KeyValueCache"), [&] { cache.next(1); }},
      {"attend",
       state,
       module_says("KeyValueCache"),
       [&] { cache.attend(0, places, token, token, token); }},
      {"parameters", state, module_says("parameters"), [&] { layer.parameters(); }},
      {"buffers", state, module_says("named_buffers"), [&] { layer.named_buffers(); }},
      {"state", state, module_says("state"), [&] { layer.state(); }},
      {"load_state", state, module_says("load_state"), [&] { layer.load_state({}); }},
      {"train", state, module_says("train"), [&] { layer.train(); }},
      {"eval", state, module_says("eval"), [&] { layer.eval(); }},
      {"training", state, module_says("training"), [&] { (void)layer.training(); }},
      {"zero_grad", state, {module_left}, [&] { layer.zero_grad(); }},
      {"modules", state, module_says("named_modules"), [&] { layer.modules(); }},
      {"children", state, module_says("named_children"), [&] { layer.children(); }},
      {"class_name", state, module_says("class_name"), [&] { (void)layer.class_name(); }},
      {"child", state, {"child: 'fc': ", module_left}, [&] { Net other(layer); }},
      {"append", state, module_says("child"), [&] { chain.append(nn::Linear(2, 2)); }},
      {"replace_child",
       state,
       {"replace_child: 'fc': ", module_left},
       [&] { net.replace_child(kept, layer); }},
      {"clone", state, {"clone: ", "was moved from"}, [&] { nn::clone(layer); }},
      {"to", state, {"to: ", "was moved from"}, [&] { nn::to(layer, float64); }},
      {"moved on",
       state,
       module_says("state"),
       [&] {
         nn::Linear other(2, 2);
         other = std::move(layer);
         other.state();
       }},
      {"jit", state, says("jit", "function"), [&] { jitted(x); }},
      {"checkpoint", state, says("checkpoint", "function"), [&] { again(x); }},
      {"layer", state, says("AnyLayer", "layer"), [&] { any(x); }},
      {"layer.module", state, says("AnyLayer", "layer"), [&] { (void)any.module(); }},
      {"append a layer", state, says("AnyLayer", "layer"), [&] { other_chain.append(any); }},
      {"scale", state, says("scale", "loss scaler"), [&] { scaler.scale(x); }},
      {"the scale", state, says("scale", "loss scaler"), [&] { (void)scaler.scale(); }},
      {"unscale_",
       state,
       says("unscale_", "loss scaler"),
       [&] { scaler.unscale_(kept_optimizer); }},
      {"scaler.step", state, says("step", "loss scaler"), [&] { scaler.step(kept_optimizer); }},
      {"scaled step", state, says("parameters", "optimizer"), [&] { kept_scaler.step(optimizer); }},
      {"scaler.state", state, says("state", "loss scaler"), [&] { scaler.state(); }},
      {"scaler.load_state",
       state,
       says("load_state", "loss scaler"),
       [&] { scaler.load_state({}); }},
      {"next batch", state, says("next", "loader"), [&] { loader.next(); }},
      {"batches", state, says("batches", "loader"), [&] { (void)loader.batches(); }},
      {"loader.state", state, says("state", "loader"), [&] { (void)loader.state(); }},
      {"restore", state, says("restore", "loader"), [&] { loader.restore({}); }},
      {"loop", state, says("begin", "loader"), [&] { loader.begin(); }},
      {"batch of a loop", state, says("next", "loader"), [&] { *looping; }},
      {"step", state, says("step", "optimizer"), [&] { optimizer.step(); }},
      {"optimizer.zero_grad",
       state,
       says("zero_grad", "optimizer"),
       [&] { optimizer.zero_grad(); }},
      {"set_lr", state, says("set_lr", "optimizer"), [&] { optimizer.set_lr(1); }},
      {"lr", state, says("lr", "optimizer"), [&] { (void)optimizer_left.lr(); }},
      {"optimizer.parameters",
       state,
       says("parameters", "optimizer"),
       [&] { (void)optimizer_left.parameters(); }},
      {"optimizer.state", state, says("state", "optimizer"), [&] { optimizer_left.state(); }},
      {"optimizer.load_state",
       state,
       says("load_state", "optimizer"),
       [&] { optimizer.load_state({}); }},
      {"rand", state, says("rand", "generator"), [&] { rand({1}, generator); }},
      {"mask",
       state,
       says("dropout", "generator"),
       [&] { weft::dropout(x, 0.5, true, generator); }},
      {"seed", state, says("manual_seed", "generator"), [&] { generator.manual_seed(1); }},
      {"part", state, says("set_part", "generator"), [&] { generator.set_part(0, 2); }},
      {"generator.state", state, says("state", "generator"), [&] { generator.state(); }},
      {"set_state",
       state,
       says("set_state", "generator"),
       [&] { generator.set_state(kept_generator.state()); }},
  });
  // What they were moved to is what they were, and so are they once they are assigned it.
  kept_optimizer.set_lr(0.5);
  layer = kept, optimizer = kept_optimizer, generator = kept_generator, jitted = kept_jitted;
  EXPECT_TRUE(layer.is_same(kept));
  EXPECT_EQ(optimizer.lr(), 0.5);
  EXPECT_EQ(rand({1}, generator).shape(), Shape{1});
  EXPECT_EQ(layer(jitted(x)).to_vector<float>(), kept(x).to_vector<float>());
  again = kept_again, any = kept_any, scaler = kept_scaler, loader = std::move(kept_loader);
  EXPECT_EQ(any(again(x)).to_vector<float>(), kept(x).to_vector<float>());
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(loader.next().input.shape(), (Shape{1, 1}));
}

} // namespace
} // namespace weft
