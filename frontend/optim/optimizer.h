// The base of optimizers: parameters, state tensors, and the step that ends a training program.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/nn/module.h"
#include "weft/tensor.h"

namespace weft::optim {

// A value that all updates of a step share: computed once in float64, from the learning rate and
// the step count, and converted once for each dtype of parameters.
class StepScalar {
public:
  StepScalar() = default;
  explicit StepScalar(Tensor value) : value_(std::move(value)) {}
  const Tensor &as(DType dtype) const;

private:
  Tensor value_;
  mutable std::array<Tensor, std::size(kDTypes)> converted_;
};

class LossScaler;
class StepCounts;
class StepWatch;

// Everything that a step changes is a tensor (moments, step count, learning rate), so that all
// steps are one program. Handles are cheap to copy; copies share the state. One that was moved from
// trains nothing: using it throws Error until it is assigned another one.
class Optimizer {
public:
  Optimizer(const Optimizer &) = default;
  Optimizer(Optimizer &&) noexcept = default;
  Optimizer &operator=(const Optimizer &) = default;
  Optimizer &operator=(Optimizer &&) noexcept = default;
  virtual ~Optimizer() = default;

  // Updates the parameters that have a gradient, in place, and submits forward, backward and update
  // as one program without waiting for it (reason `step`). Warns where there is no gradient at all,
  // where backward() has added to gradients that were taken before, and, in the first step, of
  // layers that have gradients and were registered nowhere.
  void step(Location location = Location::current());
  // Drops the gradients.
  void zero_grad(Location location = Location::current());

  // Takes effect from the next step on; never recompiles. Not on a program that weft::trace() has
  // made of a step: it holds the rate that it was traced with. A schedule stands outside of a
  // function that weft::jit records, which would set the rate of that moment at each call.
  void set_lr(double lr, Location location = Location::current());
  // Reads the tensor: waits for the steps that were submitted.
  double lr(Location location = Location::current()) const;

  const std::vector<Tensor> &parameters(Location location = Location::current()) const {
    want_held("parameters", location);
    return parameters_;
  }

  // Everything but the parameters themselves, as a checkpoint holds it: "lr", "step", "exp_avg.0",
  // ... numbered like parameters(); "step.0",
  // ... of those that had no gradient in some step and so took fewer.
  nn::NamedTensors state(Location location = Location::current()) const;
  // Copies the values, as of io::load_safetensors(path).tensors. Throws Error, before anything is
  // written, when a name is missing or unknown, or a shape or dtype differs.
  void load_state(const nn::NamedTensors &tensors, Location location = Location::current());

protected:
  // Throws Error when there are no parameters, one is undefined, not floating point or computed
  // from others that require grad, one is given twice, or lr is negative.
  Optimizer(const char *name, std::vector<Tensor> parameters, double lr, Location location);

  // A state tensor beside each parameter, of its shape and dtype, filled with `value`. A rank-0 one
  // for all.
  std::vector<Tensor> make_moments(const std::string &name, double value = 0);
  Tensor make_scalar(const std::string &name, double value);
  // The counts of steps, which step() then keeps: "step".
  void make_counts();
  // Throws Error unless both are at least 0 and below 1.
  static void want_betas(const char *name, double beta1, double beta2, Location location);
  // Computes the state now (reason `init`); the last call of a derived constructor.
  void finish_init(Location location);

  // Records the update of parameter i in place, under NoGrad.
  virtual void update(size_t i, const Tensor &gradient) = 0;
  // Records what all parameters share, before the updates.
  virtual void begin_step() {}
  // Drops that again: a step that weft::jit records must leave nothing behind but state.
  virtual void end_step() {}

  // Which count of steps is parameter i's (step_counts.h), and that count, which includes the step
  // under way: float64 [].
  size_t count_slot(size_t i) const;
  const Tensor &count(size_t slot) const;
  // 1 - beta^t of that count t: what a mean of t gradients that began at 0 is too small by.
  Tensor correction(size_t slot, double beta) const;

  std::vector<Tensor> parameters_;
  Tensor lr_;             // float64 []
  bool maximize_ = false; // steps go up the gradient: update() is given its opposite

private:
  friend class LossScaler;
  // Fails, in the name of what is called, where the handle was moved from.
  void want_held(const char *what, Location location) const;
  // Steps, which change nothing where `finite`, a bool [], is false; null: step() itself. What
  // `beside`, if there is one, has `written` beside them is computed with them. All of it is
  // recorded and submitted, or nothing.
  static void take_steps(std::span<Optimizer *const> optimizers, const Tensor *finite,
                         std::vector<Tensor> written, const std::function<void()> &beside,
                         Location location);
  void record_step(const Tensor *finite, const std::vector<Tensor> &gradients,
                   std::vector<Tensor> &written);
  void add_state(std::vector<Tensor> &tensors) const;

  nn::NamedTensors state_;
  std::shared_ptr<StepCounts> counts_; // null in optimizers that have no use for them
  std::shared_ptr<StepWatch> watch_;
};

// Scales the gradients by max_norm / (norm + 1e-6) where their common Euclidean norm exceeds
// max_norm, as PyTorch does. Returns the norm before, float32 where no gradient is wider.
// Parameters without a gradient are left out. Throws Error unless max_norm > 0.
Tensor clip_grad_norm(const std::vector<Tensor> &parameters, double max_norm,
                      Location location = Location::current());
// Clamps each element of the gradients to [-max, max]. Throws Error unless max > 0.
void clip_grad_value(const std::vector<Tensor> &parameters, double max,
                     Location location = Location::current());

} // namespace weft::optim
