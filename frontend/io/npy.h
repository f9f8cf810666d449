// One tensor in NumPy's .npy format.
#pragma once

#include <string>

#include "weft/tensor.h"

namespace weft::io {

// Computes the tensor where it is not, and replaces the file in one step. Throws Error when the
// file cannot be written, and for bfloat16, which the format lacks.
void save_npy(const std::string &path, const Tensor &tensor,
              Location location = Location::current());

// Throws Error when the file is missing, unreadable, cut off, damaged, no .npy file, or has an
// element type that Weft lacks. The file is mapped, as load_safetensors does.
Tensor load_npy(const std::string &path, Location location = Location::current());

} // namespace weft::io
