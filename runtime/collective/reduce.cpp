#include "runtime/collective/reduce.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "runtime/core/float16.h"

namespace weft::runtime {
namespace {

// Elements that are reduced at a time: what is accumulated stays in the first cache, whatever the
// number of parts.
constexpr int64_t kBlock = 2048;

struct Same {
  template <typename T> static T widen(T value) {
    return value;
  }
  template <typename T> static T narrow(T value) {
    return value;
  }
};
struct BFloat16 {
  static float widen(uint16_t bits) {
    return bfloat16_to_float(bits);
  }
  static uint16_t narrow(float value) {
    return float_to_bfloat16(value);
  }
};
struct Float16 {
  static float widen(uint16_t bits) {
    return float16_to_float(bits);
  }
  static uint16_t narrow(float value) {
    return float_to_float16(value);
  }
};

// Integers wrap: the arithmetic is that of an unsigned type which does not promote to int.
template <typename A> struct Wrapping {
  using type = std::conditional_t<sizeof(A) <= 4, uint32_t, uint64_t>;
};

template <Reduction R, typename A> A combined(A a, A b) {
  if constexpr (R == Reduction::kMin || R == Reduction::kMax) {
    // The first operand where it is NaN, or where the comparison with a NaN is false.
    bool keep = R == Reduction::kMin ? !(b < a) : !(b > a);
    if constexpr (std::is_floating_point_v<A>)
      keep = std::isnan(a) || (keep && !std::isnan(b));
    return keep ? a : b;
  } else if constexpr (std::is_floating_point_v<A>) {
    return R == Reduction::kProduct ? a * b : a + b;
  } else {
    using U = typename Wrapping<A>::type;
    return static_cast<A>(R == Reduction::kProduct ? static_cast<U>(a) * static_cast<U>(b)
                                                   : static_cast<U>(a) + static_cast<U>(b));
  }
}

// T is what stands in memory, A what is accumulated.
template <typename T, typename A, typename Convert, Reduction R>
void reduce_as(std::span<const void *const> parts, void *output, int64_t count) {
  auto *out = static_cast<T *>(output);
  alignas(64) A sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t length = std::min(kBlock, count - begin);
    const T *first = static_cast<const T *>(parts[0]) + begin;
    for (int64_t i = 0; i < length; ++i)
      sum[i] = Convert::widen(first[i]);
    for (size_t p = 1; p < parts.size(); ++p) {
      const T *part = static_cast<const T *>(parts[p]) + begin;
      for (int64_t i = 0; i < length; ++i)
        sum[i] = combined<R, A>(sum[i], Convert::widen(part[i]));
    }
    if constexpr (R == Reduction::kMean && std::is_floating_point_v<A>)
      for (int64_t i = 0; i < length; ++i)
        sum[i] /= static_cast<A>(parts.size());
    for (int64_t i = 0; i < length; ++i)
      out[begin + i] = Convert::narrow(sum[i]);
  }
}

template <typename T, typename A = T, typename Convert = Same>
void reduce_by(Reduction reduction, std::span<const void *const> parts, void *output,
               int64_t count) {
  switch (reduction) {
  case Reduction::kSum:
    return reduce_as<T, A, Convert, Reduction::kSum>(parts, output, count);
  case Reduction::kMean:
    return reduce_as<T, A, Convert, Reduction::kMean>(parts, output, count);
  case Reduction::kMin:
    return reduce_as<T, A, Convert, Reduction::kMin>(parts, output, count);
  case Reduction::kMax:
    return reduce_as<T, A, Convert, Reduction::kMax>(parts, output, count);
  case Reduction::kProduct:
    return reduce_as<T, A, Convert, Reduction::kProduct>(parts, output, count);
  }
}

} // namespace

const char *name(Reduction reduction) {
  constexpr const char *names[] = {"sum", "mean", "min", "max", "product"};
  return names[static_cast<int>(reduction)];
}

void reduce(DType dtype, Reduction reduction, std::span<const void *const> parts, void *output,
            int64_t count) {
  switch (dtype) {
  case DType::kFloat32:
    return reduce_by<float>(reduction, parts, output, count);
  case DType::kFloat64:
    return reduce_by<double>(reduction, parts, output, count);
  case DType::kInt32:
    return reduce_by<int32_t>(reduction, parts, output, count);
  case DType::kInt64:
    return reduce_by<int64_t>(reduction, parts, output, count);
  case DType::kBool: { // 0 or 1
    bool is_or = reduction == Reduction::kSum || reduction == Reduction::kMax;
    return reduce_by<uint8_t>(is_or ? Reduction::kMax : Reduction::kMin, parts, output, count);
  }
  case DType::kBFloat16:
    return reduce_by<uint16_t, float, BFloat16>(reduction, parts, output, count);
  case DType::kFloat16:
    return reduce_by<uint16_t, float, Float16>(reduction, parts, output, count);
  case DType::kInt8:
    return reduce_by<int8_t>(reduction, parts, output, count);
  case DType::kInt16:
    return reduce_by<int16_t>(reduction, parts, output, count);
  case DType::kUInt8:
    return reduce_by<uint8_t>(reduction, parts, output, count);
  }
}

} // namespace weft::runtime
