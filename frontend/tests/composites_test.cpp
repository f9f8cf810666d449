// Functions of weft/composites.h: what PyTorch's numbers (tests/golden) do not show: integers,
// ties, views, errors, programs.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Bools = std::vector<bool>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

TEST(Composites, IntegersStayExact) {
  Tensor x = tensor<int64_t>({7, -7, 7, -7, 9, INT64_MAX}),
         y = tensor<int64_t>({2, 2, -2, -2, 0, 3});
  EXPECT_EQ(floor_divide(x, y).to_vector<int64_t>(), (Ints{3, -4, -4, 3, 0, INT64_MAX / 3}));
  EXPECT_EQ(floor_divide(tensor({7.5f, -7.5f, 1.f}), tensor({2.f, 2.f, 0.f})).to_vector<float>(),
            (Floats{3, -4, kInf}));
  EXPECT_EQ(floor_divide(tensor<uint8_t>({200}), 7).dtype(), uint8);
  EXPECT_EQ(trunc(x).dtype(), int64);
  EXPECT_EQ(cumprod(tensor<int32_t>({2, 3, -4}), 0).to_vector<int64_t>(), (Ints{2, 6, -24}));
  EXPECT_EQ(cumprod(tensor<int32_t>({2, 3, -4}), 0).dtype(), int64);
  EXPECT_EQ(reciprocal(tensor<int64_t>({4})).item<float>(), 0.25f);
}

