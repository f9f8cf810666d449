#include "weft/nn/module.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "frontend/recorder/record/module_name.h"
#include "frontend/sharding/parts.h"
#include "frontend/tensor/impl.h"
#include "frontend/tensor/starting.h"
#include "weft/autograd.h"
#include "weft/io/safetensors.h"
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
  // A handle that led here was given another module.
  std::atomic<bool> is_assigned_over = false;
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
    name_child(name, state);
  }
  void name_child(const std::string &name, const std::shared_ptr<State> &state) {
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
  template <typename Entries>
  static bool has_name(const Entries &entries, const std::string &name) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto &entry) { return entry.first == name; });
  }
  bool has(const std::string &name) const {
    return has_name(parameters, name) || has_name(buffers, name) || has_name(children, name);
  }
  void check_name(const std::string &name, const char *what, Location location) const {
    if (name.empty() || name.find('.') != std::string::npos)
      throw Error(ErrorKind::kValue,
                  std::string(what) + ": a name must not be empty nor contain a dot, it is '" +
                      name + "'",
                  location);
    if (has(name))
      throw Error(ErrorKind::kValue,
                  std::string(what) + ": the module has a '" + name + "' already" +
                      (has_name(children, name)
                           ? "; replace_child(the layer, another) puts another in its place"
                           : ""),
                  location);
  }
  bool is_above(const State &other) const {
    recorder::UnderLock lock;
    const recorder::ModuleName *above = other.called->parent.get();
    while (above && above != called.get())
      above = above->parent.get();
    return above != nullptr;
  }
  // A child to which no handle leads but this module's, after one was given another module: what
  // the module calls is not what would be trained, saved or told of train().
  // Where this was assigned over itself, its layers went with it: whoever keeps it has all of it.
  void want_held(const std::string &prefix, const char *what, Location location) const {
    if (is_assigned_over)
      return;
    for (const auto &[name, child] : children)
      if (child->is_assigned_over && child.use_count() == 1)
        fail_at(location, ErrorKind::kState,
                std::string(what) + ": the layer that is registered as '" + prefix + name +
                    "' was assigned over, and the one that took its place is not registered; "
                    "in place of the assignment write module.replace_child(module." +
                    name + ", layer)");
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

// Tensors that are given, by name.
using Given = std::unordered_map<std::string, const Tensor *>;

// Which of two values a tensor with two names would keep nobody could see.
void want_one_value_each(const NamedTensors &own, const Given &given, Location location) {
  std::unordered_map<const void *, const std::string *> first;
  for (const auto &[name, tensor] : own) {
    auto [known, is_new] = first.emplace(tensor.impl(), &name);
    const Tensor &a = *given.at(*known->second), &b = *given.at(name);
    if (!is_new && !a.is_same(b) && a.nbytes() > 0 &&
        std::memcmp(a.data_bytes(location), b.data_bytes(location),
                    static_cast<size_t>(a.nbytes())) != 0)
      throw Error(ErrorKind::kValue,
                  "load_state: '" + *known->second + "' and '" + name +
                      "' are one tensor in the module, the tensors given for them differ; give "
                      "one value under both names, or make a module that does not tie them",
                  location);
  }
}

} // namespace

//===-- Registration --------------------------------------------------------------------------===//

Module::Module() : state_(std::make_shared<State>()) {}

Module::Module(const Module &other)
    : state_(CloneScope::active() ? CloneScope::copy_of(other.state_) : other.state_) {}

Module &Module::operator=(const Module &other) {
  become(other.state_);
  return *this;
}
Module &Module::operator=(Module &&other) noexcept {
  become(std::move(other.state_));
  return *this;
}
void Module::become(std::shared_ptr<State> state) noexcept {
  // Not by what has it below: module = Wrapped(module).
  if (state_ && state_ != state && !(state && state->is_above(*state_)))
    state_->is_assigned_over = true;
  state_ = std::move(state);
}

Module::State &Module::held(std::string_view what, Location location) const {
  return recorder::held(state_, what, "module", location);
}

// The class in "... type_text() [M = model::Block]", as compilers write it.
static std::string class_in(std::string_view text) {
  constexpr std::string_view kBefore = " = ";
  size_t begin = text.rfind(kBefore);
  if (begin == std::string_view::npos)
    return "";
  text.remove_prefix(begin + kBefore.size());
  return recorder::class_name(text.substr(0, text.find_last_of(']')));
}

static void note_class(recorder::ModuleName &module, const char *type) {
  if (std::string known = class_in(type); !known.empty()) {
    recorder::UnderLock lock;
    module.type = std::move(known);
  }
}

void Module::register_child(const std::string &name, const Module &module, Location location,
                            const char *type) {
  location = CallerScope::resolve(location);
  State &state = held("child", location);
  state.check_name(name, "child", location);
  want_apart(module, "child", name, location);
  state.add_child(name, module.state_);
  note_class(*module.state_->called, type);
}

