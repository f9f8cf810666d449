// Tensors that are made when they are read first (recorder/starting_values.h). While a function is
// traced, and on a backend that runs no programs for many sizes, they are recorded as any call is.
// Private to the library.
#pragma once

#include <optional>

#include "frontend/recorder/record/recorder.h"
#include "frontend/recorder/requests/starting_values.h"
#include "weft/tensor.h"

namespace weft {

class Generator;

// The values, and what they take from the generator, of uniform() and normal().
Tensor start_uniform(const Shape &shape, double low, double high, DType dtype, Generator &generator,
                     Location location);
Tensor start_normal(const Shape &shape, double mean, double deviation, DType dtype,
                    Generator &generator, Location location);
Tensor start_constant(const Shape &shape, double value, DType dtype, Location location);
// A storage of its own with the tensor's value; a floating-point one in this dtype, where one is
// given.
Tensor start_copy(const Tensor &tensor, std::optional<DType> dtype, std::optional<Device> device,
                  Location location);

namespace recorder {
// What a storage of this type starts from, as ops: for who needs a part of it alone, of which a
// kernel computes no more.
Var recorded_start(const StartingValue &start, const TypeInfo &type);
} // namespace recorder

} // namespace weft
