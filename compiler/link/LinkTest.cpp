// Linking objects, artifacts, and turning a plan into the runtime's program.
#include <random>

#include "compiler/link/Artifact.h"
#include "compiler/link/BuildProgram.h"
#include "compiler/link/Compile.h"
#include "compiler/link/Jit.h"
#include "compiler/link/SizeRange.h"
#include "compiler/pipeline/Registrations.h"
#include "compiler/plan/Extract.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Parser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

// An object of the LLVM IR `text`, for this machine.
std::shared_ptr<const std::string> assemble(llvm::StringRef text) {
  static bool once =
      (llvm::InitializeNativeTarget(), llvm::InitializeNativeTargetAsmPrinter(), true);
  (void)once;
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  auto module = llvm::parseIR(llvm::MemoryBufferRef(text, "test"), error, context);
  EXPECT_TRUE(module) << error.getMessage().str();
  llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "", "", {}, llvm::Reloc::PIC_));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  EXPECT_FALSE(
      machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile));
  passes.run(*module);
  return std::make_shared<const std::string>(bytes.str());
}

TEST(Jit, LinksSeveralObjectsAndRunsThem) {
  auto a = assemble("define i32 @twice(i32 %x) { %y = add i32 %x, %x\n ret i32 %y }");
  auto b = assemble("define i32 @next(i32 %x) { %y = add i32 %x, 1\n ret i32 %y }");
  auto code = JitCode::link({a, b}, {"twice", "next"});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(reinterpret_cast<int (*)(int)>((*code)->lookup("twice"))(21), 42);
  EXPECT_EQ(reinterpret_cast<int (*)(int)>((*code)->lookup("next"))(41), 42);
  EXPECT_EQ((*code)->lookup("nowhere"), nullptr);
}

TEST(Jit, TheSameSymbolInTwoProgramsIsTwoFunctions) {
  auto one = JitCode::link({assemble("define i32 @f() { ret i32 1 }")}, {"f"});
  auto two = JitCode::link({assemble("define i32 @f() { ret i32 2 }")}, {"f"});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(reinterpret_cast<int (*)()>((*one)->lookup("f"))(), 1);
  EXPECT_EQ(reinterpret_cast<int (*)()>((*two)->lookup("f"))(), 2);
}

TEST(Jit, MayCopyMemoryButNotCallLibm) {
  auto copies = assemble("declare ptr @memcpy(ptr, ptr, i64)\n"
                         "define void @copy(ptr %to, ptr %from) { %r = call ptr @memcpy(ptr %to, "
                         "ptr %from, i64 4)\n ret void }");
  auto code = JitCode::link({copies}, {"copy"});
  ASSERT_TRUE(code.ok()) << code.status();
  int from = 7, to = 0;
  reinterpret_cast<void (*)(int *, int *)>((*code)->lookup("copy"))(&to, &from);
  EXPECT_EQ(to, 7);

  auto libm = assemble("declare float @expf(float)\ndefine float @f(float %x) { %y = call float "
                       "@expf(float %x)\n ret float %y }");
  auto refused = JitCode::link({libm}, {"f"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(),
            "cannot link the kernel 'f': it calls 'expf', which it does not define; beside its own "
            "functions it may call memcpy, memmove and memset");
  addRegistration({.kind = "kernel-pass", .name = "mine", .version = "1", .place = ""});
  refused = JitCode::link({libm}, {"f"});
  removeRegistrations("kernel-pass");
  EXPECT_NE(refused.status().message().find("(registered are kernel-pass 'mine')"),
            std::string::npos)
      << refused.status();
}

TEST(Jit, RefusesWhatIsNoObject) {
  EXPECT_FALSE(JitCode::link({std::make_shared<const std::string>("no object")}, {"f"}).ok());
}

TEST(Artifact, SurvivesTheWayThroughBytes) {
  Artifact artifact{"the program",
                    "its sizes",
                    {std::make_shared<const std::string>("one"),
                     std::make_shared<const std::string>(std::string(1000, '\0'))}};
  std::string bytes = writeArtifact(artifact);
  auto read = readArtifact(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->program, artifact.program);
  EXPECT_EQ(read->sizes, artifact.sizes);
  ASSERT_EQ(read->objects.size(), 2u);
  EXPECT_EQ(*read->objects[1], *artifact.objects[1]);
}

TEST(Artifact, EveryChangedByteAndEveryCutIsSeen) {
  Artifact artifact{"the program", "its sizes", {std::make_shared<const std::string>("object")}};
  const std::string bytes = writeArtifact(artifact);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] ^= 0x10;
    EXPECT_FALSE(readArtifact(changed).ok()) << "byte " << i;
    EXPECT_FALSE(readArtifact(llvm::StringRef(bytes).take_front(i)).ok()) << "cut at " << i;
  }
}

