#include "weft/nn/module.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include "frontend/recorder/module_name.h"
#include "frontend/tensor/impl.h"
#include "frontend/tensor/starting.h"
#include "weft/autograd.h"
#include "weft/jit.h"
#include "weft/nn/init.h"
#include "weft/nn/unlisted.h"
#include "weft/ops.h"

namespace weft::nn {

struct Module::State {
  NamedTensors parameters, buffers;
  std::vector<std::pair<std::string, std::shared_ptr<State>>> children;
  std::shared_ptr<recorder::HostState> training = std::make_shared<recorder::HostState>(1, 1);
  Location made = {}; // where the first parameter was registered
  mutable std::atomic<bool> is_listed = false;
  const recorder::Ref<recorder::ModuleName> called{new recorder::ModuleName};

  ~State() {
    list();
    // Children that live on may be put into another module.
    recorder::UnderLock lock;
    for (const auto &[name, state] : children)
      if (recorder::ModuleName &child = *state->called; child.parent.get() == called.get())
        rename(child, nullptr, "");
  }
  static void rename(recorder::ModuleName &module, recorder::ModuleName *parent,
                     const std::string &name) {
    module.parent = recorder::Ref<const recorder::ModuleName>(parent);
    module.name = name;
    ++recorder::module_tree;
  }
  void add_child(const std::string &name, const std::shared_ptr<State> &state) {
    children.emplace_back(name, state);
    recorder::UnderLock lock;
    if (!state->called->parent)
      rename(*state->called, called.get(), name);
  }
  // Its storage has the first name that it gets.
  void name_tensor(const std::string &name, const Tensor &tensor) {
    recorder::UnderLock lock;
    recorder::TensorImpl *storage = tensor.impl();
    if (storage->is_view() || storage->name)
      return;
    auto *made = new recorder::TensorName;
    storage->name = recorder::Ref<const recorder::TensorName>(made);
    made->module = recorder::Ref<const recorder::ModuleName>(called.get());
    made->name = name;
    if (storage->leaf)
      storage->leaf->name = storage->name;
  }
  void add_buffer(const std::string &name, const Tensor &tensor) {
    buffers.emplace_back(name, tensor);
    name_tensor(name, tensor);
  }
  // Somebody has asked for the parameters.
  void list() const {
    if (!is_listed.exchange(true, std::memory_order_relaxed))
      note_listed(this);
  }
  void add_parameter(const std::string &name, const Tensor &tensor, Location location) {
    if (parameters.empty())
      made = location;
    parameters.emplace_back(name, tensor);
    name_tensor(name, tensor);
    if (!is_listed.load(std::memory_order_relaxed))
      note_parameter(this, name, tensor, location);
  }
  bool has(const std::string &name) const {
    auto is_it = [&](const auto &entry) {
      return entry.first == name;
    };
    return std::any_of(parameters.begin(), parameters.end(), is_it) ||
           std::any_of(buffers.begin(), buffers.end(), is_it) ||
           std::any_of(children.begin(), children.end(), is_it);
  }
  void check_name(const std::string &name, const char *what, Location location) const {
    if (name.empty() || name.find('.') != std::string::npos)
      throw Error(ErrorKind::kValue,
                  std::string(what) + ": a name must not be empty nor contain a dot, it is '" +
                      name + "'",
                  location);
    if (has(name))
      throw Error(ErrorKind::kValue,
                  std::string(what) + ": the module has a '" + name + "' already", location);
  }

