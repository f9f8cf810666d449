// Arithmetic of integers and bools: exhaustive where a dtype has few numbers, at the ends of their
// ranges where it has many; numbers that do not fit a dtype; in place as out of place.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Bools = std::vector<bool>;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

template <typename T> class Integers : public testing::Test {
protected:
  // All pairs, one number of each in x and y.
  std::vector<T> x, y;

  void SetUp() override {
    using Limits = std::numeric_limits<T>;
    std::vector<T> numbers;
    if constexpr (sizeof(T) == 1) {
      for (int i = Limits::min(); i <= Limits::max(); ++i)
        numbers.push_back(static_cast<T>(i));
    } else {
      for (T near : {T(0), Limits::min(), Limits::max(), T(Limits::max() / 2),
                     static_cast<T>(int64_t(1) << (4 * sizeof(T)))})
        for (int by : {-8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8})
          numbers.push_back(static_cast<T>(static_cast<uint64_t>(near) + by));
    }
    for (T a : numbers)
      for (T b : numbers) {
        x.push_back(a);
        y.push_back(b);
      }
  }

  // function against exact, which is given numbers that no arithmetic of two overflows; the result
  // is cut to T.
  void check(const char *what, Tensor (*function)(const Tensor &, const Tensor &),
             const std::function<__int128(__int128, __int128)> &exact) {
    std::vector<T> actual = function(Tensor::from(x), Tensor::from(y)).template to_vector<T>();
    ASSERT_EQ(actual.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(+actual[i], +static_cast<T>(exact(x[i], y[i])))
          << what << "(" << +x[i] << ", " << +y[i] << ")";
  }
};
using IntegerTypes = testing::Types<int8_t, uint8_t, int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

#define WEFT_OF_TWO(call)                                                                          \
  [](const Tensor &x, const Tensor &y) {                                                           \
    return call;                                                                                   \
  }

TYPED_TEST(Integers, Arithmetic) {
  this->check("add", WEFT_OF_TWO(x + y), [](auto x, auto y) { return x + y; });
  this->check("sub", WEFT_OF_TWO(x - y), [](auto x, auto y) { return x - y; });
  this->check("mul", WEFT_OF_TWO(x * y), [](auto x, auto y) { return x * y; });
  this->check("minimum", WEFT_OF_TWO(minimum(x, y)), [](auto x, auto y) { return x < y ? x : y; });
  this->check("maximum", WEFT_OF_TWO(maximum(x, y)), [](auto x, auto y) { return x > y ? x : y; });
}

TYPED_TEST(Integers, Quotients) {
  this->check("floor_divide", WEFT_OF_TWO(floor_divide(x, y)), [](auto x, auto y) {
    return y == 0 ? 0 : x / y - (x % y != 0 && (x < 0) != (y < 0));
  });
  this->check("remainder", WEFT_OF_TWO(remainder(x, y)),
              [](auto x, auto y) { return y == 0 ? 0 : (x % y + y) % y; });
  this->check("fmod", WEFT_OF_TWO(fmod(x, y)), [](auto x, auto y) { return y == 0 ? 0 : x % y; });
}

TYPED_TEST(Integers, Comparisons) {
  auto cast = [](const Tensor &found, const Tensor &x) {
    return found.to(x.dtype());
  };
  static auto as = cast;
  this->check("lt", WEFT_OF_TWO(as(x < y, x)), [](auto x, auto y) { return x < y; });
  this->check("le", WEFT_OF_TWO(as(x <= y, x)), [](auto x, auto y) { return x <= y; });
  this->check("eq", WEFT_OF_TWO(as(x == y, x)), [](auto x, auto y) { return x == y; });
}

// By counts outside of the width, all of them for a dtype of a byte, too.
TYPED_TEST(Integers, Shifts) {
  constexpr int width = 8 * sizeof(TypeParam);
  this->check("<<", WEFT_OF_TWO(x << y),
              [](auto x, auto y) { return y < 0 || y >= width ? 0 : x << int(y); });
  this->check(">>", WEFT_OF_TWO(x >> y),
              [](auto x, auto y) { return x >> (y < 0 || y >= width ? width : int(y)); });
}

TEST(IntegerShifts, PromoteAndBroadcast) {
  Tensor i = tensor<int8_t>({1, -128, 127, -1, 5});
  EXPECT_EQ((i << 1).dtype(), int8);
  EXPECT_EQ((i << 1).to_vector<int64_t>(), (Ints{2, 0, -2, -2, 10}));
  EXPECT_EQ((i >> 8).to_vector<int64_t>(), (Ints{0, -1, 0, -1, 0}));
  EXPECT_EQ((i >> -1).to_vector<int64_t>(), (Ints{0, -1, 0, -1, 0}));
  EXPECT_EQ((1 << tensor<int32_t>({0, 4, 31, 32})).to_vector<int64_t>(),
            (Ints{1, 16, INT32_MIN, 0}));
  Tensor wide = i.bitwise_left_shift(tensor<int64_t>({{1}, {8}}));
  EXPECT_EQ(wide.dtype(), int64);
  EXPECT_EQ(wide.to_vector<int64_t>(),
            (Ints{2, -256, 254, -2, 10, 256, -32768, 32512, -256, 1280}));
  EXPECT_EQ((tensor<bool>({true, false}) << 3).to_vector<int64_t>(), (Ints{8, 0}));
  EXPECT_EQ(bitwise_right_shift(tensor<uint8_t>({200, 255}), true).to_vector<int64_t>(),
            (Ints{100, 127}));
  auto packed = jit([](const Tensor &low, const Tensor &high) { return (high << 4) | low; });
  EXPECT_EQ(packed(tensor<uint8_t>({1, 15}), tensor<uint8_t>({2, 15})).to_vector<int64_t>(),
            (Ints{33, 255}));

  std::string text = message_of([&] { i << 1.5; }, ErrorKind::kDType, __LINE__);
  EXPECT_NE(text.find("bitwise_left_shift: the operands are float32"), std::string::npos) << text;
  EXPECT_NE(message_of([&] { zeros({2}) >> i[0]; }, ErrorKind::kDType, __LINE__), "");
  Tensor b = zeros({2}, boolean);
  EXPECT_NE(message_of([&] { b << b; }, ErrorKind::kDType, __LINE__), "");
}

// Each conversion is what it is by itself, also where both are one program.
TEST(IntegerConversions, SaturateThroughAFloat) {
  Tensor u = tensor<uint8_t>({0, 127, 128, 255}), i = tensor<int32_t>({-300, -5, 5, 300});
  EXPECT_EQ(u.to(float32).to(int8).to_vector<int64_t>(), (Ints{0, 127, 127, 127}));
  EXPECT_EQ(i.to(float64).to(int8).to_vector<int64_t>(), (Ints{-128, -5, 5, 127}));
  EXPECT_EQ(i.to(float64).to(uint8).to_vector<int64_t>(), (Ints{0, 0, 5, 255}));
  EXPECT_EQ(u.to(int8).to_vector<int64_t>(), (Ints{0, 127, -128, -1}));
}

TEST(IntegerScalars, BoundsBeyondTheDtypeBoundNothing) {
  Tensor u = tensor<uint8_t>({0, 1, 254, 255}), i = tensor<int8_t>({-128, -1, 0, 127});
  EXPECT_EQ(clamp(u, -5, 5).to_vector<int64_t>(), (Ints{0, 1, 5, 5}));
  EXPECT_EQ(clamp(i, -1000, 1000).to_vector<int64_t>(), (Ints{-128, -1, 0, 127}));
  EXPECT_EQ(clamp(i, 0, 1000).to_vector<int64_t>(), (Ints{0, 0, 0, 127}));
  EXPECT_EQ(clamp(i, 2.5).dtype(), float32);
  EXPECT_EQ(clamp(tensor<int32_t>({INT32_MIN, 7}), -(int64_t(1) << 40), int64_t(1) << 40)
                .to_vector<int64_t>(),
            (Ints{INT32_MIN, 7}));
  EXPECT_NE(message_of([&] { clamp(u, 300, 400); }, ErrorKind::kValue).find("min is 300"),
            std::string::npos);
  EXPECT_NE(message_of([&] { clamp(u, -10, -5); }, ErrorKind::kValue).find("max is -5"),
            std::string::npos);
  Tensor written = u.clone();
  written.clamp_(-5, 5);
  EXPECT_EQ(written.to_vector<int64_t>(), (Ints{0, 1, 5, 5}));

  EXPECT_EQ(maximum(u, -5).to_vector<int64_t>(), (Ints{0, 1, 254, 255}));
  EXPECT_EQ(minimum(1000, i).to_vector<int64_t>(), (Ints{-128, -1, 0, 127}));
  EXPECT_NE(message_of([&] { minimum(u, -5); }, ErrorKind::kValue), "");
  EXPECT_NE(message_of([&] { maximum(i, 128); }, ErrorKind::kValue), "");

  EXPECT_EQ(hardtanh(i, -1000, 1000).to_vector<int64_t>(), (Ints{-128, -1, 0, 127}));
  EXPECT_EQ(hardtanh(u, -5, 5).to_vector<int64_t>(), (Ints{0, 1, 5, 5}));
  EXPECT_EQ(hardtanh(i).to_vector<int64_t>(), (Ints{-1, -1, 0, 1}));
  int64_t odd = (int64_t(1) << 53) + 1;
  EXPECT_EQ(hardtanh(Tensor::from(Ints{odd}), -1e18, 1e18).item<int64_t>(), odd)
      << "float32 would round it";
  EXPECT_EQ(relu6(i).to_vector<int64_t>(), (Ints{0, 0, 0, 6}));
  EXPECT_EQ(relu6(u).to_vector<int64_t>(), (Ints{0, 1, 6, 6}));
}

// As PyTorch has it: arithmetic, comparisons and bits take a scalar modulo 2^n; what writes it, or
// raises to its power, refuses one that does not fit.
TEST(IntegerScalars, ThatDoNotFit) {
  Tensor u = tensor<uint8_t>({0, 1, 254, 255}), i = tensor<int8_t>({-128, -1, 0, 127});
  EXPECT_EQ((u + 300).to_vector<int64_t>(), (Ints{44, 45, 42, 43}));
  EXPECT_EQ((300 - u).to_vector<int64_t>(), (Ints{44, 43, 46, 45}));
  EXPECT_EQ((u < -1).to_vector<bool>(), (Bools{true, true, true, false}));
  EXPECT_EQ((u == 300).to_vector<bool>(), (Bools{false, false, false, false}));
  EXPECT_EQ((i < 127.5).to_vector<bool>(), (Bools{true, true, true, true}));
  EXPECT_EQ((u & -1).to_vector<int64_t>(), (Ints{0, 1, 254, 255}));

  Tensor mask = u > 1, places = tensor<int64_t>({0});
  std::vector<std::function<void()>> refused = {
      [&] { pow(u, 300); },
      [&] { pow(i, 128); },
      [&] { where(mask, u, 300); },
      [&] { where(mask, 1000, i); },
      [&] { masked_fill(u, mask, 300); },
      [&] { full({2}, 300, uint8); },
      [&] { full_like(i, 128); },
      [&] { u.clone().fill_(300); },
      [&] { u.clone()[0] = 300; },
      [&] { index_fill(u, 0, places, 300); },
      [&] { scatter(u, 0, places, 300); },
      [&] { index_put(u, {places}, 300); },
      [&] { index_put(u, {mask}, 300); },
      [&] { pad(u, {1, 1}, PadMode::kConstant, 300); },
      [&] { addcmul(i, i, i, 1000); },
  };
  for (size_t at = 0; at < refused.size(); ++at)
    EXPECT_NE(message_of(refused[at], ErrorKind::kValue).find("does not fit into"),
              std::string::npos)
        << at;
  EXPECT_EQ(where(mask, u, 2.5).dtype(), float32);
  EXPECT_EQ(where(mask, 1, 2).dtype(), int64);
  EXPECT_EQ(where(tensor({false}), tensor({1.f}).to(float16), -1e9).item<float>(), -INFINITY);
  EXPECT_EQ(addcmul(i, i, i, 0.5).to_vector<int64_t>(), (Ints{-128, -1, 0, 127}))
      << "half of an integer is none of it";
}

TEST(IntegerScalars, RangesThatDoublesRound) {
  int64_t start = (int64_t(1) << 53) + 1, far = int64_t(1) << 62;
  EXPECT_EQ(arange(start, start + 3).to_vector<int64_t>(), (Ints{start, start + 1, start + 2}));
  EXPECT_EQ(arange(far, far + 3).size(), 3);
  EXPECT_EQ(arange(far + 3, far, -2).to_vector<int64_t>(), (Ints{far + 3, far + 1}));
  EXPECT_EQ(arange(5, 5).size(), 0);
  EXPECT_EQ(arange(0, 7, 3).to_vector<int64_t>(), (Ints{0, 3, 6}));
  EXPECT_EQ(arange(7, 0, -7).to_vector<int64_t>(), (Ints{7}));
}

TEST(IntegerArithmetic, OfBools) {
  Tensor b = tensor({true, true, false, false}), c = tensor({true, false, true, false});
  EXPECT_EQ((b + c).to_vector<bool>(), (Bools{true, true, true, false}));
  EXPECT_EQ((b * c).to_vector<bool>(), (Bools{true, false, false, false}));
  Tensor sum = b.clone(), product = b.clone();
  sum += c;
  product *= c;
  EXPECT_EQ(sum.to_vector<bool>(), (Bools{true, true, true, false}));
  EXPECT_EQ(product.to_vector<bool>(), (Bools{true, false, false, false}));
  EXPECT_EQ((b + 1).dtype(), int64);
  // PyTorch refuses to subtract bools, from what and whatever.
  Tensor x = ones({4});
  std::vector<std::function<void()>> refused = {[&] { b - c; },
                                                [&] { b - 1; },
                                                [&] { 1.5 - b; },
                                                [&] { x - b; },
                                                [&] { x - true; },
                                                [&] { b.clone() -= c; },
                                                [&] { x.clone() -= b; },
                                                [&] { x.clone() -= true; },
                                                [&] { b.sub(c); },
                                                [&] { -b; },
                                                [&] { b % c; },
                                                [&] { pow(b, c); },
                                                [&] { floor_divide(b, c); }};
  for (size_t at = 0; at < refused.size(); ++at)
    EXPECT_NE(message_of(refused[at], ErrorKind::kDType).find("bool"), std::string::npos) << at;
}

// Each operator in place has the values of the one out of place, in self's dtype, and is refused
// where that is, or where its result is of a higher category.
TEST(InPlace, IsAsOutOfPlace) {
  struct Operator {
    const char *name;
    Tensor (*of)(const Tensor &, const Tensor &);
    void (*in_place)(Tensor &, const Tensor &);
  };
  const std::vector<Operator> operators = {
      {"+", WEFT_OF_TWO(x + y), [](Tensor &x, const Tensor &y) { x += y; }},
      {"-", WEFT_OF_TWO(x - y), [](Tensor &x, const Tensor &y) { x -= y; }},
      {"*", WEFT_OF_TWO(x * y), [](Tensor &x, const Tensor &y) { x *= y; }},
      {"/", WEFT_OF_TWO(x / y), [](Tensor &x, const Tensor &y) { x /= y; }},
      {"pow", WEFT_OF_TWO(pow(x, y)), [](Tensor &x, const Tensor &y) { x.pow_(y); }},
  };
  const std::vector<DType> dtypes = {float32,  float64, int32, int64, boolean,
                                     bfloat16, float16, int8,  int16, uint8};
  auto category = [](DType dtype) {
    return is_floating(dtype) ? 2 : dtype != boolean;
  };
  Tensor a = tensor({0.f, 1.f, 0.f, 1.f, 3.f, 5.5f}), b = tensor({0.f, 0.f, 1.f, 1.f, 2.f, 1.25f});
  std::vector<Tensor> written, expected;
  std::vector<std::string> cases;
  for (const Operator &op : operators)
    for (DType of_x : dtypes)
      for (DType of_y : dtypes)
        for (bool zero_dim : {false, true}) {
          Tensor x = a.to(of_x), y = zero_dim ? b[4].to(of_y) : b.to(of_y);
          cases.push_back(std::string(name(of_x)) + " " + op.name + " " + name(of_y) +
                          (zero_dim ? " []" : ""));
          Tensor result, self = x.clone();
          bool given = true, taken = true;
          try {
            result = op.of(x, y);
          } catch (const Error &) {
            given = false;
          }
          try {
            op.in_place(self, y);
          } catch (const Error &) {
            taken = false;
          }
          EXPECT_EQ(taken, given && category(result.dtype()) <= category(of_x)) << cases.back();
          if (taken) {
            written.push_back(self);
            expected.push_back(result.to(of_x));
            EXPECT_EQ(self.dtype(), of_x);
          } else {
            cases.pop_back();
          }
        }
  eval(written);
  eval(expected);
  ASSERT_EQ(cases.size(), written.size());
  for (size_t i = 0; i < written.size(); ++i) {
    std::vector<double> is = written[i].to_vector<double>(),
                        should = expected[i].to_vector<double>();
    for (size_t j = 0; j < is.size(); ++j)
      EXPECT_TRUE(is[j] == should[j] || (std::isnan(is[j]) && std::isnan(should[j])))
          << cases[i] << " at " << j << ": " << is[j] << " instead of " << should[j];
  }
}

} // namespace
} // namespace weft
