#include "weft/autocast.h"
#include "weft/distributed/sharded_layers.h"

#include <optional>
#include <unordered_set>

#include "frontend/distributed/group_state.h"
#include "frontend/distributed/shards.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"
#include "weft/eval.h"
#include "weft/ops.h"
#include "weft/random.h"

namespace weft::distributed {
namespace {

// What a layer may write beside its result: its buffers, and the default generator's state.
struct Written {
  std::vector<Tensor> storages;
  std::vector<Tensor> values; // each held these
};

// Values are immutable: a storage's is kept by holding it.
std::vector<Tensor> values_of(const std::vector<Tensor> &storages) {
  recorder::Session session("ShardedLayers", Location::current());
  std::vector<Tensor> values;
  for (const Tensor &storage : storages)
    values.push_back(recorder::wrap_quietly(recorder::read(storage, "storage").without_history()));
  return values;
}
void set_values(const std::vector<Tensor> &storages, const std::vector<Tensor> &values) {
  recorder::Session session("ShardedLayers", Location::current());
  NoGrad no_grad;
  for (size_t i = 0; i < storages.size(); ++i)
    recorder::write(storages[i], recorder::read(values[i], "value"));
}

// What was written since `before`.
Written written_since(const std::vector<Tensor> &storages, const std::vector<Tensor> &before) {
  recorder::Session session("ShardedLayers", Location::current());
  Written written;
  for (size_t i = 0; i < storages.size(); ++i)
    if (recorder::read(storages[i], "storage").value.get() !=
        recorder::read(before[i], "value").value.get()) {
      written.storages.push_back(storages[i]);
      written.values.push_back(before[i]);
    }
  return written;
}

// Undefined where there is none. What is added to a tensor's gradient later is not in it.
std::vector<Tensor> gradients_of(const std::vector<Tensor> &tensors) {
  std::vector<Tensor> gradients;
  for (const Tensor &tensor : tensors) {
    Tensor gradient = tensor.grad();
    gradients.push_back(gradient.defined() ? values_of({gradient})[0] : Tensor());
  }
  return gradients;
}

// Starts what computes the tensors.
void start(const std::vector<Tensor> &tensors) {
  Location location = CallerScope::resolve(Location::current());
  recorder::Session session("ShardedLayers", location);
  std::vector<recorder::Var> vars;
  std::vector<recorder::Value *> values;
  for (const Tensor &tensor : tensors)
    if (tensor.defined()) {
      vars.push_back(recorder::read(tensor, "tensor"));
      values.push_back(vars.back().value.get());
    }
  recorder::submit(values, {CutReason::kEval, location});
}

} // namespace

struct ShardedLayers::Impl {
  // A call that kept history.
  struct Pass {
    Tensor x;
    std::vector<Tensor> inputs; // of each layer, leaves
    std::vector<Written> written;
    Tensor result;
    Tensor gradient;            // the result's, which goes when reduce_gradients() first sees it
    std::optional<DType> casts; // of the scope that it was called in
  };

  // While it lives, the layer's parameters are whole.
  class Whole {
  public:
    Whole(Impl &impl, size_t layer) : impl_(impl), layer_(layer) {
      std::vector<Tensor> values = impl.shards.gathered(layer);
      recorder::Session session("ShardedLayers", Location::current());
      try {
        for (size_t i = 0; i < values.size(); ++i)
          recorder::replace(impl.parameters[layer][i], recorder::read(values[i], "value"));
      } catch (...) {
        give_back(); // there is no destructor then
        throw;
      }
    }
    ~Whole() {
      recorder::Session session("ShardedLayers", Location::current());
      give_back();
    }

  private:
    // What was recorded of them holds their values.
    void give_back() {
      for (const Tensor &parameter : impl_.parameters[layer_])
        recorder::replace(parameter, {});
    }

    Impl &impl_;
    size_t layer_;
  };

  Impl(std::vector<nn::AnyLayer> of, const Group &group, Location location)
      : layers(std::move(of)), parameters(parameters_of(layers, location)),
        shards(parameters, /*keep=*/false, group) {}

