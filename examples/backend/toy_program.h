// A compiled program of the toy backend: values in device memory, and steps that run one after
// another.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dialects/weft/ir/HostTensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/executable/executable.h"
#include "toy_device.h"

namespace toy {

// A value: a piece of the arena, or of the constants.
struct Slot {
  weft::DType dtype = weft::DType::kFloat32;
  std::vector<int64_t> dims;
  int64_t bytes = 0, offset = 0;
  bool constant = false;
};

struct Program {
  std::vector<weft::runtime::InputSpec> inputs;
  std::vector<weft::runtime::OutputSpec> outputs;
  std::vector<Slot> slots;
  std::vector<int32_t> input_slots, output_slots;
  std::vector<std::byte> constants;
  int64_t arena_bytes = 0;
};

// What the ops that the device has no kernels for run in: each is a function of its own, evaluated
// on the host by Weft's reference rules.
class Host {
public:
  Host();
  // Reads the functions from a module, which may go afterwards.
  absl::Status load(mlir::ModuleOp module);
  // Runs the function of that name; the message of an error has the op's location.
  absl::Status run(llvm::StringRef function, std::vector<weft::ir::HostTensor> arguments,
                   llvm::SmallVectorImpl<weft::ir::HostTensor> &results);

private:
  std::mutex mutex_; // of the context and its diagnostics
  std::unique_ptr<mlir::MLIRContext> context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::string diagnostics_;
};

// One run: where its values are.
class Run {
public:
  Run(const Program &program, Host &host, Address arena, Address constants)
      : program_(program), host_(host), arena_(arena), constants_(constants) {}
  Device &device() const {
    return Device::instance();
  }
  Host &host() const {
    return host_;
  }
  const Slot &slot(int32_t i) const {
    return program_.slots[i];
  }
  Address address(int32_t i) const {
    return (slot(i).constant ? constants_ : arena_) + slot(i).offset;
  }
  std::vector<Address> addresses(const std::vector<int32_t> &slots) const {
    std::vector<Address> all;
    for (int32_t slot : slots)
      all.push_back(address(slot));
    return all;
  }

private:
  const Program &program_;
  Host &host_;
  Address arena_, constants_;
};

using Step = std::function<absl::Status(const Run &run)>;

// Takes and gives buffers of the host, which are copied at the edges.
class ToyExecutable : public weft::runtime::Executable {
public:
  static absl::StatusOr<std::shared_ptr<ToyExecutable>>
  create(Program program, std::vector<Step> steps, std::unique_ptr<Host> host);

  std::span<const weft::runtime::InputSpec> input_specs() const override {
    return program_.inputs;
  }
  std::span<const weft::runtime::OutputSpec> output_specs() const override {
    return program_.outputs;
  }
  int64_t arena_bytes() const override {
    return program_.arena_bytes;
  }
  bool is_serial() const override {
    return true;
  }
  absl::StatusOr<std::unique_ptr<weft::runtime::RunResources>>
  acquire(const weft::runtime::RunContext &context) override;
  absl::Status run(const weft::runtime::RunContext &context, weft::runtime::RunResources &resources,
                   std::span<weft::runtime::Buffer *const> inputs,
                   std::span<weft::runtime::Buffer *const> outputs) override;

private:
  ToyExecutable(Program program, std::vector<Step> steps, std::unique_ptr<Host> host,
                DeviceBuffer constants)
      : program_(std::move(program)), steps_(std::move(steps)), host_(std::move(host)),
        constants_(std::move(constants)) {}
  Program program_;
  std::vector<Step> steps_;
  std::unique_ptr<Host> host_;
  DeviceBuffer constants_;
};

} // namespace toy
