// Values that nobody is going to ask for. In
//
//   float y = (x * 2 + 1).tanh().sum().item<float>();
//
// C++ keeps the tensors x * 2, x * 2 + 1, ... until the semicolon, though no one can name them. A
// cut computes into memory what tensors hold; these it leaves recorded as they are, so that they
// stay inside of the kernel, and they go with their tensors.
//
// A tensor does not know whether it has a name. So what was recorded at the line that asks for a
// value is taken for a temporary. Where that is wrong, as in `Tensor d = a - b; if (d.max()...)` on
// one line, it is computed a second time when it is used, and from then on that line's values are
// kept (SourceLine::keeps_values).
#pragma once

#include "frontend/recorder/slices/request.h"
#include "frontend/recorder/slices/slice.h"

namespace weft::recorder {

// Takes the temporaries out of the outputs of the slice that was just collected, to compute `roots`
// for the request.
void leave_temporaries(Slice &slice, std::span<Value *const> roots, const EvaluateRequest &request);

} // namespace weft::recorder
