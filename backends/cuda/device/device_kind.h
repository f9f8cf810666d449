// The GPUs as devices of the process.
#pragma once

#include "backends/cuda/device/cuda_device.h"
#include "runtime/executor/device.h"

namespace weft::backends::cuda {

// The kind of devices under that name: as many as the driver has when they are asked for, in memory
// that `device` opens. A driver that is not there has none.
runtime::DeviceKind
device_kind(std::string name, std::function<absl::StatusOr<Driver>()> driver,
            std::function<absl::StatusOr<std::shared_ptr<CudaDevice>>(int number)> device);

} // namespace weft::backends::cuda
