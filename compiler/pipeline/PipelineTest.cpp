// Phases, hooks, plugins, dumps, and programs of extreme shapes through all graph phases.
#include "compiler/pipeline/Pipeline.h"

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "compiler/graph/Simplify.h"
#include "compiler/pipeline/Dump.h"
#include "compiler/pipeline/Report.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/test/OtherDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

void place(Phase phase, Position position, PassFactory factory, llvm::StringRef name,
           llvm::StringRef version) {
  absl::Status status = registerPass(phase, position, std::move(factory), name, version);
  EXPECT_TRUE(status.ok()) << status;
}

class PipelineTest : public testing::Test {
protected:
  PipelineTest() {
    context_.loadDialect<ir::WeftDialect, mlir::func::FuncDialect>();
  }
  ~PipelineTest() override {
    clearRegisteredPasses();
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
  }

  // A module with @main(tensor<n x f32>, ...) whose body `build` makes; it returns the results.
  template <typename Build>
  mlir::OwningOpRef<mlir::ModuleOp> make(int arguments, const Build &build) {
    mlir::OpBuilder builder(&context_);
    mlir::Location loc = builder.getUnknownLoc();
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
    auto type = mlir::RankedTensorType::get({16}, builder.getF32Type());
    llvm::SmallVector<mlir::Type> inputs(arguments, type);
    builder.setInsertionPointToEnd(module->getBody());
    auto main =
        mlir::func::FuncOp::create(builder, loc, "main", builder.getFunctionType(inputs, {}));
    mlir::Block *block = main.addEntryBlock();
    builder.setInsertionPointToEnd(block);
    llvm::SmallVector<mlir::Value> results = build(builder, block);
    mlir::func::ReturnOp::create(builder, loc, results);
    main.setType(builder.getFunctionType(inputs, mlir::ValueRange(results).getTypes()));
    return module;
  }

  static int64_t count(mlir::ModuleOp module, llvm::StringRef name) {
    int64_t n = 0;
    for (mlir::Operation &op : module.lookupSymbol<mlir::func::FuncOp>("main").getBody().front())
      n += op.getName().getStringRef() == name;
    return n;
  }

  mlir::MLIRContext context_;
};

constexpr llvm::StringLiteral kProgram = R"(
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = weft.softmax %x, dim = 1 : tensor<4x8xf32>
    %1 = weft.neg %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  })";

// Puts an attribute on the module: how tests see that and when a pass ran.
class MarkPass : public mlir::PassWrapper<MarkPass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MarkPass)
  explicit MarkPass(std::string name) : name_(std::move(name)) {}
  void runOnOperation() override {
    bool fused = false;
    getOperation().walk([&](ir::FusionOp) { fused = true; });
    getOperation()->setAttr(name_, mlir::BoolAttr::get(&getContext(), fused));
  }

private:
  std::string name_;
};

class FailPass : public mlir::PassWrapper<FailPass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FailPass)
  void runOnOperation() override {
    signalPassFailure();
  }
};

class ThrowPass : public mlir::PassWrapper<ThrowPass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ThrowPass)
  void runOnOperation() override {
    throw std::runtime_error("out of luck");
  }
};

TEST(PhaseTest, NamesAndRanges) {
  EXPECT_EQ(findPhase("claim"), Phase::Claim);
  EXPECT_FALSE(findPhase("clam"));
  auto range = parsePhaseRange("graph..fuse");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->from, Phase::Graph);
  EXPECT_EQ(range->to, Phase::Fuse);
  EXPECT_EQ(parsePhaseRange("..claim")->from, Phase::Import);
  EXPECT_EQ(parsePhaseRange("plan..")->to, Phase::Plan);
  EXPECT_EQ(parsePhaseRange("layout")->to, Phase::Layout);
  EXPECT_FALSE(parsePhaseRange("fuse..graph"));
  EXPECT_FALSE(parsePhaseRange(""));
  EXPECT_FALSE(parsePhaseRange("graph..nothing"));
}

TEST_F(PipelineTest, RefusalsHaveALineForEachExplanation) {
  auto module = parse(kProgram);
  RefusalCollector refusals("fuse");
  for (llvm::StringRef why :
       {"too wide", "too long", "too wide", "too thin", "too thin", "too flat", "too high"})
    refusals.add("size", *module, why);
  refusals.add("other", *module, "it is");
  EXPECT_EQ(refusals.count("size"), 7);
  std::vector<std::string> lines;
  for (const std::string &line : refusals.lines())
    lines.push_back(line.substr(0, line.find(" (first: builtin.module")));
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "fuse: refused 1 x other: it is", "fuse: refused 7 x size: too wide",
                       "fuse: of these 1 x size: too flat", "fuse: of these 1 x size: too long",
                       "fuse: of these 2 x size: too thin"}));
}

