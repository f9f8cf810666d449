#include "tools/support/PrintArray.h"

#include <cmath>

#include "gtest/gtest.h"

namespace weft::tools {
namespace {

template <typename T> std::string print(DType dtype, std::vector<int64_t> dims, const std::vector<T> &values) {
  runtime::ArrayView array;
  array.dtype = dtype;
  array.dims = std::move(dims);
  array.bytes = std::as_bytes(std::span<const T>(values));
  std::string text;
  llvm::raw_string_ostream stream(text);
  printArray(stream, array);
  return text;
}

TEST(PrintArray, ScalarsAndVectors) {
  EXPECT_EQ(print<float>(DType::kFloat32, {}, {1.5f}), "1.5");
  EXPECT_EQ(print<float>(DType::kFloat32, {3}, {1, NAN, -INFINITY}), "[1. nan -inf]");
  EXPECT_EQ(print<uint8_t>(DType::kBool, {2}, {1, 0}), "[True False]");
  EXPECT_EQ(print<int64_t>(DType::kInt64, {0}, {}), "[]");
  EXPECT_EQ(print<uint16_t>(DType::kBFloat16, {1}, {0x3fc0}), "[1.5]");
}

TEST(PrintArray, NestsBrackets) {
  EXPECT_EQ(print<int32_t>(DType::kInt32, {2, 2}, {1, 2, 3, 4}), "[[1 2]\n [3 4]]");
  EXPECT_EQ(print<int32_t>(DType::kInt32, {2, 1, 2}, {1, 2, 3, 4}), "[[[1 2]]\n\n [[3 4]]]");
}

TEST(PrintArray, SummarizesLargeArrays) {
  std::vector<int32_t> values(2000);
  for (int i = 0; i < 2000; ++i) values[i] = i;
  EXPECT_EQ(print(DType::kInt32, {2000}, values), "[0 1 2 ... 1997 1998 1999]");
  EXPECT_EQ(print(DType::kInt32, {2, 1000}, values), "[[0 1 2 ... 997 998 999]\n [1000 1001 1002 ... 1997 1998 1999]]");
  std::string tall = print(DType::kInt32, {1000, 2}, values);
  EXPECT_NE(tall.find("[4 5]\n ...\n [1994 1995]"), std::string::npos) << tall;
}

} // namespace
} // namespace weft::tools
