#include "weft/optim/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "frontend/tensor/impl.h"
#include "weft/autograd.h"
#include "weft/eval.h"
#include "weft/jit.h"
#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::optim {

struct LossScaler::State {
  LossScalerOptions options;
  Tensor scale, growth_tracker;
  std::vector<Tensor> owners; // the first parameters of the optimizers that it is for, from the
                              // first step on
  // Where `unscaled` is 1, between unscale_() and step(): whether all gradients are finite,
  // bool []; and what it held before, which step() puts back: a function that does both leaves it
  // as it was, so that it is no state of a traced one.
  Tensor finite, before;
  std::shared_ptr<recorder::HostState> unscaled = std::make_shared<recorder::HostState>(1, 0);

  nn::NamedTensors tensors() const {
    return {{"scale", scale}, {"growth_tracker", growth_tracker}};
  }
};

namespace {

[[noreturn]] void fail(ErrorKind kind, const std::string &message, Location location) {
  fail_at(location, kind, "LossScaler: " + message);
}

// Divides the gradients by the scale and returns whether all are finite, bool []. One pass over
// each gradient: 0 times a number is 0, times an infinity or NaN it is NaN, and so is the sum.
Tensor unscale(std::span<const Optimizer *const> optimizers, const Tensor &scale,
               const char *who, Location location) {
  // In float64, as the reciprocal of a scale that is no power of two is not rounded twice.
  Tensor factor = (1.0 / scale.to(float64)).to(float32), total;
  std::vector<std::pair<Tensor, Tensor>> divided; // all of them or none get their new gradient
  for (const Optimizer *optimizer : optimizers)
    for (const Tensor &parameter : optimizer->parameters()) {
      Tensor gradient = parameter.grad();
      if (!gradient.defined())
        continue;
      Tensor unscaled = (gradient * factor.to(parameter.device())).to(gradient.dtype());
      divided.emplace_back(parameter, unscaled);
      Tensor zero = sum(unscaled * 0.0).to(float32);
      total = total.defined() ? total + zero.to(total.device()) : zero;
    }
  if (!total.defined())
    fail(ErrorKind::kState,
         std::string(who) +
             ": no parameter of the optimizer has a gradient; call scale(loss).backward() first",
         location);
  Tensor finite = is_finite(total);
  for (auto &[parameter, gradient] : divided)
    parameter.set_grad(gradient);
  return finite;
}

std::vector<Optimizer *> pointers(const LossScaler::Optimizers &optimizers, const char *who,
                                  Location location) {
  if (optimizers.empty())
    fail(ErrorKind::kValue, std::string(who) + ": there is no optimizer in the list", location);
  std::vector<Optimizer *> result;
  for (Optimizer &optimizer : optimizers)
    result.push_back(&optimizer);
  return result;
}

} // namespace

LossScaler::LossScaler(LossScalerOptions options, Location location)
    : state_(std::make_shared<State>()) {
  CallerScope scope(location);
  if (!(options.init_scale > 0 && std::isfinite(static_cast<float>(options.init_scale))))
    fail(ErrorKind::kValue,
         "init_scale is " + std::to_string(options.init_scale) + "; it must be positive and finite",
         location);
  if (!(options.growth_factor > 1))
    fail(ErrorKind::kValue,
         "growth_factor is " + std::to_string(options.growth_factor) + "; it must be above 1",
         location);
  if (!(options.backoff_factor > 0 && options.backoff_factor < 1))
    fail(ErrorKind::kValue,
         "backoff_factor is " + std::to_string(options.backoff_factor) +
             "; it must be between 0 and 1",
         location);
  if (options.growth_interval < 1)
    fail(ErrorKind::kValue,
         "growth_interval is " + std::to_string(options.growth_interval) +
             "; it must be at least 1",
         location);
  state_->options = options;
  // In memory from here on: a step that has none left writes them to note what it has done.
  state_->scale = Tensor::from<float>(std::vector{static_cast<float>(options.init_scale)}, {});
  state_->growth_tracker = Tensor::from<int64_t>(std::vector<int64_t>{0}, {});
  const bool finite = true;
  state_->finite = Tensor::from_bytes(&finite, boolean, {});
}

LossScaler::State &LossScaler::held(const char *call, Location location) const {
  return recorder::held(state_, call, "loss scaler", location);
}

Tensor LossScaler::scale(const Tensor &loss, Location location) const {
  CallerScope scope(location);
  State &state = held("scale", location);
  if (!loss.defined())
    fail(ErrorKind::kState, std::string("scale: loss is undefined: ") + recorder::kWhyUndefined,
         location);
  if (!state.options.enabled)
    return loss;
  if (!is_floating(loss.dtype()))
    fail(ErrorKind::kDType,
         std::string("scale: loss is ") + weft::name(loss.dtype()) + "; it must be floating",
         location);
  // A step that failed may have left divided gradients behind. Those of this loss are not.
  recorder::set_state(state.unscaled, {0});
  return loss * state.scale.to(loss.device());
}