void Module::register_instead(const Module &old, const Module &by, Location location,
                              const char *type) {
  location = CallerScope::resolve(location);
  auto is_it = [&](const auto &entry) {
    return entry.second == old.state_;
  };
  auto &children = held("replace_child", location).children;
  auto first = std::find_if(children.begin(), children.end(), is_it);
  if (first == children.end())
    throw Error(ErrorKind::kValue,
                "replace_child: the layer is no child of this module: it was registered in another "
                "one, or nowhere, or assigned over before",
                location);
  want_apart(by, "replace_child", first->first, location);
  // Under all the names that it has here.
  for (auto child = first; child != children.end();
       child = std::find_if(child + 1, children.end(), is_it)) {
    child->second = by.state_;
    state_->name_child(child->first, by.state_);
  }
  {
    recorder::UnderLock lock;
    if (recorder::ModuleName &called = *old.state_->called;
        called.parent.get() == state_->called.get() && old.state_ != by.state_)
      State::rename(called, nullptr, "");
  }
  note_class(*by.state_->called, type);
}

// Fails where it is this module or one above it.
void Module::want_apart(const Module &module, const char *what, const std::string &name,
                        Location location) const {
  bool contains_this = false;
  State::walk(
      module.held(std::string(what) + ": '" + name + "'", location),
      [&](const State &state, const std::string &) { contains_this |= &state == state_.get(); });
  if (contains_this)
    throw Error(ErrorKind::kValue, std::string(what) + ": '" + name + "' contains this module",
                location);
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
  held("parameter", location).check_name(name, "parameter", location);
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
  held("buffer", location).check_name(name, "buffer", location);
  value = in_scope(std::move(value), location);
  init::submit({value}, location);
  state_->add_buffer(name, value);
  return Parameter(std::move(value));
}

//===-- Calls ---------------------------------------------------------------------------------===//

// One that nobody registered has no name: what it does is that module's which calls it.
ModuleScope::ModuleScope(const Module &module, Location caller, Location own)
    : outer_(recorder::thread_module()) {
  if (!module.state_) [[unlikely]] {
    std::string called = recorder::class_of_function(own.function_name());
    module.held(called.empty() ? "ModuleScope" : called, caller);
  }
  if (const recorder::ModuleName *called = module.state_->called.get(); called->parent)
    recorder::set_thread_module(called);
}
ModuleScope::~ModuleScope() {
  recorder::set_thread_module(static_cast<const recorder::ModuleName *>(outer_));
}

//===-- Reading and writing the state ---------------------------------------------------------===//

NamedTensors Module::named_parameters(Location location) const {
  NamedTensors named;
  State::walk(held("parameters", location), [&](const State &state, const std::string &prefix) {
    state.want_held(prefix, "parameters", location);
    state.list();
    for (const auto &[name, tensor] : state.parameters)
      named.emplace_back(prefix + name, tensor);
  });
  return distinct(std::move(named));
}

NamedTensors Module::named_buffers(Location location) const {
  NamedTensors named;
  State::walk(held("named_buffers", location), [&](const State &state, const std::string &prefix) {
    state.want_held(prefix, "named_buffers", location);
    for (const auto &[name, tensor] : state.buffers)
      named.emplace_back(prefix + name, tensor);
  });
  return distinct(std::move(named));
}

std::vector<Tensor> Module::parameters(Location location) const {
  std::vector<Tensor> tensors;
  for (auto &[name, tensor] : named_parameters(location))
    tensors.push_back(tensor);
  return tensors;
}

NamedTensors Module::state(Location location) const {
  return named_state("state", location);
}

