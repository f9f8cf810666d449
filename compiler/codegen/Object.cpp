// From the llvm dialect to an object file: translation, a short LLVM pipeline, instruction
// selection.
#include "compiler/codegen/Codegen.h"

#include <mutex>

#include "compiler/codegen/Limits.h"
#include "compiler/codegen/LlvmPasses.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
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

// Asked once: each question for a feature leaves a virtual machine, which takes as long as a small
// phase of a compilation.
static TargetInfo askHost() {
  initializeTargets();
  TargetInfo target;
  target.triple = llvm::sys::getProcessTriple();
  target.cpu = llvm::sys::getHostCPUName().str();
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    target.features += (target.features.empty() ? "" : ",") +
                       std::string(feature.second ? "+" : "-") + feature.first().str();
  return target;
}

TargetInfo TargetInfo::host() {
  static const TargetInfo target = askHost();
  return target;
}

static absl::Status failed(const llvm::Twine &message) {
  return absl::InternalError(message.str());
}

absl::StatusOr<TargetInfo> TargetInfo::named(llvm::StringRef cpu) {
  initializeTargets();
  TargetInfo target;
  target.triple = llvm::sys::getProcessTriple();
  target.cpu = cpu.str();
  std::string error;
  llvm::Triple triple(target.triple);
  const llvm::Target *registered = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!registered)
    return failed("no code generator for " + target.triple + ": " + error);
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(
      registered->createMCSubtargetInfo(triple, "", ""));
  if (!subtarget || !subtarget->isCPUStringValid(cpu))
    return absl::InvalidArgumentError(
        ("unknown CPU '" + cpu + "' for " + target.triple +
         "; `clang --print-supported-cpus` lists the names, such as x86-64-v3 or znver3")
            .str());
  // Spelled out: what runs the code checks them one by one, and knows no CPU by name. The host's
  // list has every feature that there is.
  subtarget.reset(registered->createMCSubtargetInfo(triple, cpu, ""));
  std::vector<std::string> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    if (std::string has = "+" + feature.first().str(); subtarget->checkFeatures(has))
      features.push_back(std::move(has));
  llvm::sort(features);
  target.features = llvm::join(features, ",");
  return target;
}

// What LLVM only warns of, and ignores.
static absl::Status checkFeatures(llvm::StringRef features, const llvm::MCSubtargetInfo &known) {
  llvm::SmallVector<llvm::StringRef> each;
  features.split(each, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef feature : each) {
    bool hasSign = feature.front() == '+' || feature.front() == '-';
    if (!hasSign || llvm::none_of(known.getAllProcessorFeatures(),
                                  [&](const auto &one) { return feature.drop_front() == one.Key; }))
      return absl::InvalidArgumentError(
          ("unknown processor feature '" + feature + "' for " + known.getTargetTriple().str() +
           "; features are given as +NAME or -NAME, as LLVM names them: +avx512f,-fma4")
              .str());
  }
  return absl::OkStatus();
}

absl::Status TargetInfo::checkUsable() const {
  initializeTargets();
  std::string error;
  llvm::Triple parsed(triple);
  const llvm::Target *registered = llvm::TargetRegistry::lookupTarget(parsed, error);
  if (!registered)
    return failed("no code generator for " + triple + ": " + error);
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(
      registered->createMCSubtargetInfo(parsed, cpu, ""));
  if (absl::Status known = checkFeatures(features, *subtarget); !known.ok())
    return known;
  if (!parsed.isX86())
    return absl::OkStatus();
  subtarget.reset(registered->createMCSubtargetInfo(parsed, cpu, features));
  for (const char *needed : {"avx2", "fma"})
    if (!subtarget->checkFeatures(std::string("+") + needed))
      return absl::InvalidArgumentError("the CPU '" + cpu + "' has no " + needed +
                                        ", which kernels need (their roundings are those of fused "
                                        "multiply-adds); choose x86-64-v3 or a later one");
  return absl::OkStatus();
}

namespace {

// A machine with LLVM's passes for it and the object that they write. Each keeps what it made once:
// to parse a CPU's list of features takes a tenth of the time of a small kernel, to make and to
// order the passes another one. It serves one kernel at a time, and may serve any number: nothing
// that a run leaves in it is read by the next one.
class Emitter {
public:
  static absl::StatusOr<std::unique_ptr<Emitter>> make(const TargetInfo &target) {
    auto machine = makeMachine(target.triple, target.cpu, target.features, llvm::Reloc::PIC_);
    if (!machine.ok())
      return machine.status();
    std::unique_ptr<Emitter> emitter(new Emitter(*std::move(machine)));
    if (emitter->machine_->addPassesToEmitFile(emitter->passes_, emitter->out_, nullptr,
                                               llvm::CodeGenFileType::ObjectFile,
                                               /*DisableVerify=*/true))
      return failed("LLVM cannot write objects for " + target.triple);
    return emitter;
  }

