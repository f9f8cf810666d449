#include "toy_program.h"

#include "dialects/weft/ir/Weft.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Parser/Parser.h"
#include "runtime/memory/memory.h"
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
struct Taken : weft::runtime::RunResources {
  std::shared_ptr<weft::runtime::Buffer> arena, constants;
};
} // namespace

// From the memory that the run is given, so that its allocator is asked and its books are right.
absl::StatusOr<std::unique_ptr<weft::runtime::RunResources>>
ToyExecutable::acquire(const weft::runtime::RunContext &context) {
  auto taken = std::make_unique<Taken>();
  taken->bytes = program_.arena_bytes;
  auto arena = context.memory->allocate(program_.arena_bytes, "arena");
  if (!arena.ok())
    return arena.status();
  taken->arena = *std::move(arena);
  std::lock_guard lock(mutex_);
  if (!constants_) {
    auto bytes = static_cast<int64_t>(program_.constants.size());
    auto constants = context.memory->allocate(bytes, "constants");
    if (!constants.ok())
      return constants.status();
    constants_ = *std::move(constants);
    Device::instance().copy_in(address_of(constants_->data()), program_.constants.data(), bytes);
    program_.constants = {};
  }
  taken->constants = constants_;
  return taken;
}

absl::Status ToyExecutable::run(const weft::runtime::RunContext &,
                                weft::runtime::RunResources &resources, Run::Buffers inputs,
                                Run::Buffers outputs) {
  if (absl::Status status = weft::runtime::check_bindings(*this, inputs, outputs); !status.ok())
    return status;
  auto &taken = static_cast<Taken &>(resources);
  Run run(program_, *host_, address_of(taken.arena->data()), address_of(taken.constants->data()),
          inputs, outputs);
  for (const Step &step : steps_)
    if (absl::Status status = step(run); !status.ok())
      return status;
  return absl::OkStatus();
}

} // namespace toy
