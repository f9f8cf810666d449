// What a program's kernels are to the device: PTX, and how its entries are launched. The compiler
// writes it; it travels beside the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft::backends::cuda {

// Written into files; a file of another version is refused.
inline constexpr uint32_t kCudaCodeVersion = 2;

// An entry point of a PTX module: a grid of `blocks` blocks of `threads` threads. It takes pointers
// to the launch's inputs and outputs, to its partial results (null for none), and to an int32 which
// it sets to 1 where an index was out of range. Without blocks there is nothing to do.
//
// Of a program for sizes that vary, `blocks` are those of the largest one, and the entry takes the
// launch's count of pieces, an int64, behind the pointers. Where a block takes `per_block` of them,
// the grid has as many blocks as they need.
inline constexpr int64_t kOneSize = 0, kWholeGrid = -1;
struct KernelEntry {
  std::string symbol;
  int64_t blocks = 0;
  int64_t threads = 1;
  int64_t per_block = kOneSize;
};

struct KernelModule {
  std::string ptx;
  std::vector<KernelEntry> entries;
};

std::string write_modules(std::span<const KernelModule> modules);

// DataLoss for bytes that are cut off or no modules, FailedPrecondition for another version.
// Allocates no more than the bytes justify.
absl::StatusOr<std::vector<KernelModule>> read_modules(std::span<const std::byte> bytes);

} // namespace weft::backends::cuda