  static std::vector<std::vector<Tensor>> parameters_of(const std::vector<nn::AnyLayer> &layers,
                                                        Location location) {
    std::vector<std::vector<Tensor>> result;
    std::unordered_set<const recorder::TensorImpl *> known;
    for (size_t i = 0; i < layers.size(); ++i) {
      result.push_back(layers[i].module() ? layers[i].module()->parameters()
                                          : std::vector<Tensor>());
      for (const Tensor &parameter : result.back())
        if (!known.insert(parameter.impl()).second)
          fail_at(location, ErrorKind::kValue,
                  "ShardedLayers: layer " + std::to_string(i) +
                      " has a parameter that a layer before it has, too; make one layer of "
                      "those between them");
    }
    return result;
  }

  std::vector<Tensor> storages_of(size_t layer, const Tensor &x) const {
    std::vector<Tensor> storages{default_generator().state_storage(x.device())};
    if (const nn::Module *module = layers[layer].module())
      for (const auto &[name, buffer] : module->named_buffers())
        storages.push_back(buffer);
    return storages;
  }

  // Back through a layer, whose parameters are whole and get their gradients: the gradient of its
  // input in the call. What the call keeps stays as it is, for another time.
  Tensor back(const Pass &pass, size_t layer, const Tensor &gradient, Location location) const {
    Tensor input = values_of({pass.inputs[layer]})[0];
    if (pass.inputs[layer].requires_grad())
      input.set_requires_grad();
    const Written &written = pass.written[layer];
    std::vector<Tensor> now = values_of(written.storages);
    Tensor result;
    try {
      set_values(written.storages, written.values);
      EnableGrad grad;
      Autocast casts(pass.casts.value_or(DType::kBFloat16), pass.casts.has_value());
      result = layers[layer](input, location);
    } catch (...) {
      set_values(written.storages, now);
      throw;
    }
    set_values(written.storages, now);
    if (result.requires_grad())
      result.backward(gradient);
    Tensor of_input = input.grad();
    return of_input.defined() || layer == 0 ? of_input : zeros_like(input);
  }

  // reduce_gradients() of these calls. It may end by an error, in a function of the user's: then it
  // can be made again, from the start, since shards get the gradients of all calls together.
  void reduce(std::vector<Pass> &calls, Location location) {
    std::vector<Pass *> passes;
    for (Pass &pass : calls) {
      if (!pass.gradient.defined())
        pass.gradient = pass.result.grad();
      if (!pass.gradient.defined())
        continue;
      pass.result = Tensor();
      passes.push_back(&pass);
    }
    if (passes.empty())
      fail_at(location, ErrorKind::kState,
              "reduce_gradients: no result of the layers has a gradient; call them, and "
              "backward() of what is made of it, first");
    std::vector<Tensor> gradients, before;
    for (const Pass *pass : passes)
      gradients.push_back(pass->gradient);
    for (size_t i = layers.size(); i-- > 0;) {
      std::vector<Tensor> made;
      {
        Whole whole(*this, i);
        std::vector<Tensor> had = gradients_of(parameters[i]);
        try {
          for (size_t p = 0; p < passes.size(); ++p) {
            gradients[p] = back(*passes[p], i, gradients[p], location);
            made.push_back(gradients[p]);
          }
          shards.reduce(i);
        } catch (...) {
          // Those of some calls would be counted twice.
          for (size_t k = 0; k < had.size(); ++k)
            parameters[i][k].set_grad(had[k]);
          throw;
        }
      }
      for (size_t k = shards.first_bucket[i]; k < shards.first_bucket[i + 1]; ++k)
        made.push_back(shards.parts[k].grad());
      std::erase_if(made, [](const Tensor &tensor) { return !tensor.defined(); });
      start(made);
      eval(before);
      before = std::move(made);
    }
    // Each history once, also where a later one fails.
    for (size_t p = 0; p < passes.size(); ++p)
      if (Tensor x = passes[p]->x; x.defined() && gradients[p].defined()) {
        x.backward(gradients[p]);
        passes[p]->x = Tensor();
      }
  }

