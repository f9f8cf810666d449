// When a weight that stays the same is packed for oneDNN's convolutions, or for kernels of ours:
// copied once into the layout that these want, which else each call does for itself. The bits are
// the same, on every machine: it is the same primitive, or kernel.
#pragma once

#include <cstdint>

#include "backends/cpu/device/matmul_packing.h"

namespace weft::backends::cpu {

// Pixels of the results, of all images of a batch, beyond which packing gains less than a tenth:
// reordering an element of a weight takes about 3 ns, multiplying a pixel by it 0.03 ns.
inline constexpr int64_t kMaxPackedPixels = 1024;
// The same where the weight is transformed by Winograd's algorithm, which takes 8 ns an element of
// the weight, and a pixel 0.015 ns.
inline constexpr int64_t kMaxTransformedPixels = 5120;

// Below it a call gains less than a microsecond and a half.
inline constexpr int64_t kMinPackedConvolutionBytes = 2 << 10;

inline bool convolution_packing_pays(int64_t pixels, int64_t bytes, bool transformed) {
  return pixels <= (transformed ? kMaxTransformedPixels : kMaxPackedPixels) &&
         bytes >= kMinPackedConvolutionBytes;
}

} // namespace weft::backends::cpu
