// The base of everything with parameters: a handle to named parameters, buffers, children and the
// training flag.
#pragma once

#include <concepts>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/eval.h"
#include "weft/tensor.h"

namespace weft::io {
struct SafeTensors;
}

namespace weft::nn {

// Names and tensors: "up.weight", "up.bias", "down.weight", ... Each module has its own parameters
// first, its own buffers next, then its children, each in the order of registration, as PyTorch.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// A tensor that a module registered. It reads as a tensor and is written in place (copy_,
// mutable_data), so that the module and everybody who holds it see one storage. Keep it as a member
// of this type: nn::clone() gives the copy of a module its own.
class Parameter : public Tensor {
public:
  Parameter() = default;
  explicit Parameter(Tensor tensor) : Tensor(std::move(tensor)) {}
  Parameter(const Parameter &other);
  Parameter(Parameter &&other) noexcept = default;
  Parameter &operator=(const Parameter &other) & = default;
  Parameter &operator=(Parameter &&other) & noexcept = default;
  // Would part the member from the registered tensor; copy_() changes the value.
  Parameter &operator=(const Tensor &) = delete;
};

// A module is a handle: copies share parameters and the training flag; nn::clone(module) makes an
// independent one. One that was moved from leads nowhere: using it throws Error until it is
// assigned another one.
//
//   struct Mlp : nn::Module {
//     nn::Linear up = child("up", nn::Linear(784, 128));
//     nn::Linear down = child("down", nn::Linear(128, 10));
//     weft::Tensor operator()(const weft::Tensor &x) const { return down(weft::relu(up(x))); }
//   };
class Module {
public:
  Module();
  Module(const Module &other);
  Module(Module &&other) noexcept = default;
  Module &operator=(const Module &other);
  Module &operator=(Module &&other) noexcept;

  // All parameters (with those of the children, each tensor once however often it is registered),
  // depth first. As all that follow down to zero_grad() it throws Error where the handle to a child
  // was assigned over, so that the module calls a layer that it has not registered: replace_child()
  // does both.
  std::vector<Tensor> parameters(Location location = Location::current()) const;
  NamedTensors named_parameters(Location location = Location::current()) const;
  // Tensors that are part of the state and not trained.
  NamedTensors named_buffers(Location location = Location::current()) const;
  // Parameters and buffers, as a checkpoint holds them; a tensor registered under two names stands
  // under both.
  NamedTensors state(Location location = Location::current()) const;
  // Copies the values of tensors of these names. Throws Error, before anything is written, when one
  // of the module's names is missing, a name is given twice, a shape or dtype differs, or, if
  // strict, a name is not the module's. Other than in PyTorch, a missing one is an error without
  // strict, too: give the module's own state for what is to stay; and so are two values for two
  // names of one tensor (tied weights), of which PyTorch keeps the last.
  void load_state(const NamedTensors &tensors, bool strict = true,
                  Location location = Location::current());
  // The same of a file's (io::load_safetensors). Throws Error, with name and dtype, for a tensor of
  // a dtype that Weft has not, unless it is not the module's and strict is not asked for.
  template <std::same_as<io::SafeTensors> File> // {} is a list without names
  void load_state(const File &file, bool strict = true, Location location = Location::current()) {
    load_file(file, strict, location);
  }
  // How many elements the parameters have.
  int64_t parameter_count(Location location = Location::current()) const;

  // Sets the flag of this module and all below: Dropout acts in training only.
  void train(bool on = true, Location location = Location::current());
  void eval(Location location = Location::current()) {
    train(false, location);
  }
  bool training(Location location = Location::current()) const;
  // Drops the gradients of all parameters.
  void zero_grad(Location location = Location::current()) const;

  // This module, "", and all below, each once, under its first name, depth first:
  //   for (auto &[name, module] : net.named_modules())
  //     if (module.class_name() == "Linear")
  //       for (auto &[which, tensor] : module.named_parameters())
  //         which == "bias" ? nn::init::zeros_(tensor) : nn::init::xavier_uniform_(tensor);
  std::vector<std::pair<std::string, Module>>
  named_modules(Location location = Location::current()) const;
  // The modules alone.
  std::vector<Module> modules(Location location = Location::current()) const;
  // The same of those that this module has registered.
  std::vector<std::pair<std::string, Module>>
  named_children(Location location = Location::current()) const;
  // The modules alone.
  std::vector<Module> children(Location location = Location::current()) const;
  // The class that child() was given it as, "Linear"; "" where no module has it.
  std::string class_name(Location location = Location::current()) const;
  // As PyTorch prints it: a line a module, by name and class, with the shapes of its own tensors.
  template <std::derived_from<Module> M>
  friend std::ostream &operator<<(std::ostream &out, const M &module) {
    return module.print(out, type_text<M>());
  }

  // Registers `by` in the place of a child and assigns it to the member:
  //   net.replace_child(net.fc, nn::Linear(64, 10));
  // An optimizer made before has the parameters of the old one. Throws Error where the layer is no
  // child of this module, or `by` contains this module.
  template <typename M>
  void replace_child(M &layer, std::type_identity_t<M> by,
                     Location location = Location::current()) {
    register_instead(layer, by, location, type_text<M>());
    layer = std::move(by);
  }
  // The member would go on as its own class, with the parameters of the derived one registered.
  template <typename M, std::derived_from<M> Derived>
    requires(!std::same_as<M, Derived>)
  void replace_child(M &, Derived, Location = Location::current()) {
    static_assert(!std::is_base_of_v<M, Derived>,
                  "replace_child: a member of class M would call M's operator(), not the derived "
                  "class's; declare the member as the derived class, or as nn::AnyLayer");
  }

