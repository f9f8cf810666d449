// Registers the devices walled:0 and walled:1, for tests: they run the CPU backend's programs, in
// memory whose addresses no page of the host's stands behind. Whoever takes a buffer's address for
// a pointer, other than through transfers and programs, faults there, in the middle of any test
// that runs with WEFT_DEVICE=walled. Values are those of cpu:0, bit for bit.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "compiler/backend/Backend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "runtime/executable/forwarding_executable.h"
#include "runtime/executor/device.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/system_allocator.h"

namespace weft::tests {
namespace {

using runtime::Buffer;

// The addresses that were given out, and where their bytes really are.
class Walls {
public:
  static Walls &instance() {
    static auto *walls = new Walls;
    return *walls;
  }

  absl::StatusOr<void *> add(int device, void *real, int64_t bytes) {
    void *address =
        mmap(nullptr, pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED)
      return absl::ResourceExhaustedError("no addresses are left");
    std::lock_guard lock(mutex_);
    blocks_[static_cast<char *>(address)] = {device, bytes, static_cast<char *>(real)};
    return address;
  }
  void remove(void *address, int64_t bytes) {
    std::lock_guard lock(mutex_);
    blocks_.erase(static_cast<char *>(address));
    munmap(address, pages(bytes));
  }
  // device: -1 for any.
  void *real(const void *address, int64_t bytes, int device = -1) {
    auto *at = const_cast<char *>(static_cast<const char *>(address));
    std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(at);
    if (after != blocks_.begin())
      if (const auto &[first, block] = *std::prev(after);
          at + bytes <= first + block.bytes && (device == -1 || device == block.device))
        return block.real + (at - first);
    std::fprintf(stderr, "walled: %ld bytes at %p are no memory of %s\n", static_cast<long>(bytes),
                 address,
                 device == -1  ? "any device"
                 : device == 0 ? "walled:0"
                               : "walled:1");
    std::abort();
  }

private:
  static size_t pages(int64_t bytes) {
    return (static_cast<size_t>(bytes) / 4096 + 1) * 4096;
  }
  struct Block {
    int device;
    int64_t bytes;
    char *real;
  };
  std::mutex mutex_;
  std::map<char *, Block> blocks_;
};

class WalledAllocator : public runtime::Allocator {
public:
  explicit WalledAllocator(int device) : device_(device) {}
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    absl::StatusOr<void *> real = memory_.allocate(bytes, alignment);
    if (!real.ok())
      return real;
    absl::StatusOr<void *> address = Walls::instance().add(device_, *real, bytes);
    if (!address.ok())
      memory_.free(*real, bytes);
    return address;
  }
  void free(void *address, int64_t bytes) override {
    if (!address)
      return;
    void *real = Walls::instance().real(address, bytes, device_);
    Walls::instance().remove(address, bytes);
    memory_.free(real, bytes);
  }
  runtime::AllocatorStats stats() const override {
    return memory_.stats();
  }

private:
  int device_;
  runtime::SystemAllocator memory_;
};

runtime::DeviceKind kind() {
  return {.name = "walled",
          .count = 2,
          .late_count = nullptr,
          .allocator =
              [](int number) {
                return std::make_shared<runtime::CachingAllocator>(
                    std::make_shared<WalledAllocator>(number));
              },
          .to_device =
              [](int number, void *device, const void *host, int64_t bytes) {
                std::memcpy(Walls::instance().real(device, bytes, number), host,
                            static_cast<size_t>(bytes));
                return absl::OkStatus();
              },
          .to_host =
              [](int number, void *host, const void *device, int64_t bytes) {
                std::memcpy(host, Walls::instance().real(device, bytes, number),
                            static_cast<size_t>(bytes));
                return absl::OkStatus();
              },
          .threads = 1};
}

// Behind the wall. Arenas and constants are the host's.
class WalledExecutable : public runtime::ForwardingExecutable<> {
public:
  using ForwardingExecutable::ForwardingExecutable;

  absl::StatusOr<std::unique_ptr<runtime::RunResources>>
  acquire(const runtime::RunContext &context) override {
    return target().acquire(inside(context));
  }
  absl::Status prepare(const runtime::RunContext &context, runtime::RunResources &resources,
                       std::span<Buffer *const> inputs) override {
    return target().prepare(inside(context), resources,
                            std::vector<Buffer *>(inputs.size(), nullptr));
  }
  absl::Status run(const runtime::RunContext &context, runtime::RunResources &resources,
                   std::span<Buffer *const> inputs, std::span<Buffer *const> outputs) override {
    std::map<Buffer *, std::shared_ptr<Buffer>> real;
    auto all_real = [&](std::span<Buffer *const> buffers) {
      std::vector<Buffer *> result;
      for (Buffer *buffer : buffers) {
        std::shared_ptr<Buffer> &known = real[buffer];
        if (!known)
          known = Buffer::borrow(Walls::instance().real(buffer->data(), buffer->bytes()),
                                 buffer->bytes(), nullptr);
        result.push_back(known.get());
      }
      return result;
    };
    return target().run(inside(context), resources, all_real(inputs), all_real(outputs));
  }
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  at_sizes(const runtime::Sizes &sizes) const override {
    auto sized = target().at_sizes(sizes);
    if (!sized.ok())
      return sized;
    return std::make_shared<WalledExecutable>(*std::move(sized));
  }

private:
  static runtime::RunContext inside(runtime::RunContext context) {
    context.memory = runtime::cpu_device().memory();
    return context;
  }
};

class WalledBackend : public compiler::Backend {
public:
  llvm::StringRef name() const override {
    return "walled";
  }
  llvm::StringRef device() const override {
    return "walled";
  }
  void registerDialects(mlir::DialectRegistry &registry) const override {
    host().registerDialects(registry);
  }
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  compile(mlir::ModuleOp module, const compiler::CompileOptions &options,
          compiler::CompileReport *report) override {
    auto executable = host().compile(module, options, report);
    if (!executable.ok())
      return executable;
    return std::make_shared<WalledExecutable>(*std::move(executable));
  }
  std::string targetKey(const compiler::CompileOptions &options) const override {
    return host().targetKey(options);
  }
  std::string whyNotCachable(const compiler::CompileOptions &) const override {
    return "a backend of tests";
  }

private:
  static compiler::Backend &host() {
    return **compiler::findBackend("cpu");
  }
};

const bool registered = [] {
  absl::Status status = runtime::register_device_kind(kind());
  if (!status.ok())
    std::fprintf(stderr, "walled: %s\n", std::string(status.message()).c_str());
  return status.ok();
}();
const compiler::BackendRegistration registration("walled",
                                                 [] { return std::make_unique<WalledBackend>(); });

} // namespace
} // namespace weft::tests