  std::vector<nn::AnyLayer> layers;
  std::vector<std::vector<Tensor>> parameters; // of each layer
  Shards shards;
  std::vector<Pass> passes;
};

ShardedLayers::ShardedLayers(std::vector<nn::AnyLayer> layers, const Group &group,
                             Location location) {
  CallerScope scope(location);
  checked(group, "ShardedLayers", location);
  impl_ = std::make_unique<Impl>(std::move(layers), group, location);
}
ShardedLayers::~ShardedLayers() = default;
ShardedLayers::ShardedLayers(ShardedLayers &&) noexcept = default;
ShardedLayers &ShardedLayers::operator=(ShardedLayers &&) noexcept = default;

ShardedLayers::Impl &ShardedLayers::held(const char *call, Location location) const {
  return recorder::held(impl_, call, "ShardedLayers", location);
}

const std::vector<Tensor> &ShardedLayers::shards(Location location) const {
  return held("shards", location).shards.shards;
}

Tensor ShardedLayers::operator()(const Tensor &x, Location location) {
  CallerScope scope(location);
  Impl &impl = held("ShardedLayers", location);
  bool kept = grad_enabled();
  NoGrad no_grad;
  Impl::Pass pass;
  pass.x = x;
  pass.casts = autocast_dtype();
  // The layer before the one that is under way has ended, and its parameters are gone, when the
  // next one's are gathered.
  Tensor at = x, before;
  for (size_t i = 0; i < impl.layers.size(); ++i) {
    Tensor input = at.detach();
    std::vector<Tensor> storages = impl.storages_of(i, input), values = values_of(storages);
    {
      Impl::Whole whole(impl, i);
      // With history, as layers expect it in training, but without keeping it.
      std::optional<EnableGrad> grad;
      if (kept)
        grad.emplace();
      at = values_of({impl.layers[i](input, location)})[0];
    }
    if (kept) {
      pass.written.push_back(written_since(storages, values));
      input = input.detach(); // without a history of what the layer wrote into it
      if (i > 0 ? is_floating(input.dtype()) : x.requires_grad())
        input.set_requires_grad();
      pass.inputs.push_back(input);
    }
    start({at});
    if (before.defined())
      eval(before);
    before = at;
  }
  if (!kept)
    return at;
  pass.result = at.detach().set_requires_grad();
  impl.passes.push_back(pass);
  return pass.result;
}

void ShardedLayers::reduce_gradients(Location location) {
  CallerScope scope(location);
  Impl &impl = held("reduce_gradients", location);
  impl.shards.check_trained("reduce_gradients", location);
  std::vector<Impl::Pass> calls = std::exchange(impl.passes, {});
  try {
    impl.reduce(calls, location);
  } catch (...) {
    for (Impl::Pass &later : impl.passes)
      calls.push_back(std::move(later));
    impl.passes = std::move(calls);
    throw;
  }
}

Tensor ShardedLayers::clip_grad_norm(double max_norm, Location location) {
  CallerScope scope(location);
  return held("clip_grad_norm", location).shards.clip_grad_norm(max_norm, location);
}

std::vector<Tensor> ShardedLayers::whole_parameters(Location location) const {
  CallerScope scope(location);
  Shards &shards = held("whole_parameters", location).shards;
  return shards.whole(shards.parts);
}

nn::NamedTensors ShardedLayers::whole_state(const optim::Optimizer &optimizer,
                                            Location location) const {
  CallerScope scope(location);
  return held("whole_state", location).shards.whole_state(optimizer, location);
}

void ShardedLayers::load_whole_state(optim::Optimizer &optimizer, const nn::NamedTensors &state,
                                     Location location) const {
  CallerScope scope(location);
  held("load_whole_state", location).shards.load_whole_state(optimizer, state, location);
}

} // namespace weft::distributed
