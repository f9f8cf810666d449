#include "backends/cpu/device/sort_entry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "backends/cpu/device/library_registry.h"
#include "backends/cpu/device/row_major.h"

namespace weft::backends::cpu {
namespace {

using runtime::LibraryCall;
using runtime::TensorRef;
using Ints = std::vector<int64_t>;

LibraryCall call_of(DType dtype, const Ints &dims, int64_t dim, int64_t count, bool descending,
                    int64_t first = 0) {
  Ints results = dims;
  results[static_cast<size_t>(dim)] = count;
  return {"weft.arg_sort",
          {{"descending", int64_t(descending)}, {"dim", dim}, {"first", first}},
          {row_major(dims, dtype), row_major(results, DType::kInt64)},
          1,
          -1,
          -1};
}

template <typename T> Ints run(const LibraryCall &call, const std::vector<T> &x, int threads) {
  auto state = sort_entry().init(call, threads);
  EXPECT_TRUE(state.ok()) << state.status();
  if (!state.ok())
    return {};
  int64_t n = 1;
  for (int64_t dim : call.operands[1].dims)
    n *= dim;
  Ints indices(static_cast<size_t>(n), -1);
  // As the executable gives it: aligned, with whatever was there before; and nothing may be written
  // behind it.
  auto bytes = static_cast<size_t>((*state)->scratch_bytes());
  std::vector<char> memory(bytes + 128, 0x5a);
  char *scratch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  std::vector<T> copy = x;
  void *operands[] = {copy.data(), indices.data()};
  EXPECT_TRUE((*state)->run(operands, scratch).ok());
  EXPECT_TRUE(std::all_of(scratch + bytes, memory.data() + memory.size(),
                          [](char c) { return c == 0x5a; }));
  EXPECT_EQ(copy, x);
  return indices;
}

// By a stable sort of indices, with `value` as a number that compares.
template <typename T, typename Value>
Ints expected(const std::vector<T> &x, const Ints &dims, int64_t dim, int64_t first, int64_t count,
              bool descending, Value value) {
  int64_t outer = 1, inner = 1, size = dims[static_cast<size_t>(dim)];
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i)
    if (i != dim)
      (i < dim ? outer : inner) *= dims[static_cast<size_t>(i)];
  Ints result(static_cast<size_t>(outer * count * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t in = 0; in < inner; ++in) {
      auto at = [&](int64_t k) {
        return value(x[static_cast<size_t>((o * size + k) * inner + in)]);
      };
      auto less = [&](int64_t a, int64_t b) {
        return at(b) != at(b) ? at(a) == at(a) : at(a) < at(b);
      };
      Ints order(static_cast<size_t>(size));
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        if (descending ? less(b, a) : less(a, b))
          return true;
        return !(descending ? less(a, b) : less(b, a)) && a < b;
      });
      for (int64_t k = 0; k < count; ++k)
        result[static_cast<size_t>((o * count + k) * inner + in)] =
            order[static_cast<size_t>(first + k)];
    }
  return result;
}

struct Shape {
  Ints dims;
  int64_t dim, count, first = 0;
};

