// Tensor::accessor: elements by position, and what it refuses.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Floats = std::vector<float>;

TEST(Accessor, ReadsByPosition) {
  Tensor x = arange(24).reshape({2, 3, 4}).clone();
  auto a = x.accessor<int64_t, 3>();
  static_assert(std::is_same_v<decltype(a), TensorAccessor<const int64_t, 3>>);
  static_assert(std::is_same_v<decltype(a[0][0][0]), const int64_t &>);
  EXPECT_EQ(a.size(0), 2);
  EXPECT_EQ(a.size(2), 4);
  EXPECT_EQ(a[1].size(0), 3);
  for (int i = 0; i < 2; ++i)
    for (size_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 4; ++k)
        EXPECT_EQ(a[i][j][k], i * 12 + int64_t(j) * 4 + k);
  EXPECT_EQ(a.data(), x.data<int64_t>());
}

TEST(Accessor, ComputesTheValueAndThatOfAView) {
  Tensor x = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}}), sum = x + x, turned = x.t();
  EXPECT_EQ((sum.accessor<float, 2>()[1][2]), 12);
  auto a = turned.accessor<float, 2>();
  EXPECT_EQ(a.size(0), 3);
  EXPECT_EQ(a[2][0], 3);
  Tensor mask = x > 3.f;
  EXPECT_TRUE((mask.accessor<bool, 2>()[1][0]));
  EXPECT_FALSE((mask.accessor<bool, 2>()[0][2]));
  Tensor halves = x.to(bfloat16);
  EXPECT_EQ(float(halves.accessor<BFloat16, 2>()[0][1]), 2);
}

TEST(Accessor, WritesByPosition) {
  Tensor x = zeros({2, 3}), before = x + 0.5;
  auto a = x.mutable_accessor<float, 2>();
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      a[i][j] = static_cast<float>(10 * i + j);
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 1, 2, 10, 11, 12}));
  EXPECT_EQ(before.to_vector<float>(), (Floats{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}));
  Tensor parameter = zeros({1}).requires_grad_();
  EXPECT_MESSAGE((parameter.mutable_accessor<float, 1>()), "mutable_accessor: a leaf tensor");
}

TEST(Accessor, RefusesWhatDoesNotFit) {
  Tensor x = zeros({2, 3});
  std::string text = message_of([&] { x.accessor<double, 2>(); }, ErrorKind::kDType, __LINE__);
  EXPECT_NE(text.find("accessor: the tensor is float32"), std::string::npos) << text;
  EXPECT_NE(text.find("float64"), std::string::npos) << text;
  text = message_of([&] { x.accessor<float, 3>(); }, ErrorKind::kShape, __LINE__);
  EXPECT_NE(text.find("[2, 3]"), std::string::npos) << text;
  EXPECT_NE(text.find("3 dims"), std::string::npos) << text;
  auto a = x.accessor<float, 2>();
  text = message_of([&] { (void)a[2][0]; }, ErrorKind::kIndex, __LINE__);
  EXPECT_NE(text.find("position 2 is out of range for dim -2, which has size 2"), std::string::npos)
      << text;
  text = message_of([&] { (void)a[1][-1]; }, ErrorKind::kIndex, __LINE__);
  EXPECT_NE(text.find("position -1 is out of range for dim -1"), std::string::npos) << text;
  EXPECT_MESSAGE(a.size(2), "there is no dim 2 of 2");
  auto none = zeros({0, 3});
  EXPECT_MESSAGE((none.accessor<float, 2>()[0]), "size 0");
  auto read = jit([](const Tensor &x) { return x * x.accessor<float, 1>()[0]; });
  EXPECT_NE(message_of([&] { read(zeros({1})); }, ErrorKind::kState), "");
}

} // namespace
} // namespace weft
