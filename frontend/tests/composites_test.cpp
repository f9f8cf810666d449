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

// Both operands are of one shape and of the promoted dtype before anything is made of them.
TEST(Composites, TwoOperandsArePromotedAsOneWould) {
  Tensor rows = arange(12, float32).reshape({3, 4}) + 1, row = tensor({1.f, 2.f, 3.f, 4.f});
  for (int64_t dim : {0, 1}) {
    Tensor whole = row.expand({3, 4});
    EXPECT_TRUE(all_close(cosine_similarity(row, rows, dim), cosine_similarity(whole, rows, dim)));
    EXPECT_TRUE(all_close(cosine_similarity(rows, row, dim), cosine_similarity(rows, whole, dim)));
  }
  Tensor half = ones({2, 3}, float16), integers = ones({2, 3}, int64), single = ones({2, 3});
  struct Case {
    Tensor x, y;
    DType dtype;
  };
  for (const Case &c : {Case{half, integers, float16},
                        {half, half > 0, float16},
                        {integers, scalar(1, float64), float64},
                        {half, scalar(1, float64), float16},
                        {half, scalar(1, bfloat16), float16},
                        {half, single, float32},
                        {integers, integers, float32}}) {
    EXPECT_EQ(logaddexp(c.x, c.y).dtype(), c.dtype);
    EXPECT_EQ(logaddexp(c.y, c.x).dtype(), c.dtype);
    EXPECT_EQ(cosine_similarity(c.x, c.y, 0).dtype(), c.dtype);
    if (c.y.ndim() == 0)
      continue;
    EXPECT_EQ(cdist(c.x, c.y).dtype(), c.dtype);
    EXPECT_EQ(pairwise_distance(c.y, c.x).dtype(), c.dtype);
  }
}

TEST(Composites, HyperbolicDerivativesReachAsFarAsTheFunctions) {
  Tensor x = tensor({88.9f, -88.9f, 0.f}).requires_grad_();
  Floats sines = sinh(x).to_vector<float>(), cosines = cosh(x).to_vector<float>();
  EXPECT_FLOAT_EQ(sines[0], 2.0311879944805776e+38f); // of PyTorch 2.15
  EXPECT_EQ(sines[1], -sines[0]);
  EXPECT_EQ(cosines, (Floats{sines[0], sines[0], 1}));
  EXPECT_EQ(grad({sum(sinh(x))}, {x})[0].to_vector<float>(), cosines);
  EXPECT_EQ(grad({sum(cosh(x))}, {x})[0].to_vector<float>(), (Floats{sines[0], sines[1], 0}));
}

TEST(Composites, LerpEndsWhereItShould) {
  Tensor x = tensor({1e8f, 1.f, kInf}), y = tensor({1.f, kInf, 3.f});
  EXPECT_EQ(lerp(x, y, 0).to_vector<float>()[0], 1e8f);
  EXPECT_EQ(lerp(x, y, 1).to_vector<float>()[0], 1.f);
  Tensor a = x.slice(0, 0, 1).requires_grad_(), b = y.slice(0, 0, 1).requires_grad_(),
         weight = tensor({1.f}).requires_grad_();
  std::vector<Tensor> slopes = grad({lerp(a, b, weight)}, {a, b, weight});
  EXPECT_EQ(slopes[0].item<float>(), 0);
  EXPECT_EQ(slopes[1].item<float>(), 1);
  EXPECT_EQ(slopes[2].item<float>(), 1.f - 1e8f);
  EXPECT_EQ(lerp(x.to(bfloat16), y.to(bfloat16), 0.25).dtype(), bfloat16);
}

