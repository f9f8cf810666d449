// Arrays as text, as numpy prints them.
#pragma once

#include <string>

#include "runtime/io/array.h"

namespace weft::runtime {

// Nested brackets, numbers in columns; floats with the fewest digits that give them back. Of an
// array of more than 1,000 elements only the first and last three along each dim.
std::string array_text(const ArrayView &array);

// "float32[2, 3]".
std::string shape_text(DType dtype, std::span<const int64_t> dims);

} // namespace weft::runtime
