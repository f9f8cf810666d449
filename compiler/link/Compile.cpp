#include "compiler/link/Compile.h"

#include <array>
#include <chrono>

#include "compiler/codegen/Choices.h"
#include "compiler/codegen/Sizes.h"
#include "compiler/link/BuildProgram.h"
#include "compiler/link/KernelCompiler.h"
#include "compiler/link/SplitKernels.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/Registrations.h"
#include "compiler/pipeline/Report.h"
#include "compiler/plan/Extract.h"
#include "compiler/plan/Passes.h"
#include "compiler/plan/PlannerHooks.h"
#include "compiler/prepare/Passes.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/core/status.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

using namespace mlir;

namespace {

double millisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

LogicalResult runPasses(ModuleOp module, bool verify, function_ref<void(OpPassManager &)> add) {
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  passes.enableVerifier(verify);
  add(passes);
  return passes.run(module);
}

void countInstructions(ModuleOp module, CompileReport &report) {
  for (Operation &op : *module.getBody())
    report.kernels += isa<plan::KernelOp>(op);
  plan::ProgramOp program = findProgram(module);
  if (!program)
    return;
  program.walk([&](Operation *op) {
    auto pieces = dyn_cast<plan::PiecesOp>(op->getParentOp());
    int64_t runs = pieces ? int64_t(pieces.getCount()) : 1;
    report.launches += isa<plan::LaunchOp>(op) ? runs : 0;
    report.libraryCalls += isa<plan::LibraryCallOp>(op) ? runs : 0;
    report.copies += isa<plan::CopyOp>(op) ? runs : 0;
  });
}

LogicalResult sizesOf(plan::KernelOp kernel) {
  auto fusions = kernel.getBody().front().getOps<ir::FusionOp>();
  return success(
      llvm::all_of(fusions, [](ir::FusionOp fusion) { return succeeded(kernelSizes(fusion)); }));
}

// What became of the choices that the kernel's fusion pins.
void notePins(plan::KernelOp kernel, const KernelInfo &info, RefusalCollector &refusals,
              CompileReport *report) {
  for (ir::FusionOp fusion : kernel.getBody().front().getOps<ir::FusionOp>()) {
    if (!fusion->hasAttr(kScheduleAttr))
      continue;
    for (const std::string &why : info.refusedPins)
      refusals.add("pin-not-taken", fusion, why);
    DictionaryAttr chosen = scheduleAttr(kernel.getContext(), info.schedule);
    NamedAttrList taken;
    if (auto pinned = fusion->getAttrOfType<DictionaryAttr>(kScheduleAttr))
      for (NamedAttribute pin : pinned)
        if (chosen.get(pin.getName()) == pin.getValue())
          taken.append(pin);
    if (report && !taken.empty()) {
      std::string text = "schedule: " + kernel.getSymName().str() + " has pinned choices: ";
      llvm::raw_string_ostream(text) << taken.getDictionary(kernel.getContext());
      report->remarks.push_back(std::move(text));
    }
  }
}

// Has the kernels made, and what becomes of those that cannot be, until all are.
absl::Status makeAll(ModuleOp module, SmallVector<plan::KernelOp> kernels,
                     const MakeKernels &makeKernels, StringRef dumpFolder,
                     const PlanPhaseResult &result) {
  KernelSplitter splitter(module);
  RefusalCollector pins("schedule");
  while (!kernels.empty()) {
    // Of parts, too, sizes may vary; of whole kernels that has been looked at.
    SmallVector<RefusedKernel> refused;
    llvm::erase_if(kernels, [&](plan::KernelOp kernel) {
      ir::DiagnosticCollector diagnostics(module.getContext());
      if (succeeded(sizesOf(kernel)))
        return false;
      refused.push_back({kernel, absl::InternalError(diagnostics.text())});
      return true;
    });
    MadeKernels infos = makeKernels(kernels, dumpFolder);
    if (!infos.ok())
      return infos.status();
    for (auto [kernel, info] : llvm::zip(kernels, *infos)) {
      if (!info.ok()) {
        refused.push_back({kernel, info.status()});
        continue;
      }
      attachKernelInfo(kernel, *info);
      notePins(kernel, *info, pins, result.refusals);
      if (result.refusals)
        llvm::append_range(result.refusals->remarks, info->remarks);
    }
    kernels.clear();
    if (refused.empty())
      break;
    WEFT_RETURN_IF_ERROR(splitter.split(refused, kernels));
  }
  splitter.refusals().flush(result.refusals);
  pins.flush(result.refusals);
  return absl::OkStatus();
}

// Gives library calls a buffer to work in, which the planner places as it does any other: live
// during the call alone, it shares its bytes with what is not live then.
absl::Status addScratch(plan::ProgramOp program, const ScratchBytes &ask) {
  if (!program)
    return absl::OkStatus();
  // The layers of a network repeat: equal calls are asked about once.
  using Key = std::tuple<Attribute, Attribute, Attribute, Attribute>;
  DenseMap<Key, int64_t> known;
  SmallVector<plan::LibraryCallOp> calls;
  program.walk([&](plan::LibraryCallOp call) { calls.push_back(call); });
  for (plan::LibraryCallOp call : calls) {
    auto [it, fresh] = known.try_emplace({call.getCalleeAttr(), call.getTypesAttr(),
                                          call.getConfigAttr(), call->getAttr(plan::kStridesAttr)},
                                         0);
    if (fresh) {
      WEFT_ASSIGN_OR_RETURN(runtime::LibraryCall described, libraryCall(call));
      absl::StatusOr<int64_t> bytes = ask(described);
      if (!bytes.ok()) {
        std::string line = locationText(call);
        return absl::Status(bytes.status().code(), (line.empty() ? "" : line + ": ") +
                                                       described.entry + ": " +
                                                       std::string(bytes.status().message()));
      }
      it->second = *bytes;
    }
    if (it->second == 0)
      continue;
    call.getScratchMutable().assign(plan::bufferFor(call, it->second));
  }
  return absl::OkStatus();
}

// What became of the memory limit.
void remarkOnLimit(const PlanReport &report, int64_t limit, std::vector<std::string> &remarks) {
  int64_t planned = report.arenaBytes + report.outputBytes;
  if (report.recomputations == 0 && report.storedValues == 0 && planned <= limit)
    return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "plan: memory limit of " << limit << " bytes: " << report.recomputations
         << " instructions run again, ";
  if (report.storedValues > 0)
    stream << report.storedValues << " values of " << report.storedBytes
           << " bytes in all wait in files, ";
  stream << "some " << llvm::format("%.0f", 100 * report.recomputedShare) << " % more work";
  if (planned > limit)
    stream << "; it is not reached: " << planned
           << " bytes are the least that was found, outputs included";
  remarks.push_back(std::move(text));
}

} // namespace

