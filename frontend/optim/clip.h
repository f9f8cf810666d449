// What clip_grad_norm() does, also for ranks that each have parts of the gradients. Private to the
// library.
#pragma once

#include <functional>
#include <vector>

#include "weft/tensor.h"

namespace weft::optim {

// clip_grad_norm(), by the norm that `whole` makes of the sum of the squares that are here: it
// gives the sum over all ranks, and is not called where no parameter has a gradient.
Tensor clip_by_norm(const std::vector<Tensor> &parameters, double max_norm,
                    const std::function<Tensor(const Tensor &squares)> &whole, Location location);

} // namespace weft::optim
