// Limits of linking, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::compiler {

// The cache of compiled kernels is emptied when it passes this: some 10,000 kernels of 6 KB.
inline constexpr int64_t kMaxKernelCacheBytes = 64 << 20;
// An MLIR context keeps every type and attribute that it has seen (0.2 MB in 256 kernels), and
// takes 2 ms to make.
inline constexpr int kMaxKernelsPerContext = 256;
// Contexts that wait for the next compilation: as many as compile at once on large machines.
inline constexpr size_t kMaxIdleContexts = 64;
// Of what the linker says of one failure: enough to see what is wrong.
inline constexpr size_t kMostErrorText = 4096;
// Where an op has no form for a range of sizes, each size has a program of its own: so many of them
// take the time and the bytes of as many models.
inline constexpr int64_t kMaxSizesAlone = 16;
// A captured tensor without a name is a weight from so many elements on: smaller ones stay
// constants, which the compiler folds.
inline constexpr int64_t kWeightElements = 64;

} // namespace weft::compiler