// A packed plan as text.
mlir::OwningOpRef<mlir::ModuleOp> parse(mlir::MLIRContext &context, llvm::StringRef text) {
  context.loadDialect<plan::PlanDialect, ir::WeftDialect>();
  return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
}

constexpr llvm::StringLiteral kPlan = R"(
plan.kernel @k(%x: tensor<16xf32>, %w: tensor<16xf32>) -> tensor<16xf32>
    attributes {symbol = "k_body", count = 16 : i64, grain = 4 : i64, scratch = 256 : i64} {
  plan.return %x : tensor<16xf32>
}
plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.name = "x"},
                   %w: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.parameter = "layer.weight"},
                   %d: !plan.buffer<64> {plan.type = tensor<16xf32>, plan.donatable})
    -> (!plan.buffer<64> {plan.type = tensor<16xf32>, plan.name = "y"}, !plan.buffer<64> {plan.type = tensor<4x4xf32>},
        !plan.buffer<64> {plan.type = tensor<16xf32>}, !plan.buffer<64> {plan.type = tensor<16xf32>}) {
  %arena = plan.arena : !plan.buffer<128>
  %t = plan.view %arena[64] : !plan.buffer<128> to !plan.buffer<64>
  %y = plan.output : !plan.buffer<64>
  %v = plan.view %d[0] : !plan.buffer<64> to !plan.buffer<64>
  plan.launch @k ins(%x, %w : !plan.buffer<64>, !plan.buffer<64>) outs(%t : !plan.buffer<64>) serial
  plan.launch @k ins(%t, %w : !plan.buffer<64>, !plan.buffer<64>) outs(%y : !plan.buffer<64>)
  plan.copy %t to %v : !plan.buffer<64> to !plan.buffer<64>
  plan.return %y, %y, %w, %v : !plan.buffer<64>, !plan.buffer<64>, !plan.buffer<64>, !plan.buffer<64>
}
)";

TEST(BuildProgram, KeepsWhatThePlanSays) {
  mlir::MLIRContext context;
  auto module = parse(context, kPlan);
  ASSERT_TRUE(module);
  PlanReport report;
  report.arenaBytes = 128;
  auto program = buildProgram(findProgram(*module), "some cpu", report);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->target, "some cpu");
  EXPECT_EQ(program->arena_bytes, 128);
  EXPECT_EQ(program->thread_scratch_bytes, 256);
  ASSERT_EQ(program->inputs.size(), 3u);
  EXPECT_EQ(program->inputs[0].name, "x");
  EXPECT_EQ(program->inputs[1].name, "layer.weight");
  EXPECT_TRUE(program->inputs[1].stable);
  EXPECT_TRUE(program->inputs[2].donatable);
  ASSERT_EQ(program->outputs.size(), 4u);
  EXPECT_EQ(program->outputs[0].name, "y");
  EXPECT_EQ(program->outputs[1].alias_output, 0);
  EXPECT_EQ(program->outputs[1].dims, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(program->outputs[2].alias_input, 1);
  EXPECT_EQ(program->outputs[3].donated_input, 2);
  ASSERT_EQ(program->instructions.size(), 3u);
  EXPECT_TRUE(std::get<runtime::Launch>(program->instructions[0]).serial);
  EXPECT_FALSE(std::get<runtime::Launch>(program->instructions[1]).serial);
  EXPECT_EQ(program->symbols, std::vector<std::string>{"k_body"});
}

