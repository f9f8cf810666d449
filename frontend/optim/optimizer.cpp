#include "weft/optim/optimizer.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "frontend/autograd/lost_gradient.h"
#include "frontend/sharding/parts.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"
#include "weft/eval.h"
#include "weft/nn/init.h"
#include "weft/nn/unlisted.h"
#include "weft/ops.h"
#include "weft/optim/clip.h"
#include "weft/optim/step_counts.h"
#include "weft/optim/step_watch.h"

namespace weft::optim {

// The name of the count of a parameter that has one of its own.
static std::string own_count(size_t i) {
  return "step." + std::to_string(i);
}

const Tensor &StepScalar::as(DType dtype) const {
  Tensor &converted = converted_[static_cast<size_t>(dtype)];
  // In arithmetic with 16-bit floats the number takes part as float32: its own rounding would come
  // first.
  if (!converted.defined())
    converted = value_.to(byte_size(dtype) < 4 ? float32 : dtype);
  return converted;
}

Optimizer::Optimizer(const char *name, std::vector<Tensor> parameters, double lr, Location location)
    : parameters_(std::move(parameters)) {
  std::string who = name;
  if (parameters_.empty())
    throw Error(ErrorKind::kValue, who + ": there are no parameters to train", location);
  if (!(lr >= 0))
    throw Error(ErrorKind::kValue, who + ": lr must be at least 0, it is " + std::to_string(lr),
                location);
  std::unordered_set<const void *> seen;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor &parameter = parameters_[i];
    std::string which = who + ": parameter " + std::to_string(i);
    if (!parameter.defined())
      throw Error(ErrorKind::kState, which + " is undefined", location);
    if (!is_floating(parameter.dtype()))
      throw Error(ErrorKind::kDType,
                  which + " is " + weft::name(parameter.dtype()) +
                      "; only floating-point tensors can be trained",
                  location);
    if (!parameter.is_leaf())
      throw Error(ErrorKind::kState,
                  which + " is computed from other tensors; an optimizer trains leaves: give it "
                          "what the parameter is computed from, or "
                          "parameter.detach().requires_grad_()",
                  location);
    if (!seen.insert(parameter.impl()).second)
      throw Error(ErrorKind::kValue, which + " is given twice", location);
  }
  nn::note_listed(parameters_);
  watch_ = std::make_shared<StepWatch>();
  lr_ = make_scalar("lr", lr);
}

std::vector<Tensor> Optimizer::make_moments(const std::string &name, double value) {
  std::vector<Tensor> moments;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    DeviceScope scope(parameters_[i].device());
    // Of a parameter of which ranks have parts the moments are cut as it is.
    bool is_cut = recorder::is_cut(parameters_[i]);
    moments.push_back(
        is_cut ? full_like(parameters_[i], value).detach().eval()
               : nn::init::constant(parameters_[i].shape(), value, parameters_[i].dtype()));
    state_.emplace_back(name + "." + std::to_string(i), moments.back());
  }
  return moments;
}

// Where all parameters lie; those of several devices take numbers of the host along.
Tensor Optimizer::make_scalar(const std::string &name, double value) {
  Device device = parameters_[0].device();
  for (const Tensor &parameter : parameters_)
    if (parameter.device() != device)
      device = Device();
  DeviceScope scope(device);
  Tensor tensor = nn::init::constant({}, value, float64);
  state_.emplace_back(name, tensor);
  return tensor;
}

void Optimizer::make_counts() {
  counts_ = std::make_shared<StepCounts>(parameters_.size(), make_scalar("step", 0));
}

size_t Optimizer::count_slot(size_t i) const {
  return counts_->slot(i);
}

const Tensor &Optimizer::count(size_t slot) const {
  return counts_->count(slot);
}

Tensor Optimizer::correction(size_t slot, double beta) const {
  // beta^t as exp(t log beta), in float64: 1 - beta2^t of the first steps would lose half its
  // digits in float32.
  return beta == 0 ? scalar(1.0, float64) : 1.0 - exp(count(slot) * std::log(beta));
}