TEST_F(PipelineTest, RunsPhasesInOrderAndReportsThem) {
  auto module = parse(kProgram);
  CompileReport report;
  Pipeline pipeline({}, nullptr, &report);
  ASSERT_TRUE(succeeded(pipeline.run(*module, Phase::Import, Phase::Fuse)));
  ASSERT_EQ(report.phases.size(), 5u);
  EXPECT_EQ(report.phases.front().first, "import");
  EXPECT_EQ(report.phases.back().first, "fuse");
  EXPECT_EQ(count(*module, "weft.fusion"), 1);
}

TEST_F(PipelineTest, UnfusedGivesOneOpAKernel) {
  auto module = parse(kProgram);
  CompileOptions options;
  options.fuse = false;
  Pipeline pipeline(options, nullptr, nullptr);
  ASSERT_TRUE(succeeded(pipeline.run(*module, Phase::Import, Phase::Fuse)));
  EXPECT_GT(count(*module, "weft.fusion"), 5);
  module->walk([](ir::FusionOp fusion) {
    int64_t ops = 0;
    for (mlir::Operation &op : fusion.getBody().front())
      ops += !mlir::isa<ir::ConstantOp, ir::YieldOp>(op);
    EXPECT_EQ(ops, 1);
  });
}

TEST_F(PipelineTest, RegisteredPassesRunBeforeAndAfterTheirPhase) {
  place(
      Phase::Fuse, Position::Before, [] { return std::make_unique<MarkPass>("test.before"); },
      "mark-before", "1");
  place(
      Phase::Fuse, Position::After, [] { return std::make_unique<MarkPass>("test.after"); },
      "mark-after", "2");
  EXPECT_EQ(registrationsKey(), "pass before fuse mark-before 1\npass after fuse mark-after 2\n");
  EXPECT_EQ(whyRegistrationsAreNotCachable(), "");
  auto module = parse(kProgram);
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
  EXPECT_EQ((*module)->getAttr("test.before"), mlir::BoolAttr::get(&context_, false));
  EXPECT_EQ((*module)->getAttr("test.after"), mlir::BoolAttr::get(&context_, true));
}

TEST_F(PipelineTest, PassesWithoutVersionSwitchTheDiskCacheOff) {
  place(
      Phase::Graph, Position::After, [] { return std::make_unique<MarkPass>("test.x"); }, "mark",
      "");
  EXPECT_EQ(whyRegistrationsAreNotCachable(), "the registered pass 'mark' has no version");
}

