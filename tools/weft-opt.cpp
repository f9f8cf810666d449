// weft-opt: reads a module, runs passes or whole phases on it, and prints what comes out.
//
//   weft-opt --weft-phase=import..fuse model.mlir
//   weft-opt --weft-canonicalize --weft-cse model.mlir
//   weft-opt --weft-plugin=./my_pass.so --weft-insert=after:graph:my-pass --weft-phase=graph
//   model.mlir
#include "compiler/backend/Backend.h"
#include "compiler/claim/Passes.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/fusion/Passes.h"
#include "compiler/graph/Passes.h"
#include "compiler/layout/Passes.h"
#include "compiler/link/RunsPhases.h"
#include "compiler/pipeline/PassHooks.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/plan/Passes.h"
#include "compiler/plugin/Plugin.h"
#include "compiler/prepare/Passes.h"
#include "compiler/schedule/Passes.h"
#include "compiler/shard/Passes.h"
#include "dialects/plan/ir/Plan.h"
#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/ir/Extensions.h"
#include "dialects/weft/ir/TypeAdvice.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/core/status.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

namespace {

using weft::compiler::PhaseRange;
using weft::compiler::Pipeline;

// The backend whose phases, providers and target are used.
struct Chosen {
  std::string backend = "cpu";
  std::optional<std::string> processor; // "host": this machine's

  // InvalidArgument where the backend has none of Weft's phases.
  absl::StatusOr<weft::compiler::PhaseRun> phases(weft::compiler::CompileOptions options) const {
    WEFT_ASSIGN_OR_RETURN(weft::compiler::Backend * found, weft::compiler::findBackend(backend));
    auto *runs = dynamic_cast<weft::compiler::RunsPhases *>(found);
    if (!runs)
      return absl::InvalidArgumentError("the backend '" + backend +
                                        "' does not compile by Weft's phases");
    options.cpu = processor.value_or(runs->usualProcessor());
    if (options.cpu == "host")
      options.cpu.clear();
    return runs->phases(options);
  }
};
Chosen chosen;

// Of the backend, for passes that run alone; it was checked when it was chosen.
const weft::compiler::ProviderSet *providers() {
  absl::StatusOr<weft::compiler::PhaseRun> run = chosen.phases({});
  return run.ok() ? run->request.providers : nullptr;
}

// Runs a range of phases as one pass, through the same driver as the backends do.
class PhasePass : public mlir::PassWrapper<PhasePass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PhasePass)

  PhasePass(PhaseRange range, weft::compiler::CompileOptions options)
      : range_(range), options_(std::move(options)) {}
  llvm::StringRef getName() const override {
    return "weft-phase";
  }
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    registry.insert<weft::ir::WeftDialect, weft::plan::PlanDialect, mlir::func::FuncDialect>();
  }
  void runOnOperation() override {
    absl::StatusOr<weft::compiler::PhaseRun> run = chosen.phases(options_);
    if (!run.ok()) {
      getOperation().emitError() << std::string(run.status().message());
      return signalPassFailure();
    }
    Pipeline pipeline(run->options, run->request.providers, nullptr);
    weft::compiler::CompileReport plan;
    weft::compiler::PlanPhaseResult result;
    result.refusals = &plan;
    setPlanPhase(pipeline, run->options, run->request, result);
    if (failed(pipeline.run(getOperation(), range_.from, range_.to)))
      signalPassFailure();
    // Of what explain would show, what the user has asked for and not got.
    for (const std::string &remark : plan.remarks)
      if (llvm::StringRef(remark).contains("pin-not-taken"))
        mlir::emitWarning(getOperation().getLoc()) << remark;
  }

private:
  PhaseRange range_;
  weft::compiler::CompileOptions options_;
};

// "after:graph:canonicalize,cse"
llvm::Error insertPasses(llvm::StringRef text) {
  auto fail = [&](const char *why) {
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "--weft-insert=%s: %s; write before:PHASE:PASSES or after:PHASE:PASSES", text.str().c_str(),
        why);
  };
  auto [position, rest] = text.split(':');
  auto [phaseName, passes] = rest.split(':');
  if (position != "before" && position != "after")
    return fail("no position");
  auto phase = weft::compiler::findPhase(phaseName);
  if (!phase)
    return fail("no such phase");
  return weft::compiler::registerPassPipeline(
      *phase,
      position == "before" ? weft::compiler::Position::Before : weft::compiler::Position::After,
      passes, "");
}

