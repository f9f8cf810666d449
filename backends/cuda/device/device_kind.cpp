#include "backends/cuda/device/device_kind.h"

namespace weft::backends::cuda {
namespace {

// Where a GPU of the driver's does not open, which is told to who wants memory on it.
class NoMemory : public runtime::Allocator {
public:
  explicit NoMemory(absl::Status why) : why_(std::move(why)) {}
  absl::StatusOr<void *> allocate(int64_t, int64_t) override {
    return why_;
  }
  void free(void *, int64_t) override {}
  runtime::AllocatorStats stats() const override {
    return {};
  }

private:
  absl::Status why_;
};

} // namespace

runtime::DeviceKind
device_kind(std::string name, std::function<absl::StatusOr<Driver>()> driver,
            std::function<absl::StatusOr<std::shared_ptr<CudaDevice>>(int number)> device) {
  runtime::DeviceKind kind;
  kind.name = std::move(name);
  kind.late_count = [driver = std::move(driver)] {
    absl::StatusOr<Driver> found = driver();
    int count = 0;
    bool there = found.ok() && found->init(0) == 0 && found->device_get_count(&count) == 0;
    return there ? count : 0;
  };
  kind.allocator = [device](int number) -> std::shared_ptr<runtime::Allocator> {
    auto opened = device(number);
    if (!opened.ok())
      return std::make_shared<NoMemory>(opened.status());
    return (*opened)->allocator();
  };
  kind.to_device = [device](int number, void *to, const void *host, int64_t bytes) {
    auto opened = device(number);
    return opened.ok() ? (*opened)->write(to, host, bytes) : opened.status();
  };
  kind.to_host = [device](int number, void *host, const void *from, int64_t bytes) {
    auto opened = device(number);
    return opened.ok() ? (*opened)->read(host, from, bytes) : opened.status();
  };
  return kind;
}

} // namespace weft::backends::cuda