TEST_F(PipelineTest, PassesHaveNamesAndAreRegisteredOnce) {
  auto mark = [] {
    return std::make_unique<MarkPass>("test.x");
  };
  place(Phase::Graph, Position::After, mark, "mark", "1");
  place(Phase::Graph, Position::After, mark, "mark", "2"); // another one
  place(Phase::Graph, Position::Before, mark, "mark", "1");
  absl::Status twice = registerPass(Phase::Graph, Position::After, mark, "mark", "1");
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(twice.message(), "the pass 'mark' is registered already after graph; register it once, "
                             "or by another name");
  absl::Status nameless = registerPass(Phase::Fuse, Position::Before, mark, "", "1");
  EXPECT_EQ(nameless.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(nameless.message(), "a pass before fuse is registered without a name");
  absl::Status empty = registerPass(Phase::Fuse, Position::Before, nullptr, "empty", "1");
  EXPECT_EQ(empty, absl::InvalidArgumentError("the pass 'empty' has no factory"));
  for (auto [phase, position] : {std::pair(Phase(99), Position::After),
                                 std::pair(Phase::Graph, Position(7))})
    EXPECT_EQ(registerPass(phase, position, mark, "nowhere", "1"),
              absl::InvalidArgumentError("the pass 'nowhere' is registered at no phase, or neither "
                                         "before nor after it"));
  // What was refused runs nowhere.
  EXPECT_EQ(registeredPasses().size(), 3u);
  auto module = parse(kProgram);
  EXPECT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
}

TEST_F(PipelineTest, FailuresNameThePassAndThePhase) {
  place(
      Phase::Graph, Position::After, [] { return std::make_unique<FailPass>(); }, "fails", "1");
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(
      &context_, [&](mlir::Diagnostic &diagnostic) { errors += diagnostic.str() + "\n"; });
  auto module = parse(kProgram);
  EXPECT_TRUE(failed(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
  EXPECT_NE(errors.find("the registered pass 'fails' failed"), std::string::npos) << errors;
  EXPECT_NE(errors.find("compilation failed in the phase 'graph'"), std::string::npos) << errors;
}

TEST_F(PipelineTest, APassThatThrowsFails) {
  auto makes = []() -> std::unique_ptr<mlir::Pass> {
    throw std::runtime_error("out of luck");
  };
  place(Phase::Graph, Position::After, makes, "makes", "1");
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(
      &context_, [&](mlir::Diagnostic &diagnostic) { errors += diagnostic.str() + "\n"; });
  auto run = [&](Pipeline &pipeline) {
    errors.clear();
    auto module = parse(kProgram);
    EXPECT_TRUE(failed(pipeline.run(*module, Phase::Import, Phase::Fuse)));
  };
  Pipeline factory({}, nullptr, nullptr);
  run(factory);
  EXPECT_NE(errors.find("the registered pass 'makes' has a factory that threw an exception: out of "
                        "luck"),
            std::string::npos)
      << errors;
  clearRegisteredPasses();
  place(
      Phase::Graph, Position::After, [] { return std::make_unique<ThrowPass>(); }, "throws", "1");
  Pipeline pass({}, nullptr, nullptr);
  run(pass);
  EXPECT_NE(errors.find("the registered pass 'throws' threw an exception: out of luck"),
            std::string::npos)
      << errors;
  // What else a phase calls of users.
  clearRegisteredPasses();
  addRegistration({.kind = "planner", .name = "mine", .version = "1", .place = ""});
  Pipeline phase({}, nullptr, nullptr);
  phase.setPhaseBody(Phase::Fuse, [](mlir::ModuleOp) -> llvm::LogicalResult {
    throw std::runtime_error("out of luck");
  });
  run(phase);
  removeRegistrations("planner");
  EXPECT_NE(errors.find("the phase 'fuse' threw an exception: out of luck (registered are planner "
                        "'mine')"),
            std::string::npos)
      << errors;
}

// A pass of a lambda's, on the op that Op is.
template <typename Op>
class LambdaPass : public mlir::PassWrapper<LambdaPass<Op>, mlir::OperationPass<Op>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LambdaPass)
  explicit LambdaPass(std::function<void(Op)> run) : run_(std::move(run)) {}
  void runOnOperation() override {
    run_(this->getOperation());
  }

private:
  std::function<void(Op)> run_;
};

// What a pass of this kind leads to, in errors.
template <typename Op>
std::string errorsOf(mlir::MLIRContext &context, Phase phase, Position position,
                     std::function<void(Op)> run, CompileReport *report = nullptr) {
  place(
      phase, position, [run] { return std::make_unique<LambdaPass<Op>>(run); }, "mine", "1");
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    errors += diagnostic.str() + "\n";
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kProgram, &context);
  bool ran = succeeded(Pipeline({}, nullptr, report).run(*module, Phase::Import, Phase::Fuse));
  EXPECT_EQ(ran, errors.empty());
  clearRegisteredPasses();
  return errors;
}

TEST_F(PipelineTest, PassesOfUsersAreNamedWhereTheyBreakTheModule) {
  // Inside a fusion, before the phase that would read it.
  std::string errors = errorsOf<mlir::ModuleOp>(
      context_, Phase::Fuse, Position::After, [](mlir::ModuleOp module) {
        module.walk([](ir::NegOp neg) { neg->moveBefore(&neg->getBlock()->front()); });
      });
  EXPECT_NE(errors.find("the registered pass 'mine' left IR that does not verify"),
            std::string::npos)
      << errors;
  errors = errorsOf<mlir::func::FuncOp>(
      context_, Phase::Graph, Position::Before, [](mlir::func::FuncOp main) {
        main.getBody().front().getTerminator()->setOperands({});
        main.setType(mlir::FunctionType::get(main.getContext(), main.getArgumentTypes(), {}));
      });
  EXPECT_NE(errors.find("'mine' removed the function 'main', or changed its type"),
            std::string::npos)
      << errors;
  errors = errorsOf<mlir::func::FuncOp>(
      context_, Phase::Graph, Position::Before,
      [](mlir::func::FuncOp main) { main.emitError("not like this"); });
  EXPECT_NE(errors.find("not like this\nthe registered pass 'mine' emitted an error"),
            std::string::npos)
      << errors;
}

