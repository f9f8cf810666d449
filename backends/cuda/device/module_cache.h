// The kernels' code on a GPU: loaded once, however many programs have it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "backends/cuda/device/driver.h"

namespace weft::backends::cuda {

// Of one GPU. Loading translates PTX to the GPU's own code, some milliseconds for each kernel.
class ModuleCache {
public:
  explicit ModuleCache(const Driver &driver) : driver_(driver) {}
  ModuleCache(const ModuleCache &) = delete;
  ModuleCache &operator=(const ModuleCache &) = delete;

  // Stays loaded while somebody holds it, and goes in the GPU's context.
  struct Loaded {
    ModuleCache &cache;
    std::string ptx;
    Module module = nullptr;
    ~Loaded();
  };
  // The module of that text. Called in the GPU's context; Internal, with what the driver says of
  // the code, where it refuses it.
  absl::StatusOr<std::shared_ptr<Loaded>> load(std::string_view ptx);

private:
  Driver driver_;
  std::mutex mutex_;
  // The keys are the texts of what is loaded.
  std::unordered_map<std::string_view, std::weak_ptr<Loaded>> loaded_;
};

} // namespace weft::backends::cuda
