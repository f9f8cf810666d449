// Vectors of float lanes, and the choice among functions by processor: for loops of ours that are
// written once and compiled for each kind of processor.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cpu/device/onednn_v2.h"

namespace weft::backends::cpu {

// What a function for a kind of processor calls is part of it, with the instructions that it may
// use.
#define WEFT_INLINE __attribute__((always_inline)) inline

template <int kLanes> struct Lanes {
  using Vector = float __attribute__((ext_vector_type(kLanes)));
};
template <> struct Lanes<1> {
  using Vector = float;
};
template <int kLanes> using Vector = typename Lanes<kLanes>::Vector;

template <int kLanes> WEFT_INLINE Vector<kLanes> load(const float *from) {
  Vector<kLanes> value;
  std::memcpy(&value, from, sizeof(float) * kLanes);
  return value;
}
template <typename V> WEFT_INLINE void store(float *to, const V &value) {
  std::memcpy(to, &value, sizeof(V));
}

// Attributes of functions for the kinds of processor beside the plain one; of others than x86 the
// functions are the plain one.
#if defined(__x86_64__)
#define WEFT_AVX2 __attribute__((target("avx2,fma")))
#define WEFT_AVX512 __attribute__((target("avx512f")))
#else
#define WEFT_AVX2
#define WEFT_AVX512
#endif

// By the instructions that oneDNN may use, so that its variable holds for our loops as well.
template <typename T> const T &of_processor(const T &plain, const T &avx2, const T &avx512) {
#if defined(__x86_64__)
  if (has_avx512())
    return avx512;
  if (has_avx2() && __builtin_cpu_supports("fma"))
    return avx2;
#endif
  return plain;
}

// Floats of a vector of this processor, and of any.
inline int64_t lanes_here() {
  return of_processor<int64_t>(4, 8, 16);
}
inline constexpr int64_t kMostLanes = 16;

} // namespace weft::backends::cpu