TEST_F(PipelineTest, WhatPassesOfUsersSayIsAmongTheRemarks) {
  CompileReport report;
  EXPECT_EQ(errorsOf<mlir::func::FuncOp>(
                context_, Phase::Graph, Position::Before,
                [](mlir::func::FuncOp main) {
                  mlir::emitWarning(mlir::FileLineColLoc::get(main.getContext(), "net.cpp", 7, 1),
                                    "a slow one");
                },
                &report),
            "");
  EXPECT_TRUE(llvm::is_contained(report.remarks, "pass 'mine': net.cpp:7: a slow one"));
}

TEST_F(PipelineTest, GeneralPassesOfMlirHaveNames) {
  llvm::Error error =
      registerPassPipeline(Phase::Graph, Position::After, "canonicalize,cse", "1");
  EXPECT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  auto module = parse(kProgram);
  EXPECT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
  EXPECT_NE(llvm::toString(registerPassPipeline(Phase::Graph, Position::After, " ", "1")), "");
}

TEST_F(PipelineTest, BackendsGiveThePhasePlan) {
  auto module = parse(kProgram);
  std::vector<std::string> ran;
  Pipeline pipeline({}, nullptr, nullptr);
  pipeline.setPhaseBody(Phase::Fuse,
                        [&](mlir::ModuleOp) { return ran.push_back("fuse"), mlir::success(); });
  pipeline.setPhaseBody(Phase::Plan,
                        [&](mlir::ModuleOp) { return ran.push_back("plan"), mlir::failure(); });
  mlir::ScopedDiagnosticHandler quiet(&context_, [](mlir::Diagnostic &) {});
  EXPECT_TRUE(failed(pipeline.run(*module)));
  EXPECT_EQ(ran, (std::vector<std::string>{"fuse", "plan"}));
}

TEST_F(PipelineTest, DumpsReadBack) {
  llvm::SmallString<128> folder(testing::TempDir());
  llvm::sys::path::append(folder, "weft_dumps");
  CompileOptions options;
  options.dumpDir = folder.str().str();
  for (int i = 0; i < 2; ++i) {
    auto module = parse(kProgram);
    ASSERT_TRUE(
        succeeded(Pipeline(options, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
  }
  for (const char *name : {"00-import.mlir", "10-graph.mlir", "20-layout.mlir", "30-claim.mlir",
                           "40-fuse.mlir", "002/40-fuse.mlir"}) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    EXPECT_TRUE(mlir::parseSourceFile<mlir::ModuleOp>(path.str(), &context_)) << name;
  }
}

// A disk that is full fails every file of every compilation.
TEST(DumpTest, SaysEachReasonOnce) {
  testing::internal::CaptureStderr();
  for (llvm::StringRef path : {"/proc/version/a.mlir", "/proc/version/b.mlir"})
    writeDump(path, [](llvm::raw_ostream &stream) { stream << "module {}"; });
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("weft: cannot write /proc/version/a.mlir: "), std::string::npos) << text;
  EXPECT_EQ(text.find("b.mlir"), std::string::npos) << text;
}

// A folder that cannot be made costs the dump, not the compilation.
TEST_F(PipelineTest, DumpsDoNotFailCompilations) {
  CompileOptions options;
  options.dumpDir = "/proc/nowhere";
  auto module = parse(kProgram);
  Pipeline pipeline(options, nullptr, nullptr);
  EXPECT_EQ(pipeline.dumpFolder(), "");
  EXPECT_TRUE(succeeded(pipeline.run(*module, Phase::Import, Phase::Fuse)));
}

TEST_F(PipelineTest, PluginsAddPassesAndAreCheckedWhenLoaded) {
  const char *folder = std::getenv("TEST_SRCDIR"), *workspace = std::getenv("TEST_WORKSPACE");
  ASSERT_TRUE(folder && workspace);
  std::string base = std::string(folder) + "/" + workspace + "/compiler/pipeline/";
  llvm::Error error = loadPassPlugin(base + "test_plugin.so");
  ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  EXPECT_EQ(registrationsKey(), "pass after graph count-weft-ops 1.0\n");
  auto module = parse(kProgram);
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
  auto counted = (*module)->getAttrOfType<mlir::IntegerAttr>("test.weft_ops");
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted.getInt(), 2);

  auto message = [](llvm::Error error) {
    return llvm::toString(std::move(error));
  };
  EXPECT_FALSE(static_cast<bool>(loadPassPlugin(base + "test_plugin.so")));
  EXPECT_EQ(registeredPasses().size(), 1u);
  EXPECT_NE(message(loadPassPlugin(base + "nowhere.so")).find("cannot load the pass plugin"),
            std::string::npos);
  std::string newer = message(loadPassPlugin(base + "test_newer_plugin.so"));
  EXPECT_NE(newer.find("was built for version 2.1 of compiler/pipeline/PassHooks.h; this Weft has "
                       "version 2.0"),
            std::string::npos)
      << newer;
  EXPECT_NE(message(loadPassPlugin("libm.so.6")).find("is no pass plugin"), std::string::npos);
}