void Optimizer::want_betas(const char *name, double beta1, double beta2, Location location) {
  if (!(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1))
    throw Error(ErrorKind::kValue,
                std::string(name) + ": betas must be at least 0 and below 1, they are " +
                    std::to_string(beta1) + " and " + std::to_string(beta2),
                location);
}

void Optimizer::finish_init(Location location) {
  std::vector<Tensor> tensors;
  for (auto &[name, tensor] : state_)
    tensors.push_back(tensor);
  submit_init(tensors, location);
}

namespace {

// What tensors hold before a step, so that one that is not taken gives it back.
class BeforeStep {
public:
  void keep(const Tensor &tensor) {
    kept_.push_back({tensor, tensor.clone(), tensor.version()});
  }
  // Those that were written get back what they held where `finite` is false.
  void choose(const Tensor &finite) {
    for (Kept &each : kept_)
      if (each.tensor.version() != each.version)
        each.tensor.copy_(where(finite.to(each.tensor.device()), each.tensor, each.value));
  }

private:
  struct Kept {
    Tensor tensor, value;
    uint64_t version;
  };
  std::vector<Kept> kept_;
};

} // namespace

void Optimizer::step(Location location) {
  Optimizer *one[] = {this};
  take_steps(one, nullptr, {}, nullptr, location);
}

void Optimizer::want_held(const char *what, Location location) const {
  recorder::held(watch_, what, "optimizer", location);
}

void Optimizer::add_state(std::vector<Tensor> &tensors) const {
  for (const auto &[name, tensor] : state_)
    tensors.push_back(tensor);
  if (counts_)
    for (const Tensor &count : counts_->tensors())
      tensors.push_back(count);
}

void Optimizer::take_steps(std::span<Optimizer *const> optimizers, const Tensor *finite,
                           std::vector<Tensor> written, const std::function<void()> &beside,
                           Location location) {
  CallerScope scope(location);
  NoGrad no_grad;
  struct Step {
    std::vector<Tensor> gradients;
    std::vector<size_t> slots; // before it
  };
  std::vector<Step> steps;
  std::vector<Tensor> writes = written;
  for (Optimizer *optimizer : optimizers) {
    optimizer->want_held("step", location);
    Step &step = steps.emplace_back();
    for (const Tensor &parameter : optimizer->parameters_)
      step.gradients.push_back(parameter.grad());
    recorder::refuse_lost_gradients(optimizer->parameters_, "step", location);
    optimizer->watch_->take(optimizer->parameters_, step.gradients, location);
    if (optimizer->counts_)
      step.slots = optimizer->counts_->slots();
    writes.insert(writes.end(), optimizer->parameters_.begin(), optimizer->parameters_.end());
    optimizer->add_state(writes);
  }
  auto record = [&] {
    if (beside)
      beside();
    for (size_t i = 0; i < optimizers.size(); ++i) {
      optimizers[i]->record_step(finite, steps[i].gradients, written);
      optimizers[i]->add_state(written);
    }
    return written;
  };
  try {
    make_step(writes, record, location);
  } catch (...) {
    for (size_t i = 0; i < optimizers.size(); ++i) {
      optimizers[i]->end_step();
      if (optimizers[i]->counts_)
        optimizers[i]->counts_->set_slots(steps[i].slots);
    }
    throw;
  }
}

void Optimizer::record_step(const Tensor *finite, const std::vector<Tensor> &gradients,
                            std::vector<Tensor> &written) {
  std::vector<bool> taking;
  for (const Tensor &gradient : gradients)
    taking.push_back(gradient.defined());
  if (counts_)
    counts_->advance(taking, finite);
  std::optional<BeforeStep> before;
  if (finite) {
    before.emplace();
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (taking[i])
        before->keep(parameters_[i]);
    for (const auto &[name, tensor] : state_)
      before->keep(tensor); // the counts among them are written already
  }
  begin_step();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!taking[i])
      continue;
    // What a step does for a parameter is its module's, also where it reads moments alone.
    const recorder::TensorName *name = parameters_[i].impl()->storage()->name.get();
    recorder::InModule scope(name ? name->module.get() : nullptr);
    update(i, maximize_ ? -gradients[i] : gradients[i]);
    written.push_back(parameters_[i]);
  }
  end_step();
  if (before)
    before->choose(*finite);
}