NamedTensors Module::named_state(const char *what, Location location) const {
  NamedTensors named;
  State::walk(held(what, location), [&](const State &state, const std::string &prefix) {
    state.want_held(prefix, what, location);
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
  Given given;
  for (const auto &[name, tensor] : tensors)
    if (!given.emplace(name, &tensor).second)
      throw Error(ErrorKind::kValue, "load_state: '" + name + "' is given twice", location);
  NamedTensors own = named_state("load_state", location);
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
  want_one_value_each(own, given, location);
  NoGrad no_grad;
  std::vector<Tensor> written;
  for (auto &[name, tensor] : distinct(std::move(own))) {
    tensor.copy_(recorder::value_for(tensor, *given.at(name), location), location);
    written.push_back(tensor);
  }
  submit_init(written, location);
}

void Module::load_file(const io::SafeTensors &file, bool strict, Location location) {
  location = CallerScope::resolve(location);
  std::unordered_set<std::string> own;
  if (!strict && !file.unread.empty())
    for (const auto &[name, tensor] : named_state("load_state", location))
      own.insert(name);
  for (const io::SafeTensors::Unread &each : file.unread)
    if (strict || own.contains(each.name))
      throw Error(ErrorKind::kDType, "load_state: '" + each.name + "' is " + each.text(), location);
  load_state(file.tensors, strict, location);
}

std::vector<std::pair<std::string, Module>> Module::named_modules(Location location) const {
  held("named_modules", location);
  std::vector<std::pair<std::string, Module>> found;
  std::vector<std::pair<std::shared_ptr<State>, std::string>> stack = {{state_, ""}};
  std::unordered_set<const State *> seen;
  while (!stack.empty()) {
    auto [state, name] = std::move(stack.back());
    stack.pop_back();
    if (!seen.insert(state.get()).second)
      continue;
    std::string prefix = name.empty() ? "" : name + ".";
    state->want_held(prefix, "named_modules", location);
    for (auto it = state->children.rbegin(); it != state->children.rend(); ++it)
      stack.emplace_back(it->second, prefix + it->first);
    found.emplace_back(std::move(name), Module(std::move(state)));
  }
  return found;
}

std::vector<std::pair<std::string, Module>> Module::named_children(Location location) const {
  held("named_children", location).want_held("", "named_children", location);
  std::vector<std::pair<std::string, Module>> found;
  std::unordered_set<const State *> seen;
  for (const auto &[name, state] : state_->children)
    if (seen.insert(state.get()).second)
      found.emplace_back(name, Module(state));
  return found;
}

static std::vector<Module> without_names(std::vector<std::pair<std::string, Module>> named) {
  std::vector<Module> modules;
  for (auto &[name, module] : named)
    modules.push_back(std::move(module));
  return modules;
}

std::vector<Module> Module::modules(Location location) const {
  return without_names(named_modules(location));
}

std::vector<Module> Module::children(Location location) const {
  return without_names(named_children(location));
}

std::string Module::class_name(Location location) const {
  const recorder::ModuleName &called = *held("class_name", location).called;
  recorder::UnderLock lock;
  return called.type;
}

std::ostream &Module::print(std::ostream &out, const char *type) const {
  struct Open {
    const State *state;
    size_t next; // of its children
  };
  std::vector<Open> open;
  auto begin = [&](const State &state, const std::string &name) {
    out << (name.empty() ? "Module" : name) << '(';
    std::string margin(2 * open.size() + 2, ' '), between;
    for (const NamedTensors *own : {&state.parameters, &state.buffers})
      for (const auto &[which, tensor] : *own) {
        out << (state.children.empty() ? between : "\n" + margin) << which << ": "
            << to_string(tensor.shape());
        between = ", ";
      }
    open.push_back({&state, 0});
  };
  if (!state_)
    return out << class_in(type) << "(moved from)";
  std::string known = class_name();
  begin(*state_, known.empty() ? class_in(type) : known);
  while (!open.empty()) {
    const State *state = open.back().state;
    if (open.back().next < state->children.size()) {
      const auto &[name, child] = state->children[open.back().next++];
      out << '\n' << std::string(2 * open.size(), ' ') << '(' << name << "): ";
      begin(*child, Module(child).class_name());
      continue;
    }
    open.pop_back();
    if (!state->children.empty())
      out << '\n' << std::string(2 * open.size(), ' ');
    out << ')';
  }
  return out;
}

int64_t Module::parameter_count(Location location) const {
  int64_t count = 0;
  for (const Tensor &tensor : parameters(location))
    count += tensor.numel();
  return count;
}

void Module::train(bool on, Location location) {
  State &own = held(on ? "train" : "eval", location);
  State::walk(own, [&](const State &state, const std::string &prefix) {
    state.want_held(prefix, on ? "train" : "eval", location);
  });
  State::walk(
      own, [&](State &state, const std::string &) { recorder::set_state(state.training, {on}); });
}
bool Module::training(Location location) const {
  const State &state = held("training", location);
  // What a jitted function records in training is not what it does in evaluation.
  recorder::read_state(state.training);
  return state.training->front() != 0;
}

void Module::zero_grad(Location location) const {
  for (Tensor &tensor : parameters(location))
    tensor.zero_grad();
}

//===-- Dtypes --------------------------------------------------------------------------------===//

namespace {
thread_local std::optional<DType> scope_dtype;

void want_floating(DType dtype, const char *what, Location location) {
  if (!is_floating(dtype))
    fail_at(location, ErrorKind::kDType,
            std::string(what) + ": parameters are floating-point numbers, not " +
                weft::name(dtype));
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
  const Map &map = *active_scope->map_;
  if (!root)
    throw Error(ErrorKind::kState,
                std::string(map.dtype || map.device ? "to" : "clone") +
                    ": the module, or one that it holds, was moved from",
                map.location);
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
