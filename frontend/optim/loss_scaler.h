// Dynamic loss scaling: keeps small gradients of float16 above its smallest number.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "weft/nn/module.h"
#include "weft/optim/optimizer.h"

namespace weft::optim {

// As torch.amp.GradScaler has them.
struct LossScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;    // of the scale after growth_interval good steps in a row
  double backoff_factor = 0.5; // of the scale after a step whose gradients overflowed
  int64_t growth_interval = 2000;
  bool enabled = true; // false: scale() gives the loss itself, step() is the optimizer's
};

// Multiplies the loss by a scale, divides the gradients by it, and leaves out the updates whose
// gradients are not all finite.
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer); // only to clip gradients in between
//   scaler.step(optimizer);
//
// Whether a step is left out is a value of the program, which nobody waits for: parameters, moments
// and the count of steps are chosen between old and new. So steps stay one program, also those that
// weft::jit and weft::trace record. bfloat16 has the range of float32 and needs no scaler. Handles
// are cheap to copy; copies share the state. One scaler is for one loss: the optimizers of its
// parameters step together, or none of them does. Where ranks hold parts of the parameters
// (ShardedParameters, ShardedLayers), each would decide for its own part: there bfloat16 is the
// choice, which needs no scaler. One that was moved from throws Error until it is assigned another
// one.
class LossScaler {
public:
  // {decayed, others}: those of the groups of parameters of one loss.
  using Optimizers = std::vector<std::reference_wrapper<Optimizer>>;

  // Throws Error unless init_scale is positive and finite, growth_factor is above 1, backoff_factor
  // between 0 and 1, and growth_interval at least 1.
  explicit LossScaler(LossScalerOptions options = {}, Location location = Location::current());

  // The loss times the scale. Throws Error when it is not floating.
  Tensor scale(const Tensor &loss, Location location = Location::current()) const;
  // Divides the optimizers' gradients by the scale now, so that they can be clipped; step() does
  // not do so again. Throws Error when it was called since the last step, no parameter has a
  // gradient, or the scaler is for other optimizers.
  void unscale_(const Optimizer &optimizer, Location location = Location::current());
  void unscale_(const Optimizers &optimizers, Location location = Location::current());
  // The optimizers' steps as one, unless a gradient is infinite or NaN; then only the scale gets
  // smaller. After growth_interval updates in a row it grows, while it stays finite. Throws Error
  // when no parameter has a gradient, an optimizer is given twice, or the scaler is for others.
  void step(Optimizer &optimizer, Location location = Location::current());
  void step(const Optimizers &optimizers, Location location = Location::current());

  // The scale of the next loss. Reads the tensor: waits for the steps that were submitted.
  double scale(Location location = Location::current()) const;
  // As a checkpoint holds it: "scale", float32 [], and "growth_tracker", int64 [], the number of
  // updates since the scale last changed. Empty when it is not enabled.
  nn::NamedTensors state(Location location = Location::current()) const;
  // Copies the values. Throws Error, before anything is written, when a name is missing or unknown,
  // or a shape or dtype differs.
  void load_state(const nn::NamedTensors &tensors, Location location = Location::current());

private:
  struct State;
  State &held(const char *call, Location location) const;
  static void own(State &state, std::span<const Optimizer *const> optimizers, const char *who,
                  Location location);
  void unscale_all(std::span<const Optimizer *const> optimizers, Location location);
  void step_all(std::span<Optimizer *const> optimizers, Location location);

  std::shared_ptr<State> state_;
};

} // namespace weft::optim
