// A gradient whose value went with a failed run is neither added to nor taken by a step: the error
// says so at the first call that would, names the parameter, and says what to do. Otherwise a loop
// that calls zero_grad() after step() would record sums with it and fail, step after step, at the
// line of the run's own error, which was raised before.
#pragma once

#include <vector>

#include "frontend/recorder/record/values.h"

namespace weft::recorder {

// Under the recorder's lock, of a session: leaf is a parameter's.
void refuse_lost_gradient(const GradNode &leaf);
// Of all of them, in a session of its own; `call` is what errors name.
void refuse_lost_gradients(const std::vector<Tensor> &parameters, const char *call,
                           Location location);

} // namespace weft::recorder