// Their sum is whether one of them is true.
TEST(Composites, ScattersOfBools) {
  Tensor x = tensor<bool>({true, false, false}), source = tensor<bool>({true, true, false});
  Tensor places = tensor<int64_t>({0, 1, 1});
  EXPECT_EQ(scatter_add(x, 0, places, source).to_vector<bool>(), (Bools{1, 1, 0}));
  EXPECT_EQ(index_add(x, 0, places, source).to_vector<bool>(), (Bools{1, 1, 0}));
  EXPECT_EQ(scatter_reduce(x, 0, places, source, "prod").to_vector<bool>(), (Bools{1, 0, 0}));
  EXPECT_EQ(scatter_reduce(x, 0, places, source, "amin", false).to_vector<bool>(),
            (Bools{1, 0, 0}));
  EXPECT_NE(message_of([&] {
              scatter_reduce(x, 0, places, source, "mean");
            }).find("scatter_reduce: x and source are bool, which have no mean"),
            std::string::npos);
  // As many as 256, which a byte does not count.
  EXPECT_TRUE(all(scatter_add(zeros({1}, boolean), 0, zeros({256}, int64), ones({256}, boolean)))
                  .item<bool>());
  EXPECT_EQ(fmax(x, source).to_vector<bool>(), (Bools{1, 1, 0}));
  EXPECT_EQ(fmin(x, source).to_vector<bool>(), (Bools{1, 0, 0}));
  EXPECT_EQ(heaviside(x, source).to_vector<bool>(), (Bools{1, 1, 0}));
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

// One and two of short rows are searched for: the places are those of a sort, whatever the rows hold.
TEST(Composites, TheBestOfShortRows) {
  std::vector<float> values;
  const float special[] = {-kInf, kNan, kInf, 0.0f, -0.0f};
  for (int i = 0; i < 40 * 7; ++i)
    values.push_back(i / 7 % 4 == 0   ? special[i * 3 % 5]
                     : i / 7 % 4 == 1 ? -kInf
                     : i / 7 % 4 == 2 ? kNan
                                      : static_cast<float>(i * 37 % 5));
  Tensor x = Tensor::from(values, {40, 7}), whole = nan_to_num(x, -3.0, 100.0, -100.0);
  for (const Tensor &each : {x, x.to(bfloat16), whole.to(int8), whole.to(uint8), whole.to(int64),
                             whole > 0.0, x.to(float64).t().reshape({8, 5, 7})})
    for (int64_t dim = 0; dim < each.ndim(); ++dim)
      for (int64_t k : {1, 2}) {
        auto [values_of_k, places] = topk(each, k, dim);
        Tensor sorted = argsort(each, dim, true).narrow(dim, 0, k);
        EXPECT_EQ(places.to_vector<int64_t>(), sorted.to_vector<int64_t>())
            << name(each.dtype()) << " " << dim << " " << k;
        EXPECT_EQ(values_of_k.dtype(), each.dtype());
      }
  Tensor leaf = tensor({{1.0f, 5.0f, 3.0f}, {2.0f, 2.0f, 2.0f}}).set_requires_grad();
  topk(leaf, 2).first.sum().backward();
  EXPECT_EQ(leaf.grad().to_vector<float>(), (std::vector<float>{0, 1, 1, 1, 1, 0}));
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

TEST(Composites, LogicOfTensors) {
  Tensor a = tensor({true, true, false, false}), b = tensor({true, false, true, false});
  EXPECT_EQ((a && b).to_vector<bool>(), (Bools{true, false, false, false}));
  EXPECT_EQ((a || b).to_vector<bool>(), (Bools{true, true, true, false}));
  EXPECT_EQ((!(a || !b)).to_vector<bool>(), (Bools{false, false, true, false}));
  EXPECT_EQ((tensor({0.5f, 0.f}) && 2).to_vector<bool>(), (Bools{true, false}));
  EXPECT_NE(message_of([&] { a && ones({3}, boolean); }, ErrorKind::kShape)
                .find("logical_and: x has shape [4], y has shape [3]"),
            std::string::npos);
}

TEST(Composites, FactorsOfSums) {
  Tensor i = tensor<uint8_t>({0, 1, 2});
  EXPECT_EQ(sub(i, i, 2).to_vector<int64_t>(), (Ints{0, 255, 254}));
  EXPECT_EQ(add(arange(3), 2, 3).to_vector<int64_t>(), (Ints{6, 7, 8}));
  EXPECT_EQ(add(arange(3), tensor({2.f}), 0.5).to_vector<float>(), (Floats{1, 2, 3}));
  Tensor a = tensor({true, false}), b = tensor({true, true});
  EXPECT_EQ(add(a, b, 1).to_vector<bool>(), (Bools{true, true}));
  EXPECT_EQ(add(a, b, false).to_vector<bool>(), (Bools{true, false}));
  Tensor x = tensor({1.f, 2.f}), seen = x;
  EXPECT_TRUE(x.add_(x, 2).sub_(ones({2}), 0.5).is_same(seen));
  EXPECT_EQ(seen.to_vector<float>(), (Floats{2.5f, 5.5f}));
  // A factor that changes compiles nothing.
  for (double alpha : {0.5, 0.25})
    add(seen, seen, alpha).eval();
  uint64_t before = statistics().compiles;
  for (double alpha : {1.0, -3.0, 0.0})
    EXPECT_EQ(add(seen, seen, alpha).to_vector<float>()[0], static_cast<float>(2.5 * (1 + alpha)));
  EXPECT_LE(statistics().compiles - before, 1u);
  EXPECT_NE(message_of([&] { add(i, i, 0.5); }, ErrorKind::kDType)
                .find("add: alpha is 0.5, the operands are uint8: it must be an integer"),
            std::string::npos);
  EXPECT_NE(message_of([&] { i.add_(i, 0.5); }, ErrorKind::kDType).find("add_: alpha is 0.5"),
            std::string::npos);
  EXPECT_NE(message_of([&] { add(i, i, true); }, ErrorKind::kDType).find("alpha is bool"),
            std::string::npos);
  EXPECT_NE(message_of([&] { add(i, i, 300); }, ErrorKind::kValue)
                .find("alpha is 300, which does not fit into uint8"),
            std::string::npos);
  EXPECT_NE(message_of([&] { sub(a, b, 1); }, ErrorKind::kDType).find("use ^"), std::string::npos);
}

TEST(Composites, FactorsOfProductsOfIntegers) {
  Tensor x = full({2, 2}, int64_t{1} << 40), one = ones({2, 2}, int64);
  EXPECT_EQ(addmm(x, one, one, 3, 2.0).to_vector<int64_t>()[0], (int64_t{3} << 40) + 4);
  for (auto call : {+[](const Tensor &m) { return addmm(m, m, m, 0.5); },
                    +[](const Tensor &m) { return addmm(m, m, m, 1, -1.5); },
                    +[](const Tensor &m) { return addmv(m[0], m, m[0], 0.5); },
                    +[](const Tensor &m) {
                      Tensor b = m.unsqueeze(0);
                      return baddbmm(b, b, b, 1, 0.5);
                    }})
    EXPECT_NE(message_of([&] { call(one); }).find("it must be an integer"), std::string::npos);
}

TEST(Composites, BoundsOfOneSide) {
  EXPECT_EQ(clamp_min(arange(4), 1.5).to_vector<float>(), (Floats{1.5, 1.5, 2, 3}));
  EXPECT_EQ(clamp_max(arange(4), 1).to_vector<int64_t>(), (Ints{0, 1, 1, 1}));
  EXPECT_EQ(amax(tensor({{true, false}, {false, false}}), 1).to_vector<bool>(),
            (Bools{true, false}));
  EXPECT_EQ(amin(tensor<int8_t>({3, -4})).item<int64_t>(), -4);
  Tensor x = tensor({{1.f, kNan}, {3.f, 2.f}});
  EXPECT_TRUE(std::isnan(amax(x).item<float>()));
  EXPECT_EQ(amin(x, {1}).to_vector<float>()[1], 2);
  EXPECT_NE(message_of([] { amax(zeros({0, 2}), 0); }, ErrorKind::kShape)
                .find("amax: x has shape [0, 2]"),
            std::string::npos);
  EXPECT_NE(message_of([] { clamp_min(zeros({2}, int8), 300); }, ErrorKind::kValue)
                .find("clamp_min: min is 300, beyond all numbers of int8"),
            std::string::npos);
  EXPECT_NE(message_of([] { clamp_max(zeros({2}), Tensor()); }, ErrorKind::kState)
                .find("clamp_max: 'max' is an undefined tensor"),
            std::string::npos);
}

TEST(Composites, PlacesOfAMask) {
  std::vector<Tensor> places = where(tensor({{0.f, 2.f}, {3.f, 0.f}}));
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].to_vector<int64_t>(), (Ints{0, 1}));
  EXPECT_EQ(places[1].to_vector<int64_t>(), (Ints{1, 0}));
  EXPECT_EQ(where(scalar(true)).at(0).to_vector<int64_t>(), (Ints{0}));
  EXPECT_EQ(where(scalar(false)).at(0).shape(), (Shape{0}));
  EXPECT_EQ(masked_select(scalar(3), scalar(true)).to_vector<int64_t>(), (Ints{3}));
  Tensor x = tensor({1.f, 2.f});
  EXPECT_NE(message_of([&] { x.masked_select(x); }, ErrorKind::kDType)
                .find("masked_select: mask is float32 [2]; it must be bool"),
            std::string::npos);
  EXPECT_NE(message_of([&] { masked_select(x, ones({3}, boolean)); }, ErrorKind::kShape)
                .find("masked_select: x has shape [2], mask has shape [3]"),
            std::string::npos);
  EXPECT_NE(message_of([&] { x.masked_select(x > 0) = 1; }, ErrorKind::kState), "");
}

