#include "toy_program.h"

#include "dialects/weft/ir/Weft.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Parser/Parser.h"
#include "runtime/memory/buffer.h"
#include "llvm/Support/raw_ostream.h"

namespace toy {

using weft::ir::HostTensor;

//===-- Host ----------------------------------------------------------------------------------===//

Host::Host() {
  mlir::DialectRegistry registry;
  registry.insert<weft::ir::WeftDialect, mlir::func::FuncDialect>();
  context_ = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  context_->loadAllAvailableDialects();
  context_->getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream stream(diagnostics_);
    if (!diagnostics_.empty())
      stream << "; ";
    if (auto line = mlir::dyn_cast<mlir::FileLineColLoc>(diagnostic.getLocation()))
      stream << line.getFilename().getValue() << ":" << line.getLine() << ": ";
    stream << diagnostic.str();
    return mlir::success();
  });
}

absl::Status Host::load(mlir::ModuleOp module) {
  std::string bytecode;
  llvm::raw_string_ostream stream(bytecode);
  if (mlir::failed(mlir::writeBytecodeToFile(module, stream)))
    return absl::InternalError("the ops of the host cannot be written");
  module_ = mlir::parseSourceString<mlir::ModuleOp>(bytecode, mlir::ParserConfig(context_.get()));
  if (!module_)
    return absl::InternalError("the ops of the host cannot be read: " + diagnostics_);
  return absl::OkStatus();
}

absl::Status Host::run(llvm::StringRef function, std::vector<HostTensor> arguments,
                       llvm::SmallVectorImpl<HostTensor> &results) {
  std::lock_guard lock(mutex_);
  diagnostics_.clear();
  auto found = module_->lookupSymbol<mlir::func::FuncOp>(function);
  if (mlir::failed(weft::ir::evaluateBlock(found.getBody().front(), arguments, results)))
    return absl::InternalError(diagnostics_);
  return absl::OkStatus();
}

//===-- ToyExecutable -------------------------------------------------------------------------===//

namespace {
struct Arena : weft::runtime::RunResources {
  explicit Arena(DeviceBuffer memory) : memory(std::move(memory)) {}
  DeviceBuffer memory;
};
} // namespace

absl::StatusOr<std::shared_ptr<ToyExecutable>>
ToyExecutable::create(Program program, std::vector<Step> steps, std::unique_ptr<Host> host) {
  absl::StatusOr<DeviceBuffer> constants =
      DeviceBuffer::allocate(static_cast<int64_t>(program.constants.size()));
  if (!constants.ok())
    return constants.status();
  Device::instance().copy_in(constants->address(), program.constants.data(),
                             static_cast<int64_t>(program.constants.size()));
  program.constants.clear();
  return std::shared_ptr<ToyExecutable>(new ToyExecutable(std::move(program), std::move(steps),
                                                          std::move(host), *std::move(constants)));
}

absl::StatusOr<std::unique_ptr<weft::runtime::RunResources>>
ToyExecutable::acquire(const weft::runtime::RunContext &) {
  absl::StatusOr<DeviceBuffer> arena = DeviceBuffer::allocate(program_.arena_bytes);
  if (!arena.ok())
    return arena.status();
  return std::make_unique<Arena>(*std::move(arena));
}

absl::Status ToyExecutable::run(const weft::runtime::RunContext &,
                                weft::runtime::RunResources &resources,
                                std::span<weft::runtime::Buffer *const> inputs,
                                std::span<weft::runtime::Buffer *const> outputs) {
  if (absl::Status status = weft::runtime::check_bindings(*this, inputs, outputs); !status.ok())
    return status;
  Run run(program_, *host_, static_cast<Arena &>(resources).memory.address(), constants_.address());
  for (size_t i = 0; i < inputs.size(); ++i)
    run.device().copy_in(run.address(program_.input_slots[i]), inputs[i]->data(),
                         program_.inputs[i].bytes);
  for (const Step &step : steps_)
    if (absl::Status status = step(run); !status.ok())
      return status;
  for (size_t i = 0; i < outputs.size(); ++i)
    run.device().copy_out(outputs[i]->data(), run.address(program_.output_slots[i]),
                          program_.outputs[i].bytes);
  return absl::OkStatus();
}

} // namespace toy
