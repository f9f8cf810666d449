#include "backends/cuda/compile/CudaBackend.h"

#include "backends/cuda/compile/ConvolutionProvider.h"
#include "backends/cuda/compile/CudaCompile.h"
#include "backends/cuda/compile/GpuCodegen.h"
#include "backends/cuda/compile/MatmulProvider.h"
#include "backends/cuda/compile/Refusals.h"
#include "backends/cuda/device/cuda_executable.h"
#include "backends/cuda/device/cuda_libraries.h"
#include "compiler/claim/Provider.h"
#include "compiler/link/Aot.h"
#include "compiler/link/Artifact.h"
#include "compiler/pipeline/PassHooks.h"
#include "dialects/plan/ir/Plan.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "runtime/core/status.h"
#include "runtime/executor/device.h"
#include "llvm/Config/llvm-config.h"

namespace weft::backends::cuda {

using namespace mlir;

namespace {

using compiler::CompileOptions;

#include "backends/cuda/compile/CompilerDigest.inc"

const compiler::ProviderSet *providers() {
  static const compiler::ProviderSet *set = [] {
    auto *made = new compiler::ProviderSet;
    made->add(makeMatmulProvider());
    made->add(makeConvolutionProvider());
    made->add(makeRefusals());
    return made;
  }();
  return set;
}

// The architecture that was asked for, or the one that suits the GPU.
absl::StatusOr<std::string> architectureOf(const CompileOptions &options,
                                           const CudaDevice *device) {
  if (!options.features.empty())
    return absl::InvalidArgumentError(
        "features of a CPU (" + options.features +
        ") mean nothing to a GPU; name its architecture, as in cuda:" + kDefaultArchitecture);
  std::string name = !options.cpu.empty() ? options.cpu
                     : device             ? newestArchitecture(device->capability())
                                          : kDefaultArchitecture;
  WEFT_RETURN_IF_ERROR(checkArchitecture(name));
  return name;
}

CompileOptions effective(CompileOptions options) {
  options.writeRows = false;
  options.memoryFiles = false; // the host does not read a GPU's memory
  return options;
}

absl::Status checkOneSize(ModuleOp module) {
  bool named = false;
  module.walk([&](func::FuncOp function) {
    for (Type type : function.getArgumentTypes())
      named |= ir::hasNamedDims(type);
  });
  return named ? absl::UnimplementedError("models for GPUs are compiled for one size each")
               : absl::OkStatus();
}

std::span<const std::byte> bytesOf(StringRef text) {
  return {reinterpret_cast<const std::byte *>(text.data()), text.size()};
}

absl::StatusOr<std::string> packKernels(ArrayRef<compiler::CompiledKernel> kernels) {
  std::vector<KernelModule> all;
  for (const compiler::CompiledKernel &kernel : kernels) {
    WEFT_ASSIGN_OR_RETURN(std::vector<KernelModule> modules, read_modules(bytesOf(kernel.object)));
    all.insert(all.end(), modules.begin(), modules.end());
  }
  return write_modules(all);
}

} // namespace

CudaBackend::CudaBackend(Parts parts) : parts_(std::move(parts)) {
  if (!parts_.kernels)
    parts_.kernels = [](StringRef architecture) {
      return kernelMaker(architecture);
    };
  if (!parts_.libraries)
    parts_.libraries = [](std::shared_ptr<CudaDevice> device) {
      return library_resolver(std::move(device));
    };
}

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaBackend::findDevice() const {
  absl::StatusOr<std::shared_ptr<CudaDevice>> device = parts_.device(0);
  if (!device.ok())
    return absl::UnavailableError(device.status().message());
  return device;
}

absl::StatusOr<std::shared_ptr<CudaExecutable>>
CudaBackend::executable(CompiledProgram compiled, const std::shared_ptr<CudaDevice> &device) const {
  WEFT_ASSIGN_OR_RETURN(auto made, CudaExecutable::create(std::move(compiled.program),
                                                          std::move(compiled.modules), device,
                                                          parts_.libraries(device),
                                                          std::move(compiled.sizes)));
  CudaExecutable::Devices devices;
  devices.number_of = [kind = parts_.name](const runtime::Memory &memory) {
    const runtime::Device *device = runtime::device_of(memory);
    return device && device->kind() == kind ? device->number() : -1;
  };
  devices.make = [parts = parts_](const CudaExecutable &first,
                                  int number) -> absl::StatusOr<std::shared_ptr<CudaExecutable>> {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<CudaDevice> device, parts.device(number));
    return CudaExecutable::create(first.program(), first.modules(), device,
                                  parts.libraries(device));
  };
  made->serve(std::move(devices));
  return made;
}

void CudaBackend::registerDialects(DialectRegistry &registry) const {
  registry.insert<ir::WeftDialect, plan::PlanDialect, func::FuncDialect>();
}

