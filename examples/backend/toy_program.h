// A compiled program of the toy backend: values in device memory, and steps that run one after
// another.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dialects/weft/reference/HostTensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/executable/executable.h"
#include "runtime/memory/buffer.h"
#include "toy_device.h"

namespace toy {

// A value, and where it lies: a piece of the arena or of the constants, or a buffer of the
// caller's.
struct Slot {
  enum class Place : uint8_t { kArena, kConstants, kInput, kOutput };
  weft::DType dtype = weft::DType::kFloat32;
  int64_t bytes = 0;
  Place place = Place::kArena;
  int64_t at = 0; // the offset, or the buffer's number
};

struct Program {
  std::vector<weft::runtime::InputSpec> inputs;
  std::vector<weft::runtime::OutputSpec> outputs;
  std::vector<Slot> slots;
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
  using Buffers = std::span<weft::runtime::Buffer *const>;
  Run(const Program &program, Host &host, Address arena, Address constants, Buffers inputs,
      Buffers outputs)
      : program_(program), host_(host), arena_(arena), constants_(constants), inputs_(inputs),
        outputs_(outputs) {}
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
    const auto &[dtype, bytes, place, at] = slot(i);
    switch (place) {
    case Slot::Place::kArena:
      return arena_ + at;
    case Slot::Place::kConstants:
      return constants_ + at;
    case Slot::Place::kInput:
      return address_of(inputs_[at]->data());
    case Slot::Place::kOutput:
      return address_of(outputs_[at]->data());
    }
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
  Buffers inputs_, outputs_;
};

using Step = std::function<absl::Status(const Run &run)>;

// Takes and gives the device's buffers: nothing is copied at the edges.
class ToyExecutable : public weft::runtime::Executable {
public:
  ToyExecutable(Program program, std::vector<Step> steps, std::unique_ptr<Host> host)
      : program_(std::move(program)), steps_(std::move(steps)), host_(std::move(host)) {}

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
  Program program_;
  std::vector<Step> steps_;
  std::unique_ptr<Host> host_;
  std::mutex mutex_;
  std::shared_ptr<weft::runtime::Buffer> constants_; // since the first run
};

} // namespace toy
