#include "compiler/link/Aot.h"

#include <algorithm>
#include <memory>
#include <set>

#include "compiler/claim/Provider.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/link/AotEntry.h"
#include "compiler/link/ModelCode.h"
#include "compiler/link/SharedTensors.h"
#include "compiler/link/SystemLinker.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "runtime/core/status.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// The artifact: entries, what they share, and the files that they become.
class AotCompilation {
public:
  AotCompilation(ModuleOp module, const AotOptions &options) : module_(module), options_(options) {}

  absl::StatusOr<AotResult> run() {
    WEFT_RETURN_IF_ERROR(prepare());
    WEFT_RETURN_IF_ERROR(compile());
    if (options_.emit == Emit::Weft || options_.emit == Emit::Plan)
      return finish(writeText(text()));
    WEFT_RETURN_IF_ERROR(makeObject());
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
    WEFT_RETURN_IF_ERROR(findEntries());
    name_ = cIdentifier(options_.name.empty() ? llvm::sys::path::stem(options_.output)
                                              : StringRef(options_.name));
    if (!options_.name.empty() && name_ != options_.name)
      return absl::InvalidArgumentError("the model is named '" + options_.name +
                                        "'; it must be a C identifier: its C code has the name");
    if (name_.empty())
      name_ = "model";
    if (options_.output.empty())
      return absl::InvalidArgumentError("no output file was named");
    if (options_.output == "-" && options_.emit != Emit::Weft && options_.emit != Emit::Plan &&
        !isCode(options_.emit))
      return absl::InvalidArgumentError(
          "objects, libraries and executables cannot go to stdout; name an output file");
    if (StringRef folder = llvm::sys::path::parent_path(options_.output);
        options_.output != "-" && !folder.empty() && !llvm::sys::fs::is_directory(folder))
      return absl::NotFoundError("there is no folder '" + folder.str() + "' to write " +
                                 options_.output + " to; make it first");
    WEFT_RETURN_IF_ERROR(shareHeld());
    return findTargets();
  }

  // A level for each processor that is named.
  absl::Status findTargets() {
    if (options_.device) {
      // The host's processor only starts the device: its object, which holds no code, is for any of
      // its kind.
      target().cpu = target().features = "";
      return absl::OkStatus();
    }
    SmallVector<StringRef> names;
    StringRef(options_.compile.cpu).split(names, ',');
    for (auto [i, name] : llvm::enumerate(names)) {
      if (i > 0) {
        Level &level = levels_.emplace_back();
        for (const std::unique_ptr<AotEntry> &entry : entries())
          level.entries.push_back(entry->copy());
      }
      TargetInfo &target = levels_[i].target;
      if (!options_.compile.cpu.empty()) {
        WEFT_ASSIGN_OR_RETURN(target, TargetInfo::named(name));
      }
      if (!options_.compile.features.empty())
        target.features += (target.features.empty() ? "" : ",") + options_.compile.features;
      WEFT_RETURN_IF_ERROR(target.checkUsable());
      WEFT_RETURN_IF_ERROR(checkTaken(i, names));
    }
    return absl::OkStatus();
  }

  // A model takes the first level whose features the machine has all of.
  absl::Status checkTaken(size_t level, ArrayRef<StringRef> names) const {
    auto needed = [&](size_t l) {
      SmallVector<StringRef> features;
      StringRef(levels_[l].target.features).split(features, ',');
      llvm::erase_if(features, [](StringRef each) { return !each.starts_with("+"); });
      llvm::sort(features);
      return features;
    };
    for (size_t before = 0; before < level; ++before)
      if (llvm::includes(needed(level), needed(before)))
        return absl::InvalidArgumentError(
            "the processor '" + names[level].str() +
            "' would never be taken: each that can run its code can run that of '" +
            names[before].str() +
            "', which is named before it; name the best one first, and each once");
    return absl::OkStatus();
  }

