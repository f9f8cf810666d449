// NumPy's .npy files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html),
// versions 1 to 3, little-endian.
#pragma once

#include <string>
#include <vector>

#include "runtime/io/array.h"
#include "runtime/io/files.h"

namespace weft::runtime {

struct NpyFile {
  std::vector<std::byte> storage;
  ArrayView array; // lies in storage
};

// DataLoss for bytes that are cut off or no .npy file; Unimplemented for an element type that Weft
// lacks (big-endian, complex, strings, objects; NumPy has no bfloat16). Fortran order is turned
// into row-major. Never allocates more than the bytes given.
absl::StatusOr<NpyFile> parse_npy(std::vector<std::byte> bytes);

// As parse_npy, and the errors of read_file; the message names the file.
absl::StatusOr<NpyFile> read_npy(const std::string &path);

// Version 1, row-major. Unimplemented for bfloat16.
absl::Status write_npy(const std::string &path, const ArrayView &array);

} // namespace weft::runtime