// The scale moves at each step, so the gradients of an optimizer that came behind would be divided
// by another one than they were multiplied by.
void LossScaler::own(State &state, std::span<const Optimizer *const> optimizers, const char *who,
                     Location location) {
  std::vector<Tensor> firsts;
  auto is_among = [](const std::vector<Tensor> &tensors, const Tensor &tensor) {
    return std::ranges::any_of(tensors, [&](const Tensor &each) { return each.is_same(tensor); });
  };
  for (const Optimizer *optimizer : optimizers) {
    const Tensor &first = optimizer->parameters(location)[0];
    if (is_among(firsts, first))
      fail(ErrorKind::kValue, std::string(who) + ": an optimizer is given twice", location);
    firsts.push_back(first);
  }
  if (state.owners.empty())
    state.owners = firsts;
  auto is_owner = [&](const Tensor &first) { return is_among(state.owners, first); };
  if (firsts.size() != state.owners.size() || !std::ranges::all_of(firsts, is_owner))
    fail(ErrorKind::kState,
         std::string(who) +
             ": the scaler is for another optimizer; those of one loss go together, "
             "scaler.step({first, second}), and those of another loss have a scaler of its own",
         location);
}

void LossScaler::unscale_all(std::span<const Optimizer *const> optimizers, Location location) {
  State &state = held("unscale_", location);
  if (!state.options.enabled)
    return;
  own(state, optimizers, "unscale_", location);
  recorder::read_state(state.unscaled);
  if (state.unscaled->front())
    fail(ErrorKind::kState,
         "unscale_: the gradients were unscaled before; it is called once before each step",
         location);
  NoGrad no_grad;
  Tensor finite = unscale(optimizers, state.scale, "unscale_", location);
  state.before = state.finite.clone();
  state.finite.copy_(finite);
  state.unscaled->front() = 1;
}

void LossScaler::unscale_(const Optimizer &optimizer, Location location) {
  CallerScope scope(location);
  const Optimizer *one[] = {&optimizer};
  unscale_all(one, location);
}

void LossScaler::unscale_(const Optimizers &optimizers, Location location) {
  CallerScope scope(location);
  unscale_all(pointers(optimizers, "unscale_", location), location);
}

void LossScaler::step_all(std::span<Optimizer *const> optimizers, Location location) {
  State &state = held("step", location);
  if (!state.options.enabled)
    return Optimizer::take_steps(optimizers, nullptr, {}, nullptr, location);
  own(state, optimizers, "step", location);
  NoGrad no_grad;
  recorder::read_state(state.unscaled);
  Tensor finite = std::exchange(state.unscaled->front(), 0)
                      ? state.finite
                      : unscale(optimizers, state.scale, "step", location);
  auto adjust = [&] {
    Tensor since = state.growth_tracker + 1, grows = since >= state.options.growth_interval;
    Tensor grown = state.scale * state.options.growth_factor;
    grown = where(logical_and(grows, is_finite(grown)), grown, state.scale);
    Tensor scale = where(finite, grown, state.scale * state.options.backoff_factor);
    Tensor tracker = where(logical_or(logical_not(finite), grows), 0, since);
    state.scale.copy_(scale);
    state.growth_tracker.copy_(tracker);
  };
  try {
    Optimizer::take_steps(optimizers, &finite, {state.scale, state.growth_tracker}, adjust,
                          location);
  } catch (...) {
    // The gradients stay divided, for a step that is made again.
    state.finite.copy_(finite);
    state.unscaled->front() = 1;
    throw;
  }
  if (Tensor before = std::exchange(state.before, Tensor()); before.defined())
    state.finite.copy_(before);
}

void LossScaler::step(Optimizer &optimizer, Location location) {
  CallerScope scope(location);
  Optimizer *one[] = {&optimizer};
  step_all(one, location);
}

void LossScaler::step(const Optimizers &optimizers, Location location) {
  CallerScope scope(location);
  step_all(pointers(optimizers, "step", location), location);
}

double LossScaler::scale(Location location) const {
  const State &state = held("scale", location);
  return state.options.enabled ? state.scale.item<float>(location) : 1;
}

nn::NamedTensors LossScaler::state(Location location) const {
  const State &state = held("state", location);
  return state.options.enabled ? state.tensors() : nn::NamedTensors();
}

void LossScaler::load_state(const nn::NamedTensors &tensors, Location location) {
  location = CallerScope::resolve(location);
  CallerScope scope(location);
  held("load_state", location);
  nn::NamedTensors expected = state(location);
  std::unordered_map<std::string, const Tensor *> given;
  for (const auto &[name, tensor] : tensors)
    given.emplace(name, &tensor);
  if (given.size() != expected.size() || tensors.size() != expected.size())
    fail(ErrorKind::kValue,
         "load_state: the scaler has " + std::to_string(expected.size()) + " state tensors, " +
             std::to_string(tensors.size()) + " are given",
         location);
  for (const auto &[name, tensor] : expected) {
    auto found = given.find(name);
    if (found == given.end())
      fail(ErrorKind::kValue, "load_state: there is no tensor for '" + name + "'", location);
    const Tensor &source = *found->second;
    if (source.shape() != tensor.shape() || source.dtype() != tensor.dtype())
      fail(ErrorKind::kShape,
           "load_state: '" + name + "' is " + weft::name(tensor.dtype()) + " " +
               to_string(tensor.shape()) + " in the scaler, the given tensor is " +
               weft::name(source.dtype()) + " " + to_string(source.shape()),
           location);
  }
  NoGrad no_grad;
  std::vector<Tensor> written;
  for (auto &[name, tensor] : expected) {
    tensor.copy_(nn::init::copy_of(*given.at(name), location), location);
    written.push_back(tensor);
  }
  submit_init(written, location);
}

} // namespace weft::optim
