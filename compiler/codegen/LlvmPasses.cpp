#include "compiler/codegen/LlvmPasses.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetOptions.h"

namespace weft::compiler {

// Loops of kernels are vectorised and their arithmetic is in order. -O3 takes 2 to 4 times as long
// and gains under 4% on such code; what becomes of a GPU's is optimised again by its driver.
static constexpr const char *kPipeline =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),"
    "early-cse<memssa>,simplifycfg)";

static absl::Status failed(const llvm::Twine &message) {
  return absl::InternalError(message.str());
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>>
makeMachine(llvm::StringRef triple, llvm::StringRef cpu, llvm::StringRef features,
            std::optional<llvm::Reloc::Model> relocation) {
  std::string error;
  llvm::Triple parsed(triple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(parsed, error);
  if (!target)
    return failed("this LLVM has no code generator for " + triple + ": " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      parsed, cpu, features, options, relocation, std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine)
    return failed("LLVM has no target machine for " + triple + " " + cpu);
  return machine;
}

absl::StatusOr<std::unique_ptr<llvm::Module>> translateToLlvm(mlir::ModuleOp module,
                                                              llvm::LLVMContext &context,
                                                              llvm::TargetMachine &machine,
                                                              const CodegenOptions &options) {
  std::unique_ptr<llvm::Module> ir = mlir::translateModuleToLLVMIR(
      module, context, "weft", /*disableVerification=*/!options.verify);
  if (!ir)
    return failed("translation of the kernels to LLVM IR fails");
  ir->setTargetTriple(machine.getTargetTriple());
  ir->setDataLayout(machine.createDataLayout());
  return ir;
}

// Whether each register of a shuffle of 64-bit lanes begins with the first lane of one.
static bool beginsWithFirstLanes(const llvm::ShuffleVectorInst &shuffle) {
  constexpr int kLanes = 8;
  for (auto [i, from] : llvm::enumerate(shuffle.getShuffleMask()))
    if (i % kLanes == 0 && from > 0 && from % kLanes != 0)
      return false;
  return true;
}

// No user of a shuffle of 64-bit lanes in 512 bits sees what it shuffles. Where several want lane 0
// of a register alone, instruction selection of LLVM 22 for x86 gives them lane 0 of its operand,
// whichever lane the shuffle takes. A fence costs no instruction, but those that would have become
// one with the shuffle: a load, above all.
static void fenceShuffles(llvm::Module &ir) {
  llvm::SmallVector<llvm::ShuffleVectorInst *> shuffles;
  for (llvm::Function &function : ir)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      auto *shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&instruction);
      if (shuffle && shuffle->getType()->getScalarSizeInBits() == 64 &&
          shuffle->getType()->getPrimitiveSizeInBits().getKnownMinValue() >= 512 &&
          !beginsWithFirstLanes(*shuffle))
        shuffles.push_back(shuffle);
    }
  for (llvm::ShuffleVectorInst *shuffle : shuffles) {
    llvm::IRBuilder<> builder(shuffle->getNextNode());
    llvm::Type *type = shuffle->getType();
    auto *floats = llvm::VectorType::get(builder.getDoubleTy(),
                                         llvm::cast<llvm::VectorType>(type)->getElementCount());
    llvm::Value *value = builder.CreateBitCast(shuffle, floats);
    llvm::Instruction *fence = builder.CreateArithmeticFence(value, floats);
    llvm::Value *fenced = builder.CreateBitCast(fence, type);
    shuffle->replaceUsesWithIf(
        fenced, [&](llvm::Use &use) { return use.getUser() != fence && use.getUser() != value; });
  }
}

absl::Status optimize(llvm::Module &ir, llvm::TargetMachine &machine,
                      const CodegenOptions &options) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, kPipeline))
    return failed("LLVM pipeline: " + llvm::toString(std::move(error)));
  passes.run(ir, modules);
  if (machine.getTargetTriple().isX86())
    fenceShuffles(ir);
  if (options.verify && llvm::verifyModule(ir, &llvm::errs()))
    return failed("LLVM's verifier rejects the optimised kernels");
  if (options.dump) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    ir.print(stream, nullptr);
    options.dump("ll", text);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> emitCode(llvm::Module &ir, llvm::TargetMachine &machine,
                                     llvm::CodeGenFileType type) {
  llvm::SmallString<0> code;
  llvm::raw_svector_ostream out(code);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, type, /*DisableVerify=*/true))
    return failed("LLVM cannot write code for " + machine.getTargetTriple().str());
  passes.run(ir);
  return std::string(code);
}

} // namespace weft::compiler
