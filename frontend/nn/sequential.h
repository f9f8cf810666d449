// Modules and functions, one after another.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <vector>

#include "weft/nn/module.h"

namespace weft::nn {

// A module of any type, or a function, from one tensor to one tensor. A function that takes its
// caller's line as well, as those of ops.h do, gets it.
class AnyLayer {
  template <typename F>
  static constexpr bool kIsLayer = std::is_invocable_r_v<Tensor, F &, const Tensor &> ||
                                   std::is_invocable_r_v<Tensor, F &, const Tensor &, Location>;

public:
  template <typename F>
    requires(!std::same_as<std::remove_cvref_t<F>, AnyLayer> && kIsLayer<const std::decay_t<F>>)
  AnyLayer(F &&layer) : held_(std::make_shared<Held<std::decay_t<F>>>(std::forward<F>(layer))) {}
  // Does not compile: a layer whose operator() is not const.
  template <typename F>
    requires(!std::same_as<std::remove_cvref_t<F>, AnyLayer> && !kIsLayer<const std::decay_t<F>> &&
             kIsLayer<std::decay_t<F>>)
  AnyLayer(F &&) {
    static_assert(kIsLayer<const std::decay_t<F>>,
                  "a layer of nn::Sequential is called as const: declare it `Tensor "
                  "operator()(const Tensor &x) const`, a lambda without `mutable`");
  }
  AnyLayer(const AnyLayer &other)
      : held_(CloneScope::active() && other.held_ ? other.held_->copy() : other.held_) {}
  AnyLayer(AnyLayer &&) noexcept = default;
  AnyLayer &operator=(const AnyLayer &) = default;
  AnyLayer &operator=(AnyLayer &&) noexcept = default;

  // location: the caller's line. A layer that takes one gets it; within others errors say that they
  // were called from there.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    const Module *own = module(location);
    std::optional<ModuleScope> scope;
    if (own)
      scope.emplace(*own);
    return held_->call(x, location);
  }
  // Null for a function.
  const Module *module(Location location = Location::current()) const {
    return held(location).module();
  }
  // A text that ends with the class of the layer, for Module::register_child().
  const char *type(Location location = Location::current()) const {
    return held(location).type();
  }

private:
  struct Base {
    virtual ~Base() = default;
    virtual Tensor call(const Tensor &x, Location location) const = 0;
    virtual const Module *module() const = 0;
    virtual const char *type() const = 0;
    virtual std::shared_ptr<const Base> copy() const = 0;
  };
  template <typename F> struct Held : Base {
    explicit Held(F f) : layer(std::move(f)) {}
    Tensor call(const Tensor &x, Location location) const override {
      if constexpr (std::is_invocable_r_v<Tensor, const F &, const Tensor &, Location>) {
        return layer(x, location);
      } else {
        CalledFrom scope(location);
        return layer(x);
      }
    }
    const Module *module() const override {
      if constexpr (std::derived_from<F, Module>)
        return &layer;
      else
        return nullptr;
    }
    const char *type() const override {
      return Location::current().function_name(); // F is in it
    }
    std::shared_ptr<const Base> copy() const override {
      return std::make_shared<Held>(*this);
    }
    F layer;
  };
  const Base &held(Location location) const {
    return recorder::held(held_, "AnyLayer", "layer", location);
  }
  std::shared_ptr<const Base> held_;
};

// Sequential(Linear(2, 8), weft::tanh, Linear(8, 1)): children are named "0", "1",
// ... by position. A function or a module needs `Tensor operator()(const Tensor &) const`.
class Sequential : public Module {
public:
  Sequential() = default;
  template <typename First, typename... Rest>
    requires(!std::same_as<std::remove_cvref_t<First>, Sequential> || sizeof...(Rest) > 0)
  explicit Sequential(First &&first, Rest &&...rest) {
    append(std::forward<First>(first));
    (append(std::forward<Rest>(rest)), ...);
  }

  void append(AnyLayer layer, Location location = Location::current());
  size_t size() const {
    return layers_.size();
  }
  // In their order, for what runs them one by one.
  const std::vector<AnyLayer> &layers() const {
    return layers_;
  }

  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  std::vector<AnyLayer> layers_;
};

} // namespace weft::nn
