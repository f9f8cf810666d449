// A training step of a model of the library, by its name in the registry, on random inputs.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/weft.h"

namespace weft::benchmarks {

// Records and submits a step of SGD with momentum at each call; the loss is not read. lower: what
// forward is cast to (weft/autocast.h); none: float32.
std::function<Tensor()> make_model_step(const std::string &model, int64_t batch,
                                        std::optional<DType> lower);

} // namespace weft::benchmarks
