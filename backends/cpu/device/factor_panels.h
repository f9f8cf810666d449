// Private to the loops of factorizations: rows of kPanelBytes as one vector.
#pragma once

#include "backends/cpu/device/factor_kernels.h"
#include "backends/cpu/device/vector_lanes.h"

namespace weft::backends::cpu {

template <typename T> using Panel = T __attribute__((ext_vector_type(kPanelLanes<T>)));

template <typename T> WEFT_INLINE Panel<T> load_panel(const T *from) {
  Panel<T> value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T> WEFT_INLINE void store_panel(T *to, const Panel<T> &value) {
  std::memcpy(to, &value, sizeof value);
}

// c - a b, of vectors or numbers: all ways to a term round alike.
template <bool kFused, typename V> WEFT_INLINE V less(V a, V b, V c) {
  if constexpr (kFused)
    return __builtin_elementwise_fma(-a, b, c);
  else
    return c - a * b;
}

} // namespace weft::backends::cpu