  llvm::TargetMachine &machine() {
    return *machine_;
  }
  std::string emit(llvm::Module &ir) {
    object_.clear();
    passes_.run(ir);
    return std::string(object_);
  }

private:
  explicit Emitter(std::unique_ptr<llvm::TargetMachine> machine) : machine_(std::move(machine)) {}

  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::SmallString<0> object_;
  llvm::raw_svector_ostream out_{object_};
  llvm::legacy::PassManager passes_; // goes first
};

// Emitters that wait for the next kernel.
class Emitters {
public:
  absl::StatusOr<std::unique_ptr<Emitter>> take(const TargetInfo &target) {
    {
      const std::string key = target.key();
      std::lock_guard<std::mutex> lock(mutex_);
      for (auto it = idle_.begin(); it != idle_.end(); ++it)
        if (it->first == key) {
          std::unique_ptr<Emitter> emitter = std::move(it->second);
          idle_.erase(it);
          return emitter;
        }
    }
    return Emitter::make(target);
  }

  void giveBack(const TargetInfo &target, std::unique_ptr<Emitter> emitter) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.emplace_back(target.key(), std::move(emitter));
    if (idle_.size() > kMostIdleEmitters)
      idle_.erase(idle_.begin());
  }

private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::unique_ptr<Emitter>>>
      idle_; // the least recently used first
};

// Lives as long as the process: threads may compile while statics are destroyed.
Emitters &emitters() {
  static Emitters *all = new Emitters;
  return *all;
}

} // namespace

// Plain memory operations, which whatever links kernels defines (compiler/link/Jit.cpp, the C
// library of models compiled ahead of time).
static constexpr llvm::StringLiteral kMemoryFunctions[] = {"memcpy", "memmove", "memset"};

// An object needs what its module declares and kMemoryFunctions. LLVM also calls functions of a
// compiler's library where a machine has no instruction, as it sees fit; nobody links such a
// library to kernels.
static absl::Status checkNeeds(llvm::StringRef object, const llvm::StringSet<> &declared) {
  auto file =
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernels.o"));
  if (!file)
    return failed("the kernels' object cannot be read: " + llvm::toString(file.takeError()));
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!flags || !name)
      return failed("the kernels' object has a symbol that cannot be read: " +
                    llvm::toString(llvm::joinErrors(flags.takeError(), name.takeError())));
    if (*flags & llvm::object::SymbolRef::SF_Undefined && !name->empty() &&
        !declared.contains(*name) && !llvm::is_contained(kMemoryFunctions, *name))
      return failed("LLVM made kernels that call '" + *name +
                    "', which is not linked to kernels; code generation must write it out");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> emitObject(mlir::ModuleOp module, const TargetInfo &target,
                                       const CodegenOptions &options) {
  initializeTargets();
  auto emitter = emitters().take(target);
  if (!emitter.ok())
    return emitter.status();
  llvm::TargetMachine &machine = (*emitter)->machine();
  llvm::LLVMContext context;
  auto ir = translateToLlvm(module, context, machine, options);
  if (!ir.ok())
    return ir.status();
  // 512-bit registers where the machine has them: kernels are written in 16-lane vectors.
  for (llvm::Function &function : **ir)
    if (!function.isDeclaration())
      function.addFnAttr("prefer-vector-width", "512");
  llvm::StringSet<> declared;
  for (llvm::GlobalValue &value : (*ir)->global_values())
    if (value.isDeclaration())
      declared.insert(value.getName());
  if (absl::Status status = optimize(**ir, machine, options); !status.ok())
    return status;
  if (options.dump) {
    auto assembly =
        emitCode(*llvm::CloneModule(**ir), machine, llvm::CodeGenFileType::AssemblyFile);
    if (!assembly.ok())
      return assembly.status();
    options.dump("s", *assembly);
  }
  std::string object = (*emitter)->emit(**ir);
  // What failed on the way here leaves its emitter behind: nobody knows in which state.
  emitters().giveBack(target, *std::move(emitter));
  if (absl::Status status = checkNeeds(object, declared); !status.ok())
    return status;
  return object;
}

} // namespace weft::compiler
