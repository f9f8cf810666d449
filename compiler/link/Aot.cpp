#include "compiler/link/Aot.h"

#include <map>

#include "compiler/claim/Passes.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/link/BuildProgram.h"
#include "compiler/link/KernelCompiler.h"
#include "compiler/link/ModelCode.h"
#include "compiler/link/SystemLinker.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/plan/Extract.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "runtime/executable/library_call.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {
namespace {

class AotCompilation {
public:
  AotCompilation(mlir::ModuleOp module, const AotOptions &options)
      : module_(module), options_(options) {}

  absl::StatusOr<AotResult> run() {
    if (absl::Status status = prepare(); !status.ok())
      return status;
    if (options_.emit == Emit::Weft)
      return emitWeft();
    if (absl::Status status = compile(); !status.ok())
      return status;
    if (options_.emit == Emit::Plan)
      return finish(writeText(printed(module_) + (prepare_ ? printed(*prepare_) : "")));
    if (absl::Status status = bindWeights(); !status.ok())
      return status;
    if (absl::Status status = makeObject(); !status.ok())
      return status;
    switch (options_.emit) {
    case Emit::Llvm:
      return finish(writeText(llvm_));
    case Emit::Assembly:
      return finish(writeText(assembly_));
    case Emit::Object:
      return finish(emitObjectFile());
    default:
      return finish(emitLinked());
    }
  }

private:
  absl::Status prepare() {
    auto main = module_.lookupSymbol<mlir::func::FuncOp>("main");
    if (!main)
      return absl::InvalidArgumentError("the module has no func.func @main to compile");
    name_ = cIdentifier(options_.name.empty() ? llvm::sys::path::stem(options_.output)
                                              : llvm::StringRef(options_.name));
    if (name_.empty())
      name_ = "model";
    if (options_.output.empty())
      return absl::InvalidArgumentError("no output file was named");
    if (options_.output == "-" && options_.emit != Emit::Weft && options_.emit != Emit::Plan &&
        !isCode(options_.emit))
      return absl::InvalidArgumentError(
          "objects, libraries and executables cannot go to stdout; name an output file");
    llvm::StringSet<> known;
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      // Inputs belong to whoever runs the model.
      main.removeArgAttr(i, ir::kDonatableAttr);
      if (auto parameter = main.getArgAttrOfType<mlir::StringAttr>(i, ir::kParameterAttr))
        known.insert(parameter.getValue());
    }
    for (const AotWeight &weight : options_.weights)
      if (!known.contains(weight.name))
        return absl::InvalidArgumentError("there is a weight '" + weight.name +
                                          "', but @main has no argument with weft.parameter = \"" +
                                          weight.name + "\"");
    target_ = TargetInfo::host();
    if (options_.device) {
      // The host's processor only starts the device: its object, which holds no code, is for any of
      // its kind.
      target_.cpu = target_.features = "";
      return absl::OkStatus();
    }
    if (!options_.compile.cpu.empty()) {
      absl::StatusOr<TargetInfo> named = TargetInfo::named(options_.compile.cpu);
      if (!named.ok())
        return named.status();
      target_ = *std::move(named);
    }
    if (!options_.compile.features.empty())
      target_.features += (target_.features.empty() ? "" : ",") + options_.compile.features;
    return target_.checkUsable();
  }

  absl::StatusOr<AotResult> emitWeft() {
    ir::DiagnosticCollector diagnostics(module_.getContext());
    Pipeline pipeline(options_.compile, options_.providers, &result_.report);
    if (mlir::failed(pipeline.run(module_, Phase::Import, Phase::Fuse)))
      return absl::InternalError(diagnostics.failure("compilation failed"));
    return finish(writeText(printed(module_)));
  }