TEST(Composites, IndicesOfTriangles) {
  // Each position that the triangles keep, in order, whatever the form of the matrix.
  for (int64_t rows : {0, 2, 5})
    for (int64_t columns : {1, 4})
      for (int64_t diagonal : {-6, -2, -1, 0, 1, 3, 6}) {
        Tensor all = ones({rows, columns}, boolean);
        EXPECT_EQ(tril_indices(rows, columns, diagonal).to_vector<int64_t>(),
                  nonzero(all.tril(diagonal)).t().to_vector<int64_t>())
            << rows << " " << columns << " " << diagonal;
        EXPECT_EQ(triu_indices(rows, columns, diagonal).to_vector<int64_t>(),
                  nonzero(all.triu(diagonal)).t().to_vector<int64_t>())
            << rows << " " << columns << " " << diagonal;
      }
  // No search, whose steps would be more for more rows. (The second bound of clamp on a line is an
  // input, the first one an op.)
  std::vector<int64_t> ops;
  for (int64_t n : {3, 30, 300})
    ops.push_back(explain(triu_indices(n, n)).ops);
  EXPECT_EQ(ops[1], ops[2]);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(tril_indices(2, 2, kMost).shape(), (Shape{2, 4}));
  EXPECT_EQ(triu_indices(2, 2, -kMost).shape(), (Shape{2, 4}));
  EXPECT_EQ(triu_indices(0, kMost).shape(), (Shape{2, 0}));
  EXPECT_NE(message_of([] { tril_indices(-1, 3); }, ErrorKind::kValue)
                .find("tril_indices: rows is -1 and columns is 3"),
            std::string::npos);
  EXPECT_NE(message_of([] { triu_indices(kMost, 3); }, ErrorKind::kShape)
                .find("more elements than an int64 counts"),
            std::string::npos);
}

