// What a run of a program takes on a GPU.
#pragma once

#include "backends/cuda/device/cuda_executable.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"

namespace weft::backends::cuda {

inline constexpr int64_t kBlockAlignment = 256;

inline int64_t align(int64_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

// One block on the GPU: failure notes (an int32 for each instruction), the arena, library scratch,
// copies of inputs and outputs. Another one holds what is prepared.
struct CudaExecutable::Resources : runtime::RunResources {
  CudaExecutable *executable = nullptr; // that took them
  runtime::Memory *memory = nullptr;    // on the GPU
  bool copies = true;                   // inputs and outputs are the host's
  std::shared_ptr<runtime::Buffer> block;
  DevicePointer notes = 0, arena = 0, scratch = 0;
  std::vector<DevicePointer> inputs, outputs;
  // The results of Program::prepare; without `values`, of this run alone.
  std::shared_ptr<runtime::Prepared> values;
  std::shared_ptr<runtime::Buffer> values_block;
  std::unique_ptr<Resources> preparing; // of the program that computes them, where it is to run
  DevicePointer values_base() const {
    return values_block ? reinterpret_cast<DevicePointer>(values_block->data()) : 0;
  }
};

} // namespace weft::backends::cuda
