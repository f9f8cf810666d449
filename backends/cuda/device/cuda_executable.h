// Runs a Program on a GPU: its instruction table is put on one stream. What lies on the host is
// copied at the edges.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/device/cuda_code.h"
#include "backends/cuda/device/cuda_device.h"
#include "backends/cuda/device/launch_graphs.h"
#include "runtime/executable/executable.h"
#include "runtime/executable/library_call.h"
#include "runtime/executable/profile_labels.h"
#include "runtime/executable/size_table.h"
#include "runtime/memory/prepared_store.h"

namespace weft::backends::cuda {

class CudaExecutable : public runtime::Executable,
                       public std::enable_shared_from_this<CudaExecutable> {
public:
  // Loads the modules into the GPU and copies the constants there; they have the kernels of what
  // the program prepares, too. InvalidArgument for a program that does not validate, or whose
  // operands kernels cannot read (their vectors take aligned buffers), NotFound for a kernel or a
  // library entry that is not there, FailedPrecondition for a GPU that is older than the code,
  // Internal for code that the driver refuses, ResourceExhausted for memory. With names in `sizes`
  // the program is that of the largest sizes.
  static absl::StatusOr<std::shared_ptr<CudaExecutable>> create(runtime::Program program,
                                                                std::vector<KernelModule> modules,
                                                                std::shared_ptr<CudaDevice> device,
                                                                runtime::LibraryResolver libraries,
                                                                runtime::SizeTable sizes = {});
  ~CudaExecutable() override;

  // Whose buffers a run is given, by its context's memory; without it they are the host's.
  struct Devices {
    // The GPU's number: its buffers are taken as they are. -1 for the host's.
    std::function<int(const runtime::Memory &memory)> number_of;
    // The same executable on a GPU of another number, made at the first run there.
    std::function<absl::StatusOr<std::shared_ptr<CudaExecutable>>(const CudaExecutable &first,
                                                                  int number)>
        make;
  };
  void serve(Devices devices);

  std::span<const runtime::InputSpec> input_specs() const override {
    return program_.inputs;
  }
  std::span<const runtime::OutputSpec> output_specs() const override {
    return program_.outputs;
  }
  // On the GPU.
  int64_t arena_bytes() const override {
    return program_.arena_bytes;
  }
  const runtime::MemoryReport &memory_report() const override {
    return program_.memory;
  }
  bool is_serial() const override {
    return false;
  } // the stream's mutex lets one run use it at a time
  // Takes the GPU's memory for the arena and the copies of inputs and outputs: context.memory where
  // that is the GPU's.
  absl::StatusOr<std::unique_ptr<runtime::RunResources>>
  acquire(const runtime::RunContext &context) override;
  // What is prepared lies in the GPU's memory; the run computes it on its stream, and waits.
  absl::Status prepare(const runtime::RunContext &context, runtime::RunResources &resources,
                       std::span<runtime::Buffer *const> inputs) override;
  absl::Status run(const runtime::RunContext &context, runtime::RunResources &resources,
                   std::span<runtime::Buffer *const> inputs,
                   std::span<runtime::Buffer *const> outputs) override;

  // Has the code, the constants and the prepared values of this one, and library calls and graphs
  // of its own.
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  at_sizes(const runtime::Sizes &sizes) const override;

  const runtime::SizeTable &sizes() const {
    return sizes_;
  }
  const runtime::Program &program() const {
    return program_;
  }
  const std::vector<KernelModule> &modules() const {
    return *modules_;
  }
  // Of library calls that compute in another way than their entries would rather: "train.cpp:12:
  // cudnn.convolution: bias-ahead: ...".
  std::vector<std::string> detours() const;

private:
  struct Kernel {
    Function function = nullptr;
    unsigned blocks = 0, threads = 1;
    int64_t per_block = kOneSize;
  };
  struct Resources;
  // Instructions that nothing is waited for between.
  struct Part {
    size_t first = 0, end = 0;
    LaunchGraphs graphs;
  };

  // What Program::prepare makes of stable inputs and constants: one block, each value at its
  // offset.
  struct Prepare {
    std::shared_ptr<CudaExecutable> executable; // null where nothing is prepared
    std::vector<int64_t> offsets;
    int64_t bytes = 0;
    std::string recipe;
  };

  CudaExecutable() = default;
  // The program at other sizes, which takes what does not depend on them from `largest`.
  static absl::StatusOr<std::shared_ptr<CudaExecutable>>
  create(runtime::Program program, std::shared_ptr<CudaExecutable> largest);
  static absl::StatusOr<std::shared_ptr<CudaExecutable>>
  finish(std::shared_ptr<CudaExecutable> executable, runtime::Program program);
  // Kernels and constants.
  absl::Status load_modules();
  absl::Status build_prepare();
  // copies: of inputs and outputs as well.
  absl::StatusOr<std::unique_ptr<Resources>> take(runtime::Memory &memory, bool copies);
  absl::Status compute_prepared(Resources &resources);
  // All instructions, on the stream. Waits where indices are looked at.
  absl::Status compute(Resources &resources);
  // Whatever was put on the stream uses a run's buffers until the device has come to its end.
  absl::Status settle(absl::Status status) const;
  absl::StatusOr<CudaExecutable *> executable_on(int number);
  absl::Status load();
  absl::Status check_launch(const runtime::Launch &launch) const;
  absl::Status upload(std::span<const std::byte> bytes, const char *purpose,
                      std::shared_ptr<runtime::Buffer> &buffer);
  DevicePointer address(const Resources &resources, int32_t buffer) const;
  absl::Status launch(const Kernel &kernel, int64_t count,
                      std::vector<DevicePointer> &pointers) const;
  absl::Status execute(Resources &resources, size_t instruction) const;
  // Puts the instructions of a part on the stream, in graphs of launches where they are many.
  absl::Status enqueue(Resources &resources, Part &part);
  absl::Status fill(DevicePointer target, const runtime::Fill &fill) const;
  // Runs an instruction for a profile: to its end, so that its time is known.
  absl::Status execute_profiled(Resources &resources, size_t instruction);
  const runtime::ProfileLabels &profile_labels();
  absl::Status bad_index(const runtime::Launch &launch, const Resources &resources) const;
  absl::Status at(int32_t location, const absl::Status &status) const;

  runtime::Program program_;
  runtime::SizeTable sizes_;
  std::shared_ptr<CudaExecutable> largest_; // that this one is of other sizes of; null for none
  std::shared_ptr<const std::vector<KernelModule>> modules_;
  std::shared_ptr<CudaDevice> device_;
  runtime::LibraryResolver libraries_;
  Devices devices_;
  std::mutex others_mutex_;
  std::map<int, std::shared_ptr<CudaExecutable>> others_;
  std::vector<std::shared_ptr<ModuleCache::Loaded>> loaded_;
  std::vector<Kernel> kernels_; // by number of the symbol
  // Inputs that are to hold what they held when an index was out of range are written after the
  // last check of one (compiler/plan), which is waited for: instructions before that, and after it.
  std::vector<Part> parts_;
  bool has_checks() const {
    return parts_.size() > 1;
  }
  std::shared_ptr<runtime::Buffer> constants_, state_;
  Prepare prepare_;
  std::mutex last_values_mutex_;
  std::shared_ptr<runtime::Prepared> last_values_;
  std::vector<std::unique_ptr<runtime::LibraryCallState>> library_calls_; // by instruction
  std::vector<double> library_operations_;                                // by library call
  std::vector<std::string> library_detours_;                              // likewise
  std::once_flag labels_made_;
  runtime::ProfileLabels labels_;
  int64_t library_scratch_ = 0;
};

} // namespace weft::backends::cuda