void setPlanPhase(Pipeline &pipeline, const CompileOptions &options, const CompileRequest &request,
                  PlanPhaseResult result) {
  pipeline.setPhaseBody(
      Phase::Plan,
      [&pipeline, options, makeKernels = request.makeKernels, scratchBytes = request.scratchBytes,
       chooseSchedules = request.chooseSchedules, providers = request.providers,
       alignment = request.operandAlignment, result](ModuleOp module) -> LogicalResult {
        auto fail = [&](const absl::Status &status) -> LogicalResult {
          if (result.failure)
            *result.failure = status;
          return mlir::emitError(module.getLoc()) << std::string(status.message());
        };
        std::vector<std::string> unread;
        if (chooseSchedules)
          chooseSchedules(module, result.refusals ? result.refusals->remarks : unread);
        if (failed(runPasses(module, options.verifyEachPhase, [&](OpPassManager &passes) {
              passes.addPass(createWeftToPlanPass(alignment));
              if (options.inPlace)
                passes.addPass(createPlanPiecesPass(providers, result.refusals));
            })))
          return failure();
        // Kernels come before memory: only codegen knows which operands a kernel may overwrite, and
        // how much room its partial results take.
        auto start = std::chrono::steady_clock::now();
        SmallVector<plan::KernelOp> kernels(module.getOps<plan::KernelOp>());
        // Before anything is compiled: sizes that vary are given up for one kernel that cannot have
        // them.
        for (plan::KernelOp kernel : kernels)
          if (failed(sizesOf(kernel)))
            return failure();
        absl::Status made = makeAll(module, kernels, makeKernels, pipeline.dumpFolder(), result);
        if (result.kernelMilliseconds)
          *result.kernelMilliseconds = millisecondsSince(start);
        if (!made.ok())
          return fail(made);
        if (scratchBytes)
          if (absl::Status status = addScratch(findProgram(module), scratchBytes); !status.ok())
            return fail(status);
        PlanReport unasked;
        PlanReport &report = result.report ? *result.report : unasked;
        if (failed(
                runPasses(module, options.verifyEachPhase, [&](OpPassManager &passes) {
                  addPlanMemoryPasses(passes, &report,
                                      {options.inPlace, options.lendOutputs, options.memoryLimit,
                                       options.memoryFiles});
                }))) {
          if (std::optional<RegisteredPlanner> planner = registeredPlanner())
            mlir::emitError(module.getLoc())
                << "memory was packed by the registered planner '" << planner->name << "'";
          return failure();
        }
        if (std::optional<RegisteredPlanner> planner = registeredPlanner();
            planner && result.refusals && report.packing != planner->name)
          result.refusals->remarks.push_back("plan: packed " + report.packing);
        if (result.refusals && options.memoryLimit > 0)
          remarkOnLimit(report, options.memoryLimit, result.refusals->remarks);
        return success();
      });
}

