#include "backends/cpu/compile/CpuExecutable.h"

#include "backends/cpu/compile/Libraries.h"
#include "compiler/link/Jit.h"
#include "runtime/core/status.h"
#include "runtime/executor/device.h"

namespace weft::backends::cpu {

absl::StatusOr<std::shared_ptr<CpuExecutable>>
CpuExecutable::create(runtime::Program program,
                      std::vector<std::shared_ptr<const std::string>> objects) {
  std::vector<std::string> symbols = program.symbols;
  for (const runtime::Program &prepare : program.prepare)
    symbols.insert(symbols.end(), prepare.symbols.begin(), prepare.symbols.end());
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<compiler::JitCode> code,
                        compiler::JitCode::link(objects, symbols));
  return create(std::move(program), std::move(objects), std::move(code));
}

absl::StatusOr<std::shared_ptr<CpuExecutable>> CpuExecutable::create(
    runtime::Program program, std::vector<std::shared_ptr<const std::string>> objects,
    std::shared_ptr<compiler::JitCode> code, const runtime::ProgramExecutable *other_sizes) {
  auto kernels = [code = code.get()](std::string_view symbol) {
    return reinterpret_cast<weft_kernel>(
        code->lookup(llvm::StringRef(symbol.data(), symbol.size())));
  };
  WEFT_ASSIGN_OR_RETURN(auto executable, runtime::ProgramExecutable::create(
                                             std::move(program), kernels, libraryResolver(),
                                             runtime::cpu_device().memory(), code, other_sizes));
  std::shared_ptr<CpuExecutable> result(new CpuExecutable(std::move(executable)));
  result->objects_ = std::move(objects);
  result->code_ = std::move(code);
  return result;
}

absl::StatusOr<std::shared_ptr<CpuExecutable>>
CpuExecutable::create(runtime::Program largest, runtime::SizeTable sizes,
                      std::vector<std::shared_ptr<const std::string>> objects) {
  auto executable = create(std::move(largest), std::move(objects));
  if (executable.ok())
    (*executable)->sizes_ = std::move(sizes);
  return executable;
}

absl::StatusOr<std::shared_ptr<runtime::Executable>>
CpuExecutable::at_sizes(const runtime::Sizes &sizes) const {
  // Without a table of sizes nothing is left that depends on them, as where rows that vary in
  // number go from one tensor to another in one kernel: the program is that of all sizes.
  runtime::Program largest = target().program();
  std::span<const std::byte> constants = target().constants();
  largest.constants.assign(constants.begin(), constants.end());
  WEFT_ASSIGN_OR_RETURN(runtime::Program sized, runtime::at_sizes(largest, sizes_, sizes));
  WEFT_ASSIGN_OR_RETURN(auto executable, create(std::move(sized), objects_, code_, &target()));
  return std::shared_ptr<runtime::Executable>(std::move(executable));
}

absl::StatusOr<compiler::Artifact> CpuExecutable::artifact() const {
  WEFT_ASSIGN_OR_RETURN(std::string program, target().serialize());
  return compiler::Artifact{std::move(program),
                            has_sizes() ? runtime::serialize(sizes_) : std::string(), objects_};
}

} // namespace weft::backends::cpu