TEST(Composites, SumsOfExponentials) {
  EXPECT_EQ(logsumexp(tensor({-kInf, -kInf})).item<float>(), -kInf);
  EXPECT_EQ(logsumexp(tensor({kInf, 1.f})).item<float>(), kInf);
  EXPECT_EQ(logaddexp(tensor({-kInf, kInf}), tensor({-kInf, kInf})).to_vector<float>(),
            (Floats{-kInf, kInf}));
  EXPECT_EQ(logsumexp(zeros({3, 4}), {}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(logsumexp(zeros({2, 0}), 1).to_vector<float>(), (Floats{-kInf, -kInf}));
  EXPECT_EQ(logsumexp(zeros({0, 2}), 1, true).shape(), (Shape{0, 1}));
  EXPECT_EQ(logsumexp(zeros({3, 4}, bfloat16), 0).dtype(), bfloat16);
  Tensor x = tensor({-kInf, 0.f}).requires_grad_();
  EXPECT_EQ(grad({logsumexp(x)}, {x})[0].to_vector<float>(), (Floats{0, 1}));
}

TEST(Composites, ClosenessAndEquality) {
  Tensor x = tensor({1.f, kInf, kNan, 0.f}), y = tensor({1.000001f, kInf, kNan, 1e-3f});
  EXPECT_EQ(is_close(x, y).to_vector<bool>(), (Bools{true, true, false, false}));
  EXPECT_EQ(is_close(x, y, 1e-5, 1e-2, true).to_vector<bool>(), (Bools{true, true, true, true}));
  EXPECT_EQ(is_close(tensor({kInf}), tensor({1.f})).item<bool>(), false);
  EXPECT_TRUE(all_close(tensor<int64_t>({3, 4}), tensor({3.f, 4.f})));
  EXPECT_TRUE(equal(tensor<int64_t>({3, 4}), tensor<int64_t>({3, 4})));
  EXPECT_FALSE(equal(zeros({2}), zeros({3})));
  EXPECT_EQ(cdist(zeros({2, 3}), zeros({1, 3})).to_vector<float>(), (Floats{0, 0}));
}

TEST(Composites, EqualElementsKeepTheirOrderAndNanIsTheLargest) {
  Tensor x = tensor({2.f, kNan, -kInf, 2.f, kInf, kNan, 2.f});
  EXPECT_EQ(argsort(x).to_vector<int64_t>(), (Ints{2, 0, 3, 6, 4, 1, 5}));
  EXPECT_EQ(argsort(x, 0, true).to_vector<int64_t>(), (Ints{1, 5, 4, 0, 3, 6, 2}));
  EXPECT_EQ(topk(x, 3).second.to_vector<int64_t>(), (Ints{1, 5, 4}));
  auto [values, indices] = sort(tensor<uint8_t>({200, 0, 255, 3}), -1, true);
  EXPECT_EQ(values.dtype(), uint8);
  EXPECT_EQ(values.to_vector<int64_t>(), (Ints{255, 200, 3, 0}));
  EXPECT_EQ(
      sort(tensor<int64_t>({INT64_MAX, INT64_MIN, INT64_MAX - 1})).second.to_vector<int64_t>(),
      (Ints{1, 2, 0}));
  EXPECT_EQ(argsort(tensor<bool>({true, false, true})).to_vector<int64_t>(), (Ints{1, 0, 2}));
  EXPECT_EQ(sort(scalar(3.0)).first.item<float>(), 3);
  EXPECT_EQ(sort(zeros({0, 2}), 0).first.shape(), (Shape{0, 2}));
}

TEST(Composites, TheBestOfALongDim) {
  constexpr int64_t kSize = 1100;
  std::vector<int32_t> values(kSize);
  for (int64_t i = 0; i < kSize; ++i)
    values[static_cast<size_t>(i)] =
        static_cast<int32_t>(i * 7919 % 1009); // each value about thrice
  Tensor x = Tensor::from(values);
  for (bool largest : {true, false}) {
    Ints expected(kSize);
    for (int64_t i = 0; i < kSize; ++i)
      expected[static_cast<size_t>(i)] = i;
    std::sort(expected.begin(), expected.end(), [&](int64_t a, int64_t b) {
      int32_t left = values[static_cast<size_t>(a)], right = values[static_cast<size_t>(b)];
      return left == right ? a < b : largest ? left > right : left < right;
    });
    EXPECT_EQ(argsort(x, 0, largest).to_vector<int64_t>(), expected);
    for (size_t k : {size_t(1), size_t(20), size_t(200)})
      EXPECT_EQ(topk(x, static_cast<int64_t>(k), 0, largest).second.to_vector<int64_t>(),
                Ints(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(k)));
  }
  // What stands in for missing elements is never chosen.
  EXPECT_EQ(topk(full({300}, -kInf), 2).second.to_vector<int64_t>(), (Ints{0, 1}));
  EXPECT_EQ(topk(full({300}, kNan), 2, 0, false).second.to_vector<int64_t>(), (Ints{0, 1}));
  EXPECT_EQ(topk(x, 0).second.shape(), (Shape{0}));
  EXPECT_EQ(topk(zeros({0, 3}), 2).second.shape(), (Shape{0, 2}));
  EXPECT_EQ(kthvalue(tensor({3.f, 1.f, 2.f}), 2).second.item<int64_t>(), 2);
  EXPECT_EQ(kthvalue(zeros({2, 3}), 3, 1, true).first.shape(), (Shape{2, 1}));
  EXPECT_EQ(median(tensor({3.f, 1.f, 4.f, 2.f})).item<float>(), 2);
  EXPECT_EQ(median(tensor({3.f, kNan, 4.f}), 0).second.item<int64_t>(), 1);
  EXPECT_EQ(msort(tensor<int32_t>({3, 1, 2})).to_vector<int64_t>(), (Ints{1, 2, 3}));
  manual_seed(5);
  Ints shuffled = randperm(50).to_vector<int64_t>(), sorted = shuffled;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(shuffled, sorted);
  EXPECT_EQ(sorted, arange(50).to_vector<int64_t>());
}

TEST(Composites, AWriteToADiagonalShows) {
  Tensor x = zeros({2, 3});
  diagonal(x) += 1;
  diagonal(x, 1).copy_(tensor({5.f, 6.f}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 5, 0, 0, 1, 6}));
  EXPECT_EQ(diagonal(x, 3).shape(), Shape{0});
  EXPECT_EQ(diagonal(x, -1).to_vector<float>(), Floats{0});
  unbind(x, 1)[2].fill_(9);
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 5, 9, 0, 1, 9}));
  EXPECT_EQ(scatter(zeros({3}), 0, tensor<int64_t>({2, 0, 2}), 4.0).to_vector<float>(),
            (Floats{4, 0, 4}));
  EXPECT_EQ(scatter(zeros({3}), 0, tensor<int64_t>({1, 1}), tensor({4.f, 5.f})).to_vector<float>(),
            (Floats{0, 5, 0}));
}