void Optimizer::zero_grad(Location location) {
  want_held("zero_grad", location);
  watch_->drop(parameters_, location);
  for (Tensor &parameter : parameters_)
    parameter.zero_grad();
}

void Optimizer::set_lr(double lr, Location location) {
  want_held("set_lr", location);
  if (!(lr >= 0))
    throw Error(ErrorKind::kValue, "set_lr: lr must be at least 0, it is " + std::to_string(lr),
                location);
  NoGrad no_grad;
  lr_.fill_(lr, location);
}

double Optimizer::lr(Location location) const {
  want_held("lr", location);
  return lr_.item<double>(location);
}

nn::NamedTensors Optimizer::state(Location location) const {
  want_held("state", location);
  nn::NamedTensors state = state_;
  for (size_t i = 0; counts_ && i < parameters_.size(); ++i)
    if (size_t slot = counts_->slot(i))
      state.emplace_back(own_count(i), counts_->count(slot));
  return state;
}

// The state tensor's name, and whose it is where its parameter has a name: "exp_avg.3" is parameter
// 3's.
static std::string state_text(std::string_view name, const std::vector<Tensor> &parameters) {
  std::string text = "'" + std::string(name) + "'";
  size_t dot = name.rfind('.'), index = 0;
  if (dot == std::string_view::npos)
    return text;
  const char *begin = name.data() + dot + 1, *end = name.data() + name.size();
  auto [rest, error] = std::from_chars(begin, end, index);
  if (error != std::errc() || rest != end || index >= parameters.size())
    return text;
  recorder::UnderLock lock; // a module may be put into another one
  const recorder::TensorName *own = parameters[index].impl()->storage()->name.get();
  return own ? text + " (of the parameter '" + own->path() + "')" : text;
}

// Fails where the state's names are not those of the tensors, each once, and says which.
static void want_names(const nn::NamedTensors &state, const nn::NamedTensors &tensors,
                       Location location) {
  std::unordered_set<std::string_view> expected, given;
  for (const auto &[name, tensor] : state)
    expected.insert(name);
  std::vector<std::string_view> absent, other, again;
  for (const auto &[name, tensor] : tensors) {
    if (!given.insert(name).second)
      again.push_back(name);
    else if (!expected.count(name))
      other.push_back(name);
  }
  for (const auto &[name, tensor] : state)
    if (!given.count(name))
      absent.push_back(name);
  if (absent.empty() && other.empty() && again.empty())
    return;
  std::string message = "load_state: the optimizer has " + std::to_string(state.size()) +
                        " state tensors, " + std::to_string(tensors.size()) + " are given";
  auto list = [&](const char *what, const std::vector<std::string_view> &names) {
    if (names.empty())
      return;
    message += std::string("; ") + what + " '" + std::string(names[0]) + "'";
    if (names.size() > 1)
      message += " and " + std::to_string(names.size() - 1) + " more";
  };
  list("there is no tensor for", absent);
  list("the optimizer has no", other);
  list("given twice is", again);
  throw Error(ErrorKind::kValue, message, location);
}