  // What handles to the same parameters share: weft::jit tells modules by what counts it, whose
  // memory no other module gets while somebody remembers it (a std::weak_ptr). Null where the
  // handle was moved from.
  std::shared_ptr<const void> identity() const {
    return state_;
  }
  // Whether both handles lead to the same parameters.
  bool is_same(const Module &other) const {
    return state_ == other.state_;
  }

protected:
  // Registers a child and returns it. Throws Error for a name that is empty, taken, or has a dot.
  template <typename M>
  M child(const std::string &name, M module, Location location = Location::current()) {
    register_child(name, module, location, type_text<M>());
    return module;
  }
  // type: what type_text() gives for the child's class.
  void register_child(const std::string &name, const Module &module, Location location,
                      const char *type = "");
  template <typename M> static const char *type_text() {
    return Location::current().function_name(); // M is in it
  }
  // Registers a tensor, computed now if it was recorded (reason `init`); a parameter requires a
  // gradient. Throws Error as child() does, and for a parameter that is not floating point.
  Parameter parameter(const std::string &name, Tensor value,
                      Location location = Location::current());
  Parameter buffer(const std::string &name, Tensor value, Location location = Location::current());

private:
  struct State;
  explicit Module(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // Fails, in the name of what is called, where the handle was moved from.
  State &held(std::string_view what, Location location) const;
  std::ostream &print(std::ostream &out, const char *type) const;
  void become(std::shared_ptr<State> state) noexcept;
  void register_instead(const Module &old, const Module &by, Location location, const char *type);
  void want_apart(const Module &module, const char *what, const std::string &name,
                  Location location) const;
  NamedTensors named_state(const char *what, Location location) const;
  void load_file(const io::SafeTensors &file, bool strict, Location location);
  friend class CloneScope;
  friend class ModuleScope;
  std::shared_ptr<State> state_;
};

// While one lives, what this thread records is the module's, which must outlive it: the IR,
// profiles and reports of memory name it by its path ("blocks.0.up"). The library's modules open
// one in each call. Those of users need none: what reads a parameter is its module's, and what a
// member function does beside that is found by its class.
class ModuleScope {
public:
  // caller: the line of errors; own: that of the module's function.
  explicit ModuleScope(const Module &module, Location caller = Location::current(),
                       Location own = Location::current());
  ~ModuleScope();
  ModuleScope(const ModuleScope &) = delete;
  ModuleScope &operator=(const ModuleScope &) = delete;

private:
  const void *outer_;
};

// Such a scope, in which calls stand at the line of who called the module (CallerScope).
class ModuleCall {
public:
  ModuleCall(const Module &module, Location caller, Location own = Location::current())
      : module_(module, caller, own), caller_(caller) {}

private:
  ModuleScope module_;
  CallerScope caller_;
};

// While one lives on a thread, copies of Modules and Parameters are copies of their state; the same
// source gives the same copy.
class CloneScope {
public:
  // dtype: what floating-point tensors become. device: where all tensors go.
  explicit CloneScope(std::optional<DType> dtype = {}, std::optional<Device> device = {},
                      Location location = Location::current());
  ~CloneScope();
  CloneScope(const CloneScope &) = delete;
  CloneScope &operator=(const CloneScope &) = delete;

  static bool active();

private:
  friend class Module;
  friend class Parameter;
  struct Map;
  static Tensor copy_of(const Tensor &tensor);
  static std::shared_ptr<Module::State> copy_of(const std::shared_ptr<Module::State> &state);
  std::unique_ptr<Map> map_;
};

// While one lives on a thread, the floating-point parameters and buffers that modules make have
// this dtype, as if nn::to() had converted them: a model is made in it, not made and converted.
class DTypeScope {
public:
  // Throws Error for a dtype that is not floating point.
  explicit DTypeScope(DType dtype, Location location = Location::current());
  ~DTypeScope();
  DTypeScope(const DTypeScope &) = delete;
  DTypeScope &operator=(const DTypeScope &) = delete;

  // That of the innermost one on this thread; nothing outside of all.
  static std::optional<DType> active();

private:
  std::optional<DType> previous_;
};

// A module of its own with the same values, gradients left out. Members of M that are modules,
// Parameters or containers of them are copied; other members as C++ copies them (a plain Tensor or
// a shared_ptr member is shared).
template <typename M> M clone(const M &module, Location location = Location::current()) {
  CloneScope scope({}, {}, location);
  return M(module);
}

// Such a clone with its floating-point parameters and buffers converted: PyTorch's
// module.to(dtype), for tensors, whose dtype never changes. An optimizer takes the parameters of
// the result. Throws Error for a dtype that is not floating point.
template <typename M> M to(const M &module, DType dtype, Location location = Location::current()) {
  CloneScope scope(dtype, {}, location);
  return M(module);
}

// Such a clone with its parameters and buffers on the device. A module that is made in a
// DeviceScope lies there from the start.
template <typename M>
M to(const M &module, Device device, Location location = Location::current()) {
  CloneScope scope({}, device, location);
  return M(module);
}

} // namespace weft::nn