// Both sides of each limit: insertion, radix sorts in one part and several, searches and places in
// one part and several; dims in the middle.
const std::vector<Shape> kShapes = {
    {{1}, 0, 1},           {{7}, 0, 7},
    {{48}, 0, 48},         {{49}, 0, 49},
    {{72}, 0, 72},         {{73}, 0, 73},
    {{3, 100}, 1, 100},    {{100, 3}, 0, 100},
    {{100, 3}, 0, 40},     {{300, 3}, 0, 2},
    {{3, 5, 50}, 1, 5},    {{2, 90, 37}, 1, 90},
    {{2, 200, 37}, 1, 3},  {{20, 33}, 0, 7},
    {{2, 300, 3}, 1, 300}, {{2, 300, 3}, 1, 20},
    {{5, 300}, 1, 0},      {{0, 3}, 1, 3},
    {{3, 0}, 1, 0},        {{50001}, 0, 50001},
    {{50001}, 0, 20000},   {{50001}, 0, 50},
    {{3, 40000}, 1, 10},   {{2, 40000}, 1, 40000},
    {{70001}, 0, 1},       {{20000, 2}, 0, 20000},
    {{20000, 2}, 0, 9},    {{100000}, 0, 5000},
    {{40}, 0, 3, 17},      {{73}, 0, 1, 36},
    {{100, 3}, 0, 1, 99},  {{2, 200, 37}, 1, 3, 100},
    {{3, 100}, 1, 60, 30}, {{3, 8191}, 1, 2, 4000},
    {{3, 8192}, 1, 2, 1},  {{50001}, 0, 1, 25000},
    {{50001}, 0, 700, 99}, {{50001}, 0, 30000, 20001},
    {{20000, 2}, 0, 1, 7}, {{2, 40000}, 1, 100, 39900},
};

template <typename T, typename Draw, typename Value>
void check(DType dtype, Draw draw, Value value) {
  std::mt19937_64 random(7);
  for (const Shape &shape : kShapes) {
    std::vector<T> x(static_cast<size_t>(
        std::accumulate(shape.dims.begin(), shape.dims.end(), int64_t(1), std::multiplies<>())));
    for (T &each : x)
      each = draw(random);
    for (bool descending : {false, true}) {
      Ints wanted = expected(x, shape.dims, shape.dim, shape.first, shape.count, descending, value);
      for (int threads : {1, 2, 3, 8}) {
        LibraryCall call =
            call_of(dtype, shape.dims, shape.dim, shape.count, descending, shape.first);
        ASSERT_EQ(run(call, x, threads), wanted)
            << name(dtype) << " dims " << testing::PrintToString(shape.dims) << " dim " << shape.dim
            << " first " << shape.first << " count " << shape.count << " descending " << descending
            << " threads " << threads;
      }
    }
  }
}

// A float of any bits: NaNs of both signs, infinities and subnormals among them; one in four is a
// small integer, so that there are ties.
template <typename Bits> auto any_bits(Bits small) {
  return [=](std::mt19937_64 &random) -> Bits {
    uint64_t bits = random();
    if (bits % 4 == 0)
      return static_cast<Bits>(bits >> 8 & 1 ? 0 : small) |
             static_cast<Bits>(bits >> 9 << (8 * sizeof(Bits) - 1));
    return static_cast<Bits>(bits >> 8);
  };
}