// Each with a class of the same name, which is found at run time by whoever shares it.
TEST_F(PipelineTest, ClassesOfPluginsMayHaveOneName) {
  const char *folder = std::getenv("TEST_SRCDIR"), *workspace = std::getenv("TEST_WORKSPACE");
  ASSERT_TRUE(folder && workspace);
  for (llvm::StringRef name : {"test_first_namesake.so", "test_second_namesake.so"}) {
    llvm::Error error = loadPassPlugin(
        (llvm::StringRef(folder) + "/" + workspace + "/compiler/pipeline/" + name).str());
    ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  }
  auto module = parse(kProgram);
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
  EXPECT_TRUE((*module)->hasAttr("test.first"));
  EXPECT_TRUE((*module)->hasAttr("test.second"));
}

// A plugin of MLIR's own kind only names its passes; a pipeline places them.
TEST_F(PipelineTest, PluginsOfMlirNamePasses) {
  const char *folder = std::getenv("TEST_SRCDIR"), *workspace = std::getenv("TEST_WORKSPACE");
  ASSERT_TRUE(folder && workspace);
  llvm::Error before = registerPassPipeline(Phase::Graph, Position::After, "test-mark-module", "1");
  ASSERT_TRUE(static_cast<bool>(before));
  llvm::consumeError(std::move(before));
  llvm::Error error = loadPassPlugin(std::string(folder) + "/" + workspace +
                                     "/compiler/pipeline/test_mlir_plugin.so");
  ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  EXPECT_EQ(registrationsKey(), "");
  ASSERT_FALSE(static_cast<bool>(
      registerPassPipeline(Phase::Graph, Position::After, "test-mark-module", "1")));
  auto module = parse(kProgram);
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
  EXPECT_TRUE((*module)->hasAttr("test.marked"));
}

TEST_F(PipelineTest, PipelinesOfPassesByName) {
  llvm::Error empty = registerPassPipeline(Phase::Graph, Position::Before, "", "1");
  ASSERT_TRUE(static_cast<bool>(empty));
  EXPECT_EQ(llvm::toString(std::move(empty)), "the pass pipeline is empty");
  llvm::Error error = registerPassPipeline(Phase::Graph, Position::Before, "no-such-pass", "1");
  ASSERT_TRUE(static_cast<bool>(error));
  EXPECT_NE(llvm::toString(std::move(error)).find("no-such-pass"), std::string::npos);
}

// What a plugin has registered after one phase runs at other places, too.
TEST_F(PipelineTest, PipelinesMayNameRegisteredPasses) {
  static int runs = 0;
  struct Counted : mlir::PassWrapper<Counted, mlir::OperationPass<mlir::func::FuncOp>> {
    MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Counted)
    void runOnOperation() override {
      ++runs;
    }
  };
  place(Phase::Fuse, Position::After, [] { return std::make_unique<Counted>(); },
               "test-counted", "1");
  ASSERT_EQ(llvm::toString(registerPassPipeline(Phase::Import, Position::After,
                                                "canonicalize,test-counted", "1")),
            "");
  auto module = parse(kProgram);
  runs = 0;
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Import)));
  EXPECT_EQ(runs, 1);
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Graph, Phase::Fuse)));
  EXPECT_EQ(runs, 2);
  clearRegisteredPasses();
  std::string gone =
      llvm::toString(registerPassPipeline(Phase::Import, Position::After, "test-counted", "1"));
  EXPECT_NE(gone.find("'test-counted' is there no more"), std::string::npos) << gone;
}

// As mlir-opt --pass-pipeline spells them, they run all the same.
TEST_F(PipelineTest, PipelinesMayNameTheModule) {
  auto message = [](llvm::StringRef pipeline) {
    return llvm::toString(registerPassPipeline(Phase::Import, Position::After, pipeline, "1"));
  };
  EXPECT_EQ(message(" builtin.module (func.func(cse))"), "");
  auto module = parse(R"(func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = weft.exp %x : tensor<2xf32>
    %1 = weft.exp %x : tensor<2xf32>
    return %0, %1 : tensor<2xf32>, tensor<2xf32>
  })");
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Import)));
  EXPECT_EQ(count(*module, "weft.exp"), 1);
  EXPECT_NE(message("cse,builtin.module(cse)").find("it would never run"), std::string::npos);
  EXPECT_NE(message("builtin.module(builtin.module(cse))").find("it would never run"),
            std::string::npos);
  EXPECT_NE(message(" builtin.module (func.func(cse))").find("is registered already"),
            std::string::npos);
}