  // The module itself, or each of those that it holds.
  absl::Status findEntries() {
    for (ModuleOp module : llvm::make_early_inc_range(module_.getOps<ModuleOp>())) {
      std::string name = module.getSymName().value_or("").str();
      if (name.empty() || name != cIdentifier(name))
        return absl::InvalidArgumentError("an entry is named '" + name +
                                          "'; it must be a C identifier");
      if (llvm::any_of(entries(), [&](const auto &entry) { return entry->name() == name; }))
        return absl::InvalidArgumentError("two entries are named '" + name + "'");
      module->remove();
      modules_.emplace_back(module);
      entries().push_back(std::make_unique<AotEntry>(name, module));
    }
    if (entries().empty())
      entries().push_back(std::make_unique<AotEntry>("main", module_));
    for (const std::unique_ptr<AotEntry> &entry : entries())
      if (absl::Status status = entry->read(entries().size() == 1 ? "" : entry->name() + ".");
          !status.ok())
        return entries().size() == 1
                   ? status
                   : absl::Status(status.code(), "the entry '" + entry->name() +
                                                     "': " + std::string(status.message()));
    return absl::OkStatus();
  }

  // One tensor for each name that entries hold.
  absl::Status shareHeld() {
    WEFT_RETURN_IF_ERROR(shared_.add(entries(), options_.weights));
    for (const std::string &warning : shared_.unseenWrites(entries()))
      warn(warning);
    for (const std::unique_ptr<AotEntry> &entry : entries())
      entry->mark();
    return absl::OkStatus();
  }

  void warn(const std::string &what) const {
    if (options_.warn)
      options_.warn(what);
  }

  absl::Status compile() {
    if (options_.emit == Emit::Weft) {
      for (const std::unique_ptr<AotEntry> &entry : entries())
        WEFT_RETURN_IF_ERROR(entry->compileToFuse(options_));
      return absl::OkStatus();
    }
    MLIRContext &context = *module_.getContext();
    registerCodegenDialects(context);
    code_ = ModuleOp::create(module_.getLoc());
    CodegenOptions options;
    options.verify = options_.compile.verifyEachPhase;
    if (options_.device && isCode(options_.emit))
      options.dump = [this](StringRef stage, StringRef text) {
        keepText(stage, text);
      };
    if (options_.device && options_.device->maker.prepare)
      options_.device->maker.prepare(context);
    for (auto [l, level] : llvm::enumerate(levels_))
      for (auto [e, entry] : llvm::enumerate(level.entries)) {
        // Names that no other model has, no other entry and no other level.
        std::string prefix = "weft_" + name_;
        if (levels_.size() > 1)
          prefix += "_level" + std::to_string(l);
        if (level.entries.size() > 1)
          prefix += "_" + std::to_string(e) + "_" + entry->name();
        WEFT_RETURN_IF_ERROR(entry->compile(options_, level.target, *code_, prefix, options));
        if (levels_.size() > 1)
          markTarget(prefix, level.target);
      }
    warnOfLimit();
    return absl::OkStatus();
  }

  void warnOfLimit() const {
    const int64_t limit = options_.compile.memoryLimit;
    for (size_t e = 0; limit > 0 && e < levels_.front().entries.size(); ++e) {
      int64_t bytes = 0;
      for (const Level &level : levels_)
        bytes = std::max(bytes, level.entries[e]->runBytes());
      if (bytes > limit)
        warn("the memory limit of " + std::to_string(limit) + " bytes is not reached: a run of '" +
             levels_.front().entries[e]->name() + "' takes " + std::to_string(bytes) +
             " bytes beside its inputs and weights, the least that was found");
    }
  }

  // The code holds functions for several processors: each says which it is for.
  void markTarget(StringRef prefix, const TargetInfo &target) {
    for (auto function : code_->getOps<LLVM::LLVMFuncOp>()) {
      if (!function.getSymName().starts_with(prefix))
        continue;
      function.setTargetCpu(target.cpu);
      if (!target.features.empty())
        function.setTargetFeaturesAttr(
            LLVM::TargetFeaturesAttr::get(code_->getContext(), target.features));
    }
  }

  std::string text() const {
    std::string text;
    for (const Level &level : levels_) {
      if (options_.emit == Emit::Weft && &level != &levels_.front())
        break; // that is not for a processor yet
      for (const std::unique_ptr<AotEntry> &entry : level.entries) {
        if (levels_.size() > 1 && options_.emit != Emit::Weft)
          text += "// for " + level.target.cpu + "\n";
        if (level.entries.size() > 1)
          text += "// entry '" + entry->name() + "'\n";
        text += entry->text();
      }
    }
    return text;
  }

  static bool isCode(Emit emit) {
    return emit == Emit::Llvm || emit == Emit::Assembly;
  }

