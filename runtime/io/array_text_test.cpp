#include "runtime/io/array_text.h"

#include <cmath>

#include "gtest/gtest.h"

namespace weft::runtime {
namespace {

template <typename T>
std::string text(DType dtype, std::vector<int64_t> dims, std::vector<T> values) {
  return array_text({"", dtype, std::move(dims), std::as_bytes(std::span<const T>(values))});
}

TEST(ArrayText, LooksLikeNumpy) {
  EXPECT_EQ(text<float>(DType::kFloat32, {}, {1.5f}), "1.5");
  EXPECT_EQ(text<float>(DType::kFloat32, {2, 2}, {1, -2.5f, 100, 0}),
            "[[  1. -2.5]\n [100.   0.]]");
  EXPECT_EQ(text<int32_t>(DType::kInt32, {2, 1, 2}, {1, 2, 3, 4}), "[[[1 2]]\n\n [[3 4]]]");
  EXPECT_EQ(text<uint8_t>(DType::kBool, {2}, {1, 0}), "[ True False]");
  EXPECT_EQ(text<double>(DType::kFloat64, {3}, {NAN, INFINITY, 1e300}), "[   nan    inf 1e+300]");
  EXPECT_EQ(text<float>(DType::kFloat32, {0, 3}, {}), "[]");
}

TEST(ArrayText, HalfPrecision) {
  EXPECT_EQ(text<uint16_t>(DType::kBFloat16, {2}, {0x3f80, 0xc000}), "[ 1. -2.]");
  EXPECT_EQ(text<uint16_t>(DType::kFloat16, {4}, {0x3c00, 0x7c00, 0xfc00, 0x3800}),
            "[  1.  inf -inf  0.5]");
}

TEST(ArrayText, LongArraysShowTheirEnds) {
  std::vector<int64_t> values(2000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = int64_t(i);
  EXPECT_EQ(text(DType::kInt64, {2000}, values), "[   0    1    2 ... 1997 1998 1999]");
}

TEST(ShapeText, NamesDtypeAndDims) {
  std::vector<int64_t> dims{2, 3};
  EXPECT_EQ(shape_text(DType::kFloat32, dims), "float32[2, 3]");
  EXPECT_EQ(shape_text(DType::kBool, {}), "bool[]");
}

} // namespace
} // namespace weft::runtime
