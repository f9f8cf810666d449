// PyTorch's dtype promotion for all pairs of dtypes: tensor with tensor, with a tensor of rank 0,
// and with a C++ literal.
#include "tests/golden/golden_file.h"

namespace weft::golden {
namespace {

constexpr int64_t kRefused = -1; // in a table: PyTorch raises an error, as Weft must

class PromotionTest : public testing::Test {
protected:
  // fn(row, column) for each entry of a table must have the dtype that the table says, or fail with
  // an error that speaks of dtypes.
  template <typename Fn> void check(const std::string &table, Fn fn) {
    std::vector<int64_t> expected = file_[table].to_vector<int64_t>();
    int64_t columns = file_[table].shape().back();
    for (size_t i = 0; i < expected.size(); ++i) {
      int64_t row = static_cast<int64_t>(i) / columns, column = static_cast<int64_t>(i) % columns;
      std::string what =
          table + " row " + std::to_string(row) + " column " + std::to_string(column);
      try {
        Tensor result = fn(row, column).eval();
        if (expected[i] == kRefused)
          ADD_FAILURE() << what << " gives " << name(result.dtype()) << ", PyTorch refuses it";
        else
          EXPECT_STREQ(name(result.dtype()), name(static_cast<DType>(expected[i]))) << what;
      } catch (const Error &error) {
        EXPECT_EQ(expected[i], kRefused) << what << ": " << error.what();
        EXPECT_EQ(error.kind(), ErrorKind::kDType) << what << ": " << error.what();
      }
    }
  }
  static Tensor vector(int64_t i) {
    return ones({2}, static_cast<DType>(i));
  }
  static Tensor number(int64_t i) {
    return ones({}, static_cast<DType>(i));
  }

  // op on all that a table has: `literals` is the number of the first literal among True, 1 and
  // 1.0.
  template <typename Op> void check_binary(const std::string &name, Op op, int64_t literals = 0) {
    auto with_literal = [&](const Tensor &x, int64_t column) {
      column += literals;
      return column == 0 ? op(x, true) : column == 1 ? op(x, 1) : op(x, 1.0);
    };
    check(name + ".tensor_tensor", [&](int64_t i, int64_t j) { return op(vector(i), vector(j)); });
    check(name + ".tensor_scalar_tensor",
          [&](int64_t i, int64_t j) { return op(vector(i), number(j)); });
    check(name + ".scalar_tensor_scalar_tensor",
          [&](int64_t i, int64_t j) { return op(number(i), number(j)); });
    check(name + ".tensor_literal",
          [&](int64_t i, int64_t j) { return with_literal(vector(i), j); });
    check(name + ".scalar_tensor_literal",
          [&](int64_t i, int64_t j) { return with_literal(number(i), j); });
  }
  template <typename Op> void check_unary(const std::string &name, Op op) {
    check(name, [&](int64_t, int64_t j) { return op(vector(j)); });
  }

  GoldenFile file_{"promotion.safetensors"};
};

TEST_F(PromotionTest, Add) {
  check_binary("add", [](const Tensor &x, const auto &y) { return x + y; });
  check("add.tensor_scalar_tensor", [](int64_t i, int64_t j) { return number(j) + vector(i); });
}
TEST_F(PromotionTest, Mul) {
  check_binary("mul", [](const Tensor &x, const auto &y) { return x * y; });
}
TEST_F(PromotionTest, TrueDivision) {
  check_binary("div", [](const Tensor &x, const auto &y) { return x / y; });
}
TEST_F(PromotionTest, Comparison) {
  check_binary("lt", [](const Tensor &x, const auto &y) { return x < y; });
}
TEST_F(PromotionTest, Pow) {
  check_binary("pow", [](const Tensor &x, const auto &y) { return pow(x, y); }, 1);
}
TEST_F(PromotionTest, Remainder) {
  check_binary("remainder", [](const Tensor &x, const auto &y) { return x % y; });
}
TEST_F(PromotionTest, Where) {
  check_binary("where", [](const Tensor &x, const auto &y) {
    return where(Tensor::from<bool>({true}).squeeze(), x, y);
  });
}

TEST_F(PromotionTest, Reductions) {
  check_unary("sum", [](const Tensor &x) { return x.sum(); });
  check_unary("prod", [](const Tensor &x) { return x.prod(); });
  check_unary("mean", [](const Tensor &x) { return x.mean(); });
  check_unary("max", [](const Tensor &x) { return x.max(); });
  check_unary("cumsum", [](const Tensor &x) { return x.cumsum(0); });
}

TEST_F(PromotionTest, Functions) {
  check_unary("exp", [](const Tensor &x) { return exp(x); });
  check_unary("neg", [](const Tensor &x) { return -x; });
  check_unary("abs", [](const Tensor &x) { return abs(x); });
  check_unary("floor", [](const Tensor &x) { return floor(x); });
}

} // namespace
} // namespace weft::golden