  absl::Status compile() {
    registerCodegenDialects(*module_.getContext());
    code_ = mlir::ModuleOp::create(module_.getLoc());
    CompileRequest request;
    request.providers = options_.compile.claim ? options_.providers : nullptr;
    request.target = options_.device ? options_.device->maker.key : target_.key();
    request.scratchBytes = options_.scratchBytes;
    request.makeKernels = [this](llvm::ArrayRef<plan::KernelOp> kernels, llvm::StringRef) {
      return buildKernels(kernels);
    };
    absl::Status status =
        compileToPlan(module_, options_.compile, request, &result_.report, prepare_);
    if (!status.ok() || options_.emit == Emit::Plan)
      return status;
    absl::StatusOr<runtime::Program> program = linkProgram(
        module_, prepare_ ? *prepare_ : mlir::ModuleOp(), request.target, result_.report.plan);
    if (!program.ok())
      return program.status();
    program_ = *std::move(program);
    if (absl::Status status = refuseCustomKernels(program_); !status.ok())
      return status;
    for (const runtime::Program &prepare : program_.prepare)
      if (absl::Status status = refuseCustomKernels(prepare); !status.ok())
        return status;
    return absl::OkStatus();
  }

  // They are functions of this process, which no object can hold.
  static absl::Status refuseCustomKernels(const runtime::Program &program) {
    for (const runtime::Instruction &instruction : program.instructions) {
      auto *call = std::get_if<runtime::LibraryCall>(&instruction);
      if (!call || call->entry != kCustomEntry)
        continue;
      absl::StatusOr<std::string> kernel = runtime::config_string(call->config, "kernel", "");
      return absl::UnimplementedError(
          (call->location >= 0 ? program.locations[call->location] + ": " : "") +
          "weft.custom calls the kernel '" + (kernel.ok() ? *kernel : "") +
          "', which is registered in this process only: a program that calls kernels of users does "
          "not compile ahead of time");
    }
    return absl::OkStatus();
  }

  // All into one module, with names that no other model has.
  MadeKernels buildKernels(llvm::ArrayRef<plan::KernelOp> kernels) {
    CodegenOptions options;
    options.verify = options_.compile.verifyEachPhase;
    if (options_.device) {
      if (isCode(options_.emit))
        options.dump = [this](llvm::StringRef stage, llvm::StringRef text) {
          keepText(stage, text);
        };
      if (options_.device->maker.prepare)
        options_.device->maker.prepare(*module_.getContext());
    }
    std::vector<absl::StatusOr<KernelInfo>> infos;
    for (plan::KernelOp kernel : kernels) {
      ir::DiagnosticCollector diagnostics(module_.getContext());
      absl::StatusOr<KernelInfo> info = buildKernel(kernel, options);
      if (!info.ok())
        info = absl::Status(info.status().code(), diagnostics.failure(std::string(info.status().message())));
      infos.push_back(std::move(info));
    }
    return infos;
  }

  absl::StatusOr<KernelInfo> buildKernel(plan::KernelOp kernel, const CodegenOptions &options) {
    auto fusions = kernel.getBody().front().getOps<ir::FusionOp>();
    if (fusions.empty())
      return absl::InternalError("its fusion is gone");
    bool prepares = kernel->getParentOp() != module_;
    std::string symbol =
        "weft_" + name_ + (prepares ? "_prepare_" : "_") + kernel.getSymName().str();
    if (options_.device) {
      absl::StatusOr<CompiledKernel> made =
          options_.device->maker.make(*fusions.begin(), symbol, options);
      if (!made.ok())
        return made.status();
      deviceKernels_.push_back(*std::move(made));
      return deviceKernels_.back().info;
    }
    mlir::FailureOr<KernelInfo> info =
        compiler::buildKernel(*fusions.begin(), symbol, *code_, target_, options);
    if (mlir::failed(info))
      return absl::InternalError("codegen failed");
    return *info;
  }