//===-- Ops of other dialects -----------------------------------------------------------------===//

class OtherOps : public PipelineTest {
protected:
  OtherOps() {
    context_.loadDialect<ir::OtherDialect>();
  }
  // What is said while the function, whose body is given, goes through these phases.
  std::string messages(llvm::StringRef body, Phase to) {
    std::string said;
    mlir::ScopedDiagnosticHandler handler(
        &context_, [&](mlir::Diagnostic &diagnostic) { said += diagnostic.str() + "\n"; });
    module_ = parse(("func.func @main(%x: tensor<1x3xf32>) -> tensor<3xf32> {\n" + body +
                     "\n return %0 : tensor<3xf32>\n}")
                        .str());
    bool runs =
        module_ && succeeded(Pipeline({}, nullptr, nullptr).run(*module_, Phase::Import, to));
    EXPECT_EQ(runs, said.empty());
    return said;
  }
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

// Over a dim of size 1 Weft's own would be its operand; another one may be a square.
TEST_F(OtherOps, AReductionStaysWhatItIs) {
  EXPECT_EQ(messages(R"(%0 = "other.reduction"(%x) {dims = array<i64: 0>}
                          : (tensor<1x3xf32>) -> tensor<3xf32>)",
                     Phase::Graph),
            "");
  EXPECT_EQ(count(*module_, "other.reduction"), 1);
  EXPECT_EQ(messages(R"(%0 = weft.reduce_max %x, dims = [0] : tensor<1x3xf32>)", Phase::Graph), "");
  EXPECT_EQ(count(*module_, "weft.reduce_max"), 0);
}

TEST_F(OtherOps, WhatHasNoScheduleIsNamed) {
  for (std::string name : {"scan", "contraction"}) {
    std::string said = messages(
        "%0 = \"other." + name + "\"(%x) : (tensor<1x3xf32>) -> tensor<3xf32>", Phase::Fuse);
    EXPECT_NE(said.find("'other." + name +
                        "' op has no kernel: kernels of contractions, scans and "
                        "scatters are written for Weft's own ops"),
              std::string::npos)
        << said;
  }
}

TEST_F(OtherOps, WhatGivesSeveralResultsIsNamed) {
  std::string said = messages(R"(%0, %1 = "other.movement"(%x)
                                 : (tensor<1x3xf32>) -> (tensor<3xf32>, tensor<3xf32>))",
                              Phase::Fuse);
  EXPECT_NE(said.find("'other.movement' op has no kernel: kernels compute ops of one result; give "
                      "the op's record a decomposition"),
            std::string::npos)
      << said;
}

TEST_F(OtherOps, WhatAPassOfAUsersLeavesIsNamedWithIt) {
  place(
      Phase::Claim, Position::After,
      [] {
        return std::make_unique<LambdaPass<mlir::func::FuncOp>>([](mlir::func::FuncOp main) {
          mlir::OpBuilder builder(&main.getBody().front().front());
          mlir::Value x = main.getArgument(0);
          mlir::UnrealizedConversionCastOp::create(builder, main.getLoc(), x.getType(), x);
        });
      },
      "leaves", "1");
  std::string said =
      messages(R"(%0 = weft.reduce_sum %x, dims = [0] : tensor<1x3xf32>)", Phase::Fuse);
  EXPECT_NE(said.find("'builtin.unrealized_conversion_cast' op has no kernel: only weft ops have "
                      "one; a registered pass has left it (there is pass 'leaves')"),
            std::string::npos)
      << said;
}

TEST_F(OtherOps, AStatementThatDoesNotFitIsNamed) {
  ir::OtherRules::get().statement.emplace();
  std::string said =
      messages(R"(%0 = "other.movement"(%x) : (tensor<1x3xf32>) -> tensor<3xf32>)", Phase::Import);
  EXPECT_NE(said.find("'other.movement' op is at fault in its rule: its statement has positions of "
                      "0 operands"),
            std::string::npos)
      << said;
}

