// A program with the code that it runs.
#pragma once

#include "compiler/link/Artifact.h"
#include "compiler/link/Jit.h"
#include "runtime/executable/forwarding_executable.h"
#include "runtime/executable/program_executable.h"

namespace weft::backends::cpu {

// Keeps the objects, which the disk cache writes out, beside what runs the program.
class CpuExecutable : public runtime::ForwardingExecutable<runtime::ProgramExecutable> {
public:
  // Links the objects and resolves the program's kernels and library entries.
  static absl::StatusOr<std::shared_ptr<CpuExecutable>>
  create(runtime::Program program, std::vector<std::shared_ptr<const std::string>> objects);

  // For many sizes: what depends on them, and what is asked of the backend for each.
  static absl::StatusOr<std::shared_ptr<CpuExecutable>>
  create(runtime::Program largest, runtime::SizeTable sizes,
         std::vector<std::shared_ptr<const std::string>> objects);
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  at_sizes(const runtime::Sizes &sizes) const override;
  bool has_sizes() const {
    return !sizes_.names.empty();
  }

  absl::StatusOr<compiler::Artifact> artifact() const;
  const runtime::Program &program() const {
    return target().program();
  }

private:
  using ForwardingExecutable::ForwardingExecutable;
  static absl::StatusOr<std::shared_ptr<CpuExecutable>>
  create(runtime::Program program, std::vector<std::shared_ptr<const std::string>> objects,
         std::shared_ptr<compiler::JitCode> code,
         const runtime::ProgramExecutable *other_sizes = nullptr);
  std::vector<std::shared_ptr<const std::string>> objects_;
  std::shared_ptr<compiler::JitCode> code_;
  runtime::SizeTable sizes_;
};

} // namespace weft::backends::cpu