  absl::Status bindWeights() {
    std::map<std::string, const AotWeight *> byName;
    for (const AotWeight &weight : options_.weights)
      byName[weight.name] = &weight;
    plan::ProgramOp source = findProgram(module_);
    std::vector<std::pair<int32_t, llvm::ArrayRef<char>>> bound;
    std::vector<std::string> unbound;
    for (unsigned i = 0; i < source.getNumArguments(); ++i) {
      auto parameter =
          mlir::dyn_cast_or_null<mlir::StringAttr>(source.getArgAttr(i, plan::kParameterAttr));
      if (!parameter)
        continue;
      auto it = byName.find(parameter.str());
      if (it == byName.end() || !options_.embedWeights) {
        unbound.push_back(parameter.str());
        if (it == byName.end())
          continue;
      }
      const runtime::InputSpec &spec = program_.inputs[i];
      if (it->second->dtype != spec.dtype || it->second->dims != spec.dims)
        return absl::InvalidArgumentError("the weight '" + parameter.str() + "' is " +
                                          shapeText(it->second->dtype, it->second->dims) +
                                          ", but the model takes " +
                                          shapeText(spec.dtype, spec.dims));
      if (options_.embedWeights)
        bound.emplace_back(int32_t(i), it->second->bytes);
    }
    absl::StatusOr<runtime::Program> program = bindConstants(program_, bound);
    if (!program.ok())
      return program.status();
    program_ = *std::move(program);
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (llvm::is_contained(unbound, program_.inputs[i].name))
        parameters_.push_back(int32_t(i));
    return absl::OkStatus();
  }

  static std::string shapeText(DType dtype, llvm::ArrayRef<int64_t> dims) {
    std::string text = std::string(weft::name(dtype)) + "[";
    llvm::raw_string_ostream stream(text);
    llvm::interleaveComma(dims, stream);
    return text + "]";
  }

  static bool isCode(Emit emit) {
    return emit == Emit::Llvm || emit == Emit::Assembly;
  }

  void keepText(llvm::StringRef stage, llvm::StringRef text) {
    if (stage == "ll")
      llvm_ += text;
    if (stage == (options_.device ? llvm::StringRef(options_.device->maker.assembly) : "s"))
      assembly_ += text;
  }

  absl::Status makeObject() {
    // Of a device's kernels both forms were kept when they were made.
    if (options_.device && isCode(options_.emit))
      return absl::OkStatus();
    absl::StatusOr<std::string> program = runtime::serialize(program_);
    if (!program.ok())
      return program.status();
    ModelCode code;
    code.name = name_;
    code.program = *std::move(program);
    if (options_.device) {
      code.executableMaker = options_.device->executableMaker;
      absl::StatusOr<std::string> packed = options_.device->pack(deviceKernels_);
      if (!packed.ok())
        return packed.status();
      code.deviceCode = *std::move(packed);
    } else {
      code.kernels = program_.symbols;
      for (const runtime::Program &prepare : program_.prepare)
        llvm::append_range(code.kernels, prepare.symbols);
    }
    code.parameters = parameters_;
    code.isMain = options_.emit == Emit::Executable;
    for (const RuntimeLibrary &library : kRuntimeLibraries) {
      if (!calls(library.entries))
        continue;
      libraries_.push_back(&library);
      code.libraryFinders.push_back(library.finder.str());
    }
    addModelCode(*code_, code);

    CodegenOptions options;
    options.verify = options_.compile.verifyEachPhase;
    if (isCode(options_.emit))
      options.dump = [this](llvm::StringRef stage, llvm::StringRef text) {
        keepText(stage, text);
      };
    absl::StatusOr<std::string> object = emitObject(*code_, target_, options);
    if (!object.ok())
      return object.status();
    object_ = *std::move(object);
    result_.report.codeBytes = int64_t(object_.size());
    return absl::OkStatus();
  }

  // Whether the program, or what prepares it, calls an entry whose name starts so.
  bool calls(llvm::StringRef prefix) const {
    auto does = [&](const runtime::Program &program) {
      return llvm::any_of(program.instructions, [&](const runtime::Instruction &instruction) {
        auto *call = std::get_if<runtime::LibraryCall>(&instruction);
        return call && llvm::StringRef(call->entry).starts_with(prefix);
      });
    };
    return does(program_) || llvm::any_of(program_.prepare, does);
  }