TEST(Composites, ErrorsOfProductsAndParts) {
  Tensor x = zeros({2, 3}), batch = zeros({2, 3, 4});
  EXPECT_NE(message_of([&] { mm(x, x); }, ErrorKind::kShape, __LINE__), "");
  EXPECT_NE(message_of([&] { x.baddbmm(x, x); }, ErrorKind::kShape, __LINE__), "");
  EXPECT_NE(message_of([&] { x.unfold(2, 1, 1); }, ErrorKind::kIndex, __LINE__), "");
  EXPECT_NE(message_of([&] { x.masked_select(x); }, ErrorKind::kDType, __LINE__), "");
  EXPECT_NE(message_of([&] { x || ones({2}); }, ErrorKind::kShape, __LINE__), "");
  auto shape = [](auto f) {
    return message_of(f, ErrorKind::kShape);
  };
  auto value = [](auto f) {
    return message_of(f, ErrorKind::kValue);
  };
  EXPECT_NE(shape([&] { mm(x, x); })
                .find("mm: x has shape [2, 3], y has shape [2, 3]: they must be [n, k] and [k, m]"),
            std::string::npos);
  EXPECT_NE(shape([&] { x.mm(zeros({3})); }).find("mm: "), std::string::npos);
  EXPECT_NE(shape([&] { bmm(batch, zeros({1, 4, 5})); }).find("[b, n, k] and [b, k, m]"),
            std::string::npos);
  EXPECT_NE(shape([&] { mv(x, zeros({2})); }).find("mv: x has shape [2, 3], y has shape [2]"),
            std::string::npos);
  EXPECT_NE(message_of([&] { mm(x, zeros({3, 2}, float64)); }, ErrorKind::kDType)
                .find("mm: x is float32 [2, 3], y is float64 [3, 2]"),
            std::string::npos);
  EXPECT_NE(shape([&] {
              baddbmm(x, batch, zeros({2, 4, 5}));
            }).find("baddbmm: x has shape [2, 3]"),
            std::string::npos);
  EXPECT_NE(shape([&] { baddbmm(x, batch, batch); })
                .find("a has shape [2, 3, 4], b has shape [2, 3, 4]: they must be [b, n, k] and"),
            std::string::npos);
  EXPECT_NE(shape([&] { addmm(x, x, x); })
                .find("addmm: a has shape [2, 3], b has shape [2, 3]: they must be [n, k] and"),
            std::string::npos);
  EXPECT_NE(value([&] { x.tensor_split(0); }).find("tensor_split: sections is 0"),
            std::string::npos);
  EXPECT_NE(message_of([] { scalar(1).tensor_split(2); }, ErrorKind::kIndex), "");
  EXPECT_NE(value([&] { x.unfold(1, 4, 1); })
                .find("unfold: size is 4; dimension 1 of shape [2, 3] has windows of 0 to 3"),
            std::string::npos);
  EXPECT_NE(value([&] { x.unfold(1, 2, 0); }).find("unfold: step is 0; it must be positive"),
            std::string::npos);
  EXPECT_NE(value([] { scalar(1).unfold(0, 2, 1); }).find("unfold: size is 2 and step is 1"),
            std::string::npos);
  EXPECT_EQ(x.unfold(1, 3, INT64_MAX).shape(), (Shape{2, 1, 3}));
}

