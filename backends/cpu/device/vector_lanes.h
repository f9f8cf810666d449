// Vectors of float lanes, and the choice among functions by processor: for loops of ours that are
// written once and compiled for each kind of processor.
#pragma once

#include <cstring>

#include "backends/cpu/device/onednn_v2.h"

namespace weft::backends::cpu {

// What a function for a kind of processor calls is part of it, with the instructions that it may
// use.
#define WEFT_INLINE __attribute__((always_inline)) inline

template <int kLanes> struct Lanes {
  using Vector = float __attribute__((ext_vector_type(kLanes)));
};
template <> struct Lanes<1> { using Vector = float; };
template <int kLanes> using Vector = typename Lanes<kLanes>::Vector;

template <int kLanes> WEFT_INLINE Vector<kLanes> load(const float *from) {
  Vector<kLanes> value;
  std::memcpy(&value, from, sizeof(float) * kLanes);
  return value;
}
template <typename V> WEFT_INLINE void store(float *to, const V &value) {
  std::memcpy(to, &value, sizeof(V));
}

// Attributes of functions for the kinds of processor beside the plain one; only for x86.
#define WEFT_AVX2 __attribute__((target("avx2,fma")))
#define WEFT_AVX512 __attribute__((target("avx512f")))

// By the instructions that oneDNN may use, so that its variable holds for our loops as well.
enum class Processor { kPlain, kAvx2, kAvx512 };
inline Processor processor_here() {
#if defined(__x86_64__)
  if (has_avx512())
    return Processor::kAvx512;
  if (has_avx2() && __builtin_cpu_supports("fma"))
    return Processor::kAvx2;
#endif
  return Processor::kPlain;
}

} // namespace weft::backends::cpu