  void keepText(StringRef stage, StringRef text) {
    if (stage == "ll")
      llvm_ += text;
    if (stage == (options_.device ? StringRef(options_.device->maker.assembly) : "s"))
      assembly_ += text;
  }

  // A weight of one program, with a value, becomes a constant of it. All others are the model's.
  absl::Status gatherCode() {
    model_.name = name_;
    model_.isMain = options_.emit == Emit::Executable;
    if (options_.device)
      model_.executableMaker = options_.device->executableMaker;
    auto value = [&](const AotEntry::Held &held) -> std::optional<ArrayRef<char>> {
      const SharedTensors::Shared &shared = shared_.of(held);
      if (!options_.embedWeights || shared.tensor.isState || shared.entries > 1 ||
          levels_.size() > 1)
        return std::nullopt;
      return shared.tensor.value;
    };
    auto number = [&](const AotEntry::Held &held) {
      SharedTensors::Shared &shared = shared_.of(held);
      if (shared.number < 0) {
        shared.number = int32_t(model_.held.size());
        model_.held.push_back(shared.tensor);
        if (!options_.embedWeights)
          model_.held.back().value.reset();
      }
      return shared.number;
    };
    for (const Level &level : levels_) {
      std::vector<EntryCode> &codes = model_.levels.emplace_back();
      for (const std::unique_ptr<AotEntry> &entry : level.entries) {
        WEFT_ASSIGN_OR_RETURN(EntryCode code, entry->code(options_, value, number));
        codes.push_back(std::move(code));
      }
    }
    WEFT_RETURN_IF_ERROR(gatherLibraries());
    return addModelCode(*code_, model_);
  }

  // Of the libraries those that programs call.
  absl::Status gatherLibraries() {
    std::set<std::string> called;
    for (const Level &level : levels_)
      for (const std::unique_ptr<AotEntry> &entry : level.entries)
        entry->addCalled(called);
    callsKernelsOfUsers_ = called.count(kCustomEntry.str()) > 0;
    std::set<std::string> missing = called;
    for (const RuntimeLibrary &library : options_.libraries) {
      auto isOfIt = [&](const std::string &name) {
        return StringRef(name).starts_with(library.entries);
      };
      if (llvm::none_of(called, isOfIt))
        continue;
      std::erase_if(missing, isOfIt);
      libraries_.push_back(library);
      model_.libraryFinders.push_back(library.finder);
    }
    // What another device's executable calls, it brings.
    if (!missing.empty() && !options_.device)
      return absl::UnimplementedError("the program calls '" + *missing.begin() +
                                      "', which no library brings to programs compiled ahead of "
                                      "time");
    return absl::OkStatus();
  }

  absl::Status makeObject() {
    // Of a device's kernels both forms were kept when they were made.
    if (options_.device && isCode(options_.emit))
      return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(gatherCode());
    CodegenOptions options;
    options.verify = options_.compile.verifyEachPhase;
    if (isCode(options_.emit))
      options.dump = [this](StringRef stage, StringRef text) {
        keepText(stage, text);
      };
    WEFT_ASSIGN_OR_RETURN(object_, emitObject(*code_, levels_.back().target, options));
    return absl::OkStatus();
  }

  absl::Status writeText(const std::string &text) {
    // What is there and no file, as /dev/stdout, is written to and not replaced.
    llvm::sys::fs::file_status there;
    if (options_.output != "-" && !llvm::sys::fs::status(options_.output, there) &&
        llvm::sys::fs::is_other(there)) {
      std::error_code error;
      llvm::raw_fd_ostream stream(options_.output, error);
      if (!error) {
        stream << text;
        stream.close();
        error = stream.error();
        stream.clear_error();
      }
      return error ? absl::UnavailableError("cannot write '" + options_.output +
                                            "': " + error.message())
                   : absl::OkStatus();
    }
    if (options_.output != "-")
      return write(options_.output, text);
    llvm::outs() << text;
    llvm::outs().flush();
    return absl::OkStatus();
  }

  absl::Status write(const std::string &path, StringRef bytes) {
    absl::Status status = runtime::write_file_atomically(path, bytes);
    if (status.ok())
      result_.files.push_back(path);
    return status;
  }

  // What an executable's name has behind a dot is no extension: "model.v2" and "model.v3" are two.
  std::string beside(StringRef extension) const {
    llvm::SmallString<128> path(options_.output);
    if (options_.emit == Emit::Executable)
      path += ("." + extension).str();
    else
      llvm::sys::path::replace_extension(path, extension);
    return std::string(path.str());
  }

