#include "compiler/link/AotEntry.h"

#include "compiler/claim/Passes.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/link/BuildProgram.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/plan/Extract.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/state/StateAttributes.h"
#include "runtime/executable/library_call.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {
namespace {

std::string printed(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << "\n";
  return text;
}

// Kernels of users are linked into the model; another device than the host has none.
absl::Status checkCustomKernels(const runtime::Program &program, const AotOptions &options) {
  bool linked = options.emit == Emit::SharedLibrary || options.emit == Emit::Executable;
  if (!options.device && (!linked || !options.link.empty()))
    return absl::OkStatus();
  for (const runtime::Instruction &instruction : program.instructions) {
    auto *call = std::get_if<runtime::LibraryCall>(&instruction);
    if (!call || call->entry != kCustomEntry)
      continue;
    absl::StatusOr<std::string> kernel = runtime::config_string(call->config, "kernel", "");
    return absl::UnimplementedError(
        (call->location >= 0 ? program.locations[call->location] + ": " : "") +
        "weft.custom calls the kernel '" + (kernel.ok() ? *kernel : "") +
        (options.device ? "', which runs on the host only"
                        : "', which is registered in this process only: name the objects that "
                          "define weft_kernel_plugin in the option `link`"));
  }
  return absl::OkStatus();
}

} // namespace

absl::Status AotEntry::read() {
  if (!main_)
    return absl::InvalidArgumentError("the module has no func.func @main to compile");
  llvm::StringSet<> names;
  for (unsigned i = 0; i < main_.getNumArguments(); ++i) {
    // Inputs belong to whoever runs the model.
    main_.removeArgAttr(i, ir::kDonatableAttr);
    auto state = main_.getArgAttrOfType<mlir::StringAttr>(i, ir::kStateAttr);
    auto parameter = main_.getArgAttrOfType<mlir::StringAttr>(i, ir::kParameterAttr);
    auto type = mlir::dyn_cast<mlir::RankedTensorType>(main_.getArgumentTypes()[i]);
    if ((!state && !parameter) || !type)
      continue;
    Held &held = held_.emplace_back();
    held.argument = i;
    held.name = (state ? state : parameter).str();
    held.dtype = ir::dtypeOf(type.getElementType());
    held.dims.assign(type.getShape().begin(), type.getShape().end());
    held.isState = bool(state);
    if (!names.insert(held.name).second)
      return absl::InvalidArgumentError("two arguments of @main are called '" + held.name + "'");
    if (auto initial = main_.getArgAttrOfType<mlir::ElementsAttr>(i, ir::kInitialAttr)) {
      if (initial.getType() != type)
        return absl::InvalidArgumentError("the first value of the state '" + held.name +
                                          "' has another type than the state");
      held.initial = ir::HostTensor::from(initial);
    }
    for (llvm::StringRef attribute :
         {ir::kStateAttr, ir::kInitialAttr, ir::kParameterAttr, ir::kKeptAttr})
      main_.removeArgAttr(i, attribute);
  }
  llvm::DenseSet<int64_t> written;
  for (unsigned i = 0; i < main_.getNumResults(); ++i) {
    auto writes = main_.getResultAttrOfType<mlir::IntegerAttr>(i, ir::kWritesAttr);
    if (!writes)
      continue;
    main_.removeResultAttr(i, mlir::StringAttr::get(main_.getContext(), ir::kWritesAttr));
    int64_t argument = writes.getInt();
    if (argument < 0 || argument >= int64_t(main_.getNumArguments()) ||
        main_.getArgumentTypes()[argument] != main_.getResultTypes()[i] ||
        !written.insert(argument).second)
      return absl::InvalidArgumentError(
          "result " + std::to_string(i) + " of @main writes argument " + std::to_string(argument) +
          ", which is not there, has another type or is written by another result, too");
    // An input's new value is one more output: the caller's memory is the caller's.
    auto held = llvm::lower_bound(
        held_, argument, [](const Held &each, int64_t wanted) { return each.argument < wanted; });
    if (held == held_.end() || held->argument != argument || !held->isState)
      continue;
    held->isWritten = true;
    writes_.emplace_back(i, unsigned(held - held_.begin()));
  }
  return absl::OkStatus();
}

void AotEntry::mark() {
  mlir::Builder builder(main_.getContext());
  for (const Held &held : held_) {
    mlir::StringAttr name = builder.getStringAttr(held.name);
    if (!held.isState) {
      main_.setArgAttr(held.argument, ir::kParameterAttr, name);
      continue;
    }
    main_.setArgAttr(held.argument, ir::kNameAttr, name);
    if (held.isWritten) {
      main_.setArgAttr(held.argument, ir::kDonatableAttr, builder.getUnitAttr());
      main_.setArgAttr(held.argument, ir::kKeptAttr, builder.getUnitAttr());
    }
  }
}

std::unique_ptr<AotEntry> AotEntry::copy() const {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp(module_).clone();
  auto result = std::make_unique<AotEntry>(name_, *module);
  result->copy_ = std::move(module);
  result->writes_ = writes_;
  for (const Held &held : held_)
    result->held_.push_back({held.argument, held.name, held.dtype, held.dims, held.isState,
                             held.isWritten, std::nullopt});
  return result;
}

