#include "backends/cuda/device/cuda_device.h"

#include <limits>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/counters.h"
#include "runtime/memory/prepared_store.h"

namespace weft::backends::cuda {
namespace {

// Of cuda.h: CUdevice_attribute and CUstream_flags.
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;
constexpr unsigned kNonBlocking = 1;

// All that was freed is kept until memory is missing: the driver waits for the whole GPU before it
// takes a block back. Graphs of launches are found again where a loop's blocks are the same. More
// than any GPU has, and little enough that the bounds of all GPUs can be added up.
constexpr int64_t kMostCachedBytes = int64_t{1} << 50;

// cuMemAlloc's blocks are aligned to 256 bytes.
class DeviceAllocator : public runtime::Allocator {
public:
  DeviceAllocator(const Driver &driver, Context context) : driver_(driver), context_(context) {}

  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    constexpr int64_t kAlignment = 256;
    if (alignment > kAlignment)
      return absl::InvalidArgumentError(absl::StrCat("memory on the GPU is aligned to ", kAlignment,
                                                     " bytes, not to ", alignment));
    DevicePointer pointer = 0;
    absl::Status status =
        driver_.check(driver_.context_set_current(context_), "entering the GPU's context");
    // There is no block of 0 bytes.
    if (status.ok())
      status = driver_.check(
          driver_.memory_allocate(&pointer, static_cast<size_t>(bytes > 0 ? bytes : 1)),
          "allocating memory on the GPU");
    if (!status.ok()) {
      counters_.failed();
      return status;
    }
    counters_.allocated(bytes);
    return reinterpret_cast<void *>(pointer);
  }
  void free(void *pointer, int64_t bytes) override {
    if (pointer == nullptr)
      return;
    // A failure here was one of an earlier launch, which has been reported.
    (void)driver_.context_set_current(context_);
    (void)driver_.memory_free(reinterpret_cast<DevicePointer>(pointer));
    counters_.freed(bytes);
  }
  runtime::AllocatorStats stats() const override {
    return counters_.snapshot();
  }

private:
  Driver driver_;
  Context context_;
  runtime::AllocationCounters counters_;
};

} // namespace

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::create(const Driver &driver, int number) {
  std::shared_ptr<CudaDevice> device(new CudaDevice());
  device->driver_ = driver;
  device->modules_ = std::make_unique<ModuleCache>(driver);
  device->number_ = number;
  if (absl::Status status = driver.check(driver.init(0), "starting the driver"); !status.ok())
    return absl::FailedPreconditionError(
        absl::StrCat(status.message(), "; is there a GPU, and does its kernel module run?"));
  int count = 0, ordinal = 0, major = 0, minor = 0;
  absl::Status status = driver.check(driver.device_get_count(&count), "counting GPUs");
  if (status.ok() && count <= number)
    status = absl::FailedPreconditionError(
        absl::StrCat("NVIDIA's driver sees ", count == 0 ? "no GPU" : absl::StrCat(count, " GPUs"),
                     "; CUDA_VISIBLE_DEVICES may hide one"));
  if (status.ok())
    status =
        driver.check(driver.device_get(&ordinal, number), absl::StrCat("opening GPU ", number));
  if (status.ok())
    status = driver.check(driver.device_get_attribute(&major, kCapabilityMajor, ordinal),
                          "asking for the GPU's generation");
  if (status.ok())
    status = driver.check(driver.device_get_attribute(&minor, kCapabilityMinor, ordinal),
                          "asking for the GPU's generation");
  if (status.ok())
    status =
        driver.check(driver.primary_context_retain(&device->context_, ordinal), "making a context");
  if (status.ok())
    status = device->enter();
  if (status.ok())
    status = driver.check(driver.stream_create(&device->stream_, kNonBlocking), "making a stream");
  if (status.ok())
    status = driver.check(driver.stream_create(&device->copies_, kNonBlocking), "making a stream");
  if (!status.ok())
    return status;
  device->capability_ = 10 * major + minor;
  auto allocator = std::make_shared<DeviceAllocator>(driver, device->context_);
  device->allocator_ = std::make_shared<runtime::CachingAllocator>(
      std::move(allocator),
      runtime::CachingAllocatorOptions{.max_cached_bytes = kMostCachedBytes,
                                       .lowest_address_first = true});
  device->memory_ = runtime::Memory::create(device->allocator_);
  return device;
}

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::get(int number) {
  static std::mutex mutex;
  // Never destroyed: buffers of static storage may outlive any order of destruction, and the driver
  // goes with the process.
  static auto *devices = new std::map<int, std::shared_ptr<CudaDevice>>();
  std::lock_guard lock(mutex);
  if (auto known = devices->find(number); known != devices->end())
    return known->second;
  WEFT_ASSIGN_OR_RETURN(Driver driver, open_driver());
  absl::StatusOr<std::shared_ptr<CudaDevice>> made = create(driver, number);
  if (made.ok())
    (*devices)[number] = *made;
  return made;
}

absl::Status CudaDevice::enter() const {
  return driver_.check(driver_.context_set_current(context_), "entering the GPU's context");
}

void CudaDevice::trim() const {
  runtime::PreparedStore::instance().release(*memory_, std::numeric_limits<int64_t>::max());
  allocator_->trim();
}

absl::Status CudaDevice::synchronize() const {
  return driver_.check(driver_.stream_synchronize(stream_),
                       "waiting for the GPU (a kernel or a copy failed)");
}

absl::Status CudaDevice::write(void *device, const void *host, int64_t bytes) const {
  absl::Status status = enter();
  if (status.ok())
    status = driver_.check(driver_.copy_to_device(reinterpret_cast<DevicePointer>(device), host,
                                                  static_cast<size_t>(bytes), copies_),
                           "copying to the GPU");
  if (status.ok())
    status = driver_.check(driver_.stream_synchronize(copies_), "copying to the GPU");
  return status;
}

absl::Status CudaDevice::read(void *host, const void *device, int64_t bytes) const {
  absl::Status status = enter();
  if (status.ok())
    status = driver_.check(driver_.copy_to_host(host, reinterpret_cast<DevicePointer>(device),
                                                static_cast<size_t>(bytes), copies_),
                           "copying from the GPU");
  if (status.ok())
    status = driver_.check(driver_.stream_synchronize(copies_), "copying from the GPU");
  return status;
}

} // namespace weft::backends::cuda
