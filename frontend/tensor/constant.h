// Tensors on memory that nobody writes, such as a file that is mapped. Private to the library.
#pragma once

#include <memory>

#include "weft/tensor.h"

namespace weft::recorder {

// A tensor of the bytes at `data`, row-major, which stay as they are while `owner` lives. It reads
// them where they are (a copy, where they are not aligned to their elements); what writes it writes
// a copy, and so does a program that is given its memory.
Tensor constant_tensor(const void *data, DType dtype, Shape shape,
                       std::shared_ptr<const void> owner, Location location);

// The tensor's value, computed now, as a storage of its own: a copy, but of such memory, which both
// read.
Tensor copy_of(const Tensor &source, Location location);

} // namespace weft::recorder