// A letter's dim of size 1 broadcasts, as PyTorch's does, but not within an operand.
TEST(Composites, EinsumBroadcastsSizesOfOne) {
  Tensor x = tensor({{1.f}, {2.f}}), y = arange(12, float32).reshape({3, 4});
  EXPECT_EQ(einsum("ij,jk->ik", {x, y}).to_vector<float>(),
            matmul(x.expand({2, 3}), y).to_vector<float>());
  EXPECT_EQ(einsum("ij,ij->ij", {tensor({{1.f, 2.f, 3.f, 4.f}}), y}).shape(), (Shape{3, 4}));
  EXPECT_EQ(einsum("i,i->", {tensor({2.f}), tensor({1.f, 2.f})}).item<float>(), 6);
  EXPECT_EQ(einsum("ii,ij->j", {ones({1, 1}), y}).to_vector<float>(), (Floats{12, 15, 18, 21}));
  EXPECT_THROW(einsum("ii->i", {ones({1, 3})}), Error);
  EXPECT_NE(message_of([&] { einsum("ij,jk>ik", {x, y}); }).find("has a '>' that is no part of"),
            std::string::npos);
  EXPECT_THROW(einsum("i,ii->i", {ones({3}), ones({3, 1})}), Error);
}

// The part of a source that the indices reach is taken, as PyTorch does; its derivative is 0 beside
// it.
TEST(Composites, ScattersOfALargerSource) {
  Tensor at = zeros({1, 2}, int64), x = zeros({3, 4});
  Tensor source = arange(8, float32).reshape({2, 4});
  source.requires_grad_();
  Floats expected = {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(scatter(x, 0, at, source).to_vector<float>(), expected);
  EXPECT_EQ(scatter_reduce(x, 0, at, source, "amax").to_vector<float>(), expected);
  Tensor added = scatter_add(x, 0, at, source);
  EXPECT_EQ(added.to_vector<float>(), expected);
  added.sum().backward();
  EXPECT_EQ(source.grad().to_vector<float>(), (Floats{1, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(Composites, AShiftThatChangesIsNoProgramOfItsOwn) {
  Tensor x = arange(12, float32);
  x.eval();
  synchronize();
  uint64_t before = statistics().compiles;
  for (int64_t shift = -12; shift < 24; ++shift) {
    Floats moved = roll(x, shift, 0).to_vector<float>();
    for (int64_t i = 0; i < 12; ++i)
      EXPECT_EQ(moved[static_cast<size_t>((i + shift + 12) % 12)], static_cast<float>(i)) << shift;
  }
  EXPECT_LE(statistics().compiles - before, 3u);
  EXPECT_EQ(roll(zeros({0, 2}), 1, 0).shape(), (Shape{0, 2}));
}

TEST(Composites, ErrorsSayWhatToDo) {
  Tensor x = zeros({2, 3});
  auto shape = [](auto f) {
    return message_of(f, ErrorKind::kShape);
  };
  auto value = [](auto f) {
    return message_of(f, ErrorKind::kValue);
  };
  EXPECT_NE(
      value([&] { topk(x, 4); }).find("topk: k is 4; dimension 1 of shape [2, 3] has from 0 to 3"),
      std::string::npos);
  EXPECT_NE(value([&] {
              roll(x, {1, 2}, 0);
            }).find("roll: shifts [1, 2] and dims [0] must be equally many"),
            std::string::npos);
  EXPECT_NE(shape([&] { dot(x, x); }).find("dot: x has shape [2, 3]"), std::string::npos);
  EXPECT_NE(shape([&] {
              diag(zeros({2, 2, 2}));
            }).find("diag: x has shape [2, 2, 2]; it must be a vector or a matrix"),
            std::string::npos);
  EXPECT_NE(
      shape([&] { index_add(x, 0, arange(3), x); }).find("index_add: source has shape [2, 3]"),
      std::string::npos);
  EXPECT_NE(shape([&] { scatter(x, 0, zeros({2, 4}, int64), 1); }).find("reaches beyond x"),
            std::string::npos);
  EXPECT_NE(value([&] { einsum("ij,jk->ik", {x}); }).find("is for 2 operands, there are 1"),
            std::string::npos);
  EXPECT_NE(shape([&] {
              einsum("ij,jk->ik", {x, x});
            }).find("dimension 0 of operand 1, of shape [2, 3], is 2; in another place it is 3"),
            std::string::npos);
  EXPECT_NE(shape([&] {
              einsum("ijk->i", {x});
            }).find("operand 0 has shape [2, 3], which does not have the dimensions 'ijk'"),
            std::string::npos);
  EXPECT_NE(
      value([&] { einsum("ij->ik", {x}); }).find("must have letters of the operands, each once"),
      std::string::npos);
  EXPECT_NE(value([&] { einsum("i1->i", {x}); }).find("is not made of letters"), std::string::npos);
  EXPECT_NE(message_of([&] { weft::std(arange(3)); }, ErrorKind::kDType)
                .find("std: x is int64; it must be floating"),
            std::string::npos);
}

} // namespace
} // namespace weft