  // Calls visit(state, "prefix.") for this state and all below, parents first, children in order. A
  // state that is a child of several is visited under each of its names.
  template <typename S, typename Visit> static void walk(S &root, const Visit &visit) {
    std::vector<std::pair<S *, std::string>> stack = {{&root, ""}};
    while (!stack.empty()) {
      auto [state, prefix] = std::move(stack.back());
      stack.pop_back();
      visit(*state, prefix);
      for (auto it = state->children.rbegin(); it != state->children.rend(); ++it)
        stack.emplace_back(it->second.get(), prefix + it->first + ".");
    }
  }
};

namespace {

// Each tensor once, under its first name.
NamedTensors distinct(NamedTensors named) {
  std::unordered_set<const void *> seen;
  std::erase_if(named, [&](const auto &entry) { return !seen.insert(entry.second.impl()).second; });
  return named;
}

} // namespace

//===-- Registration --------------------------------------------------------------------------===//

Module::Module() : state_(std::make_shared<State>()) {}

Module::Module(const Module &other)
    : state_(CloneScope::active() ? CloneScope::copy_of(other.state_) : other.state_) {}

// The class in "... type_text() [M = model::Block]", as compilers write it.
static std::string class_in(std::string_view text) {
  constexpr std::string_view kBefore = " = ";
  size_t begin = text.rfind(kBefore);
  if (begin == std::string_view::npos)
    return "";
  text.remove_prefix(begin + kBefore.size());
  return recorder::class_name(text.substr(0, text.find_last_of(']')));
}

void Module::register_child(const std::string &name, const Module &module, Location location,
                            const char *type) {
  location = CallerScope::resolve(location);
  state_->check_name(name, "child", location);
  bool contains_this = false;
  State::walk(*module.state_, [&](const State &state, const std::string &) {
    contains_this |= &state == state_.get();
  });
  if (contains_this)
    throw Error(ErrorKind::kValue, "child: '" + name + "' contains this module", location);
  state_->add_child(name, module.state_);
  if (std::string known = class_in(type); !known.empty()) {
    recorder::UnderLock lock;
    module.state_->called->type = std::move(known);
  }
}

// Of DTypeScope's dtype.
static Tensor in_scope(Tensor value, Location location) {
  std::optional<DType> dtype = DTypeScope::active();
  return dtype && is_floating(value.dtype()) && value.dtype() != *dtype
             ? start_copy(value, dtype, {}, location)
             : value;
}

Parameter Module::parameter(const std::string &name, Tensor value, Location location) {
  location = CallerScope::resolve(location);
  state_->check_name(name, "parameter", location);
  if (!is_floating(value.dtype()))
    throw Error(ErrorKind::kDType,
                std::string("parameter: '") + name + "' is " + weft::name(value.dtype()) +
                    "; only floating-point tensors can be trained",
                location);
  if (!value.is_leaf())
    throw Error(
        ErrorKind::kState,
        "parameter: '" + name +
            "' was computed from tensors that require grad; detach() it to begin with its value",
        location);
  value = in_scope(std::move(value), location);
  init::submit({value}, location);
  value.set_requires_grad(true, location);
  state_->add_parameter(name, value, location);
  return Parameter(std::move(value));
}

Parameter Module::buffer(const std::string &name, Tensor value, Location location) {
  location = CallerScope::resolve(location);
  state_->check_name(name, "buffer", location);
  value = in_scope(std::move(value), location);
  init::submit({value}, location);
  state_->add_buffer(name, value);
  return Parameter(std::move(value));
}

//===-- Calls ---------------------------------------------------------------------------------===//

// One that nobody registered has no name: what it does is that module's which calls it.
ModuleScope::ModuleScope(const Module &module) : outer_(recorder::thread_module()) {
  if (const recorder::ModuleName *own = module.state_->called.get(); own->parent)
    recorder::set_thread_module(own);
}
ModuleScope::~ModuleScope() {
  recorder::set_thread_module(static_cast<const recorder::ModuleName *>(outer_));
}

//===-- Reading and writing the state ---------------------------------------------------------===//

NamedTensors Module::named_parameters() const {
  NamedTensors named;
  State::walk(*state_, [&](const State &state, const std::string &prefix) {
    state.list();
    for (const auto &[name, tensor] : state.parameters)
      named.emplace_back(prefix + name, tensor);
  });
  return distinct(std::move(named));
}

NamedTensors Module::named_buffers() const {
  NamedTensors named;
  State::walk(*state_, [&](const State &state, const std::string &prefix) {
    for (const auto &[name, tensor] : state.buffers)
      named.emplace_back(prefix + name, tensor);
  });
  return distinct(std::move(named));
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> tensors;
  for (auto &[name, tensor] : named_parameters())
    tensors.push_back(tensor);
  return tensors;
}

NamedTensors Module::state() const {
  NamedTensors named;
  State::walk(*state_, [&](const State &state, const std::string &prefix) {
    state.list();
    for (const auto &[name, tensor] : state.parameters)
      named.emplace_back(prefix + name, tensor);
    for (const auto &[name, tensor] : state.buffers)
      named.emplace_back(prefix + name, tensor);
  });
  return named;
}

void Module::load_state(const NamedTensors &tensors, bool strict, Location location) {
  location = CallerScope::resolve(location);
  std::unordered_map<std::string, const Tensor *> given;
  for (const auto &[name, tensor] : tensors)
    if (!given.emplace(name, &tensor).second)
      throw Error(ErrorKind::kValue, "load_state: '" + name + "' is given twice", location);
  NamedTensors own = state();
  for (const auto &[name, tensor] : own) {
    auto found = given.find(name);
    if (found == given.end())
      throw Error(ErrorKind::kValue, "load_state: there is no tensor for '" + name + "'", location);
    const Tensor &source = *found->second;
    if (!source.defined())
      throw Error(ErrorKind::kState, "load_state: '" + name + "' is given as an undefined tensor",
                  location);
    if (source.shape() != tensor.shape() || source.dtype() != tensor.dtype())
      throw Error(source.shape() != tensor.shape() ? ErrorKind::kShape : ErrorKind::kDType,
                  "load_state: '" + name + "' is " + weft::name(tensor.dtype()) + " " +
                      to_string(tensor.shape()) + " in the module, the given tensor is " +
                      weft::name(source.dtype()) + " " + to_string(source.shape()),
                  location);
  }
  if (strict) {
    std::unordered_set<std::string> known;
    for (const auto &[name, tensor] : own)
      known.insert(name);
    for (const auto &[name, tensor] : tensors)
      if (!known.contains(name))
        throw Error(ErrorKind::kValue, "load_state: the module has no '" + name + "'", location);
  }
  NoGrad no_grad;
  std::vector<Tensor> written;
  for (auto &[name, tensor] : own) {
    tensor.copy_(init::copy_of(*given.at(name), location), location);
    written.push_back(tensor);
  }
  submit_init(written, location);
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Tensor &tensor : parameters())
    count += tensor.numel();
  return count;
}

