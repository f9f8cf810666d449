// A program with the code that it runs.
#pragma once

#include "compiler/link/Artifact.h"
#include "compiler/link/Jit.h"
#include "runtime/executable/program_executable.h"

namespace weft::backends::cpu {

// Forwards to the program's own executable; keeps the objects, which the disk cache writes out.
class CpuExecutable : public runtime::Executable {
public:
  // Links the objects and resolves the program's kernels and library entries.
  static absl::StatusOr<std::shared_ptr<CpuExecutable>> create(runtime::Program program,
                                                               std::vector<std::shared_ptr<const std::string>> objects);

  // For many sizes: what depends on them, and what is asked of the backend for each.
  static absl::StatusOr<std::shared_ptr<CpuExecutable>> create(runtime::Program largest, runtime::SizeTable sizes,
                                                               std::vector<std::shared_ptr<const std::string>> objects);
  absl::StatusOr<std::shared_ptr<runtime::Executable>> at_sizes(const runtime::Sizes &sizes) const override;
  bool has_sizes() const { return !sizes_.names.empty(); }

  absl::StatusOr<compiler::Artifact> artifact() const;
  const runtime::Program &program() const { return executable_->program(); }

  std::span<const runtime::InputSpec> input_specs() const override { return executable_->input_specs(); }
  std::span<const runtime::OutputSpec> output_specs() const override { return executable_->output_specs(); }
  int64_t arena_bytes() const override { return executable_->arena_bytes(); }
  bool is_serial() const override { return executable_->is_serial(); }
  int64_t work_bytes() const override { return executable_->work_bytes(); }
  absl::StatusOr<std::unique_ptr<runtime::RunResources>> acquire(const runtime::RunContext &context) override {
    return executable_->acquire(context);
  }
  absl::Status prepare(const runtime::RunContext &context, runtime::RunResources &resources,
                       std::span<runtime::Buffer *const> inputs) override {
    return executable_->prepare(context, resources, inputs);
  }
  absl::Status run(const runtime::RunContext &context, runtime::RunResources &resources, std::span<runtime::Buffer *const> inputs,
                   std::span<runtime::Buffer *const> outputs) override {
    return executable_->run(context, resources, inputs, outputs);
  }

private:
  CpuExecutable() = default;
  static absl::StatusOr<std::shared_ptr<CpuExecutable>>
  create(runtime::Program program, std::vector<std::shared_ptr<const std::string>> objects, std::shared_ptr<compiler::JitCode> code);
  std::shared_ptr<runtime::ProgramExecutable> executable_;
  std::vector<std::shared_ptr<const std::string>> objects_;
  std::shared_ptr<compiler::JitCode> code_;
  runtime::SizeTable sizes_;
};

} // namespace weft::backends::cpu
