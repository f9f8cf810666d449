// PyTorch's dtype promotion for all pairs of the five dtypes: tensor with tensor, with a tensor of rank 0, and with a C++ literal.
#include "tests/golden/golden_file.h"

namespace weft::golden {
namespace {

// In the order of the tables.
constexpr DType kDTypesOfTables[] = {float32, float64, int32, int64, boolean};

class PromotionTest : public testing::Test {
protected:
  // fn(row, column) for each entry of a table must have the dtype that the table says.
  template <typename Fn> void check(const std::string &table, Fn fn) {
    std::vector<int64_t> expected = file_[table].to_vector<int64_t>();
    int64_t columns = file_[table].shape().back();
    for (size_t i = 0; i < expected.size(); ++i) {
      Tensor result = fn(i / columns, i % columns);
      EXPECT_EQ(name(result.dtype()), std::string(name(kDTypesOfTables[expected[i]])))
          << table << " row " << i / columns << " column " << i % columns;
    }
  }
  static Tensor vector(int64_t i) { return ones({2}, kDTypesOfTables[i]); }
  static Tensor number(int64_t i) { return ones({}, kDTypesOfTables[i]); }
  // True, 1, 1.0
  static Tensor add_literal(const Tensor &x, int64_t column) { return column == 0 ? x + true : column == 1 ? x + 1 : x + 1.0; }
  static Tensor divide_by_literal(const Tensor &x, int64_t column) { return column == 0 ? x / true : column == 1 ? x / 1 : x / 1.0; }

  GoldenFile file_{"promotion.safetensors"};
};

TEST_F(PromotionTest, Add) {
  check("add.tensor_tensor", [](int64_t i, int64_t j) { return vector(i) + vector(j); });
  check("add.tensor_scalar_tensor", [](int64_t i, int64_t j) { return vector(i) + number(j); });
  check("add.tensor_scalar_tensor", [](int64_t i, int64_t j) { return number(j) + vector(i); });
  check("add.scalar_tensor_scalar_tensor", [](int64_t i, int64_t j) { return number(i) + number(j); });
  check("add.tensor_literal", [](int64_t i, int64_t j) { return add_literal(vector(i), j); });
  check("add.scalar_tensor_literal", [](int64_t i, int64_t j) { return add_literal(number(i), j); });
}

TEST_F(PromotionTest, TrueDivision) {
  check("div.tensor_tensor", [](int64_t i, int64_t j) { return vector(i) / vector(j); });
  check("div.tensor_scalar_tensor", [](int64_t i, int64_t j) { return vector(i) / number(j); });
  check("div.tensor_literal", [](int64_t i, int64_t j) { return divide_by_literal(vector(i), j); });
}

TEST_F(PromotionTest, Sum) {
  check("sum", [](int64_t, int64_t j) { return vector(j).sum(); });
}

} // namespace
} // namespace weft::golden
