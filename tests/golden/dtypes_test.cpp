// Values in the narrow dtypes as PyTorch computes them: integers bit for bit, 16-bit floats within
// a step of their last place.
#include "tests/golden/golden_file.h"

namespace weft::golden {
namespace {

class DTypesTest : public testing::Test {
protected:
  Tensor at(const std::string &what) const {
    return file_[prefix_ + "." + what];
  }

  void expect_equal(const std::string &what, const Tensor &actual) {
    const Tensor expected = at(what);
    EXPECT_STREQ(name(actual.dtype()), name(expected.dtype())) << prefix_ << " " << what;
    ASSERT_EQ(actual.shape(), expected.shape()) << prefix_ << " " << what;
    EXPECT_EQ(actual.to_vector<double>(), expected.to_vector<double>()) << prefix_ << " " << what;
  }

  // Both are rounded from float32 results that need not be the same: they may lie on two sides of a
  // tie. `steps` in the last place, of an element or, where terms cancel, of the largest.
  void expect_near(const std::string &what, const Tensor &actual, double steps = 1,
                   bool of_largest = false) {
    const Tensor expected = at(what);
    ASSERT_STREQ(name(actual.dtype()), name(expected.dtype())) << prefix_ << " " << what;
    ASSERT_EQ(actual.shape(), expected.shape()) << prefix_ << " " << what;
    std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
    double largest = 0;
    for (double x : e)
      largest = std::max(largest, std::fabs(x));
    int bits = expected.dtype() == bfloat16 ? 8 : 11;
    for (size_t i = 0; i < a.size(); ++i) {
      double size = of_largest ? largest : std::fabs(e[i]);
      double step = size == 0 ? 0 : std::ldexp(1.0, std::ilogb(size) - bits + 1);
      ASSERT_LE(std::fabs(a[i] - e[i]), steps * step)
          << prefix_ << " " << what << ", element " << i << ": " << a[i] << ", not " << e[i];
    }
  }

  std::string prefix_;
  GoldenFile file_{"dtypes.safetensors"};
};

TEST_F(DTypesTest, IntegersWrap) {
  for (const char *type : {"int8", "int16", "uint8"}) {
    prefix_ = type;
    Tensor x = at("x"), y = at("y"), small = at("small");
    expect_equal("add", x + y);
    expect_equal("sub", x - y);
    expect_equal("mul", x * y);
    expect_equal("neg", -x);
    expect_equal("abs", abs(x));
    expect_equal("pow", pow(x, small));
    expect_equal("square", pow(x, 2));
    expect_equal("and", x & y);
    expect_equal("not", ~x);
    expect_equal("min", minimum(x, y));
    expect_equal("lt", x < y);
    expect_equal("sum", x.sum());
    expect_equal("prod", (abs(small) + 1).prod());
    expect_equal("cumsum", x.cumsum(0));
    expect_equal("max", x.max());
    expect_equal("div", x / (abs(small) + 1));
    expect_equal("to_bfloat16", x.to(bfloat16));
    expect_equal("matmul", matmul(x.reshape({8, 8}), y.reshape({8, 8})));
    EXPECT_LT(relative_distance(exp(small), at("exp")), 1e-6);
  }
}

TEST_F(DTypesTest, SixteenBitFloatsRoundOnce) {
  for (const char *type : {"bfloat16", "float16"}) {
    prefix_ = type;
    Tensor x = at("x"), y = at("y"), w = at("w"), b = at("b"), rows = at("rows");
    expect_equal("add", x + y);
    expect_equal("mul", x * y);
    expect_equal("div", x / y);
    expect_equal("scaled", x * 0.1);
    expect_equal("sqrt", sqrt(abs(x)));
    expect_equal("max", x.max(1));
    expect_equal("to_int8", (x * 10).to(int8));
    expect_near("exp", exp(x));
    expect_near("tanh", tanh(x));
    expect_near("silu", silu(x));
    expect_near("gelu", gelu(x), 1, true);
    expect_near("sum", x.sum(1), 1, true);
    expect_near("mean", x.mean(0), 1, true);
    expect_near("var", x.var(1));
    expect_near("softmax", x.softmax(1));
    expect_near("layer_norm", layer_norm(x, {32}), 1, true);
    expect_near("matmul", matmul(x, y.t()), 1, true);
    expect_near("linear", linear(x, w, b), 1, true);
    expect_near("mse_loss", mse_loss(x, y));
    // PyTorch rounds after each addition, of which a row gets a few.
    Tensor sums = zeros({16, 32}, x.dtype());
    sums.index_put_({rows.slice(0, 0, 16)}, x.slice(0, 0, 16), /*accumulate=*/true);
    expect_near("index_add", sums, 3, true);
  }
}

// What a program would read as the C++ types of the 16-bit floats.
TEST_F(DTypesTest, ElementTypes) {
  prefix_ = "bfloat16";
  std::vector<BFloat16> bf = at("x").to_vector<BFloat16>();
  std::vector<float> wide = at("x").to_vector<float>();
  for (size_t i = 0; i < bf.size(); ++i)
    EXPECT_EQ(static_cast<float>(bf[i]), wide[i]);
  EXPECT_EQ(Tensor::from(bf, {64, 32}).to_vector<float>(), wide);
  prefix_ = "float16";
  std::vector<Float16> half = at("x").to_vector<Float16>();
  EXPECT_EQ(Tensor::from(half, {64, 32}).to_vector<float>(), at("x").to_vector<float>());
}

} // namespace
} // namespace weft::golden
