#include "backends/cpu/device/factor_entry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cpu/device/library_registry.h"
#include "backends/cpu/device/row_major.h"

namespace weft::backends::cpu {
namespace {

using runtime::LibraryCall;
using runtime::TensorRef;
using Ints = std::vector<int64_t>;

template <typename T> constexpr DType kDType = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;

template <typename T> std::vector<T> any_matrices(int64_t count, int64_t n) {
  std::mt19937 random(7);
  std::uniform_real_distribution<T> number(-1, 1);
  std::vector<T> values(static_cast<size_t>(count * n * n));
  for (T &value : values)
    value = number(random);
  return values;
}

// Matrices whose symmetric part is positive definite.
template <typename T> std::vector<T> matrices(int64_t count, int64_t n) {
  std::vector<T> values = any_matrices<T>(count, n);
  for (int64_t row = 0; row < count * n; ++row)
    values[static_cast<size_t>(row * n + row % n)] += T(n);
  return values;
}

absl::Status run(const LibraryCall &call, std::vector<void *> operands, int threads) {
  auto state = find_library_entry(call.entry)->init(call, threads);
  if (!state.ok())
    return state.status();
  auto bytes = static_cast<size_t>((*state)->scratch_bytes());
  std::vector<char> memory(bytes + 128, 0x5a);
  char *scratch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  absl::Status status = (*state)->run(operands, scratch);
  EXPECT_TRUE(std::all_of(scratch + bytes, memory.data() + memory.size(),
                          [](char c) { return c == 0x5a; }));
  return status;
}

template <typename T> class FactorEntryTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(FactorEntryTest, Types);

// Whatever the number of threads, the bits are the same.
TYPED_TEST(FactorEntryTest, FactorsGiveTheirMatrixBack) {
  using T = TypeParam;
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {3, 2}, {5, 17}, {1, 64}, {2, 65}, {1, 203}};
  for (auto [count, n] : sizes) {
    std::vector<T> x = matrices<T>(count, n), any = any_matrices<T>(count, n), first, firstLu;
    Ints firstOrder;
    double tolerance = 8 * n * std::sqrt(n) * std::numeric_limits<T>::epsilon();
    for (int threads : {1, 3, 8}) {
      std::vector<T> l(x.size(), T(NAN)), factors(x.size(), T(NAN));
      Ints order(static_cast<size_t>(count * n));
      Ints dims = {count, n, n};
      TensorRef type = row_major(dims, kDType<T>), rows = row_major({count, n}, DType::kInt64);
      ASSERT_TRUE(run({"weft.factor.cholesky", {}, {type, type}, 1, -1, -1}, {x.data(), l.data()},
                      threads)
                      .ok());
      ASSERT_TRUE(run({"weft.factor.lu", {{"regular", int64_t(1)}}, {type, type, rows}, 1, -1, -1},
                      {any.data(), factors.data(), order.data()}, threads)
                      .ok());
      if (threads == 1) {
        firstOrder = order;
        first = l;
        firstLu = factors;
      }
      ASSERT_EQ(l, first) << threads;
      ASSERT_EQ(factors, firstLu) << threads;
      ASSERT_EQ(order, firstOrder) << threads;
      for (int64_t m = 0; m < count; ++m)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) {
            const T *a = l.data() + m * n * n, *lu = factors.data() + m * n * n;
            double product = 0, other = 0;
            for (int64_t k = 0; k <= std::min(i, j); ++k) {
              product += double(a[i * n + k]) * double(a[j * n + k]);
              other += (k == i ? 1 : double(lu[i * n + k])) * double(lu[k * n + j]);
            }
            if (j > i)
              ASSERT_EQ(a[i * n + j], 0);
            else
              ASSERT_NEAR(product, x[(m * n + i) * n + j], tolerance) << n << " " << i << " " << j;
            int64_t from = order[static_cast<size_t>(m * n + i)];
            ASSERT_NEAR(other, any[(m * n + from) * n + j], tolerance) << n << " " << i << " " << j;
            if (j < i)
              ASSERT_LE(std::abs(lu[i * n + j]), 1) << n << " " << i << " " << j;
          }
    }
  }
}

TYPED_TEST(FactorEntryTest, SolutionsFit) {
  using T = TypeParam;
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {5, 3}, {64, 16}, {65, 33}, {130, 1}};
  for (auto [n, columns] : sizes)
    for (int flags = 0; flags < 8; ++flags) {
      bool upper = flags & 1, unit = flags & 2, transposed = flags & 4;
      std::vector<T> a = matrices<T>(2, n), b(static_cast<size_t>(2 * n * columns)), first;
      for (size_t i = 0; i < b.size(); ++i)
        b[i] = std::sin(T(i));
      // With ones in the diagonal, what is beside it must be small.
      for (T &value : a)
        value /= T(n);
      for (int threads : {1, 4}) {
        std::vector<T> x(b.size(), T(NAN));
        TensorRef type = row_major({2, n, n}, kDType<T>),
                  side = row_major({2, n, columns}, kDType<T>);
        runtime::Config config = {{"transposed", int64_t(transposed)},
                                  {"unit", int64_t(unit)},
                                  {"upper", int64_t(upper)}};
        ASSERT_TRUE(run({"weft.factor.solve", config, {type, side, side}, 2, -1, -1},
                        {a.data(), b.data(), x.data()}, threads)
                        .ok());
        if (threads == 1)
          first = x;
        ASSERT_EQ(x, first);
        for (int64_t m = 0; m < 2; ++m)
          for (int64_t i = 0; i < n; ++i)
            for (int64_t c = 0; c < columns; ++c) {
              double sum = 0;
              for (int64_t k = 0; k < n; ++k) {
                int64_t row = transposed ? k : i, column = transposed ? i : k;
                if (row != column && (column > row) != upper)
                  continue;
                double factor = k == i && unit ? 1 : a[(m * n + row) * n + column];
                sum += factor * double(x[(m * n + k) * columns + c]);
              }
              ASSERT_NEAR(sum, b[(m * n + i) * columns + c],
                          64 * n * std::numeric_limits<T>::epsilon())
                  << n << " " << flags;
            }
      }
    }
}

