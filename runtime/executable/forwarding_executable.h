// The base of executables that add something to another one: what a derived class does not override
// goes to the other one.
#pragma once

#include <utility>

#include "runtime/executable/executable.h"

namespace weft::runtime {

template <class Target = Executable> class ForwardingExecutable : public Executable {
public:
  explicit ForwardingExecutable(std::shared_ptr<Target> target) : target_(std::move(target)) {}

  std::span<const InputSpec> input_specs() const override {
    return target_->input_specs();
  }
  std::span<const OutputSpec> output_specs() const override {
    return target_->output_specs();
  }
  int64_t arena_bytes() const override {
    return target_->arena_bytes();
  }
  const MemoryReport &memory_report() const override {
    return target_->memory_report();
  }
  bool is_serial() const override {
    return target_->is_serial();
  }
  bool is_serial_with_one_thread() const override {
    return target_->is_serial_with_one_thread();
  }
  int64_t work_bytes() const override {
    return target_->work_bytes();
  }
  absl::StatusOr<std::unique_ptr<RunResources>> acquire(const RunContext &context) override {
    return target_->acquire(context);
  }
  absl::Status prepare(const RunContext &context, RunResources &resources,
                       std::span<Buffer *const> inputs) override {
    return target_->prepare(context, resources, inputs);
  }
  absl::Status run(const RunContext &context, RunResources &resources,
                   std::span<Buffer *const> inputs, std::span<Buffer *const> outputs) override {
    return target_->run(context, resources, inputs, outputs);
  }
  absl::StatusOr<std::shared_ptr<Executable>> at_sizes(const Sizes &sizes) const override {
    return target_->at_sizes(sizes);
  }

protected:
  Target &target() const {
    return *target_;
  }

private:
  std::shared_ptr<Target> target_;
};

} // namespace weft::runtime