absl::StatusOr<std::shared_ptr<runtime::Executable>>
CudaBackend::compile(ModuleOp module, const CompileOptions &options,
                     compiler::CompileReport *report) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<CudaDevice> device, findDevice());
  WEFT_ASSIGN_OR_RETURN(std::string architecture, architectureOf(options, device.get()));
  CompileOptions ours = effective(options);
  WEFT_ASSIGN_OR_RETURN(CompiledProgram compiled,
                        compileProgram(module, ours, parts_.kernels(architecture),
                                       ours.claim ? providers() : nullptr, report));
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<CudaExecutable> made,
                        executable(std::move(compiled), device));
  if (report)
    llvm::append_range(report->remarks, made->detours());
  return made;
}

absl::StatusOr<compiler::PhaseRun> CudaBackend::phases(const CompileOptions &options) {
  absl::StatusOr<std::shared_ptr<CudaDevice>> device = parts_.device(0);
  WEFT_ASSIGN_OR_RETURN(std::string architecture,
                        architectureOf(options, device.ok() ? device->get() : nullptr));
  CompileOptions ours = effective(options);
  return compiler::PhaseRun{ours, compileRequest(ours, parts_.kernels(architecture),
                                                 ours.claim ? providers() : nullptr,
                                                 std::make_shared<Kernels>())};
}

std::string CudaBackend::usualProcessor() const {
  return kDefaultArchitecture;
}

absl::StatusOr<std::vector<std::string>>
CudaBackend::compileAheadOfTime(ModuleOp module, const compiler::AotOptions &options) {
  WEFT_ASSIGN_OR_RETURN(std::string architecture, architectureOf(options.compile, nullptr));
  WEFT_RETURN_IF_ERROR(checkOneSize(module));
  compiler::DeviceKernels device;
  device.maker = parts_.kernels(architecture);
  device.pack = packKernels;
  device.executableMaker = "weft_cuda_make_executable";
  // As installed, and in the folders of a build.
  device.archives = {"libweft_cuda.a", "../../backends/cuda/device/libweft_cuda.a"};
  compiler::AotOptions ours = options;
  ours.compile = effective(options.compile);
  // Nothing of a model lies on the GPU between its runs but constants.
  ours.compile.prepare = false;
  ours.device = &device;
  if (!ours.providers && ours.compile.claim)
    ours.providers = providers();
  WEFT_ASSIGN_OR_RETURN(compiler::AotResult result, compiler::compileAheadOfTime(module, ours));
  return std::move(result.files);
}

std::string CudaBackend::targetKey(const CompileOptions &options) const {
  absl::StatusOr<std::shared_ptr<CudaDevice>> device = parts_.device(0);
  absl::StatusOr<std::string> architecture =
      architectureOf(options, device.ok() ? device->get() : nullptr);
  std::string key = std::string("cuda ") + kCompilerDigest + " code " +
                    std::to_string(kCudaCodeVersion) + " artifact " +
                    std::to_string(compiler::kArtifactVersion) + " program " +
                    std::to_string(runtime::kProgramVersion) + " llvm " LLVM_VERSION_STRING "\n";
  key += (architecture.ok() ? *architecture : std::string(architecture.status().message())) + "\n";
  for (bool option : {options.fuse, options.claim, options.inPlace, options.prepare})
    key += option ? '1' : '0';
  key += " math " + std::to_string(static_cast<int>(options.math));
  key += " limit " + std::to_string(options.memoryLimit);
  return key + "\n" + compiler::registrationsKey();
}

std::string CudaBackend::whyNotCachable(const CompileOptions &options) const {
  if (!options.dumpDir.empty())
    return "dumps are made by compiling";
  return compiler::whyRegistrationsAreNotCachable();
}

std::optional<std::string> CudaBackend::serialize(const runtime::Executable &executable) const {
  auto *ours = dynamic_cast<const CudaExecutable *>(&executable);
  if (!ours)
    return std::nullopt;
  absl::StatusOr<std::string> program = runtime::serialize(ours->program());
  if (!program.ok())
    return std::nullopt;
  return compiler::writeArtifact(
      {*std::move(program),
       ours->sizes().names.empty() ? std::string() : runtime::serialize(ours->sizes()),
       {std::make_shared<const std::string>(write_modules(ours->modules()))}});
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> CudaBackend::load(ArrayRef<char> blob) const {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<CudaDevice> device, findDevice());
  WEFT_ASSIGN_OR_RETURN(compiler::Artifact artifact, compiler::readArtifact(blob));
  CompiledProgram compiled;
  WEFT_ASSIGN_OR_RETURN(compiled.program, runtime::deserialize(bytesOf(artifact.program)));
  if (!artifact.sizes.empty()) {
    WEFT_ASSIGN_OR_RETURN(compiled.sizes,
                          runtime::deserialize_sizes(bytesOf(artifact.sizes), compiled.program));
  }
  if (artifact.objects.size() != 1)
    return absl::DataLossError("a compiled program without GPU code");
  WEFT_ASSIGN_OR_RETURN(compiled.modules, read_modules(bytesOf(*artifact.objects.front())));
  return executable(std::move(compiled), device);
}

} // namespace weft::backends::cuda
