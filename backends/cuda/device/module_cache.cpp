#include "backends/cuda/device/module_cache.h"

#include "absl/strings/str_cat.h"

namespace weft::backends::cuda {

// Of cuda.h: CUjit_option.
constexpr int kErrorLog = 5, kErrorLogBytes = 6;

ModuleCache::Loaded::~Loaded() {
  if (module == nullptr)
    return;
  {
    std::lock_guard lock(cache.mutex_);
    // Another thread may have loaded the text again since the last one let go of this one.
    if (auto found = cache.loaded_.find(ptx);
        found != cache.loaded_.end() && found->first.data() == ptx.data())
      cache.loaded_.erase(found);
  }
  (void)cache.driver_.module_unload(module);
}

absl::StatusOr<std::shared_ptr<ModuleCache::Loaded>> ModuleCache::load(std::string_view ptx) {
  {
    std::lock_guard lock(mutex_);
    if (auto found = loaded_.find(ptx); found != loaded_.end())
      if (std::shared_ptr<Loaded> there = found->second.lock())
        return there;
  }
  auto made = std::make_shared<Loaded>(*this, std::string(ptx));
  char log[4096] = "";
  int options[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  absl::Status status =
      driver_.check(driver_.module_load(&made->module, made->ptx.c_str(), 2, options, values),
                    "loading kernels");
  if (!status.ok()) {
    made->module = nullptr;
    return log[0] ? absl::Status(status.code(), absl::StrCat(status.message(), ": ", log)) : status;
  }
  std::lock_guard lock(mutex_);
  // In place of one that goes at this moment, whose text the key would be.
  loaded_.erase(made->ptx);
  loaded_.emplace(made->ptx, made);
  return made;
}

} // namespace weft::backends::cuda