TEST(BuildProgram, ParametersBecomeConstants) {
  mlir::MLIRContext context;
  auto module = parse(context, kPlan);
  auto program = buildProgram(findProgram(*module), "", {});
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<char> weights(64, 3);
  auto bound = bindConstants(*program, {{1, weights}});
  ASSERT_TRUE(bound.ok()) << bound.status();
  ASSERT_EQ(bound->inputs.size(), 2u);
  EXPECT_EQ(bound->inputs[1].name, "");
  EXPECT_EQ(bound->outputs[2].alias_input, -1);
  EXPECT_EQ(bound->outputs[3].donated_input, 1);
  EXPECT_EQ(bound->instructions.size(), 4u); // the returned weight is copied
  EXPECT_EQ(bound->constants.size(), 64u);

  EXPECT_EQ(bindConstants(*program, {{1, {weights.data(), 60}}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bindConstants(*program, {{2, weights}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A copy has the bytes that it was planned with: those of the caller's buffer, or more.
TEST(BuildProgram, CopiesWhatHasOneSizeBesideSizesThatVary) {
  mlir::MLIRContext context;
  auto with = [&](const std::string &source) {
    auto module = parse(context, R"(
      plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32, #weft.dims<n>>})
          -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
        %c = plan.constant dense<1.0> : tensor<16xf32> : !plan.buffer<64>
        %y = plan.output : !plan.buffer<64>
        plan.copy )" + source + R"( to %y : !plan.buffer<64> to !plan.buffer<64>
        plan.return %y : !plan.buffer<64>
      })");
    EXPECT_TRUE(module);
    runtime::SizeTable sizes;
    return buildProgram(findProgram(*module), "", {}, nullptr, &sizes).status();
  };
  EXPECT_TRUE(with("%c").ok()) << with("%c");
  EXPECT_NE(with("%x").message().find("whose size varies is copied whole"), std::string::npos)
      << with("%x");
}

TEST(BuildProgram, RefusesNamesThatAreNoStrings) {
  mlir::MLIRContext context;
  for (auto [from, to, wanted] :
       {std::tuple("plan.name = \"x\"", "plan.name = 5 : i64", "argument 0"),
        std::tuple("plan.parameter = \"layer.weight\"", "plan.parameter", "argument 1"),
        std::tuple("plan.name = \"y\"", "plan.name = [\"y\"]", "result 0")}) {
    std::string text = kPlan.str();
    text.replace(text.find(from), llvm::StringRef(from).size(), to);
    auto module = parse(context, text);
    ASSERT_TRUE(module);
    absl::Status status = buildProgram(findProgram(*module), "", {}).status();
    EXPECT_EQ(status.message(), std::string("plan.program: has a name that is no string, of ") +
                                    wanted);
  }
}

TEST(SizeRange, TakesBothFormsOfARange) {
  mlir::MLIRContext context;
  auto rangeOf = [&](const std::string &range) {
    auto module = parse(context, "module attributes {weft.sizes = {n = " + range + "}} {}");
    EXPECT_TRUE(module);
    return sizeRange(*module);
  };
  for (const char *range : {"[2, 64]", "array<i64: 2, 64>"}) {
    auto found = rangeOf(range);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_TRUE(*found);
    EXPECT_EQ((*found)->name, "n");
    EXPECT_EQ((*found)->low, 2);
    EXPECT_EQ((*found)->high, 64);
  }
  EXPECT_FALSE(rangeOf("[1, 1]").ok());
}

TEST(BuildProgram, RefusesAPlanThatIsNotReady) {
  mlir::MLIRContext context;
  auto module = parse(context, R"(
    plan.program @main() -> (!plan.buffer<4> {plan.type = tensor<f32>}) {
      %a = plan.alloc : !plan.buffer<4>
      %y = plan.output : !plan.buffer<4>
      plan.copy %a to %y : !plan.buffer<4> to !plan.buffer<4>
      plan.return %y : !plan.buffer<4>
    })");
  ASSERT_TRUE(module);
  auto program = buildProgram(findProgram(*module), "", {});
  ASSERT_FALSE(program.ok());
  EXPECT_NE(std::string(program.status().message()).find("plan.alloc"), std::string::npos);
}

} // namespace
} // namespace weft::compiler
