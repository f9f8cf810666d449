#include "weft/optim/step_watch.h"

#include <algorithm>

#include "frontend/tensor/impl.h"
#include "weft/nn/unlisted.h"
#include "weft/warning.h"

namespace weft::optim {

namespace {

std::string place(Location location) {
  return std::string(location.file_name()) + ":" + std::to_string(location.line());
}

// Whether the optimizer alone has the parameters.
bool abandoned(const std::vector<Tensor> &parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [](const Tensor &parameter) {
    return parameter.impl()->refs.load(std::memory_order_relaxed) == 1;
  });
}

bool all_frozen(const std::vector<Tensor> &parameters) {
  return std::none_of(parameters.begin(), parameters.end(),
                      [](const Tensor &parameter) { return parameter.requires_grad(); });
}

} // namespace

std::optional<StepWatch::Stamp> StepWatch::stamp(const std::vector<Tensor> &gradients) {
  for (const Tensor &gradient : gradients)
    if (gradient.defined()) {
      recorder::TensorImpl *storage = gradient.impl()->storage();
      return Stamp{storage->born, gradient.version()};
    }
  return std::nullopt;
}

void StepWatch::drop(const std::vector<Tensor> &parameters, Location location) {
  if (recorder::active_trace())
    return;
  std::vector<Tensor> gradients;
  for (const Tensor &parameter : parameters)
    gradients.push_back(parameter.grad());
  std::optional<Stamp> now = stamp(gradients);
  if (!now)
    return;
  dropped_ = now == taken_ ? std::nullopt : std::optional(CallerScope::resolve(location));
  taken_.reset();
}

void StepWatch::take(const std::vector<Tensor> &parameters, const std::vector<Tensor> &gradients,
                     Location location) {
  if (recorder::active_trace())
    return;
  std::optional<Location> dropped = std::exchange(dropped_, std::nullopt);
  std::optional<Stamp> now = stamp(gradients);
  if (!now) {
    std::string what = "step: none of the " + std::to_string(parameters.size()) +
                       " parameters has a gradient, so that nothing is updated; ";
    if (dropped)
      what += "zero_grad() at " + place(*dropped) +
              " dropped those that backward() had left: call it before backward()";
    else if (all_frozen(parameters))
      what += "they require none: mark what is trained with requires_grad_()";
    else if (abandoned(parameters))
      what += "the model that they were of is gone, as after model = nn::to(model, dtype): make "
              "the optimizer of the parameters() of the model that is trained";
    else
      what += "call backward() on a loss that depends on them. After nn::to(), which copies, an "
              "optimizer takes the parameters() of the copy";
    warn(what, location);
    return;
  }
  if (taken_ && now->born == taken_->born && now->version == taken_->version + 1)
    warn("step: backward() has added to the gradients that the last step() took; call zero_grad() "
         "between them",
         location);
  taken_ = now;
  if (!std::exchange(first_, false))
    return;
  for (const nn::Unlisted &module : nn::take_unlisted_with_gradients()) {
    const auto &[name, parameter] = module.parameters[0];
    warn("step: a layer made at " + place(module.made) + ", with the parameter '" + name + "' " +
             to_string(parameter.shape()) +
             ", has gradients, and parameters() of no module lists it; the module that holds it "
             "must register it: child(\"NAME\", layer)",
         location);
  }
}

} // namespace weft::optim
