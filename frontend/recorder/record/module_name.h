// What the record knows of modules (weft/nn/module.h): how they and their tensors are called.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/recorder/record/interned.h"

namespace weft::recorder {

// Changed under the recorder's lock; whoever makes one, or changes one, counts module_tree up.
struct ModuleName : Interned {
  Ref<const ModuleName> parent; // the module that it is registered in; null for a root
  std::string name;             // its name there; empty for a root
  std::string type;             // its class, "Block"; empty where nobody has said it
  // "blocks.0.up"; empty for a root.
  std::string path() const;
};
inline void unused(const ModuleName &name) {
  delete &name;
}

// Of a parameter or buffer.
struct TensorName : Interned {
  Ref<const ModuleName> module;
  std::string name;
  // "blocks.0.up.weight"
  std::string path() const;
};
inline void unused(const TensorName &name) {
  delete &name;
}

// How often a module was put into another one: a path that was read before may be another one now.
inline constinit uint64_t module_tree = 0;

// The module that this thread is in, as far as it says so (InModule): null outside of all. A
// session reads it from what it keeps for the thread, since each variable of a thread costs a call
// to find.
const ModuleName *thread_module();
// Gives what it was before.
const ModuleName *set_thread_module(const ModuleName *module);

// While one lives, calls on this thread are the module's, which must outlive it.
class InModule : Scope {
public:
  explicit InModule(const ModuleName *module) : outer_(set_thread_module(module)) {}
  ~InModule() {
    set_thread_module(outer_);
  }

private:
  const ModuleName *outer_;
};

// Whether the module is the other one, or somewhere in it.
bool is_inside(const ModuleName *module, const ModuleName *other);

// The class whose member a function is, by what std::source_location calls it, or that a lambda
// inside of such a member is in: "Block" of "Tensor model::Block::operator()(const Tensor &)".
// Empty for other functions.
std::string class_of_function(std::string_view function);
// "Block" of "model::Block<float>".
std::string class_name(std::string_view type);

} // namespace weft::recorder
