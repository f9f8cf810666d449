#include "runtime/collective/layers.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/abi/read_struct.h"
#include "runtime/core/status.h"
#include "runtime/core/thrown.h"

namespace weft::runtime {
namespace {

struct Entry {
  std::string name;
  weft_collective_layer layer;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> layers;
  std::mutex loading;
  std::set<decltype(&weft_collective_plugin)> called; // under `loading`
};

// Never destroyed: connections may close while the process ends.
Registry &registry() {
  static Registry *registry = new Registry();
  return *registry;
}

absl::Status add(const weft_collective_layer *given) {
  if (!given)
    return absl::InvalidArgumentError("weft_register_collective_layer was given NULL");
  constexpr size_t first_bytes = offsetof(weft_collective_layer, close) + sizeof(void (*)(void *));
  WEFT_ASSIGN_OR_RETURN(auto layer,
                        read_struct(*given, first_bytes, WEFT_COLLECTIVE_ABI_VERSION,
                                    "the collective layer", "runtime/abi/weft_collective.h"));
  if (!layer.name || !*layer.name)
    return absl::InvalidArgumentError("the collective layer has no name");
  auto refused = [&](const char *why) {
    return absl::InvalidArgumentError(
        absl::StrCat("the collective layer '", layer.name, "' ", why));
  };
  if (!layer.connect || !layer.abort || !layer.close)
    return refused("lacks connect, abort or close");
  bool of_devices = layer.enqueue || layer.split || layer.leave;
  if (of_devices ? !layer.enqueue || !layer.split || !layer.leave : !layer.post || !layer.wait)
    return refused(of_devices ? "lacks enqueue, split or leave" : "lacks post or wait");
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto [it, fresh] = registry().layers.try_emplace(layer.name, nullptr);
  if (!fresh)
    return refused("is registered already, by this name");
  it->second = std::make_unique<Entry>(Entry{layer.name, layer});
  it->second->layer.name = it->second->name.c_str();
  return absl::OkStatus();
}

} // namespace

absl::StatusOr<const weft_collective_layer *> find_collective_layer(std::string_view name) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto it = registry().layers.find(name);
  if (it != registry().layers.end())
    return &it->second->layer;
  std::string known;
  for (const auto &[other, entry] : registry().layers)
    absl::StrAppend(&known, known.empty() ? "" : ", ", other);
  return absl::NotFoundError(
      absl::StrCat("no collective layer named '", std::string(name),
                   "' is registered in this process (weft_register_collective_layer); known: ",
                   known.empty() ? "none" : known));
}

absl::Status register_layers_of(const std::string &path, decltype(&weft_collective_plugin) entry) {
  std::lock_guard<std::mutex> lock(registry().loading);
  if (registry().called.contains(entry))
    return absl::OkStatus();
  try {
    if (const char *wrong = entry(weft_register_collective_layer))
      return absl::FailedPreconditionError(absl::StrCat("the plugin ", path, ": ", wrong));
  } catch (...) {
    return absl::FailedPreconditionError(absl::StrCat("the plugin ", path, " ", thrown_text()));
  }
  registry().called.insert(entry);
  return absl::OkStatus();
}

absl::Status load_collective_plugin(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return absl::NotFoundError(
        absl::StrCat("cannot load the plugin ", path, ": ", why ? why : "unknown error"));
  }
  auto entry =
      reinterpret_cast<decltype(&weft_collective_plugin)>(dlsym(library, "weft_collective_plugin"));
  if (!entry) {
    dlclose(library);
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no plugin of collective layers: it exports no "
                           "weft_collective_plugin"));
  }
  // From here on the library stays: it may have registered some of its layers.
  return register_layers_of(path, entry);
}

} // namespace weft::runtime

extern "C" const char *weft_register_collective_layer(const weft_collective_layer *layer) {
  thread_local std::string why;
  absl::Status status = weft::runtime::add(layer);
  why = std::string(status.message());
  return status.ok() ? nullptr : why.c_str();
}