// Flags of ours that must act before MLIR parses the pass names that they bring: they are taken out
// of argv.
bool takeFlags(int &argc, char **argv, weft::compiler::CompileOptions &options,
               std::vector<std::string> &inserts) {
  int kept = 1;
  bool ok = true;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef argument = argv[i];
    if (argument.starts_with("--"))
      argument = argument.drop_front();
    if (argument.consume_front("-weft-plugin=")) {
      if (absl::Status status = weft::compiler::loadPlugin(argument.str()); !status.ok()) {
        llvm::errs() << "weft-opt: " << std::string(status.message()) << "\n";
        ok = false;
      }
    } else if (argument.consume_front("-weft-insert=")) {
      inserts.push_back(argument.str());
    } else if (argument.consume_front("-weft-dump-dir=")) {
      options.dumpDir = argument.str();
    } else if (argument.consume_front("-backend=")) {
      chosen.backend = argument.str();
    } else if (argument.consume_front("-mcpu=")) {
      chosen.processor = argument.str();
    } else if (argument == "-weft-no-fuse") {
      options.fuse = false;
    } else if (argument == "-weft-no-claim") {
      options.claim = false;
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  argv[argc] = nullptr;
  return ok;
}

// What MlirOptMain does with its input, but that damaged bytecode never gets to MLIR's reader,
// which crashes on it.
llvm::LogicalResult process(const std::string &input, const std::string &output,
                            mlir::DialectRegistry &registry,
                            const mlir::MlirOptMainConfig &config) {
  auto fail = [](const llvm::Twine &message) {
    llvm::errs() << "weft-opt: " << message << "\n";
    return llvm::failure();
  };
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = mlir::openInputFile(input, &message);
  if (!file)
    return fail(message);
  if (weft::ir::inspectBytecode(file->getBuffer()) == weft::ir::BytecodeState::Damaged)
    return fail((input == "-" ? "stdin" : input) + " " + weft::ir::kDamagedBytecode);
  std::unique_ptr<llvm::ToolOutputFile> result = mlir::openOutputFile(output, &message);
  if (!result)
    return fail(message);
  if (failed(mlir::MlirOptMain(result->os(), std::move(file), registry, config)))
    return llvm::failure();
  result->keep();
  return llvm::success();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  mlir::DialectRegistry registry;
  weft::compiler::insertCodegenDialects(registry);
  registry.insert<weft::plan::PlanDialect, mlir::NVVM::NVVMDialect>();
  weft::ir::addTypeAdvice(registry);
  mlir::registerTransformsPasses();
  weft::compiler::registerGraphPasses();
  weft::compiler::registerShardPasses();
  weft::compiler::registerFusionPasses();
  mlir::registerPass([] { return weft::compiler::createAssignLayoutsPass(providers(), nullptr); });
  mlir::registerPass([] { return weft::compiler::createClaimPass({}, providers(), nullptr); });
  mlir::registerPass([] { return weft::compiler::createPackSharedPass({}, providers(), nullptr); });
  mlir::registerPass([] { return weft::compiler::createCallCustomPass(); });
  weft::compiler::registerPreparePasses();
  weft::compiler::registerPlanPasses();
  weft::compiler::registerSchedulePasses();
  mlir::registerPass([] { return weft::compiler::createPlanPiecesPass(providers(), nullptr); });

  weft::compiler::CompileOptions options;
  options.verifyEachPhase = true;
  if (const char *folder = std::getenv("WEFT_DUMP_DIR"))
    options.dumpDir = folder;
  std::vector<std::string> inserts;
  if (absl::Status status = weft::compiler::loadPluginsFromEnvironment(); !status.ok()) {
    llvm::errs() << "weft-opt: " << std::string(status.message()) << "\n";
    return 1;
  }
  if (!takeFlags(argc, argv, options, inserts))
    return 1;
  // Backends of plugins are known now.
  if (absl::Status status = chosen.phases(options).status(); !status.ok()) {
    llvm::errs() << "weft-opt: --backend=" << chosen.backend << ": "
                 << std::string(status.message()) << "\n";
    return 1;
  }
  weft::ir::insertExtensions(registry);
  bool runsPhases = llvm::any_of(llvm::ArrayRef(argv, argc), [](llvm::StringRef argument) {
    return argument.contains("weft-phase");
  });
  if (!inserts.empty() && !runsPhases) {
    llvm::errs() << "weft-opt: --weft-insert=" << inserts[0]
                 << " runs around a phase, and none runs; add --weft-phase=RANGE\n";
    return 1;
  }
  for (const std::string &text : inserts)
    if (llvm::Error error = insertPasses(text)) {
      llvm::errs() << "weft-opt: " << llvm::toString(std::move(error)) << "\n";
      return 1;
    }

  mlir::registerPassPipeline(
      "weft-phase",
      "runs phases with the passes registered around them: NAME, FIRST..LAST, ..LAST or FIRST..",
      [&options](mlir::OpPassManager &passes, llvm::StringRef text,
                 llvm::function_ref<llvm::LogicalResult(const llvm::Twine &)>) {
        std::optional<PhaseRange> range = weft::compiler::parsePhaseRange(text);
        if (!range) {
          std::string names;
          for (const auto &info : weft::compiler::allPhases())
            names += " " + info.name.str();
          // Of a flag, and of no place in a program.
          llvm::errs() << "weft-opt: --weft-phase: '" << text
                       << "' is no range of phases; the phases are" << names << "\n";
          return llvm::failure();
        }
        passes.addPass(std::make_unique<PhasePass>(*range, options));
        return llvm::success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});

  // What a message is about stands at its line. MLIR's note shows the op, and of a function or a
  // module that is all of the program.
  static char quiet[] = "--mlir-print-op-on-diagnostic=false";
  std::vector<char *> arguments(argv, argv + argc);
  if (llvm::none_of(arguments, [](llvm::StringRef argument) {
        return argument.ltrim('-').starts_with("mlir-print-op-on-diagnostic");
      }))
    arguments.insert(arguments.begin() + 1, quiet);
  arguments.push_back(nullptr);

  auto [input, output] = mlir::registerAndParseCLIOptions(
      static_cast<int>(arguments.size() - 1), arguments.data(),
      "weft-opt: passes and phases of Weft\n"
      "  --backend=NAME                whose phases, providers and target are used; cpu\n"
      "  --mcpu=NAME                   the processor; host: this one; by default one that has all\n"
      "                                that decisions depend on, so that output is the same\n"
      "                                everywhere\n"
      "  --weft-plugin=FILE.so         loads a plugin, as WEFT_PLUGINS does\n"
      "  --weft-insert=after:graph:P   runs the passes P after (or before) a phase\n"
      "  --weft-dump-dir=FOLDER        one file a phase, as WEFT_DUMP_DIR does\n"
      "  --weft-no-fuse, --weft-no-claim\n"
      "  --mlir-print-op-on-diagnostic shows the op that a message is about\n",
      registry);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
  return mlir::asMainReturnCode(process(input, output, registry, config));
}