void Optimizer::load_state(const nn::NamedTensors &tensors, Location location) {
  want_held("load_state", location);
  location = CallerScope::resolve(location);
  std::unordered_map<std::string, const Tensor *> given;
  for (const auto &[name, tensor] : tensors)
    given.emplace(name, &tensor);
  // A count of its own is there for some.
  nn::NamedTensors expected = state_;
  std::vector<std::optional<double>> own(parameters_.size());
  for (size_t i = 0; counts_ && i < parameters_.size(); ++i)
    if (given.count(own_count(i)))
      expected.emplace_back(own_count(i), counts_->count(0));
  want_names(expected, tensors, location);
  for (const auto &[name, tensor] : expected) {
    const Tensor &source = *given.at(name);
    if (source.shape() != tensor.shape() || source.dtype() != tensor.dtype())
      throw Error(ErrorKind::kShape,
                  "load_state: " + state_text(name, parameters_) + " is " +
                      weft::name(tensor.dtype()) + " " + to_string(tensor.shape()) +
                      " in the optimizer, the given tensor is " + weft::name(source.dtype()) +
                      " " + to_string(source.shape()) +
                      "; a state is of the same parameters in the same order",
                  location);
  }
  NoGrad no_grad;
  std::vector<Tensor> written;
  for (auto &[name, tensor] : state_) {
    tensor.copy_(recorder::value_for(tensor, *given.at(name), location), location);
    written.push_back(tensor);
  }
  if (counts_) {
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (auto found = given.find(own_count(i)); found != given.end())
        own[i] = found->second->item<double>(location);
    for (const Tensor &count :
         counts_->load(given.at("step")->item<double>(location), own, location))
      written.push_back(count);
  }
  submit_init(written, location);
}

Tensor clip_grad_norm(const std::vector<Tensor> &parameters, double max_norm, Location location) {
  return clip_by_norm(
      parameters, max_norm, [](const Tensor &squares) { return squares; }, location);
}

// Squares of a 16-bit dtype overflow, or vanish, where their elements do not: those of float16 are
// infinite above 256 and 0 below 2e-4.
static Tensor wide(const Tensor &gradient) {
  return byte_size(gradient.dtype()) < byte_size(float32) ? gradient.to(float32) : gradient;
}

static void want_defined(const std::vector<Tensor> &parameters, const std::string &who,
                         Location location) {
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!parameters[i].defined())
      fail_at(location, ErrorKind::kState,
              who + ": parameter " + std::to_string(i) +
                  " is undefined: " + recorder::kWhyUndefined);
}

Tensor clip_by_norm(const std::vector<Tensor> &parameters, double max_norm,
                    const std::function<Tensor(const Tensor &squares)> &whole, Location location) {
  CallerScope scope(location);
  if (!(max_norm > 0))
    fail_at(location, ErrorKind::kValue,
            "clip_grad_norm: max_norm must be positive, it is " + std::to_string(max_norm));
  want_defined(parameters, "clip_grad_norm", location);
  NoGrad no_grad;
  std::vector<Tensor> gradients, squares;
  for (const Tensor &parameter : parameters) {
    Tensor gradient = parameter.grad();
    if (!gradient.defined())
      continue;
    // Not wide: what is held when `whole` is asked for is stored.
    gradients.push_back(gradient);
    squares.push_back(square(wide(gradient)).sum());
  }
  if (gradients.empty())
    return zeros({});
  Tensor total = squares[0];
  for (size_t i = 1; i < squares.size(); ++i)
    total = total + squares[i].to(total.device());
  Tensor norm = sqrt(whole(total));
  Tensor factor = minimum(div(max_norm, norm + 1e-6), 1.0);
  size_t next = 0;
  for (Tensor parameter : parameters)
    if (parameter.grad().defined())
      parameter.set_grad(
          (wide(gradients[next++]) * factor.to(parameter.device())).to(parameter.dtype()));
  return norm;
}

void clip_grad_value(const std::vector<Tensor> &parameters, double max, Location location) {
  CallerScope scope(location);
  if (!(max > 0))
    fail_at(location, ErrorKind::kValue,
            "clip_grad_value: max must be positive, it is " + std::to_string(max));
  want_defined(parameters, "clip_grad_value", location);
  NoGrad no_grad;
  for (Tensor parameter : parameters)
    if (Tensor gradient = parameter.grad(); gradient.defined())
      parameter.set_grad(clamp(gradient, -max, max));
}

} // namespace weft::optim