// A matrix gives the same bits alone and beside others, whatever these are.
TYPED_TEST(FactorEntryTest, MatricesSideBySideAreAsEachAlone) {
  using T = TypeParam;
  const int64_t count = 19;
  for (int64_t n : {1, 2, 3, 8, 9, 16, 17, 32}) {
    int64_t elements = n * n, columns = std::min<int64_t>(n, 2);
    std::vector<T> good = matrices<T>(count, n), x = any_matrices<T>(count, n), side(good.size());
    for (size_t i = 0; i < side.size(); ++i)
      side[i] = std::sin(T(i));
    for (int64_t i = 0; i < n; ++i) { // no pivot in a column; another order of rows; NaN
      x[static_cast<size_t>(2 * elements + i * n + n / 2)] = 0;
      std::swap(x[static_cast<size_t>(4 * elements + i)],
                x[static_cast<size_t>(5 * elements - n + i)]);
      for (int64_t m : {9, 11, 13})
        x[static_cast<size_t>(m * elements + i * n)] = 0;
    }
    if (n > 1) { // what a column without a pivot does to those behind
      x[static_cast<size_t>(9 * elements + n)] = T(NAN);
      x[static_cast<size_t>(11 * elements + n - 1)] = T(INFINITY);
      x[static_cast<size_t>(13 * elements + 2 * n - 1)] = T(-0.0);
    }
    x[static_cast<size_t>(7 * elements)] = T(NAN);
    // What each of so many matrices gives, NaN and -0 as numbers.
    auto results = [&](int64_t first, int64_t many) {
      std::vector<std::vector<T>> all(static_cast<size_t>(many));
      std::vector<T> out(static_cast<size_t>(many * elements));
      Ints order(static_cast<size_t>(many * n));
      auto add = [&](const auto &values, int64_t each) {
        for (int64_t m = 0; m < many; ++m)
          for (int64_t i = 0; i < each; ++i) {
            auto value = static_cast<T>(values[static_cast<size_t>(m * each + i)]);
            bool is_minus_zero = value == 0 && std::signbit(value);
            all[static_cast<size_t>(m)].push_back(std::isnan(value) ? T(123)
                                                  : is_minus_zero   ? T(321)
                                                                    : value);
          }
      };
      T *from = x.data() + first * elements;
      TensorRef type = row_major({many, n, n}, kDType<T>),
                sides = row_major({many, n, columns}, kDType<T>),
                rows = row_major({many, n}, DType::kInt64);
      EXPECT_TRUE(run({"weft.factor.cholesky", {}, {type, type}, 1, -1, -1},
                      {good.data() + first * elements, out.data()}, 2)
                      .ok());
      add(out, elements);
      EXPECT_TRUE(run({"weft.factor.lu", {}, {type, type, rows}, 1, -1, -1},
                      {from, out.data(), order.data()}, 2)
                      .ok());
      add(out, elements);
      add(order, n);
      for (int flags = 0; flags < 8; ++flags) {
        runtime::Config config = {{"transposed", int64_t(flags & 1)},
                                  {"unit", int64_t(flags >> 1 & 1)},
                                  {"upper", int64_t(flags >> 2)}};
        EXPECT_TRUE(run({"weft.factor.solve", config, {type, sides, sides}, 2, -1, -1},
                        {from, side.data() + first * n * columns, out.data()}, 2)
                        .ok());
        add(out, n * columns);
      }
      return all;
    };
    auto together = results(0, count);
    for (int64_t m = 0; m < count; ++m)
      EXPECT_EQ(together[static_cast<size_t>(m)], results(m, 1)[0]) << n << ", matrix " << m;
  }
}

TEST(FactorEntry, SaysWhatItCannotCompute) {
  std::vector<float> x = {1, 0, 0, 1, 1, 2, 2, 1, 0, 1, 0, 0}, l(8);
  Ints order(4);
  TensorRef type = row_major({2, 2, 2}, DType::kFloat32), rows = row_major({2, 2}, DType::kInt64);
  EXPECT_NE(run({"weft.factor.cholesky", {}, {type, type}, 1, -1, -1}, {x.data(), l.data()}, 2)
                .message()
                .find("of matrix 1 the leading minor of order 2 is not positive"),
            std::string::npos);
  LibraryCall lu{"weft.factor.lu", {{"regular", int64_t(1)}}, {type, type, rows}, 1, -1, -1};
  EXPECT_NE(run(lu, {x.data() + 4, l.data(), order.data()}, 1)
                .message()
                .find("matrix 1 is singular: it has no pivot in column 0"),
            std::string::npos);
  lu.config.clear();
  EXPECT_TRUE(run(lu, {x.data() + 4, l.data(), order.data()}, 1).ok());
  EXPECT_FALSE(run({"weft.factor.cholesky",
                    {},
                    {row_major({2, 3}, DType::kFloat32), row_major({2, 3}, DType::kFloat32)},
                    1,
                    -1,
                    -1},
                   {x.data(), l.data()}, 1)
                   .ok());
}

} // namespace
} // namespace weft::backends::cpu
