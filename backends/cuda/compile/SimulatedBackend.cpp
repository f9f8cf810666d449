// Registers "cuda-simulated" and devices of that kind (WEFT_RECORDING_GPUS=n), for tests: all of
// the backend on a machine without a GPU. Programs run through the device half on the recording
// driver, whose kernels are those that became PTX, run on the host by the simulator, and whose
// matrix products and convolutions stand in for cuBLASLt's and cuDNN's.
//
// Whatever the simulator or the recording driver objects to (results that depend on the order of
// threads, addresses outside of live memory, memory or kernels that go too early) ends the process,
// so that no test passes with it.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "backends/cuda/compile/CudaBackend.h"
#include "backends/cuda/compile/CudaCompile.h"
#include "backends/cuda/compile/Simulator.h"
#include "backends/cuda/device/cuda_libraries.h"
#include "backends/cuda/device/device_kind.h"
#include "backends/cuda/device/recording_driver.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/core/status.h"

namespace weft::backends::cuda {

using namespace mlir;

namespace {

constexpr const char *kLibrary = "backends/cuda/device/libcuda.so.1";

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "cuda-simulated: %s\n", message.c_str());
  std::abort();
}

// Kernels by symbol, which follows from what they compute. Programs from a cache find those that
// this process has compiled.
class Kernels {
public:
  static Kernels &instance() {
    static auto *all = new Kernels;
    return *all;
  }
  absl::Status add(ModuleOp code, const GpuKernel &kernel) {
    std::string error;
    OwningOpRef<ModuleOp> copy = code.clone(); // which the simulator changes
    std::shared_ptr<Simulator> simulator = Simulator::create(*copy, kernel, error);
    if (!simulator)
      return absl::InternalError("the simulator: " + error);
    std::lock_guard lock(mutex_);
    for (const KernelEntry &entry : kernel.entries)
      simulators_[entry.symbol] = simulator;
    return absl::OkStatus();
  }
  void launch(const char *symbol, void **arguments, int count) {
    std::shared_ptr<Simulator> simulator;
    {
      std::lock_guard lock(mutex_);
      auto found = simulators_.find(symbol);
      if (found != simulators_.end())
        simulator = found->second;
    }
    if (!simulator)
      fail(std::string("there is no kernel ") + symbol);
    if (std::string wrong = simulator->launch(symbol, {arguments, static_cast<size_t>(count)});
        !wrong.empty())
      fail(wrong);
  }

private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Simulator>> simulators_;
};

absl::StatusOr<Driver> driver() {
  static auto *made = new absl::StatusOr<Driver>([]() -> absl::StatusOr<Driver> {
    WEFT_ASSIGN_OR_RETURN(Driver driver, open_driver(kLibrary));
    void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    auto run = reinterpret_cast<weft_recording_run_t>(dlsym(library, "weft_recording_run"));
    static auto errors =
        reinterpret_cast<weft_recording_errors_t>(dlsym(library, "weft_recording_errors"));
    run([](const char *symbol, void **arguments, int count) {
      Kernels::instance().launch(symbol, arguments, count);
    });
    std::atexit([] {
      if (*errors() != '\0')
        fail(errors());
    });
    return driver;
  }());
  return *made;
}

absl::StatusOr<std::shared_ptr<CudaDevice>> device(int number) {
  static std::mutex mutex;
  static auto *devices = new std::map<int, std::shared_ptr<CudaDevice>>;
  std::lock_guard lock(mutex);
  std::shared_ptr<CudaDevice> &known = (*devices)[number];
  if (known)
    return known;
  WEFT_ASSIGN_OR_RETURN(Driver found, driver());
  absl::StatusOr<std::shared_ptr<CudaDevice>> made = CudaDevice::create(found, number);
  if (made.ok())
    known = *made;
  return made;
}

compiler::KernelMaker kernels(StringRef architecture) {
  auto add = [](ModuleOp code, const GpuKernel &kernel) {
    return Kernels::instance().add(code, kernel);
  };
  return kernelMaker(architecture, ("cuda-simulated " + architecture).str(), add);
}

compiler::BackendRegistration registration("cuda-simulated", [] {
  auto libraries = [](std::shared_ptr<CudaDevice> device) {
    return library_resolver(std::move(device), {.cublaslt = kLibrary, .cudnn = kLibrary});
  };
  return std::make_unique<CudaBackend>(
      CudaBackend::Parts{"cuda-simulated", device, kernels, libraries});
});
[[maybe_unused]] const absl::Status devices =
    runtime::register_device_kind(device_kind("cuda-simulated", driver, device));

} // namespace
} // namespace weft::backends::cuda
