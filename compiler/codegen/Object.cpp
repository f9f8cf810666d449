// From the llvm dialect to an object file: translation, a short LLVM pipeline, instruction selection.
#include "compiler/codegen/Codegen.h"

#include "compiler/codegen/LlvmPasses.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace weft::compiler {

static void initializeTargets() {
  static const bool once = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    return true;
  }();
  (void)once;
}

TargetInfo TargetInfo::host() {
  initializeTargets();
  TargetInfo target;
  target.triple = llvm::sys::getProcessTriple();
  target.cpu = llvm::sys::getHostCPUName().str();
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    target.features += (target.features.empty() ? "" : ",") + std::string(feature.second ? "+" : "-") + feature.first().str();
  return target;
}

static absl::Status failed(const llvm::Twine &message) { return absl::InternalError(message.str()); }

absl::StatusOr<TargetInfo> TargetInfo::named(llvm::StringRef cpu) {
  initializeTargets();
  TargetInfo target;
  target.triple = llvm::sys::getProcessTriple();
  target.cpu = cpu.str();
  std::string error;
  llvm::Triple triple(target.triple);
  const llvm::Target *registered = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!registered) return failed("no code generator for " + target.triple + ": " + error);
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(registered->createMCSubtargetInfo(triple, "", ""));
  if (!subtarget || !subtarget->isCPUStringValid(cpu))
    return absl::InvalidArgumentError(
        ("unknown CPU '" + cpu + "' for " + target.triple + "; `clang --print-supported-cpus` lists the names, such as x86-64-v3 or znver3")
            .str());
  // Spelled out: what runs the code checks them one by one, and knows no CPU by name. The host's list has every feature that there is.
  subtarget.reset(registered->createMCSubtargetInfo(triple, cpu, ""));
  std::vector<std::string> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    if (std::string has = "+" + feature.first().str(); subtarget->checkFeatures(has)) features.push_back(std::move(has));
  llvm::sort(features);
  target.features = llvm::join(features, ",");
  return target;
}

absl::Status TargetInfo::checkUsable() const {
  initializeTargets();
  std::string error;
  llvm::Triple parsed(triple);
  const llvm::Target *registered = llvm::TargetRegistry::lookupTarget(parsed, error);
  if (!registered) return failed("no code generator for " + triple + ": " + error);
  if (!parsed.isX86()) return absl::OkStatus();
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(registered->createMCSubtargetInfo(parsed, cpu, features));
  for (const char *needed : {"avx2", "fma"})
    if (!subtarget->checkFeatures(std::string("+") + needed))
      return absl::InvalidArgumentError(
          "the CPU '" + cpu + "' has no " + needed +
          ", which kernels need (their roundings are those of fused multiply-adds); choose x86-64-v3 or a later one");
  return absl::OkStatus();
}

absl::StatusOr<std::string> emitObject(mlir::ModuleOp module, const TargetInfo &target, const CodegenOptions &options) {
  initializeTargets();
  auto machine = makeMachine(target.triple, target.cpu, target.features, llvm::Reloc::PIC_);
  if (!machine.ok()) return machine.status();
  llvm::LLVMContext context;
  auto ir = translateToLlvm(module, context, **machine, options);
  if (!ir.ok()) return ir.status();
  // 512-bit registers where the machine has them: kernels are written in 16-lane vectors.
  for (llvm::Function &function : **ir)
    if (!function.isDeclaration()) function.addFnAttr("prefer-vector-width", "512");
  if (absl::Status status = optimize(**ir, **machine, options); !status.ok()) return status;
  if (options.dump) {
    auto assembly = emitCode(*llvm::CloneModule(**ir), **machine, llvm::CodeGenFileType::AssemblyFile);
    if (!assembly.ok()) return assembly.status();
    options.dump("s", *assembly);
  }
  return emitCode(**ir, **machine, llvm::CodeGenFileType::ObjectFile);
}

} // namespace weft::compiler