// Windows that overlap, lie side by side or have gaps, of few parts and of many; the last elements
// are in none.
TEST(Composites, WindowsOfADim) {
  for (auto [size, step] : std::vector<std::pair<int64_t, int64_t>>{
           {3, 1}, {17, 1}, {4, 4}, {6, 4}, {17, 3}, {3, 5}}) {
    SCOPED_TRACE(std::to_string(size) + ", " + std::to_string(step));
    Tensor wrong = zeros({});
    for (int64_t axis : {0, 1, 2}) {
      Shape shape{2, 3, 5};
      shape[axis] = 19;
      Tensor x = arange(shape[0] * shape[1] * shape[2], float32).reshape(shape).eval();
      x.set_requires_grad();
      Tensor windows = x.unfold(axis, size, step), rows = x.detach().movedim(axis, -1);
      std::vector<Tensor> expected;
      Floats uses(19);
      for (int64_t start = 0; start + size <= 19; start += step) {
        expected.push_back(rows.narrow(-1, start, size));
        for (int64_t i = start; i < start + size; ++i)
          ++uses[i];
      }
      ASSERT_EQ(windows.shape(), stack(expected, axis).shape());
      wrong = wrong + (windows != stack(expected, axis)).sum();
      Tensor gradient = grad({(windows * windows.detach()).sum()}, {x})[0].movedim(axis, -1);
      wrong = wrong + (gradient != rows * Tensor::from(uses)).sum();
    }
    EXPECT_EQ(wrong.item<float>(), 0);
  }
  EXPECT_EQ(zeros({2, 5}).unfold(1, 0, 2).shape(), (Shape{2, 3, 0}));
  Tensor x = arange(4).eval(), copy = x.unfold(0, 2, 2);
  copy.fill_(7);
  EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{0, 1, 2, 3}));
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

// What runs along a dim, element after element: the lines of [2, n, 3] or [2, 3, n], or one.
template <typename T, typename F> std::vector<T> walked(const Tensor &x, int64_t dim, F step) {
  std::vector<double> in = x.to(float64).to_vector<double>();
  std::vector<T> out(in.size());
  int64_t size = x.shape()[static_cast<size_t>(dim)], inner = 1;
  for (int64_t d = dim + 1; d < x.ndim(); ++d)
    inner *= x.shape()[static_cast<size_t>(d)];
  for (int64_t line = 0; line < x.size() / std::max<int64_t>(size, 1); ++line) {
    int64_t first = line / inner * size * inner + line % inner;
    double carried = NAN;
    for (int64_t k = 0, place = 0; k < size; ++k) {
      auto at = static_cast<size_t>(first + k * inner);
      out[at] = step(k, in[at], carried, place);
    }
  }
  return out;
}

// Sixteen rows together, rows that are left, one row, and columns.
TEST(Scans, GoFromElementToElement) {
  auto product = [](int64_t k, double x, double &carried, int64_t &) {
    return carried = k == 0 ? x : carried * x;
  };
  auto extreme = [](bool largest) {
    return [largest](int64_t k, double x, double &carried, int64_t &place) {
      if (k == 0 || std::isnan(x) || (largest ? x >= carried : x <= carried))
        carried = x, place = k;
      return place;
    };
  };
  for (const auto &[shape, dim] : std::vector<std::pair<Shape, int64_t>>{{{37}, 0},
                                                                         {{5}, 0},
                                                                         {{33, 41}, 1},
                                                                         {{3, 20}, 1},
                                                                         {{41, 33}, 0},
                                                                         {{2, 18, 3}, 1},
                                                                         {{300, 2}, 0}}) {
    SCOPED_TRACE(to_string(shape) + " along " + std::to_string(dim));
    Tensor x = rand(shape) + 0.5, few = (x * 4).to(int64);
    Floats products = cumprod(x, dim).to_vector<float>();
    std::vector<double> exact = walked<double>(x, dim, product);
    for (size_t i = 0; i < exact.size(); ++i)
      EXPECT_NEAR(products[i], exact[i], 2e-7 * exact[i]);
    Tensor signs = where(few == 2, -1, 1).to(int32);
    EXPECT_EQ(cumprod(signs, dim).to_vector<int64_t>(), walked<int64_t>(signs, dim, product));
    Tensor gaps = where(few == 3, kNan, few.to(float32)); // ties, too
    for (const Tensor &of : {gaps, few, few.to(uint8), few.to(bfloat16)}) {
      EXPECT_EQ(cummax(of, dim).second.to_vector<int64_t>(),
                walked<int64_t>(of, dim, extreme(true)));
      EXPECT_EQ(cummin(of, dim).second.to_vector<int64_t>(),
                walked<int64_t>(of, dim, extreme(false)));
    }
    Floats sums = logcumsumexp(x * 9, dim).to_vector<float>(),
           logarithms = log(cumsum(exp((x * 9).to(float64)), dim)).to(float32).to_vector<float>();
    for (size_t i = 0; i < sums.size(); ++i)
      EXPECT_NEAR(sums[i], logarithms[i], 1e-5);
  }
}

