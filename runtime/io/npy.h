// NumPy's .npy files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html),
// versions 1 to 3, little-endian.
#pragma once

#include <string>

#include "runtime/io/array.h"
#include "runtime/io/files.h"

namespace weft::runtime {

struct NpyFile {
  std::shared_ptr<const void> storage; // of the array, where a file was read or the array turned
  ArrayView array;
};

// DataLoss for bytes that are cut off or no .npy file; Unimplemented for an element type that Weft
// lacks (big-endian, complex, strings, objects; NumPy has no bfloat16). Fortran order is turned
// into row-major; the array lies in the bytes given otherwise. Never allocates more than those.
absl::StatusOr<NpyFile> parse_npy(std::span<const std::byte> bytes);

// As parse_npy, and the errors of map_file; the message names the file. Of a file that is mapped
// the header alone is read, but in Fortran order.
absl::StatusOr<NpyFile> read_npy(const std::string &path);

// Version 1, row-major. Unimplemented for bfloat16.
absl::Status write_npy(const std::string &path, const ArrayView &array);

} // namespace weft::runtime