namespace {

// The phases that are left for what runs ahead: it was split off after claiming.
LogicalResult planPrepare(ModuleOp prepare, CompileOptions options, const CompileRequest &request,
                          StringRef dumpFolder, CompileReport &report, CompileReport &refusals,
                          absl::Status &planFailure) {
  options.dumpDir = dumpFolder.empty() ? "" : (dumpFolder + "/prepare").str();
  options.memoryFiles = false; // it runs once, and its files would stay
  Pipeline pipeline(options, request.providers, &report);
  CompileRequest once = request;
  once.chooseSchedules = nullptr; // what runs once is not worth measuring
  setPlanPhase(pipeline, options, once, {&report.plan, &refusals, &planFailure, nullptr});
  return pipeline.run(prepare, Phase::Fuse, Phase::Plan);
}

} // namespace

static constexpr StringLiteral kRecipeAttr = "weft.recipe"; // Program::recipe

// By what it computes: the IR of two that prepare the same is the same, but for lines. Math, and
// what users have registered, decide how it is compiled.
static void setRecipe(ModuleOp prepare, const CompileOptions &options) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  prepare.print(stream, OpPrintingFlags().enableDebugInfo(false));
  stream << static_cast<int>(options.math) << ' ' << registrationsGeneration() << '\n'
         << registrationsKey();
  std::array<uint8_t, 32> hash = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  prepare->setAttr(kRecipeAttr, StringAttr::get(prepare.getContext(), llvm::toHex(hash)));
}

absl::Status compileToPlan(ModuleOp module, const CompileOptions &options,
                           const CompileRequest &request, CompileReport *report,
                           OwningOpRef<ModuleOp> &prepare) {
  CompileReport scratch;
  CompileReport &filled = report ? *report : scratch;
  auto start = std::chrono::steady_clock::now();
  ir::DiagnosticCollector diagnostics(module.getContext());
  Pipeline pipeline(options, request.providers, &filled);
  absl::Status planFailure;
  double kernelMilliseconds = 0;
  setPlanPhase(pipeline, options, request,
               {&filled.plan, &filled, &planFailure, &kernelMilliseconds});
  auto failure = [&]() -> absl::Status {
    if (!planFailure.ok())
      return planFailure;
    std::string message = diagnostics.text().empty() ? "compilation failed" : diagnostics.text();
    return filled.takesSomeSizes ? absl::OutOfRangeError(message) : absl::InternalError(message);
  };
  if (failed(pipeline.run(module, Phase::Import, Phase::Claim)))
    return failure();
  prepare = takePrepare(module);
  if (prepare)
    setRecipe(*prepare, options);
  if (failed(pipeline.run(module, Phase::Fuse, Phase::Plan)))
    return failure();
  for (auto &[name, milliseconds] : filled.phases)
    if (name == phaseInfo(Phase::Plan).name)
      milliseconds -= kernelMilliseconds;
  filled.phases.emplace_back("codegen", kernelMilliseconds);
  filled.kernels = filled.launches = filled.libraryCalls = filled.copies = 0;
  countInstructions(module, filled);
  if (prepare) {
    auto startOfPrepare = std::chrono::steady_clock::now();
    CompileReport own;
    if (failed(planPrepare(*prepare, options, request, pipeline.dumpFolder(), own, filled,
                           planFailure)))
      return failure();
    countInstructions(*prepare, filled);
    filled.plan.constantBytes += own.plan.constantBytes;
    filled.phases.emplace_back("prepare", millisecondsSince(startOfPrepare));
  }
  filled.milliseconds += millisecondsSince(start);
  return absl::OkStatus();
}

absl::StatusOr<runtime::Program> compileToProgram(ModuleOp module, const CompileOptions &options,
                                                  const CompileRequest &request,
                                                  CompileReport *report,
                                                  runtime::SizeTable *sizes) {
  CompileReport scratch;
  CompileReport &filled = report ? *report : scratch;
  OwningOpRef<ModuleOp> prepare;
  WEFT_RETURN_IF_ERROR(compileToPlan(module, options, request, &filled, prepare));
  return linkProgram(module, prepare ? *prepare : ModuleOp(), request.target, filled.plan, sizes);
}

absl::StatusOr<runtime::Program> linkProgram(ModuleOp module, ModuleOp prepare, StringRef target,
                                             const PlanReport &report, runtime::SizeTable *sizes) {
  plan::ProgramOp program = findProgram(module),
                  ahead = prepare ? findProgram(prepare) : plan::ProgramOp();
  if (!program || (prepare && !ahead))
    return absl::InternalError("compilation left no plan.program");
  WEFT_ASSIGN_OR_RETURN(runtime::Program built,
                        buildProgram(program, target, report, ahead, sizes));
  if (prepare)
    if (auto recipe = prepare->getAttrOfType<StringAttr>(kRecipeAttr))
      built.prepare.front().recipe = recipe.str();
  return built;
}

} // namespace weft::compiler
