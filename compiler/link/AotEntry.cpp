#include "compiler/link/AotEntry.h"

#include <algorithm>
#include <limits>

#include "compiler/claim/Provider.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/link/BuildProgram.h"
#include "compiler/link/CapturedTensors.h"
#include "compiler/link/KernelDump.h"
#include "compiler/link/Limits.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/plan/Extract.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/SignatureAttributes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/TypeAdvice.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/state/StateAttributes.h"
#include "runtime/core/status.h"
#include "runtime/executable/library_call.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

using namespace mlir;

namespace {

std::string printed(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  // Code generation has taken names of sizes from the kernels' ops, and left them in their types.
  module.print(stream, OpPrintingFlags().assumeVerified());
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

// The sizes that vary in the arguments' types are the one that has a range.
absl::Status checkSizes(func::FuncOp main, const std::optional<SizeRange> &range) {
  for (auto [i, type] : llvm::enumerate(main.getArgumentTypes())) {
    if (!ir::hasNamedDims(type))
      continue;
    for (const ir::Dim &dim : ir::dimsOf(cast<RankedTensorType>(type)))
      if (!dim.isStatic())
        for (StringRef name : ir::productOf(dim.symbol.getValue()).symbols)
          if (!range || name != range->name)
            return absl::InvalidArgumentError(
                ("argument " + Twine(i) + " of @main, " + ir::spell(type) + ", has the size '" +
                 name + "', " +
                 (range ? "but weft.sizes has the range of '" + range->name + "'; a model has one"
                        : "whose range the module does not say; write module attributes "
                          "{weft.sizes = {" +
                              name.str() + " = [MIN, MAX]}}"))
                    .str());
  }
  return absl::OkStatus();
}

} // namespace

absl::Status AotEntry::read(StringRef prefix) {
  if (!main_)
    return absl::InvalidArgumentError("the module has no func.func @main to compile");
  WEFT_ASSIGN_OR_RETURN(std::optional<SizeRange> range, sizeRange(module_));
  range_ = range;
  WEFT_RETURN_IF_ERROR(checkSizes(main_, range_));
  WEFT_RETURN_IF_ERROR(makeParameters(main_, prefix));
  ir::SignatureAttributes attributes(main_);
  StringSet<> names;
  for (unsigned i = 0; i < main_.getNumArguments(); ++i) {
    // Inputs belong to whoever runs the model.
    attributes.argument(i).erase(ir::kDonatableAttr);
    auto state = main_.getArgAttrOfType<StringAttr>(i, ir::kStateAttr);
    auto parameter = main_.getArgAttrOfType<StringAttr>(i, ir::kParameterAttr);
    auto type = dyn_cast<RankedTensorType>(main_.getArgumentTypes()[i]);
    if ((!state && !parameter) || !type)
      continue;
    Held &held = held_.emplace_back();
    held.argument = i;
    held.name = (state ? state : parameter).str();
    if (std::string advice = ir::elementAdvice(type); !advice.empty())
      return absl::InvalidArgumentError("the model holds '" + held.name +
                                        "', whose elements are of none of Weft's types; " + advice);
    held.dtype = ir::dtypeOf(type.getElementType());
    held.dims.assign(type.getShape().begin(), type.getShape().end());
    if (ir::hasNamedDims(type))
      return absl::InvalidArgumentError("the model holds '" + held.name +
                                        "', which has a size that varies: " + ir::spell(type));
    held.isState = bool(state);
    if (!names.insert(held.name).second)
      return absl::InvalidArgumentError("two arguments of @main are called '" + held.name + "'");
    if (auto initial = main_.getArgAttrOfType<ElementsAttr>(i, ir::kInitialAttr)) {
      if (initial.getType() != type)
        return absl::InvalidArgumentError("the first value of '" + held.name +
                                          "' has another type than the argument");
      held.initial = ir::HostTensor::from(initial);
    }
    for (StringRef attribute :
         {ir::kStateAttr, ir::kInitialAttr, ir::kParameterAttr, ir::kKeptAttr})
      attributes.argument(i).erase(attribute);
  }
  DenseSet<int64_t> written;
  for (unsigned i = 0; i < main_.getNumResults(); ++i) {
    auto writes = main_.getResultAttrOfType<IntegerAttr>(i, ir::kWritesAttr);
    if (!writes)
      continue;
    attributes.result(i).erase(ir::kWritesAttr);
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
  Builder builder(main_.getContext());
  ir::SignatureAttributes attributes(main_);
  for (const Held &held : held_) {
    NamedAttrList &argument = attributes.argument(held.argument);
    StringAttr name = builder.getStringAttr(held.name);
    // What is prepared of a weight belongs to one program: where there is one for each size it
    // would be there as often.
    if (!held.isState && !range_) {
      argument.set(ir::kParameterAttr, name);
      continue;
    }
    argument.set(ir::kNameAttr, name);
    if (held.isWritten) {
      argument.set(ir::kDonatableAttr, builder.getUnitAttr());
      argument.set(ir::kKeptAttr, builder.getUnitAttr());
    }
  }
}

std::unique_ptr<AotEntry> AotEntry::copy() const {
  OwningOpRef<ModuleOp> module = ModuleOp(module_).clone();
  auto result = std::make_unique<AotEntry>(name_, *module);
  result->copy_ = std::move(module);
  result->writes_ = writes_;
  result->range_ = range_;
  for (const Held &held : held_)
    result->held_.push_back({held.argument, held.name, held.dtype, held.dims, held.isState,
                             held.isWritten, std::nullopt});
  return result;
}

// Whether the claims of libraries are the same for all sizes. Other errors are left to the
// compilation.
absl::StatusOr<bool> AotEntry::servesAll(int64_t low, int64_t high, const AotOptions &options) {
  if (low == high)
    return true;
  OwningOpRef<ModuleOp> module = ModuleOp(module_).clone();
  WEFT_RETURN_IF_ERROR(narrow(*module, low, high));
  ir::DiagnosticCollector diagnostics(module_.getContext());
  CompileReport report;
  CompileOptions compile = options.compile;
  compile.dumpDir.clear();
  Pipeline pipeline(compile, options.compile.claim ? options.providers : nullptr, &report);
  return succeeded(pipeline.run(*module, Phase::Import, Phase::Claim)) || !report.takesSomeSizes;
}

absl::StatusOr<AotEntry::Part> AotEntry::makePart(int64_t low, int64_t high) {
  Part part;
  part.low = low;
  part.high = high;
  part.copy = ModuleOp(module_).clone();
  part.module = *part.copy;
  WEFT_RETURN_IF_ERROR(narrow(part.module, low, high));
  // The size is an input of the program, which becomes a constant that the table of sizes sets.
  auto main = part.module.lookupSymbol<func::FuncOp>("main");
  SmallVector<ir::ConstantOp> sizes;
  for (auto constant : main.getOps<ir::ConstantOp>())
    if (constant->hasAttr(kSizeAttr))
      sizes.push_back(constant);
  if (!sizes.empty()) {
    part.sizeInput = int32_t(main.getNumArguments());
    if (failed(main.insertArgument(main.getNumArguments(), sizes.front().getType(), {},
                                   main.getLoc())))
      return absl::InternalError("@main takes no further argument");
    for (ir::ConstantOp constant : sizes) {
      constant.getResult().replaceAllUsesWith(main.getArgument(unsigned(part.sizeInput)));
      constant.erase();
    }
  }
  return part;
}

// From the largest size down: each part reaches as far as libraries take the same ops, 1 is one of
// its own.
absl::Status AotEntry::makeParts(const AotOptions &options) {
  parts_.clear();
  if (!range_) {
    parts_.emplace_back().module = module_;
    return absl::OkStatus();
  }
  if (options.device)
    return absl::UnimplementedError("programs of this backend have no sizes that vary; trace the "
                                    "function for one size");
  constexpr int64_t kFirstNamed = 2;
  for (int64_t high = range_->high; high >= range_->low;) {
    int64_t low = high < kFirstNamed ? high : std::max(range_->low, kFirstNamed), beyond = high;
    // The smallest that serves: mostly all do.
    for (bool first = true; low < beyond; first = false) {
      int64_t middle = first ? low : low + (beyond - low) / 2;
      WEFT_ASSIGN_OR_RETURN(bool serves, servesAll(middle, high, options));
      if (serves)
        beyond = middle;
      else
        low = middle + 1;
    }
    WEFT_ASSIGN_OR_RETURN(Part part, makePart(low, high));
    parts_.insert(parts_.begin(), std::move(part));
    high = low - 1;
  }
  return absl::OkStatus();
}

absl::Status AotEntry::at(const Part &part, const absl::Status &status) const {
  if (!range_ || status.ok())
    return status;
  return absl::Status(status.code(), "the " + range_->name + " of '" + name_ +
                                         "' cannot vary from " + std::to_string(part.low) + " to " +
                                         std::to_string(part.high) + ": " +
                                         std::string(status.message()));
}

absl::Status AotEntry::compileToFuse(const AotOptions &options) {
  WEFT_RETURN_IF_ERROR(makeParts(options));
  for (Part &part : parts_) {
    ir::DiagnosticCollector diagnostics(module_.getContext());
    Pipeline pipeline(options.compile, options.providers, &report_);
    if (failed(pipeline.run(part.module, Phase::Import, Phase::Fuse)))
      return at(part, absl::InternalError(diagnostics.failure("compilation failed")));
  }
  return absl::OkStatus();
}

absl::Status AotEntry::compile(const AotOptions &options, const TargetInfo &target, ModuleOp code,
                               const std::string &prefix, const CodegenOptions &codegen) {
  WEFT_RETURN_IF_ERROR(makeParts(options));
  auto name = [&](const Part &part) {
    std::string text = prefix;
    if (range_)
      text += "_size" + std::to_string(part.low);
    if (part.low < part.high)
      text += "_to_" + std::to_string(part.high);
    return text;
  };
  std::vector<Part> made;
  int64_t alone = 0;
  for (Part &part : parts_) {
    absl::Status status = compile(part, options, target, code, name(part), codegen);
    int64_t count = part.high - part.low + 1;
    if (!status.ok() && count > 1 && alone + count > kMaxSizesAlone) {
      // What fails at one size, too, has another reason than the range.
      absl::StatusOr<Part> single = makePart(part.low, part.low);
      if (single.ok() && compile(*single, options, target, code, name(*single), codegen).ok())
        status = absl::Status(
            status.code(),
            std::string(status.message()) +
                ". Where an op has no form for a range of sizes, each size has a program of its "
                "own, of which an entry has at most " +
                std::to_string(kMaxSizesAlone) + ": trace the function for " +
                std::to_string(kMaxSizesAlone) +
                " sizes at most, or for several ranges as entries of their own");
    }
    if (!status.ok() && (count == 1 || alone + count > kMaxSizesAlone))
      return at(part, status);
    if (status.ok()) {
      made.push_back(std::move(part));
      continue;
    }
    // An op has no form for these sizes together.
    alone += count;
    report_.remarks.push_back("sizes from " + std::to_string(part.low) + " to " +
                              std::to_string(part.high) +
                              " have programs of their own: " + std::string(status.message()));
    for (int64_t size = part.low; size <= part.high; ++size) {
      WEFT_ASSIGN_OR_RETURN(Part single, makePart(size, size));
      status = compile(single, options, target, code, name(single), codegen);
      if (!status.ok())
        return at(single, status);
      made.push_back(std::move(single));
    }
  }
  parts_ = std::move(made);
  return absl::OkStatus();
}

absl::Status AotEntry::compile(Part &part, const AotOptions &options, const TargetInfo &target,
                               ModuleOp code, const std::string &prefix,
                               const CodegenOptions &codegen) {
  CompileRequest request;
  request.providers = options.compile.claim ? options.providers : nullptr;
  request.target = options.device ? options.device->maker.key : target.key();
  request.scratchBytes = options.scratchBytes;
  request.chooseSchedules = options.chooseSchedules;
  if (options.device)
    request.operandAlignment = options.device->maker.operandAlignment;
  request.makeKernels = [&](ArrayRef<plan::KernelOp> kernels, StringRef dumpFolder) {
    std::vector<absl::StatusOr<KernelInfo>> infos;
    for (plan::KernelOp kernel : kernels) {
      ir::DiagnosticCollector diagnostics(module_.getContext());
      bool prepares = kernel->getParentOp() != part.module;
      KernelDump dump(dumpFolder, kernel.getSymName(),
                      options.device ? options.device->maker.assembly : "s");
      dump.write(kernel);
      CodegenOptions ours = codegen;
      if (DumpHook hook = dump.hook())
        ours.dump = [hook, asked = codegen.dump](StringRef stage, StringRef text) {
          hook(stage, text);
          if (asked)
            asked(stage, text);
        };
      absl::StatusOr<KernelInfo> info =
          buildKernel(kernel, prepares, options, target, code, prefix, ours);
      if (!info.ok())
        info = absl::Status(info.status().code(),
                            diagnostics.failure(std::string(info.status().message())));
      infos.push_back(std::move(info));
    }
    return infos;
  };
  CompileOptions ours = options.compile;
  ours.lendOutputs = false; // they are aligned as the caller has it
  absl::Status status = compileToPlan(part.module, ours, request, &report_, part.prepare);
  if (status.ok())
    runBytes_ = std::max(runBytes_, report_.plan.arenaBytes + report_.plan.outputBytes);
  if (!status.ok() || options.emit == Emit::Plan)
    return status;
  WEFT_ASSIGN_OR_RETURN(part.program,
                        linkProgram(part.module, part.prepare ? *part.prepare : ModuleOp(),
                                    request.target, report_.plan, range_ ? &part.sizes : nullptr));
  if (part.sizeInput >= 0) {
    int64_t offset = int64_t(part.program.constants.size());
    WEFT_ASSIGN_OR_RETURN(
        part.program,
        bindConstants(
            part.program,
            {{part.sizeInput, {reinterpret_cast<const char *>(&part.high), sizeof part.high}}}));
    auto &names = part.sizes.names;
    if (part.low < part.high) {
      if (!llvm::is_contained(names, range_->name))
        names.push_back(range_->name);
      runtime::SizeTable::Entry entry;
      entry.place = runtime::SizeTable::Place::kConstant;
      entry.index = int32_t(offset);
      entry.value.names.push_back(int32_t(llvm::find(names, range_->name) - names.begin()));
      entry.largest = part.high;
      if (offset > std::numeric_limits<int32_t>::max())
        return absl::UnimplementedError(
            "the program's constants take more than 2 GiB; name what it "
            "captures, so that it becomes weights");
      part.sizes.entries.push_back(std::move(entry));
    }
  }
  WEFT_RETURN_IF_ERROR(checkCustomKernels(part.program, options));
  for (const runtime::Program &prepare : part.program.prepare)
    WEFT_RETURN_IF_ERROR(checkCustomKernels(prepare, options));
  return absl::OkStatus();
}

absl::StatusOr<KernelInfo> AotEntry::buildKernel(plan::KernelOp kernel, bool prepares,
                                                 const AotOptions &options,
                                                 const TargetInfo &target, ModuleOp code,
                                                 const std::string &prefix,
                                                 const CodegenOptions &codegen) {
  auto fusions = kernel.getBody().front().getOps<ir::FusionOp>();
  if (fusions.empty())
    return absl::InternalError("its fusion is gone");
  std::string symbol = prefix + (prepares ? "_prepare_" : "_") + kernel.getSymName().str();
  if (options.device) {
    WEFT_ASSIGN_OR_RETURN(CompiledKernel made,
                          options.device->maker.make(*fusions.begin(), symbol, codegen));
    deviceKernels_.push_back(std::move(made));
    return deviceKernels_.back().info;
  }
  FailureOr<KernelInfo> info =
      compiler::buildKernel(*fusions.begin(), symbol, code, target, codegen);
  if (failed(info))
    return absl::InternalError("codegen failed");
  return *info;
}

std::string AotEntry::text() const {
  std::string text;
  for (const Part &part : parts_) {
    if (range_)
      text += "// " + range_->name + " from " + std::to_string(part.low) + " to " +
              std::to_string(part.high) + "\n";
    text += printed(part.module) + (part.prepare ? printed(*part.prepare) : "");
  }
  return text;
}

void AotEntry::addCalled(std::set<std::string> &names) const {
  auto add = [&](const runtime::Program &program) {
    for (const runtime::Instruction &instruction : program.instructions)
      if (auto *call = std::get_if<runtime::LibraryCall>(&instruction))
        names.insert(call->entry);
  };
  for (const Part &part : parts_) {
    add(part.program);
    llvm::for_each(part.program.prepare, add);
  }
}

absl::StatusOr<EntryCode>
AotEntry::code(const AotOptions &options,
               function_ref<std::optional<ArrayRef<char>>(const Held &)> value,
               function_ref<int32_t(const Held &)> number) const {
  EntryCode code;
  code.name = name_;
  std::vector<std::pair<int32_t, ArrayRef<char>>> constants;
  for (const Held &held : held_) { // in the order of the arguments
    // A constant would be copied for each size.
    std::optional<ArrayRef<char>> bytes = range_ ? std::nullopt : value(held);
    if (bytes)
      constants.emplace_back(int32_t(held.argument), *bytes);
    else
      code.reads.emplace_back(int32_t(held.argument - constants.size()), number(held));
  }
  for (auto [result, index] : writes_)
    code.writes.emplace_back(int32_t(result), number(held_[index]));
  if (range_)
    code.programs.name = range_->name;
  for (const Part &part : parts_) {
    WEFT_ASSIGN_OR_RETURN(runtime::Program bound, bindConstants(part.program, constants));
    code.programs.parts.push_back({part.low, part.high, std::move(bound), part.sizes});
  }
  if (options.device) {
    WEFT_ASSIGN_OR_RETURN(code.deviceCode, options.device->pack(deviceKernels_));
  }
  return code;
}

} // namespace weft::compiler