TEST(Scans, ProductsComeBackFromBeyondTheRange) {
  EXPECT_EQ(cumprod(tensor({1e30f, 1e30f, 1e-30f, 1e-30f}), 0).to_vector<float>(),
            (Floats{1e30f, kInf, 1e30f, 1}));
  Tensor factors = full({40}, 1e10).to(float64);
  factors[0] = 0.0;
  EXPECT_EQ(cumprod(factors, 0).to_vector<double>(), std::vector<double>(40, 0));
}

TEST(Scans, DerivativesDivideByNothing) {
  Tensor x = tensor({2.f, -1.f, 0.f, 3.f, 0.f}).requires_grad_();
  EXPECT_EQ(grad({cumprod(x, 0).sum()}, {x})[0].to_vector<float>(), (Floats{0, 2, -8, 0, 0}));
  Tensor y = tensor({1.5f, 0.f, -2.f, 0.5f}).requires_grad_();
  Tensor weights = tensor({1.f, 2.f, -1.f, 3.f});
  Tensor first = grad({(cumprod(y, 0) * weights).sum()}, {y}, /*create_graph=*/true)[0];
  EXPECT_EQ(first.to_vector<float>(), (Floats{1, 1.5f, 0, 0}));
  EXPECT_EQ(grad({(first * first).sum()}, {y})[0].to_vector<float>(), (Floats{3, 2, 2.25f, -27}));
  Tensor z = tensor({2.f, 1.f, 2.f, 0.f}).requires_grad_();
  EXPECT_EQ(grad({cummax(z, 0).first.sum()}, {z})[0].to_vector<float>(), (Floats{2, 0, 2, 0}));
  Tensor nothing = tensor({-kInf, -kInf, 0.f, 0.f}).requires_grad_();
  EXPECT_EQ(grad({logcumsumexp(nothing, 0).sum()}, {nothing})[0].to_vector<float>(),
            (Floats{0, 0, 1.5f, 0.5f}));
  EXPECT_EQ(logcumsumexp(tensor({-kInf, -1000.f, 800.f, kInf, 900.f}), 0).to_vector<float>(),
            (Floats{-kInf, -1000, 800, kInf, kInf}));
}

// The programs are made whole before they run: one kernel a scan, however long the dim is.
TEST(Scans, AreOneKernel) {
  if (config().backend == "reference")
    GTEST_SKIP() << "the interpreter has no kernels";
  Tensor x = (rand({5000}) + 0.5).eval();
  auto kernels = [](const Tensor &of) {
    of.eval();
    return recent_evaluations().back().kernels;
  };
  EXPECT_EQ(kernels(cumprod(x, 0)), 1);
  EXPECT_EQ(kernels(cummax(x, 0).second), 1);
  EXPECT_EQ(kernels(cummin(x, 0).first), 2); // the values are gathered
}

// Where one operand has all dims of the other, each element is read once: no product of matrices.
TEST(Composites, EinsumMultipliesAndSumsWhereNothingIsFree) {
  Tensor x = rand({2, 5, 7}), y = rand({2, 5, 7}), rows = rand({2, 5});
  auto near = [](const Tensor &a, const Tensor &b) {
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_EQ(a.dtype(), b.dtype());
    EXPECT_TRUE(all_close(a, b, 1e-5));
  };
  near(einsum("bij,bij->j", {x, y}), (x * y).sum({0, 1}));
  near(einsum("bij,bij->", {x, y}), (x * y).sum());
  near(einsum("bij,bi->jb", {x, rows}), (x * rows.unsqueeze(2)).sum(1).t());
  near(einsum("bi,bij->bj", {rows, x}), (x * rows.unsqueeze(2)).sum(1));
  near(einsum("bij,ci->bj", {x.narrow(0, 0, 1), rows.narrow(0, 0, 1)}),
       (x.narrow(0, 0, 1) * rows.narrow(0, 0, 1).unsqueeze(2)).sum(1));
  EXPECT_EQ(einsum("ij,i->j", {full({3, 2}, 100).to(int8), ones({3}, int8)}).dtype(), int8);
  // Added up in float32, and rounded once.
  Tensor many = ones({300}, bfloat16);
  EXPECT_EQ(einsum("i,i->", {many, many + 0.0078125}).to(float32).item<float>(), 302);
  Tensor large = rand({64, 65}).eval();
  einsum("ij,ij->j", {large, large}).eval();
  EXPECT_EQ(recent_evaluations().back().library_calls, 0);
  EXPECT_EQ(recent_evaluations().back().kernels, config().backend == "reference" ? 0 : 1);
  EXPECT_NE(message_of([&] {
              einsum("i,i->", {many, ones({300})});
            }).find("one dtype"),
            std::string::npos);
}