TEST(SortEntry, Float32) {
  check<uint32_t>(
      DType::kFloat32,
      [draw = any_bits<uint32_t>(0x3f800000)](auto &r) { return static_cast<uint32_t>(draw(r)); },
      [](uint32_t bits) { return std::bit_cast<float>(bits); });
}
TEST(SortEntry, Float64) {
  check<uint64_t>(
      DType::kFloat64,
      [draw = any_bits<uint64_t>(0x3ff0000000000000)](auto &r) {
        return static_cast<uint64_t>(draw(r));
      },
      [](uint64_t bits) { return std::bit_cast<double>(bits); });
}
TEST(SortEntry, BFloat16) {
  check<uint16_t>(
      DType::kBFloat16,
      [draw = any_bits<uint16_t>(0x3f80)](auto &r) { return static_cast<uint16_t>(draw(r)); },
      [](uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); });
}
TEST(SortEntry, Float16) {
  auto value = [](uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31  ? (fraction ? std::numeric_limits<double>::quiet_NaN()
                                              : std::numeric_limits<double>::infinity())
                  : exponent == 0 ? std::ldexp(fraction, -24)
                                  : std::ldexp(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -size : size;
  };
  check<uint16_t>(
      DType::kFloat16,
      [draw = any_bits<uint16_t>(0x3c00)](auto &r) { return static_cast<uint16_t>(draw(r)); },
      value);
}
template <typename T> void check_integers(DType dtype) {
  auto same = [](T value) {
    return value;
  };
  check<T>(dtype, [](auto &random) { return static_cast<T>(random()); }, same);
  // Few values, so that whole digits are equal.
  check<T>(
      dtype,
      [](auto &random) {
        return static_cast<T>(static_cast<int64_t>(random() % 5) - (std::is_signed_v<T> ? 2 : 0));
      },
      same);
  check<T>(dtype, [](auto &) { return T(3); }, same);
}
TEST(SortEntry, Int64) {
  check_integers<int64_t>(DType::kInt64);
}
TEST(SortEntry, Int32) {
  check_integers<int32_t>(DType::kInt32);
}
TEST(SortEntry, Int16) {
  check_integers<int16_t>(DType::kInt16);
}
TEST(SortEntry, Int8) {
  check_integers<int8_t>(DType::kInt8);
}
TEST(SortEntry, UInt8) {
  check_integers<uint8_t>(DType::kUInt8);
}
TEST(SortEntry, Bool) {
  check<uint8_t>(
      DType::kBool, [](auto &random) { return static_cast<uint8_t>(random() & 1); },
      [](uint8_t value) { return value; });
}

// What makes a search replace its candidates again and again: each element is better than those
// before it.
TEST(SortEntry, SearchesRowsThatGetEverBetter) {
  std::vector<int32_t> x(30000);
  std::iota(x.rbegin(), x.rend(), -500);
  for (int threads : {1, 4})
    for (int64_t count : {1, 7, 3000}) {
      Ints found = run(call_of(DType::kInt32, {30000}, 0, count, false), x, threads);
      for (int64_t k = 0; k < count; ++k)
        ASSERT_EQ(found[static_cast<size_t>(k)], 29999 - k);
    }
}

// Digits that say the same leave long runs that the lower ones decide.
TEST(SortEntry, Int64OfEqualDigits) {
  check<int64_t>(
      DType::kInt64,
      [](auto &random) {
        uint64_t bits = random(), digit = bits % 200;
        return static_cast<int64_t>(digit * 0x0101010101000000 + (bits >> 40));
      },
      [](int64_t value) { return value; });
}

TEST(SortEntry, RefusesWhatDoesNotFit) {
  auto message = [](LibraryCall call) {
    auto state = sort_entry().init(call, 1);
    return state.ok() ? std::string() : std::string(state.status().message());
  };
  LibraryCall call = call_of(DType::kFloat32, {2, 3}, 1, 3, false);
  EXPECT_EQ(message(call), "");
  LibraryCall without = call;
  without.config.erase(without.config.begin() + 1);
  EXPECT_NE(message(without).find("dim"), std::string::npos);
  LibraryCall outside = call;
  outside.config[1].second = int64_t(2);
  EXPECT_EQ(message(outside), "config dim is 2; x has 2 dims");
  LibraryCall longer = call;
  longer.operands[1] = row_major({2, 4}, DType::kInt64);
  EXPECT_EQ(message(longer), "x is [2, 3] and the indices are [2, 4]; they may differ along dim 1 "
                             "only, and have no more there");
  LibraryCall late = call_of(DType::kFloat32, {2, 3}, 1, 2, false, 2);
  EXPECT_EQ(message(late), "config first is 2; of 3 places, 2 begin at 0 to 1");
  LibraryCall narrow = call;
  narrow.operands[1].dtype = DType::kInt32;
  EXPECT_EQ(message(narrow), "the indices are int32; they must be int64");
  LibraryCall strided = call;
  strided.operands[0].strides = {1, 2};
  EXPECT_EQ(message(strided), "x and the indices must be row-major");
}

TEST(SortEntry, IsFoundByName) {
  EXPECT_EQ(find_library_entry("weft.arg_sort"), &sort_entry());
}

} // namespace
} // namespace weft::backends::cpu
