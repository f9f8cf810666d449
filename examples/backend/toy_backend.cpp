// The backend itself, its device as Weft sees it, and the plugin that registers both:
// WEFT_PLUGINS=./toy.so WEFT_DEVICE=toy program
#include "compiler/backend/Backend.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/plugin/Plugin.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "runtime/memory/counters.h"
#include "toy_compiler.h"

namespace toy {
namespace {

namespace compiler = weft::compiler;

class ToyBackend : public compiler::Backend {
public:
  llvm::StringRef name() const override {
    return "toy";
  }
  // Its executables take and give buffers of these devices.
  llvm::StringRef device() const override {
    return "toy";
  }
  void registerDialects(mlir::DialectRegistry &registry) const override {
    registry.insert<weft::ir::WeftDialect, mlir::func::FuncDialect>();
  }

  absl::StatusOr<std::shared_ptr<weft::runtime::Executable>>
  compile(mlir::ModuleOp module, const compiler::CompileOptions &options,
          compiler::CompileReport *report) override {
    compiler::CompileReport scratch;
    compiler::CompileReport &filled = report ? *report : scratch;
    weft::ir::DiagnosticCollector diagnostics(module.getContext());
    // Weft's own phases, with the passes that users registered around them and the dumps that they
    // asked for. Nobody claims composites here: they become simpler ops, most of which the device
    // has kernels for. Nothing is computed ahead of runs.
    compiler::CompileOptions phases = options;
    phases.prepare = false;
    compiler::Pipeline pipeline(phases, nullptr, &filled);
    if (mlir::failed(pipeline.run(module, compiler::Phase::Import, compiler::Phase::Claim)))
      return absl::InternalError(diagnostics.failure("compilation failed"));
    absl::StatusOr<std::shared_ptr<ToyExecutable>> executable =
        toy::compile(module, options, filled);
    if (!executable.ok())
      return executable.status();
    return std::shared_ptr<weft::runtime::Executable>(*std::move(executable));
  }

  std::string targetKey(const compiler::CompileOptions &) const override {
    return "toy 1.0";
  }
  std::string whyNotCachable(const compiler::CompileOptions &) const override {
    return "the toy backend writes no files";
  }
};

// The device's memory as Weft asks for it.
class Memory : public weft::runtime::Allocator {
public:
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    absl::StatusOr<Address> address = absl::InvalidArgumentError("it aligns to 64 bytes");
    if (alignment <= 64)
      address = Device::instance().allocate(bytes);
    if (!address.ok()) {
      counters_.failed();
      return address.status();
    }
    counters_.allocated(bytes);
    return reinterpret_cast<void *>(*address);
  }
  void free(void *pointer, int64_t bytes) override {
    if (!pointer)
      return;
    counters_.freed(bytes);
    Device::instance().free(address_of(pointer), bytes);
  }
  weft::runtime::AllocatorStats stats() const override {
    return counters_.snapshot();
  }

private:
  weft::runtime::AllocationCounters counters_;
};

weft::runtime::DeviceKind devices() {
  weft::runtime::DeviceKind kind;
  kind.name = "toy";
  kind.count = 1;
  kind.allocator = [](int) {
    return std::make_shared<Memory>();
  };
  kind.to_device = [](int, void *device, const void *host, int64_t bytes) {
    Device::instance().copy_in(address_of(device), host, bytes);
    return absl::OkStatus();
  };
  kind.to_host = [](int, void *host, const void *device, int64_t bytes) {
    Device::instance().copy_out(host, address_of(device), bytes);
    return absl::OkStatus();
  };
  return kind;
}

void registerAll(compiler::PluginRegistrar &registrar) {
  registrar.registerDevices(devices());
  registrar.registerBackend("toy", [] { return std::make_unique<ToyBackend>(); });
}

} // namespace
} // namespace toy

extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {weft::compiler::kPluginApiVersion, "toy", "1.0", toy::registerAll};
}