void Module::train(bool on) {
  State::walk(*state_, [&](State &state, const std::string &) {
    recorder::write_state(state.training);
    state.training->front() = on;
  });
}
bool Module::training() const {
  // What a jitted function records in training is not what it does in evaluation.
  recorder::read_state(state_->training);
  return state_->training->front() != 0;
}

void Module::zero_grad() const {
  for (Tensor &tensor : parameters())
    tensor.zero_grad();
}

//===-- Dtypes --------------------------------------------------------------------------------===//

namespace {
thread_local std::optional<DType> scope_dtype;

void want_floating(DType dtype, const char *what, Location location) {
  if (!is_floating(dtype))
    throw Error(ErrorKind::kDType,
                std::string(what) + ": parameters are floating-point numbers, not " +
                    weft::name(dtype),
                CallerScope::resolve(location));
}
} // namespace

DTypeScope::DTypeScope(DType dtype, Location location) : previous_(scope_dtype) {
  want_floating(dtype, "DTypeScope", location);
  scope_dtype = dtype;
}
DTypeScope::~DTypeScope() {
  scope_dtype = previous_;
}
std::optional<DType> DTypeScope::active() {
  return scope_dtype;
}

//===-- Copies --------------------------------------------------------------------------------===//

struct CloneScope::Map {
  std::unordered_map<const Module::State *, std::shared_ptr<Module::State>> states;
  std::unordered_map<const void *, Tensor> tensors;
  std::optional<DType> dtype;
  std::optional<Device> device;
  Location location = {};
};

namespace {
thread_local CloneScope *active_scope = nullptr;
}

CloneScope::CloneScope(std::optional<DType> dtype, std::optional<Device> device, Location location)
    : map_(std::make_unique<Map>()) {
  if (dtype)
    want_floating(*dtype, "to", location);
  map_->dtype = dtype;
  map_->device = device;
  map_->location = CallerScope::resolve(location);
  if (active_scope)
    throw Error(ErrorKind::kState, "clone: a module is being cloned on this thread already",
                map_->location);
  active_scope = this;
}
CloneScope::~CloneScope() {
  active_scope = nullptr;
}

bool CloneScope::active() {
  return active_scope != nullptr;
}

Parameter::Parameter(const Parameter &other)
    : Tensor(CloneScope::active() ? CloneScope::copy_of(other) : Tensor(other)) {}

Tensor CloneScope::copy_of(const Tensor &tensor) {
  if (!tensor.defined())
    return tensor;
  Map &map = *active_scope->map_;
  auto [it, is_new] = map.tensors.try_emplace(tensor.impl());
  if (is_new) {
    Tensor copy = start_copy(tensor, map.dtype, map.device, map.location);
    submit_init({&copy, 1}, map.location);
    copy.set_requires_grad(tensor.requires_grad(), map.location);
    it->second = copy;
  }
  return it->second;
}

std::shared_ptr<Module::State> CloneScope::copy_of(const std::shared_ptr<Module::State> &root) {
  auto &states = active_scope->map_->states;
  std::vector<const Module::State *> stack;
  // The copy of a state, made empty and put on the stack to be filled when it is met first.
  auto copied = [&](const Module::State *state) {
    auto [it, is_new] = states.try_emplace(state);
    if (is_new) {
      it->second = std::make_shared<Module::State>();
      stack.push_back(state);
    }
    return it->second;
  };
  std::shared_ptr<Module::State> result = copied(root.get());
  while (!stack.empty()) {
    const Module::State *from = stack.back();
    stack.pop_back();
    Module::State &to = *states.at(from);
    *to.training = *from->training;
    for (const auto &[name, tensor] : from->parameters)
      to.add_parameter(name, copy_of(tensor), from->made);
    for (const auto &[name, tensor] : from->buffers)
      to.add_buffer(name, copy_of(tensor));
    for (const auto &[name, state] : from->children) {
      std::shared_ptr<Module::State> copy = copied(state.get());
      to.add_child(name, copy);
      recorder::UnderLock lock;
      copy->called->type = state->called->type;
    }
  }
  return result;
}

} // namespace weft::nn