  static std::string printed(mlir::ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream);
    stream << "\n";
    return text;
  }

  absl::Status writeText(const std::string &text) {
    if (options_.output != "-")
      return write(options_.output, text);
    llvm::outs() << text;
    llvm::outs().flush();
    return absl::OkStatus();
  }

  absl::Status write(const std::string &path, llvm::StringRef bytes) {
    std::span<const std::byte> data(reinterpret_cast<const std::byte *>(bytes.data()),
                                    bytes.size());
    absl::Status status = runtime::write_file_atomically(path, {&data, 1});
    if (status.ok())
      result_.files.push_back(path);
    return status;
  }

  std::string beside(llvm::StringRef extension) const {
    llvm::SmallString<128> path(options_.output);
    llvm::sys::path::replace_extension(path, extension);
    return std::string(path.str());
  }

  absl::Status writeHeader() {
    std::string header = beside("h");
    if (header == options_.output)
      header += ".h";
    llvm::SmallVector<std::string> archives;
    if (options_.device)
      archives.push_back(options_.device->archives.front());
    for (const RuntimeLibrary *library : libraries_) {
      archives.push_back(library->archive.str());
      if (!library->flag.empty())
        archives.push_back(library->flag.str());
    }
    return write(header, modelHeader(name_, program_, parameters_, llvm::join(archives, ", ")));
  }

  absl::Status writeWeights() {
    if (options_.embedWeights || options_.weights.empty())
      return absl::OkStatus();
    std::vector<runtime::ArrayView> views;
    for (const AotWeight &weight : options_.weights)
      views.push_back(
          {weight.name,
           weight.dtype,
           weight.dims,
           {reinterpret_cast<const std::byte *>(weight.bytes.data()), weight.bytes.size()}});
    std::string path = beside("safetensors");
    absl::Status status = runtime::write_safetensors(path, views);
    if (status.ok())
      result_.files.push_back(path);
    return status;
  }

  absl::Status emitObjectFile() {
    if (absl::Status status = write(options_.output, object_); !status.ok())
      return status;
    if (absl::Status status = writeHeader(); !status.ok())
      return status;
    return writeWeights();
  }

  absl::Status emitLinked() {
    absl::StatusOr<std::string> folder = findRuntimeFolder(options_.runtimeFolder);
    if (!folder.ok())
      return folder.status();
    llvm::SmallString<128> object;
    int descriptor;
    if (std::error_code error =
            llvm::sys::fs::createTemporaryFile("weft-model", "o", descriptor, object))
      return absl::InternalError("cannot make a temporary file: " + error.message());
    llvm::FileRemover remove(object);
    {
      llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
      stream << object_;
    }
    LinkRequest request{{std::string(object.str())},
                        options_.output,
                        options_.emit == Emit::SharedLibrary,
                        libraries_,
                        {}};
    if (options_.device)
      request.archives = options_.device->archives;
    if (absl::Status status = linkModel(request, *folder); !status.ok())
      return status;
    result_.files.push_back(options_.output);
    if (options_.emit == Emit::SharedLibrary)
      if (absl::Status status = writeHeader(); !status.ok())
        return status;
    return writeWeights();
  }

  absl::StatusOr<AotResult> finish(absl::Status status) {
    if (!status.ok())
      return status;
    return std::move(result_);
  }

  mlir::ModuleOp module_;
  const AotOptions &options_;
  TargetInfo target_;
  std::string name_;
  mlir::OwningOpRef<mlir::ModuleOp> code_;
  mlir::OwningOpRef<mlir::ModuleOp> prepare_;
  runtime::Program program_;
  std::vector<int32_t> parameters_;
  llvm::SmallVector<const RuntimeLibrary *, 2> libraries_; // that the program calls
  std::vector<CompiledKernel> deviceKernels_;
  std::string object_, llvm_, assembly_;
  AotResult result_;
};

} // namespace

std::optional<Emit> parseEmit(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<Emit>>(name)
      .Case("weft", Emit::Weft)
      .Case("plan", Emit::Plan)
      .Case("llvm", Emit::Llvm)
      .Case("asm", Emit::Assembly)
      .Case("obj", Emit::Object)
      .Case("so", Emit::SharedLibrary)
      .Case("exe", Emit::Executable)
      .Default(std::nullopt);
}

absl::StatusOr<AotResult> compileAheadOfTime(mlir::ModuleOp module, const AotOptions &options) {
  return AotCompilation(module, options).run();
}

} // namespace weft::compiler