  absl::Status writeHeader() {
    std::string header = beside("h");
    if (header == options_.output)
      header += ".h";
    // As SystemLinker.cpp orders them.
    SmallVector<std::string> parts;
    if (options_.emit == Emit::Object && callsKernelsOfUsers_) {
      llvm::append_range(parts, options_.link);
      if (parts.empty())
        parts.push_back("(an object that defines weft_kernel_plugin)");
    }
    for (const RuntimeLibrary &library : libraries_)
      llvm::append_range(parts, library.files);
    if (options_.device)
      parts.push_back(options_.device->archives.front());
    parts.push_back("libweft_aot.a");
    for (const RuntimeLibrary &library : libraries_)
      llvm::append_range(parts, library.flags);
    llvm::append_range(parts, ArrayRef<const char *>{"-lstdc++", "-lm"});
    return write(header, modelHeader(model_, llvm::join(parts, " ")));
  }

  absl::Status writeWeights() {
    std::vector<runtime::ArrayView> views;
    for (const SharedTensors::Shared &shared : shared_.all())
      if (const HeldTensor &tensor = shared.tensor; tensor.value && !options_.embedWeights)
        views.push_back(
            {tensor.name,
             tensor.dtype,
             tensor.dims,
             {reinterpret_cast<const std::byte *>(tensor.value->data()), tensor.value->size()}});
    if (views.empty())
      return absl::OkStatus();
    std::string path = beside("safetensors");
    absl::Status status = runtime::write_safetensors(path, views);
    if (status.ok())
      result_.files.push_back(path);
    return status;
  }

  absl::Status emitObjectFile() {
    WEFT_RETURN_IF_ERROR(write(options_.output, object_));
    WEFT_RETURN_IF_ERROR(writeHeader());
    return writeWeights();
  }

  absl::Status emitLinked() {
    WEFT_ASSIGN_OR_RETURN(std::string folder, findRuntimeFolder(options_.runtimeFolder));
    llvm::SmallString<128> object;
    WEFT_RETURN_IF_ERROR(temporaryFile("weft-model", "o", object));
    llvm::FileRemover remove(object);
    WEFT_RETURN_IF_ERROR(runtime::write_file_atomically(std::string(object.str()), object_));
    LinkRequest request{{std::string(object.str())},          options_.link, options_.output,
                        options_.emit == Emit::SharedLibrary, libraries_,    {}};
    if (options_.device)
      request.archives = options_.device->archives;
    WEFT_RETURN_IF_ERROR(linkModel(request, folder));
    result_.files.push_back(options_.output);
    if (options_.emit == Emit::SharedLibrary)
      WEFT_RETURN_IF_ERROR(writeHeader());
    return writeWeights();
  }

  absl::StatusOr<AotResult> finish(absl::Status status) {
    if (!status.ok())
      return status;
    for (const Level &level : levels_)
      for (const std::unique_ptr<AotEntry> &entry : level.entries)
        result_.reports.push_back(std::move(entry->report()));
    return std::move(result_);
  }

  // The entries for one kind of processor.
  struct Level {
    TargetInfo target = TargetInfo::host();
    std::vector<std::unique_ptr<AotEntry>> entries;
  };
  std::vector<std::unique_ptr<AotEntry>> &entries() {
    return levels_.front().entries;
  }
  TargetInfo &target() {
    return levels_.front().target;
  }

  ModuleOp module_;
  const AotOptions &options_;
  std::string name_;
  std::vector<OwningOpRef<ModuleOp>> modules_; // of entries, where there are several
  // The best first. All that holds no code is asked of the first one's entries.
  std::vector<Level> levels_ = std::vector<Level>(1);
  SharedTensors shared_;
  ModelCode model_;
  OwningOpRef<ModuleOp> code_;
  std::vector<RuntimeLibrary> libraries_; // that the programs call
  bool callsKernelsOfUsers_ = false;
  std::string object_, llvm_, assembly_;
  AotResult result_;
};

} // namespace

std::optional<Emit> parseEmit(StringRef name) {
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

absl::StatusOr<AotResult> compileAheadOfTime(ModuleOp module, const AotOptions &options) {
  return AotCompilation(module, options).run();
}

} // namespace weft::compiler
