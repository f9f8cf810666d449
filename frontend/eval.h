// When things are computed: by hand, at the end of a step, and whether one has to wait.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "weft/tensor.h"

namespace weft {

// Computes all of them, in one program, and waits.
void eval(std::span<const Tensor> tensors, Location location = Location::current());
inline void eval(const std::vector<Tensor> &tensors, Location location = Location::current()) {
  eval(std::span<const Tensor>(tensors), location);
}
inline void eval(const Tensor &tensor, Location location = Location::current()) {
  eval(std::span<const Tensor>(&tensor, 1), location);
}

// For optimizers: marks the end of a step and submits the program that computes these tensors
// (parameters, state), without waiting for it (cut reason `step`). Forward, backward and update, if
// nothing was asked for in between, are one program.
void submit_step(std::span<const Tensor> tensors, Location location = Location::current());

// For optimizers: a step that is made as a whole or not at all. `record` records it and gives the
// tensors that submit_step() takes. Where either fails, `writes`, all that the step may write, hold
// again what they held before it, and the error goes on. Not taken back is what has been submitted
// already (by an eval() or another step in `record`, for a part of several devices), and a value
// that was computed before it was written (p.copy_(x), where x is in memory): such writes belong
// behind all that may fail. Undefined tensors are left out.
void make_step(std::span<const Tensor> writes, const std::function<std::vector<Tensor>()> &record,
               Location location = Location::current());

// For modules and optimizers: computes parameters and state when they are made (cut reason `init`),
// so that step 1 is step 2. What starts from a known value (nn/init.h) stays to be made.
void submit_init(std::span<const Tensor> tensors, Location location = Location::current());

// Waits until everything that was submitted has run. Errors of runs are raised where their values
// are read, not here.
void synchronize();

} // namespace weft