TEST_F(OtherOps, ADecompositionThatDoesNotFitIsNamed) {
  constexpr llvm::StringLiteral op =
      R"(%0 = "other.composite"(%x) : (tensor<1x3xf32>) -> tensor<3xf32>)";
  auto says = [](const std::string &said, llvm::StringRef part) {
    return llvm::StringRef(said).contains(part);
  };
  ir::OtherRules::get().decompose = [](mlir::OpBuilder &) {
    return llvm::SmallVector<mlir::Value>{};
  };
  std::string said = messages(op, Phase::Fuse);
  EXPECT_TRUE(says(said, "'other.composite' op is at fault in its rule: its decomposition gives 0 "
                         "values for 1 results"))
      << said;
  ir::OtherRules::get().decompose = [](mlir::OpBuilder &b) {
    mlir::Value x = b.getInsertionBlock()->getArgument(0);
    return llvm::SmallVector<mlir::Value>{x};
  };
  said = messages(op, Phase::Fuse);
  EXPECT_TRUE(
      says(said, "its decomposition gives 'tensor<1x3xf32>' for a result of 'tensor<3xf32>'"))
      << said;
  ir::OtherRules::get().decompose = [](mlir::OpBuilder &b) {
    mlir::Value x = b.getInsertionBlock()->getArgument(0);
    return llvm::SmallVector<mlir::Value>{
        mlir::UnrealizedConversionCastOp::create(
            b, b.getUnknownLoc(), mlir::RankedTensorType::get({3}, b.getF32Type()), x)
            .getResult(0)};
  };
  said = messages(op, Phase::Fuse);
  EXPECT_TRUE(says(said, "its decomposition makes builtin.unrealized_conversion_cast, which is no "
                         "weft op"))
      << said;
  // An op whose types cannot be inferred, for a dim and for shapes.
  ir::OtherRules::get().decompose = [](mlir::OpBuilder &b) {
    ir::Val x(b, b.getUnknownLoc(), b.getInsertionBlock()->getArgument(0));
    return llvm::SmallVector<mlir::Value>{sum(x, {7})};
  };
  said = messages(op, Phase::Fuse);
  EXPECT_TRUE(says(said, "'other.composite' op is at fault in its rule: its decomposition makes an "
                         "op that is invalid: weft.reduce_sum: "))
      << said;
  EXPECT_TRUE(says(said, "dim 7 is out of range")) << said;
  ir::OtherRules::get().decompose = [](mlir::OpBuilder &b) {
    ir::Val x(b, b.getUnknownLoc(), b.getInsertionBlock()->getArgument(0));
    return llvm::SmallVector<mlir::Value>{sum(broadcast(x, {2, 7}), {0})};
  };
  said = messages(op, Phase::Fuse);
  EXPECT_TRUE(says(said, "its decomposition makes an op that is invalid: weft.broadcast: cannot "
                         "broadcast float32[1, 3] to float32[2, 7]"))
      << said;
}

TEST_F(OtherOps, ADecompositionThatDoesNotEndOrThrowsIsNamed) {
  constexpr llvm::StringLiteral op =
      R"(%0 = "other.composite"(%x) : (tensor<1x3xf32>) -> tensor<3xf32>)";
  auto says = [](const std::string &said, llvm::StringRef part) {
    return llvm::StringRef(said).contains(part);
  };
  auto again = [](mlir::OpBuilder &b) {
    mlir::OperationState state(b.getUnknownLoc(), "other.composite");
    state.addOperands(b.getInsertionBlock()->getArgument(0));
    state.addTypes(mlir::RankedTensorType::get({3}, b.getF32Type()));
    return llvm::SmallVector<mlir::Value>{b.create(state)->getResult(0)};
  };
  ir::OtherRules::get().decompose = again;
  std::string said = messages(op, Phase::Fuse);
  EXPECT_TRUE(says(said, "'other.composite' op is at fault in its rule: its decomposition makes it "
                         "again, or an op that does; given up after 64 in a row"))
      << said;
  // As often as a rule may that halves a size.
  int left = 63;
  ir::OtherRules::get().decompose = [&](mlir::OpBuilder &b) {
    if (left-- > 0)
      return again(b);
    ir::Val x(b, b.getUnknownLoc(), b.getInsertionBlock()->getArgument(0));
    return llvm::SmallVector<mlir::Value>{sum(x, {0})};
  };
  EXPECT_EQ(messages(op, Phase::Fuse), "");
  EXPECT_EQ(count(*module_, "other.composite"), 0);
  ir::OtherRules::get().decompose =
      [](mlir::OpBuilder &) -> mlir::FailureOr<llvm::SmallVector<mlir::Value>> {
    throw std::runtime_error("out of luck");
  };
  said = messages(op, Phase::Fuse);
  EXPECT_TRUE(says(said, "its decomposition threw an exception: out of luck")) << said;
  ir::OtherRules::get().decompose = [](mlir::OpBuilder &b) {
    return llvm::SmallVector<mlir::Value>{b.getInsertionPoint()->getResult(0)};
  };
  said = messages(op, Phase::Fuse);
  EXPECT_TRUE(says(said, "its decomposition gives its own result")) << said;
}

