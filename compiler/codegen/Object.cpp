// From the llvm dialect to an object file: translation, a short LLVM pipeline, instruction selection.
#include "compiler/codegen/Codegen.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/TargetParser/Host.h"

namespace weft::compiler {

// What kernels need of LLVM's optimiser: their loops are vectorised and their arithmetic is in order. -O3 takes 2 to 4 times as long and
// gains under 4% on such code.
static constexpr const char *kPipeline =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse<memssa>,simplifycfg)";

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
    return absl::InvalidArgumentError(("unknown CPU '" + cpu + "' for " + target.triple +
                                       "; `clang --print-supported-cpus` lists the names, such as x86-64-v3 or znver3").str());
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
      return absl::InvalidArgumentError("the CPU '" + cpu + "' has no " + needed +
                                        ", which kernels need (their roundings are those of fused multiply-adds); choose x86-64-v3 or a later one");
  return absl::OkStatus();
}

static absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> makeMachine(const TargetInfo &target) {
  initializeTargets();
  std::string error;
  llvm::Triple triple(target.triple);
  const llvm::Target *registered = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!registered) return failed("no code generator for " + target.triple + ": " + error);
  llvm::TargetOptions options;
  // A multiplication and an addition stay two roundings: results must not depend on what was fused.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(registered->createTargetMachine(triple, target.cpu, target.features, options,
                                                                               llvm::Reloc::PIC_, std::nullopt,
                                                                               llvm::CodeGenOptLevel::Default));
  if (!machine) return failed("LLVM has no target machine for " + target.triple + " " + target.cpu);
  return machine;
}

absl::StatusOr<std::string> emitObject(mlir::ModuleOp module, const TargetInfo &target, const CodegenOptions &options) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> ir = mlir::translateModuleToLLVMIR(module, context, "weft", /*disableVerification=*/!options.verify);
  if (!ir) return failed("translation of the kernels to LLVM IR fails");
  auto machine = makeMachine(target);
  if (!machine.ok()) return machine.status();
  ir->setTargetTriple(llvm::Triple(target.triple));
  ir->setDataLayout((*machine)->createDataLayout());
  // 512-bit registers where the machine has them: kernels are written in 16-lane vectors.
  for (llvm::Function &function : *ir)
    if (!function.isDeclaration()) function.addFnAttr("prefer-vector-width", "512");

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine->get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, kPipeline)) return failed("LLVM pipeline: " + llvm::toString(std::move(error)));
  passes.run(*ir, modules);
  if (options.verify && llvm::verifyModule(*ir, &llvm::errs())) return failed("LLVM's verifier rejects the optimised kernels");
  if (options.dump) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    ir->print(stream, nullptr);
    options.dump("ll", text);
    llvm::SmallString<0> assembly;
    llvm::raw_svector_ostream out(assembly);
    llvm::legacy::PassManager codegen;
    auto copy = llvm::CloneModule(*ir);
    if ((*machine)->addPassesToEmitFile(codegen, out, nullptr, llvm::CodeGenFileType::AssemblyFile)) return failed("LLVM cannot print assembly");
    codegen.run(*copy);
    options.dump("s", assembly);
  }
  llvm::SmallString<0> object;
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, out, nullptr, llvm::CodeGenFileType::ObjectFile, /*DisableVerify=*/true))
    return failed("LLVM cannot write objects for " + target.triple);
  codegen.run(*ir);
  return std::string(object);
}

} // namespace weft::compiler
