#include "backends/cpu/compile/CpuBackend.h"

#include <chrono>

#include "backends/cpu/compile/CpuExecutable.h"
#include "backends/cpu/compile/Libraries.h"
#include "backends/cpu/device/convolution_packing.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/link/Aot.h"
#include "compiler/link/Artifact.h"
#include "compiler/link/Compile.h"
#include "compiler/link/KernelCompiler.h"
#include "compiler/pipeline/PassHooks.h"
#include "compiler/schedule/Measured.h"
#include "dialects/plan/ir/Plan.h"
#include "dialects/weft/ir/Weft.h"
#include "runtime/core/status.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Config/llvm-config.h"

namespace weft::backends::cpu {

using namespace mlir;

namespace {

using compiler::CompileOptions;
using compiler::CompileReport;

#include "backends/cpu/compile/CompilerDigest.inc"

absl::StatusOr<compiler::TargetInfo> targetOf(const CompileOptions &options) {
  compiler::TargetInfo target = compiler::TargetInfo::host();
  if (!options.cpu.empty()) {
    WEFT_ASSIGN_OR_RETURN(target, compiler::TargetInfo::named(options.cpu));
  }
  if (!options.features.empty())
    target.features += (target.features.empty() ? "" : ",") + options.features;
  return target;
}

// Whether what is compiled runs on this machine, whose libraries can be asked.
bool isHost(const CompileOptions &options) {
  return options.cpu.empty() && options.features.empty();
}

// What was measured on this machine holds on it alone.
bool usesMeasured(const CompileOptions &options) {
  return isHost(options) && (!options.schedules.empty() || options.tuneSeconds > 0);
}

compiler::ChooseSchedules measuredSchedules(const CompileOptions &options,
                                            const compiler::TargetInfo &target) {
  if (!usesMeasured(options))
    return nullptr;
  auto &measured = compiler::MeasuredSchedules::of(options.schedules, target);
  return [&measured, seconds = options.tuneSeconds](ModuleOp module,
                                                    std::vector<std::string> &remarks) {
    measured.apply(module, seconds, remarks);
  };
}

} // namespace

void CpuBackend::registerDialects(DialectRegistry &registry) const {
  registry.insert<ir::WeftDialect, plan::PlanDialect, func::FuncDialect>();
}

CompileOptions CpuBackend::effective(const CompileOptions &options) const {
  CompileOptions result = options;
  result.fuse &= defaults_.fuse;
  return result;
}

absl::StatusOr<compiler::PhaseRun> CpuBackend::phases(const CompileOptions &options) {
  return phases(options, std::make_shared<Kernels>());
}

absl::StatusOr<compiler::PhaseRun> CpuBackend::phases(const CompileOptions &options,
                                                      std::shared_ptr<Kernels> kernels) {
  WEFT_ASSIGN_OR_RETURN(compiler::TargetInfo target, targetOf(options));
  compiler::PhaseRun run{effective(options), {}};
  StringRef machine = isHost(options) ? "" : StringRef(target.features);
  run.request.providers = run.options.claim ? libraries().providers(machine) : nullptr;
  run.request.target = target.key();
  if (isHost(options))
    run.request.scratchBytes = libraryScratch;
  run.request.chooseSchedules = measuredSchedules(run.options, target);
  run.request.makeKernels = [target = target, ours = run.options, kernels = std::move(kernels)](
                                ArrayRef<plan::KernelOp> ops, StringRef dumpFolder) {
    return compiler::KernelCompiler::instance().compile(ops, compiler::hostKernelMaker(target),
                                                        ours, dumpFolder, *kernels);
  };
  return run;
}

absl::StatusOr<std::shared_ptr<runtime::Executable>>
CpuBackend::compile(ModuleOp module, const CompileOptions &options, CompileReport *report) {
  CompileReport scratch;
  CompileReport &filled = report ? *report : scratch;
  auto kernels = std::make_shared<Kernels>();
  WEFT_ASSIGN_OR_RETURN(compiler::PhaseRun run, phases(options, kernels));
  runtime::SizeTable sizes;
  WEFT_ASSIGN_OR_RETURN(
      runtime::Program program,
      compiler::compileToProgram(module, run.options, run.request, &filled, &sizes));
  if (std::string why = libraryThreads(); filled.libraryCalls > 0 && !why.empty())
    filled.remarks.push_back("oneDNN works on threads of its own, beside the pool's: " + why);

  auto start = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<const std::string>> objects;
  StringSet<> linked;
  for (const auto &kernel : *kernels) {
    filled.codeBytes += int64_t(kernel->object.size());
    if (linked.insert(kernel->info.symbol).second)
      objects.emplace_back(kernel, &kernel->object);
  }
  WEFT_ASSIGN_OR_RETURN(auto executable, CpuExecutable::create(std::move(program), std::move(sizes),
                                                               std::move(objects)));
  double milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  filled.phases.emplace_back("link", milliseconds);
  filled.milliseconds += milliseconds;
  return executable;
}

absl::StatusOr<std::vector<std::string>>
CpuBackend::compileAheadOfTime(ModuleOp module, const compiler::AotOptions &options) {
  compiler::AotOptions ours = options;
  ours.compile = effective(options.compile);
  if (!ours.providers && ours.compile.claim)
    ours.providers = libraries().providersAheadOfTime();
  ours.libraries = libraries().runtimeLibraries();
  if (isHost(options.compile))
    ours.scratchBytes = libraryScratch;
  ours.chooseSchedules = measuredSchedules(ours.compile, compiler::TargetInfo::host());
  WEFT_ASSIGN_OR_RETURN(compiler::AotResult result, compiler::compileAheadOfTime(module, ours));
  return std::move(result.files);
}

compiler::StableUse CpuBackend::stableUse() const {
  return {true, packedRows(), kMaxTransformedPixels, kMinPackedBytes};
}

std::string CpuBackend::targetKey(const CompileOptions &options) const {
  absl::StatusOr<compiler::TargetInfo> target = targetOf(options);
  CompileOptions ours = effective(options);
  std::string key = std::string("cpu ") + kCompilerDigest + " artifact " +
                    std::to_string(compiler::kArtifactVersion) + " program " +
                    std::to_string(runtime::kProgramVersion) + " llvm " LLVM_VERSION_STRING " " +
                    libraryVersions() + libraryAbilities() + "\n";
  key += (target.ok() ? target->key() : std::string(target.status().message())) + "\n";
  for (bool option : {ours.fuse, ours.claim, ours.inPlace, ours.prepare})
    key += option ? '1' : '0';
  key += " math " + std::to_string(static_cast<int>(ours.math));
  key += " limit " + std::to_string(ours.memoryLimit) + (ours.memoryFiles ? " files" : "");
  if (target.ok() && usesMeasured(ours))
    key += " measured " + compiler::MeasuredSchedules::of(ours.schedules, *target).key() +
           (ours.tuneSeconds > 0 ? " and measuring" : "");
  return key + "\n" + compiler::registrationsKey();
}

std::string CpuBackend::whyNotCachable(const CompileOptions &options) const {
  if (!options.dumpDir.empty())
    return "dumps are made by compiling";
  return compiler::whyRegistrationsAreNotCachable();
}

std::optional<std::string> CpuBackend::serialize(const runtime::Executable &executable) const {
  auto *ours = dynamic_cast<const CpuExecutable *>(&executable);
  if (!ours)
    return std::nullopt;
  absl::StatusOr<compiler::Artifact> artifact = ours->artifact();
  if (!artifact.ok())
    return std::nullopt;
  return compiler::writeArtifact(*artifact);
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> CpuBackend::load(ArrayRef<char> blob) const {
  WEFT_ASSIGN_OR_RETURN(compiler::Artifact artifact, compiler::readArtifact(blob));
  auto bytesOf = [](const std::string &text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  };
  WEFT_ASSIGN_OR_RETURN(runtime::Program program, runtime::deserialize(bytesOf(artifact.program)));
  absl::StatusOr<runtime::SizeTable> sizes;
  if (!artifact.sizes.empty())
    sizes = runtime::deserialize_sizes(bytesOf(artifact.sizes), program);
  else
    sizes = runtime::SizeTable();
  if (!sizes.ok())
    return sizes.status();
  auto executable =
      CpuExecutable::create(std::move(program), *std::move(sizes), std::move(artifact.objects));
  // The checksum was right, so that a missing symbol or a bad object means that the blob never
  // fitted.
  if (!executable.ok())
    return absl::DataLossError(executable.status().message());
  return *std::move(executable);
}

namespace {
compiler::BackendRegistration fused("cpu", [] {
  return std::make_unique<CpuBackend>(CpuBackend::Defaults{"cpu", true});
});
compiler::BackendRegistration unfused("cpu-unfused", [] {
  return std::make_unique<CpuBackend>(CpuBackend::Defaults{"cpu-unfused", false});
});
} // namespace

} // namespace weft::backends::cpu
