// The vendor libraries that programs for a GPU may call.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/device/cuda_device.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cuda {

// What the libraries are called; empty: as they are installed.
struct LibraryNames {
  std::string cublaslt, cudnn; // as open_cublaslt and open_cudnn take them
};

// The library entries of the process's GPU by name. A library is opened when a program first asks
// for an entry of it; where it is not installed, the entry's init says so.
runtime::LibraryResolver library_resolver(std::shared_ptr<CudaDevice> device,
                                          LibraryNames names = {});

} // namespace weft::backends::cuda