TEST(Composites, Statistics) {
  Tensor x = tensor({{1.f, 2.f, 4.f}, {3.f, 3.f, 0.f}});
  auto [variance, mean_of_rows] = var_mean(x, 1, 0, true);
  EXPECT_EQ(variance.shape(), (Shape{2, 1}));
  EXPECT_EQ(mean_of_rows.to_vector<float>(), mean(x, 1, true).to_vector<float>());
  EXPECT_EQ(std_mean(x).first.item<float>(), weft::std(x).item<float>());
  EXPECT_EQ(aminmax(x, 1).first.to_vector<float>(), (Floats{1, 0}));
  EXPECT_EQ(x.aminmax().second.item<float>(), 4);
  EXPECT_TRUE(all_close(cov(x), tensor({{7.f / 3, -2.5f}, {-2.5f, 3.f}})));
  EXPECT_TRUE(all_close(cov(x, 0), tensor({{7.f / 3, -2.5f}, {-2.5f, 3.f}}) * (2.f / 3)));
  EXPECT_EQ(cov(tensor({1.f, 3.f})).item<float>(), 2);
  EXPECT_NEAR(corrcoef(x)[0][1].item<float>(), -2.5 / std::sqrt(7.0), 1e-6);
  EXPECT_EQ(corrcoef(tensor({1.f, 3.f})).item<float>(), 1);
  EXPECT_TRUE(
      std::isinf(cov(tensor({{1.f}, {2.f}}) * tensor({{1.f, 2.f}}), 2)[0][0].item<float>()));
  EXPECT_EQ(trapezoid(x).to_vector<float>(), (Floats{4.5f, 4.5f}));
  EXPECT_EQ(trapezoid(x, 2.0, 0).to_vector<float>(), (Floats{4, 5, 4}));
  EXPECT_EQ(trapezoid(x, tensor({0.f, 1.f, 5.f})).to_vector<float>(), (Floats{13.5f, 9}));
  EXPECT_EQ(trapezoid(zeros({2, 1})).to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(trapezoid(tensor<int64_t>({1, 2})).item<float>(), 1.5f);
  auto shape = [](auto f) {
    return message_of(f, ErrorKind::kShape);
  };
  EXPECT_NE(shape([&] { trapezoid(x[0], zeros({2, 3})); }).find("no more dimensions than y"),
            std::string::npos);
  EXPECT_NE(shape([&] { trapezoid(x, zeros({2})); }).find("x must have 3 places"),
            std::string::npos);
  EXPECT_NE(shape([&] {
              cov(zeros({1, 2, 3}));
            }).find("cov: x has shape [1, 2, 3]"),
            std::string::npos);
}

TEST(Composites, TakeProductsOfSetsAndBlocks) {
  Tensor x = arange(6, float32).reshape({2, 3}).requires_grad_();
  Tensor taken = take(x, tensor<int64_t>({{5, 0}, {-1, 2}}));
  EXPECT_EQ(taken.to_vector<float>(), (Floats{5, 0, 5, 2}));
  EXPECT_EQ(grad({taken.sum()}, {x})[0].to_vector<float>(), (Floats{1, 0, 1, 0, 0, 2}));
  EXPECT_NE(message_of([&] { take(x, zeros({1})); }).find("take: indices are float32 [1]"),
            std::string::npos);
  Tensor pairs = cartesian_prod({arange(2), tensor<int64_t>({7, 8, 9})});
  EXPECT_EQ(pairs.shape(), (Shape{6, 2}));
  EXPECT_EQ(pairs.to_vector<int64_t>(), (Ints{0, 7, 0, 8, 0, 9, 1, 7, 1, 8, 1, 9}));
  EXPECT_EQ(cartesian_prod({arange(2)}).shape(), (Shape{2}));
  EXPECT_EQ(
      block_diag({tensor({{1.f}, {2.f}}), tensor({3.f, 4.f}), scalar(5.f)}).to_vector<float>(),
      (Floats{1, 0, 0, 0, 2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 5}));
  EXPECT_NE(message_of([&] {
              block_diag({zeros({1, 1, 1})});
            }).find("block 0 has shape [1, 1, 1]"),
            std::string::npos);
  Tensor a = tensor({{1.f, 2.f}, {3.f, 4.f}}), b = tensor({1.f, 10.f});
  EXPECT_EQ(addmv(ones({2}), a, b, 2, 0.5).to_vector<float>(), (Floats{12.5f, 23.5f}));
  EXPECT_NE(message_of([&] { addmv(b, a, zeros({3})); }).find("they must be [n, k] and [k]"),
            std::string::npos);
}

// The weights that stay are those of attention without dropout, each divided by 1 - p.
TEST(Attention, DropsWeights) {
  Tensor q = randn({2, 3, 5, 4}), k = randn({2, 3, 7, 4}), v = randn({2, 3, 7, 6});
  for (Tensor *x : {&q, &k, &v})
    x->requires_grad_();
  Tensor sees = rand({2, 1, 5, 7}) < 0.6;
  sees[0][0][2].fill_(false); // a row that sees nothing
  Tensor added = where(sees, randn({2, 1, 5, 7}), -std::numeric_limits<float>::infinity());
  for (const Tensor &mask : {Tensor(), sees, added})
    for (bool causal : {false, true}) {
      auto gradients = [&](const Tensor &y) {
        return grad({(y * y).sum()}, {q, k, v});
      };
      auto expect_near = [](const Tensor &x, const Tensor &y) {
        EXPECT_LT((x - y).abs().max().item<float>(), 2e-5);
      };
      Generator generator(3), same(3);
      AttentionOptions options{.causal = causal, .dropout = 0.25, .generator = &generator};
      Tensor y = attention(q, k, v, mask, options);
      // All weights from identity values, as attention's kernel computes them.
      Tensor weights = attention(q, k, eye(7).expand({2, 3, 7, 7}), mask, {.causal = causal});
      Tensor by_hand = matmul(dropout(weights, 0.25, true, same), v);
      expect_near(y, by_hand);
      std::vector<Tensor> is = gradients(y), should = gradients(by_hand);
      for (int i = 0; i < 3; ++i)
        expect_near(is[i], should[i]);
      EXPECT_NE(y.to_vector<float>(), attention(q, k, v, mask, options).to_vector<float>());
    }
  EXPECT_EQ(attention(q, k, v, {}, {.dropout = 1}).to_vector<float>(),
            std::vector<float>(2 * 3 * 5 * 6, 0.f));
  EXPECT_MESSAGE(attention(q, k, v, {}, {.dropout = 1.5}), "dropout is 1.5");
  EXPECT_MESSAGE(nn::MultiHeadAttention(8, 2, {.dropout = -1}), "dropout is -1");
  nn::TransformerBlock block(8, 2, {.attention_dropout = 0.5});
  Tensor x = randn({3, 8}), once = block(x), twice = block(x);
  EXPECT_NE(once.to_vector<float>(), twice.to_vector<float>());
  block.eval();
  EXPECT_EQ(block(x).to_vector<float>(), block(x).to_vector<float>());
}

TEST(Composites, DistancesOfEveryNorm) {
  Tensor x = tensor({1.f, 2.f, 0.f, 0.f}).reshape({2, 2});
  Tensor y = tensor({4.f, -2.f, 1.f, 2.f, 0.f, 0.f}).reshape({3, 2});
  auto distances = [&](double p) { return cdist(x, y, p).to_vector<float>(); };
  EXPECT_EQ(distances(0), (Floats{2, 0, 2, 2, 2, 0}));
  EXPECT_EQ(distances(1), (Floats{7, 0, 3, 6, 3, 0}));
  EXPECT_EQ(distances(std::numeric_limits<double>::infinity()), (Floats{4, 0, 2, 4, 2, 0}));
  EXPECT_NEAR(distances(3)[0], std::cbrt(27.0 + 64), 1e-5);
  EXPECT_EQ(cdist(zeros({2, 0}), zeros({3, 0}), 3).to_vector<float>(), Floats(6, 0));
  EXPECT_EQ(cdist(zeros({0, 2}), y, 1).shape(), (Shape{0, 3}));
  for (double p : {0.0, 0.5, 1.0, 3.0, HUGE_VAL}) {
    Tensor leaf = x.detach().clone().requires_grad_();
    EXPECT_TRUE(is_finite(grad({cdist(leaf, y, p).sum()}, {leaf})[0]).all().item<bool>()) << p;
  }
  EXPECT_MESSAGE(cdist(x, y, -1), "it must not be negative");
}

} // namespace
} // namespace weft