//===-- Extreme programs ----------------------------------------------------------------------===//
// Each takes a few seconds where every phase is linear, minutes or a stack overflow where one is
// not.

constexpr int kChain = 300'000, kUsers = 40'000;

TEST_F(PipelineTest, AChainOf300000Ops) {
  auto module = make(1, [&](mlir::OpBuilder &builder, mlir::Block *block) {
    mlir::Value value = block->getArgument(0);
    for (int i = 0; i < kChain; ++i) {
      if (i % 2)
        value = ir::TanhOp::create(builder, builder.getUnknownLoc(), value);
      else
        value = ir::AddOp::create(builder, builder.getUnknownLoc(), value, block->getArgument(0));
    }
    return llvm::SmallVector<mlir::Value>{value};
  });
  CompileReport report;
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, &report).run(*module, Phase::Import, Phase::Fuse)));
  for (auto &[phase, ms] : report.phases)
    RecordProperty(phase + "_ms", static_cast<int>(ms));
  EXPECT_LT(count(*module, "weft.fusion"), kChain / 50);
}

TEST_F(PipelineTest, AChainThatFoldsAway) {
  auto module = make(1, [&](mlir::OpBuilder &builder, mlir::Block *block) {
    mlir::Value value = block->getArgument(0);
    for (int i = 0; i < kChain; ++i)
      value = ir::NegOp::create(builder, builder.getUnknownLoc(), value);
    return llvm::SmallVector<mlir::Value>{value};
  });
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
  EXPECT_EQ(count(*module, "weft.fusion"), 0);
}

TEST_F(PipelineTest, AValueWith40000Users) {
  auto module = make(2, [&](mlir::OpBuilder &builder, mlir::Block *block) {
    mlir::Location loc = builder.getUnknownLoc();
    mlir::Value shared = ir::ExpOp::create(builder, loc, block->getArgument(0));
    mlir::Value sum = block->getArgument(1);
    for (int i = 0; i < kUsers; ++i) {
      mlir::Value term = ir::MulOp::create(builder, loc, shared, sum);
      sum = ir::TanhOp::create(builder, loc, term);
    }
    return llvm::SmallVector<mlir::Value>{sum};
  });
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Fuse)));
  EXPECT_LT(count(*module, "weft.fusion"), kUsers / 20);
}

// A network that stacks its steps and reads them one by one: the slices are the steps, and each is
// found without a walk over the others.
TEST_F(PipelineTest, FortyThousandStepsOfAStack) {
  auto module = make(1, [&](mlir::OpBuilder &builder, mlir::Block *block) {
    mlir::Location loc = builder.getUnknownLoc();
    llvm::SmallVector<mlir::Value> steps, results;
    for (int i = 0; i < kUsers; ++i)
      steps.push_back(ir::TanhOp::create(builder, loc, i ? steps.back() : block->getArgument(0)));
    mlir::Value stack = ir::ConcatOp::create(builder, loc, steps, 0);
    auto step = mlir::cast<mlir::RankedTensorType>(steps[0].getType());
    for (int64_t i = 0; i < kUsers; ++i) {
      llvm::SmallVector<int64_t> starts(step.getRank(), 0), limits(step.getShape()),
          ones(step.getRank(), 1);
      starts[0] = i * step.getDimSize(0);
      limits[0] += starts[0];
      results.push_back(ir::SliceOp::create(builder, loc, stack, starts, limits, ones));
    }
    return results;
  });
  auto main = module->lookupSymbol<mlir::func::FuncOp>("main");
  SimplifyWork work = simplify(main.getBody().front());
  EXPECT_EQ(count(*module, "weft.slice"), 0);
  EXPECT_EQ(count(*module, "weft.concat"), 0);
  EXPECT_LT(work.operands, 10 * kUsers);
}

// 40,000 equal readers are one after CSE, and its 40,000 uses go with it.
TEST_F(PipelineTest, FortyThousandEqualOps) {
  auto module = make(1, [&](mlir::OpBuilder &builder, mlir::Block *block) {
    mlir::Location loc = builder.getUnknownLoc();
    mlir::Value sum = block->getArgument(0);
    for (int i = 0; i < kUsers; ++i)
      sum = ir::AddOp::create(builder, loc, sum,
                              ir::ExpOp::create(builder, loc, block->getArgument(0)));
    return llvm::SmallVector<mlir::Value>{sum};
  });
  ASSERT_TRUE(succeeded(Pipeline({}, nullptr, nullptr).run(*module, Phase::Import, Phase::Graph)));
  EXPECT_EQ(count(*module, "weft.exp"), 1);
}

} // namespace
} // namespace weft::compiler