absl::Status AotEntry::compileToFuse(const AotOptions &options) {
  ir::DiagnosticCollector diagnostics(module_.getContext());
  Pipeline pipeline(options.compile, options.providers, &report_);
  if (mlir::failed(pipeline.run(module_, Phase::Import, Phase::Fuse)))
    return absl::InternalError(diagnostics.failure("compilation failed"));
  return absl::OkStatus();
}

absl::Status AotEntry::compile(const AotOptions &options, const TargetInfo &target,
                               mlir::ModuleOp code, const std::string &prefix,
                               const CodegenOptions &codegen) {
  CompileRequest request;
  request.providers = options.compile.claim ? options.providers : nullptr;
  request.target = options.device ? options.device->maker.key : target.key();
  request.scratchBytes = options.scratchBytes;
  request.makeKernels = [&](llvm::ArrayRef<plan::KernelOp> kernels, llvm::StringRef) {
    std::vector<absl::StatusOr<KernelInfo>> infos;
    for (plan::KernelOp kernel : kernels) {
      ir::DiagnosticCollector diagnostics(module_.getContext());
      absl::StatusOr<KernelInfo> info = buildKernel(kernel, options, target, code, prefix, codegen);
      if (!info.ok())
        info = absl::Status(info.status().code(),
                            diagnostics.failure(std::string(info.status().message())));
      infos.push_back(std::move(info));
    }
    return infos;
  };
  absl::Status status = compileToPlan(module_, options.compile, request, &report_, prepare_);
  if (!status.ok() || options.emit == Emit::Plan)
    return status;
  absl::StatusOr<runtime::Program> program =
      linkProgram(module_, prepare_ ? *prepare_ : mlir::ModuleOp(), request.target, report_.plan);
  if (!program.ok())
    return program.status();
  program_ = *std::move(program);
  if (absl::Status refused = checkCustomKernels(program_, options); !refused.ok())
    return refused;
  for (const runtime::Program &prepare : program_.prepare)
    if (absl::Status refused = checkCustomKernels(prepare, options); !refused.ok())
      return refused;
  return absl::OkStatus();
}

absl::StatusOr<KernelInfo> AotEntry::buildKernel(plan::KernelOp kernel, const AotOptions &options,
                                                 const TargetInfo &target, mlir::ModuleOp code,
                                                 const std::string &prefix,
                                                 const CodegenOptions &codegen) {
  auto fusions = kernel.getBody().front().getOps<ir::FusionOp>();
  if (fusions.empty())
    return absl::InternalError("its fusion is gone");
  bool prepares = kernel->getParentOp() != module_;
  std::string symbol = prefix + (prepares ? "_prepare_" : "_") + kernel.getSymName().str();
  if (options.device) {
    absl::StatusOr<CompiledKernel> made =
        options.device->maker.make(*fusions.begin(), symbol, codegen);
    if (!made.ok())
      return made.status();
    deviceKernels_.push_back(*std::move(made));
    return deviceKernels_.back().info;
  }
  mlir::FailureOr<KernelInfo> info =
      compiler::buildKernel(*fusions.begin(), symbol, code, target, codegen);
  if (mlir::failed(info))
    return absl::InternalError("codegen failed");
  return *info;
}

std::string AotEntry::text() const {
  return printed(module_) + (prepare_ ? printed(*prepare_) : "");
}

bool AotEntry::calls(llvm::StringRef prefix) const {
  auto does = [&](const runtime::Program &program) {
    return llvm::any_of(program.instructions, [&](const runtime::Instruction &instruction) {
      auto *call = std::get_if<runtime::LibraryCall>(&instruction);
      return call && llvm::StringRef(call->entry).starts_with(prefix);
    });
  };
  return does(program_) || llvm::any_of(program_.prepare, does);
}

absl::StatusOr<EntryCode>
AotEntry::code(const AotOptions &options,
               llvm::function_ref<std::optional<llvm::ArrayRef<char>>(const Held &)> value,
               llvm::function_ref<int32_t(const Held &)> number) const {
  EntryCode code;
  code.name = name_;
  std::vector<std::pair<int32_t, llvm::ArrayRef<char>>> constants;
  for (const Held &held : held_) { // in the order of the arguments
    if (std::optional<llvm::ArrayRef<char>> bytes = value(held))
      constants.emplace_back(int32_t(held.argument), *bytes);
    else
      code.reads.emplace_back(int32_t(held.argument - constants.size()), number(held));
  }
  for (auto [result, index] : writes_)
    code.writes.emplace_back(int32_t(result), number(held_[index]));
  absl::StatusOr<runtime::Program> bound = bindConstants(program_, constants);
  if (!bound.ok())
    return bound.status();
  code.program = *std::move(bound);
  if (options.device) {
    absl::StatusOr<std::string> packed = options.device->pack(deviceKernels_);
    if (!packed.ok())
      return packed.status();
    code.deviceCode = *std::move(packed);
  }
  return code;
}

} // namespace weft::compiler
