// Programs compiled ahead of time: each kind of file, run where it can be, against the reference.
#include "compiler/link/Aot.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "backends/cpu/compile/Libraries.h"
#include "compiler/backend/Backend.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "runtime/executor/device.h"
#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"
#include "runtime/memory/buffer.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

// x W1 -> gelu -> + b, softmax: two matrix products only where something claims them.
constexpr llvm::StringLiteral kModel = R"(
func.func @main(%x: tensor<4x8xf32> {weft.name = "x"}, %w: tensor<8xf32> {weft.parameter = "layer.w"}) -> (tensor<4x8xf32> {weft.name = "y"}) {
  %0 = weft.broadcast %w : tensor<8xf32> to tensor<4x8xf32> loc("layer.last"("model.cpp":7:3))
  %1 = weft.mul %x, %0 : tensor<4x8xf32> loc("layer.last"("model.cpp":7:3))
  %2 = weft.softmax %1, dim = 1 : tensor<4x8xf32> loc("layer.last"("model.cpp":7:3))
  return %2 : tensor<4x8xf32>
})";

struct Command {
  int code;
  std::string text;
};
Command shell(const std::string &command) {
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  Command result;
  std::array<char, 4096> piece;
  while (size_t size = std::fread(piece.data(), 1, piece.size(), pipe))
    result.text.append(piece.data(), size);
  int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

std::string readText(const std::string &path) {
  std::ifstream stream(path);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

struct AotTest : ::testing::Test {
  std::string folder =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::vector<float> x = std::vector<float>(32), w = std::vector<float>(8);
  std::vector<float> expected;

  void SetUp() override {
    shell("mkdir -p " + folder);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = 0.25f * float(i % 7) - 0.5f;
    for (size_t i = 0; i < w.size(); ++i)
      w[i] = float(i) * 0.5f;
    ASSERT_TRUE(runtime::write_npy(folder + "/x.npy",
                                   {"", DType::kFloat32, {4, 8}, std::as_bytes(std::span(x))})
                    .ok());
    for (int row = 0; row < 4; ++row) {
      double sum = 0;
      for (int i = 0; i < 8; ++i)
        sum += std::exp(double(x[row * 8 + i]) * w[i]);
      for (int i = 0; i < 8; ++i)
        expected.push_back(float(std::exp(double(x[row * 8 + i]) * w[i]) / sum));
    }
  }

  AotWeight weight() {
    return {"layer.w", DType::kFloat32, {8}, {reinterpret_cast<const char *>(w.data()), 32}};
  }

  absl::StatusOr<AotResult> compile(AotOptions options, llvm::StringRef text = kModel) {
    mlir::DialectRegistry registry;
    (*findBackend("cpu"))->registerDialects(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    // What the verifier refuses as well is refused by name.
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        text, mlir::ParserConfig(&context, /*verifyAfterParse=*/false));
    if (!module)
      return absl::InvalidArgumentError("the test's program does not parse");
    options.providers = backends::cpu::libraries().providersAheadOfTime();
    options.libraries = backends::cpu::libraries().runtimeLibraries();
    options.compile.verifyEachPhase = true;
    return compileAheadOfTime(*module, options);
  }
  AotOptions options(Emit emit, const char *file) {
    AotOptions result;
    result.emit = emit;
    result.output = folder + "/" + file;
    result.weights = {weight()};
    return result;
  }

  void expectRight(const std::string &path, const std::vector<int64_t> &dims = {4, 8}) {
    auto file = runtime::read_npy(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ(file->array.dims, dims);
    const float *y = reinterpret_cast<const float *>(file->array.bytes.data());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(y[i], expected[i], 1e-6) << "element " << i;
  }
};

TEST_F(AotTest, AnExecutableNeedsNoCompilerAndNoLibraryThatItDoesNotCall) {
  auto result = compile(options(Emit::Executable, "model"));
  ASSERT_TRUE(result.ok()) << result.status();
  Command run = shell(folder + "/model --input " + folder + "/x.npy --output " + folder + "/y.npy");
  ASSERT_EQ(run.code, 0) << run.text;
  expectRight(folder + "/y.npy");

  Command help = shell(folder + "/model --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.text.find("float32[4, 8]"), std::string::npos) << help.text;
  EXPECT_EQ(help.text.find("layer.w"), std::string::npos)
      << "an embedded weight is no input: " << help.text;
  // The one result, 4 x 8 floats, is what a run holds.
  EXPECT_NE(help.text.find("128 bytes at its peak\n           128  layer.last\n"),
            std::string::npos)
      << help.text;

  Command libraries = shell("ldd " + folder + "/model");
  ASSERT_EQ(libraries.code, 0);
  for (const char *name : {"LLVM", "MLIR", "weft", "absl", "dnnl"})
    EXPECT_EQ(libraries.text.find(name), std::string::npos) << name << " in " << libraries.text;
}

// The same, with the sums of its columns in a fusion that is no kernel.
TEST_F(AotTest, AKernelThatCannotBeCompiledIsSeveral) {
  auto result = compile(options(Emit::Executable, "model"), R"(
func.func @main(%x: tensor<4x8xf32> {weft.name = "x"}, %w: tensor<8xf32> {weft.parameter = "layer.w"}) -> (tensor<4x8xf32> {weft.name = "y"}) {
  %r:2 = weft.fusion(%a = %x : tensor<4x8xf32>, %b = %w : tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
    %0 = weft.broadcast %b : tensor<8xf32> to tensor<4x8xf32>
    %1 = weft.mul %a, %0 : tensor<4x8xf32>
    %2 = weft.exp %1 : tensor<4x8xf32>
    %3 = weft.reduce_sum %2, dims = [1] : tensor<4x8xf32>
    %4 = weft.reshape %3 : tensor<4xf32> to tensor<4x1xf32>
    %5 = weft.broadcast %4 : tensor<4x1xf32> to tensor<4x8xf32>
    %6 = weft.div %2, %5 : tensor<4x8xf32>
    %7 = weft.transpose %2, [1, 0] : tensor<4x8xf32>
    %8 = weft.reduce_sum %7, dims = [1] : tensor<8x4xf32>
    weft.yield %6, %8 : tensor<4x8xf32>, tensor<8xf32>
  }
  return %r#0 : tensor<4x8xf32>
})");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::any_of(result->reports[0].remarks.begin(), result->reports[0].remarks.end(),
                          [](const std::string &remark) {
                            return remark.find("does-not-compile") != std::string::npos;
                          }));
  Command run = shell(folder + "/model --input " + folder + "/x.npy --output " + folder + "/y.npy");
  ASSERT_EQ(run.code, 0) << run.text;
  expectRight(folder + "/y.npy");
  // What is live over the run has a course where there are several instructions.
  Command help = shell(folder + "/model --help");
  EXPECT_EQ(help.text.find("\n  over the run: ") != std::string::npos,
            result->reports[0].plan.liveBytes.size() > 1)
      << help.text;
}

TEST_F(AotTest, WeightsMayStandBesideIt) {
  AotOptions beside = options(Emit::Executable, "model");
  beside.embedWeights = false;
  auto result = compile(beside);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->files,
            (std::vector<std::string>{folder + "/model", folder + "/model.safetensors"}));
  std::string command =
      folder + "/model --input " + folder + "/x.npy --output " + folder + "/y.npy";
  Command without = shell(command);
  EXPECT_NE(without.code, 0);
  EXPECT_NE(without.text.find("--weights"), std::string::npos) << without.text;
  Command run = shell(command + " --weights " + folder + "/model.safetensors");
  ASSERT_EQ(run.code, 0) << run.text;
  expectRight(folder + "/y.npy");
}

TEST_F(AotTest, AnObjectLinksIntoACProgramThroughItsHeader) {
  AotOptions object = options(Emit::Object, "net.o");
  object.compile.cpu = "x86-64-v3";
  auto result = compile(object);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->files, (std::vector<std::string>{folder + "/net.o", folder + "/net.h"}));
  std::ofstream(folder + "/main.c") << R"(
#include <stdio.h>
#include "net.h"
int main(void) {
  float x[NET_INPUT_0_ELEMENTS], y[NET_OUTPUT_0_ELEMENTS], sum = 0;
  for (int i = 0; i < NET_INPUT_0_ELEMENTS; ++i) x[i] = 0.25f * (i % 7) - 0.5f;
  weft_model *model;
  if (weft_model_open(&weft_model_net, 0, &model)) { puts(weft_model_error()); return 1; }
  const void *inputs[NET_INPUTS] = {x};
  void *outputs[NET_OUTPUTS] = {y};
  if (weft_model_run(model, inputs, outputs)) { puts(weft_model_error()); return 1; }
  for (int i = 0; i < 8; ++i) sum += y[i];
  printf("%.5f %.5f", y[3], sum);
  weft_model_close(model);
})";
  std::stringstream header;
  header << std::ifstream(folder + "/net.h").rdbuf();
  EXPECT_NE(header.str().find("is linked with, in this order: libweft_aot.a -lstdc++ -lm\n"),
            std::string::npos)
      << header.str();
  Command build = shell("clang-22 -I . -I " + folder + " " + folder + "/main.c " + folder +
                        "/net.o runtime/aot/libweft_aot.a -lstdc++ -lm -o " + folder + "/main");
  ASSERT_EQ(build.code, 0) << build.text;
  Command run = shell(folder + "/main");
  EXPECT_EQ(run.code, 0) << run.text;
  char text[64];
  std::snprintf(text, sizeof text, "%.5f 1.00000", expected[3]);
  EXPECT_EQ(run.text, text);
}

TEST_F(AotTest, TwoObjectsWithTheSameKernelsLinkTogether) {
  ASSERT_TRUE(compile(options(Emit::Object, "one.o")).ok());
  ASSERT_TRUE(compile(options(Emit::Object, "two.o")).ok());
  Command link = shell("ld -r -o " + folder + "/both.o " + folder + "/one.o " + folder + "/two.o");
  EXPECT_EQ(link.code, 0) << link.text;
}

TEST_F(AotTest, ALibraryShowsTheCInterfaceOnly) {
  auto result = compile(options(Emit::SharedLibrary, "libnet.so"));
  ASSERT_TRUE(result.ok()) << result.status();
  Command symbols = shell("nm -D --defined-only " + folder + "/libnet.so");
  EXPECT_NE(symbols.text.find("weft_model_libnet"), std::string::npos) << symbols.text;
  EXPECT_NE(symbols.text.find("weft_model_open"), std::string::npos) << symbols.text;
  Command libraries = shell("ldd " + folder + "/libnet.so");
  for (const char *name : {"LLVM", "MLIR", "dnnl", "gomp"})
    EXPECT_EQ(libraries.text.find(name), std::string::npos) << libraries.text;
  std::istringstream lines(symbols.text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_NE(line.find("weft_model_"), std::string::npos) << line;
}

TEST_F(AotTest, TextOfEveryStage) {
  for (auto [emit, file, wanted] : {std::tuple{Emit::Weft, "a.mlir", "weft.fusion"},
                                    {Emit::Plan, "b.mlir", "plan.program @main"},
                                    {Emit::Llvm, "c.ll", "define internal i32"},
                                    {Emit::Assembly, "d.s", "weft_model_d"}}) {
    auto result = compile(options(emit, file));
    ASSERT_TRUE(result.ok()) << file << ": " << result.status();
    EXPECT_NE(readText(folder + "/" + file).find(wanted), std::string::npos) << file;
  }
  // What was fused can be compiled again.
  auto again = compile(options(Emit::Plan, "e.mlir"), readText(folder + "/a.mlir"));
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(AotTest, ASortIsLinkedWhereAPlanCallsIt) {
  constexpr llvm::StringLiteral model = R"(
func.func @main(%x: tensor<4x8xf32> {weft.name = "x"}) -> (tensor<4x8xf32> {weft.name = "y"}) {
  %0 = weft.arg_sort %x, dim = 1 {descending = true} : tensor<4x8xf32>
  %1 = weft.gather %x, %0, dim = 1 : tensor<4x8xf32>, tensor<4x8xi64>
  return %1 : tensor<4x8xf32>
})";
  AotOptions sorting = options(Emit::Executable, "sorting");
  sorting.weights.clear();
  auto result = compile(sorting, model);
  ASSERT_TRUE(result.ok()) << result.status();
  Command run =
      shell(folder + "/sorting --input " + folder + "/x.npy --output " + folder + "/y.npy");
  ASSERT_EQ(run.code, 0) << run.text;
  expected = x;
  for (int row = 0; row < 4; ++row)
    std::sort(expected.begin() + row * 8, expected.begin() + (row + 1) * 8, std::greater<>());
  expectRight(folder + "/y.npy");
  Command libraries = shell("ldd " + folder + "/sorting");
  for (const char *name : {"LLVM", "MLIR", "weft", "absl", "dnnl"})
    EXPECT_EQ(libraries.text.find(name), std::string::npos) << libraries.text;

  ASSERT_TRUE(compile(options(Emit::Executable, "model")).ok());
  EXPECT_NE(readText(folder + "/sorting").find("weft.arg_sort"), std::string::npos);
  EXPECT_EQ(readText(folder + "/model").find("weft.arg_sort"), std::string::npos);

  sorting.emit = Emit::Object;
  sorting.output = folder + "/sorting.o";
  ASSERT_TRUE(compile(sorting, model).ok());
  EXPECT_NE(readText(folder + "/sorting.h").find("libweft_sort.a"), std::string::npos);
}

// Its archive asks oneDNN how wide vectors may be.
TEST_F(AotTest, AFactorizationIsLinkedWhereAPlanCallsIt) {
  constexpr llvm::StringLiteral model = R"(
func.func @main(%x: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %0 = weft.cholesky %x : tensor<2x4x4xf32>
  return %0 : tensor<2x4x4xf32>
})";
  std::vector<float> identities(32);
  for (int i = 0; i < 8; ++i)
    identities[i / 4 * 16 + i % 4 * 5] = float((i + 1) * (i + 1));
  expected.assign(32, 0);
  for (int i = 0; i < 8; ++i)
    expected[i / 4 * 16 + i % 4 * 5] = float(i + 1);
  ASSERT_TRUE(runtime::write_npy(
                  folder + "/i.npy",
                  {"", DType::kFloat32, {2, 4, 4}, std::as_bytes(std::span(identities))})
                  .ok());
  AotOptions factor = options(Emit::Executable, "factor");
  factor.weights.clear();
  auto result = compile(factor, model);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->reports[0].libraryCalls, 1);
  Command run = shell(folder + "/factor " + folder + "/i.npy --output " + folder + "/y.npy");
  ASSERT_EQ(run.code, 0) << run.text;
  expectRight(folder + "/y.npy", {2, 4, 4});

  factor.emit = Emit::SharedLibrary;
  factor.output = folder + "/libfactor.so";
  result = compile(factor, model);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(shell("ldd -r " + factor.output + " 2>&1").text.find("symbol: dnnl"),
            std::string::npos);
  factor.emit = Emit::Object;
  factor.output = folder + "/factor.o";
  ASSERT_TRUE(compile(factor, model).ok());
  EXPECT_NE(readText(folder + "/factor.h").find("libweft_factor.a libweft_aot.a -ldnnl -lstdc++"),
            std::string::npos);
}

TEST_F(AotTest, AMatrixProductRunsWithAndWithoutItsLibrary) {
  constexpr llvm::StringLiteral model = R"(
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = weft.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
  return %0 : tensor<4x8xf32>
})";
  std::vector<float> identity(64);
  for (int i = 0; i < 8; ++i)
    identity[9 * i] = 1;
  ASSERT_TRUE(runtime::write_npy(folder + "/i.npy",
                                 {"", DType::kFloat32, {8, 8}, std::as_bytes(std::span(identity))})
                  .ok());
  expected = x;
  for (bool claim : {false, true}) {
    AotOptions matmul = options(Emit::Executable, "matmul");
    matmul.weights.clear();
    matmul.compile.claim = claim;
    auto result = compile(matmul, model);
    ASSERT_TRUE(result.ok()) << result.status();
    Command run = shell(folder + "/matmul --input " + folder + "/x.npy --input " + folder +
                        "/i.npy --output " + folder + "/y.npy");
    ASSERT_EQ(run.code, 0) << run.text;
    expectRight(folder + "/y.npy");
    EXPECT_EQ(shell("ldd " + folder + "/matmul").text.find("dnnl") != std::string::npos,
              result->reports[0].libraryCalls > 0);
    // The inputs have no names.
    Command one = shell(folder + "/matmul --input " + folder + "/x.npy");
    EXPECT_EQ(one.code, 2);
    EXPECT_NE(one.text.find("input 1 float32[8, 8] is missing"), std::string::npos) << one.text;
    Command wrong = shell(folder + "/matmul --input " + folder + "/i.npy");
    EXPECT_NE(wrong.text.find("input 0 is float32[4, 8]; the file holds float32[8, 8]"),
              std::string::npos)
        << wrong.text;
  }
}

// What is shipped: without weights and libraries at most 1.5 MB. That it is linked with -s and
// --gc-sections decides.
TEST_F(AotTest, APerceptronIsSmall) {
  constexpr llvm::StringLiteral model = R"(
func.func @main(%x: tensor<4x784xf32>, %w1: tensor<128x784xf32> {weft.parameter = "up.weight"}, %b1: tensor<128xf32> {weft.parameter = "up.bias"},
    %w2: tensor<10x128xf32> {weft.parameter = "down.weight"}, %b2: tensor<10xf32> {weft.parameter = "down.bias"}) -> tensor<4x10xf32> {
  %t1 = weft.transpose %w1, [1, 0] : tensor<128x784xf32>
  %0 = weft.matmul %x, %t1 : tensor<4x784xf32>, tensor<784x128xf32>
  %1 = weft.broadcast %b1 : tensor<128xf32> to tensor<4x128xf32>
  %2 = weft.add %0, %1 : tensor<4x128xf32>
  %3 = weft.relu %2 : tensor<4x128xf32>
  %t2 = weft.transpose %w2, [1, 0] : tensor<10x128xf32>
  %4 = weft.matmul %3, %t2 : tensor<4x128xf32>, tensor<128x10xf32>
  %5 = weft.broadcast %b2 : tensor<10xf32> to tensor<4x10xf32>
  %6 = weft.add %4, %5 : tensor<4x10xf32>
  return %6 : tensor<4x10xf32>
})";
  constexpr uintmax_t kMostBytes = 1'500'000;
  for (bool claim : {false, true}) {
    AotOptions mlp = options(Emit::Executable, "mlp");
    mlp.weights.clear();
    mlp.compile.claim = claim;
    auto result = compile(mlp, model);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->reports[0].libraryCalls > 0, claim);
    EXPECT_LE(std::filesystem::file_size(folder + "/mlp"), kMostBytes)
        << (claim ? "with oneDNN" : "without a library");
    EXPECT_EQ(shell("ldd " + folder + "/mlp").text.find("dnnl") != std::string::npos, claim);
  }
}

// As of programs that are run: phases, and each kernel with the stages of its code.
TEST_F(AotTest, DumpsItsKernels) {
  AotOptions dumped = options(Emit::Object, "model");
  dumped.compile.dumpDir = folder + "/dump";
  ASSERT_TRUE(compile(dumped, kModel.str()).ok());
  std::set<std::string> stages; // of files, what follows the kernel's name
  for (const auto &file : std::filesystem::directory_iterator(folder + "/dump/kernels")) {
    std::string name = file.path().filename().string();
    stages.insert(name.substr(name.find('.')));
    EXPECT_GT(file.file_size(), 0u) << name;
  }
  for (const char *stage : {".mlir", ".linalg.mlir", ".loops.mlir", ".llvm.mlir"})
    EXPECT_TRUE(stages.contains(stage)) << stage;
}

// Work on weights alone is done when the model is loaded, from weights that stay as they are in the
// file.
TEST_F(AotTest, WeightsArePreparedAtLoad) {
  llvm::StringRef model = R"(
func.func @main(%x: tensor<4x8xf32> {weft.name = "x"}, %w: tensor<8x2048xf32> {weft.parameter = "m.w"}) -> (tensor<4x2048xf32> {weft.name = "y"}) {
  %0 = weft.relu %w : tensor<8x2048xf32>
  %1 = weft.matmul %x, %0 : tensor<4x8xf32>, tensor<8x2048xf32>
  return %1 : tensor<4x2048xf32>
})";
  std::vector<float> weights(8 * 2048);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = 0.5f * float(i % 9) - 1.5f;
  for (bool embed : {true, false}) {
    AotOptions prepared = options(Emit::Executable, embed ? "embedded" : "beside");
    prepared.weights = {{"m.w",
                         DType::kFloat32,
                         {8, 2048},
                         {reinterpret_cast<const char *>(weights.data()), weights.size() * 4}}};
    prepared.embedWeights = embed;
    auto result = compile(prepared, model);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->reports[0].preparedValues, 1);
    EXPECT_EQ(result->reports[0].preparedBytes, int64_t(weights.size() * 4));
    std::string command =
        prepared.output + " --input " + folder + "/x.npy --output " + folder + "/y.npy";
    Command run =
        shell(embed ? command : command + " --weights " + prepared.output + ".safetensors");
    ASSERT_EQ(run.code, 0) << run.text;
    auto file = runtime::read_npy(folder + "/y.npy");
    ASSERT_TRUE(file.ok()) << file.status();
    const float *y = reinterpret_cast<const float *>(file->array.bytes.data());
    for (size_t row = 0; row < 4; ++row)
      for (size_t column = 0; column < 2048; ++column) {
        double sum = 0;
        for (size_t k = 0; k < 8; ++k)
          sum += double(x[row * 8 + k]) * std::max(weights[k * 2048 + column], 0.0f);
        ASSERT_NEAR(y[row * 2048 + column], sum, 1e-5) << row << ", " << column;
      }
  }
  AotOptions text = options(Emit::Plan, "plan.mlir");
  text.weights.clear();
  ASSERT_TRUE(compile(text, model).ok());
  EXPECT_NE(readText(folder + "/plan.mlir").find("plan.prepared = 0"), std::string::npos);
  EXPECT_NE(readText(folder + "/plan.mlir").find("plan.source = 1"), std::string::npos);
}

#if defined(__x86_64__)
// Kernels for two kinds of processor stand in one object: the first that the machine can run is
// taken, whatever that is here.
TEST_F(AotTest, SeveralProcessorsInOneModel) {
  for (const char *cpus : {"x86-64-v4,x86-64-v3", "znver4,x86-64-v3", "sapphirerapids,x86-64-v3"}) {
    AotOptions several = options(Emit::Executable, "model");
    several.compile.cpu = cpus;
    auto result = compile(several);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->reports.size(), 2u);
    Command run =
        shell(folder + "/model --input " + folder + "/x.npy --output " + folder + "/y.npy");
    ASSERT_EQ(run.code, 0) << run.text;
    expectRight(folder + "/y.npy");
    std::remove((folder + "/y.npy").c_str());
  }
  AotOptions code = options(Emit::Assembly, "several.s");
  code.compile.cpu = "x86-64-v4,x86-64-v3";
  code.weights.clear();
  auto result = compile(code, R"(
func.func @main(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %0 = weft.exp %x : tensor<4x64xf32>
  return %0 : tensor<4x64xf32>
})");
  ASSERT_TRUE(result.ok()) << result.status();
  std::map<std::string, int> wide; // registers of 512 bits, by level
  std::string level;
  std::istringstream lines(readText(folder + "/several.s"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("weft_several_level", 0) == 0)
      level = line.substr(0, std::string("weft_several_level0").size());
    wide[level] += line.find("%zmm") != std::string::npos;
  }
  ASSERT_TRUE(wide.count("weft_several_level0") && wide.count("weft_several_level1"));
  EXPECT_GT(wide["weft_several_level0"], 0);
  EXPECT_EQ(wide["weft_several_level1"], 0);
  for (const char *names : {"x86-64-v3,x86-64-v4", "x86-64-v3,x86-64-v3"}) {
    code.compile.cpu = names;
    EXPECT_NE(std::string(compile(code).status().message()).find("would never be taken"),
              std::string::npos)
        << names;
  }
  code.compile.cpu = "x86-64-v3,x86-64-v2";
  code.weights = {weight()};
  EXPECT_NE(std::string(compile(code).status().message()).find("no avx2"), std::string::npos);
}
#endif

TEST_F(AotTest, AFolderWithoutRoomForTemporaryFilesIsNamed) {
  const char *before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/nowhere", 1);
  absl::Status status = compile(options(Emit::Executable, "model")).status();
  unsetenv("TMPDIR");
  if (!kept.empty())
    setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_EQ(status.message(), "cannot make a temporary file in /nowhere: No such file or directory; "
                              "TMPDIR names another folder");
}

// What a traced function captured, as Program::save() writes it: constants that have a name, and
// large ones. A file of weights replaces the values of those.
TEST_F(AotTest, CapturedConstantsAreWeights) {
  std::string numbers;
  for (int i = 0; i < 64; ++i)
    numbers += (i ? ", " : "") + std::to_string(i) + ".0";
  std::string model = "func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {\n"
                      "  %0 = weft.constant dense<[" +
                      numbers +
                      "]> : tensor<64xf32>\n"
                      "  %1 = weft.constant {weft.parameter = \"scale\"} dense<[2.0, 3.0]> : "
                      "tensor<2xf32>\n"
                      "  %2 = weft.constant {weft.parameter = \"scale\"} dense<[2.0, 3.0]> : "
                      "tensor<2xf32>\n"
                      "  %3 = weft.constant dense<[5.0, 7.0]> : tensor<2xf32>\n"
                      "  %4 = weft.add %1, %2 : tensor<2xf32>\n"
                      "  %5 = weft.add %4, %3 : tensor<2xf32>\n"
                      "  %6 = weft.reduce_sum %5, dims = [0] : tensor<2xf32>\n"
                      "  %7 = weft.broadcast %6 : tensor<f32> to tensor<64xf32>\n"
                      "  %8 = weft.mul %x, %0 : tensor<64xf32>\n"
                      "  %9 = weft.mul %8, %7 : tensor<64xf32>\n"
                      "  return %9 : tensor<64xf32>\n}\n";
  AotOptions beside = options(Emit::Executable, "captured");
  beside.weights.clear();
  beside.embedWeights = false;
  auto result = compile(beside, model);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->files.back(), folder + "/captured.safetensors");
  auto file = runtime::read_safetensors(result->files.back());
  ASSERT_TRUE(file.ok()) << file.status();
  std::map<std::string, std::vector<float>> weights;
  for (const runtime::ArrayView &tensor : file->tensors) {
    const float *values = reinterpret_cast<const float *>(tensor.bytes.data());
    weights[tensor.name].assign(values, values + tensor.bytes.size() / 4);
  }
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights["scale"], (std::vector<float>{2, 3}));
  ASSERT_EQ(weights["captured_0"].size(), 64u);
  EXPECT_EQ(weights["captured_0"][63], 63);

  std::vector<float> ones(64, 1), scale = {10, 20};
  ASSERT_TRUE(runtime::write_npy(folder + "/x.npy",
                                 {"", DType::kFloat32, {64}, std::as_bytes(std::span(ones))})
                  .ok());
  AotOptions other = options(Emit::Executable, "other");
  other.weights = {
      {"scale", DType::kFloat32, {2}, {reinterpret_cast<const char *>(scale.data()), 8}}};
  ASSERT_TRUE(compile(other, model).ok());
  for (const auto &[command, factor] :
       {std::pair("/captured --weights " + folder + "/captured.safetensors", 22.f),
        std::pair(std::string("/other"), 72.f)}) {
    Command run = shell(folder + command + " " + folder + "/x.npy --output " + folder + "/y.npy");
    ASSERT_EQ(run.code, 0) << run.text;
    auto y = runtime::read_npy(folder + "/y.npy");
    ASSERT_TRUE(y.ok()) << y.status();
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(reinterpret_cast<const float *>(y->array.bytes.data())[i], factor * float(i)) << i;
  }
}

TEST_F(AotTest, WhatIsMostLikelyNotMeantIsSaid) {
  AotOptions limited = options(Emit::Plan, "limited.mlir");
  std::string said;
  limited.warn = [&](const std::string &what) {
    said += what + "\n";
  };
  limited.compile.memoryLimit = 127;
  ASSERT_TRUE(compile(limited).ok());
  EXPECT_EQ(said, "the memory limit of 127 bytes is not reached: a run of 'main' takes 128 bytes "
                  "beside its inputs and weights, the least that was found\n");
  said.clear();
  limited.compile.memoryLimit = 128;
  ASSERT_TRUE(compile(limited).ok());
  EXPECT_EQ(said, "");
}

TEST_F(AotTest, WhatLinksIsWhatCxxSays) {
  ASSERT_EQ(::setenv("CXX", "no-such-compiler -O1", 1), 0);
  auto result = compile(options(Emit::Executable, "model"));
  EXPECT_NE(std::string(result.status().message()).find("CXX is 'no-such-compiler -O1', but"),
            std::string::npos)
      << result.status();
  ASSERT_EQ(::setenv("CXX", "env clang++-22", 1), 0);
  result = compile(options(Emit::Executable, "model"));
  EXPECT_TRUE(result.ok()) << result.status();
  ::unsetenv("CXX");
}

// A header's comments are of one line whatever names are, and text goes to what is no file, too.
TEST_F(AotTest, NamesStayInTheirLineOfTheHeader) {
  constexpr llvm::StringLiteral model = R"(
func.func @main(%x: tensor<2xf32> {weft.name = "x\0A#error"}, %w: tensor<2xf32> {weft.state = "a\0A#error", weft.initial = dense<1.0> : tensor<2xf32>})
    -> (tensor<2xf32> {weft.writes = 1 : i64}) {
  %0 = weft.add %w, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
})";
  AotOptions object = options(Emit::Object, "names.o");
  object.weights.clear();
  ASSERT_TRUE(compile(object, model).ok());
  std::string header = readText(folder + "/names.h");
  EXPECT_NE(header.find("// input 0 'x\\x0A#error'"), std::string::npos) << header;
  EXPECT_NE(header.find("// state 'a\\x0A#error'"), std::string::npos) << header;
  EXPECT_EQ(header.find("\n#error"), std::string::npos) << header;
  object.emit = Emit::Assembly;
  object.output = "/dev/null";
  EXPECT_TRUE(compile(object, model).ok());
}

// Entries, each a module, hold one tensor of each name: what one only reads, another may write. A
// weight of two entries stands in the object once.
TEST_F(AotTest, EntriesShareWhatTheyHold) {
  constexpr llvm::StringLiteral model = R"(
module @train {
  func.func @main(%x: tensor<8xf32>, %w: tensor<8xf32> {weft.state = "w", weft.initial = dense<1.0> : tensor<8xf32>}, %s: tensor<8xf32> {weft.parameter = "scale"})
      -> (tensor<8xf32>, tensor<8xf32> {weft.writes = 1 : i64}) {
    %0 = weft.mul %x, %s : tensor<8xf32>
    %1 = weft.add %w, %0 : tensor<8xf32>
    %2 = weft.neg %1 : tensor<8xf32>
    return %2, %1 : tensor<8xf32>, tensor<8xf32>
  }
}
module @predict {
  func.func @main(%x: tensor<8xf32>, %s: tensor<8xf32> {weft.parameter = "scale"}, %w: tensor<8xf32> {weft.parameter = "w"}) -> tensor<8xf32> {
    %0 = weft.mul %x, %s : tensor<8xf32>
    %1 = weft.sub %0, %w : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
})";
  AotOptions both = options(Emit::Executable, "both");
  both.weights[0].name = "scale";
  auto result = compile(both, model);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->reports.size(), 2u);
  std::vector<float> ones(8, 1);
  ASSERT_TRUE(runtime::write_npy(folder + "/x.npy",
                                 {"", DType::kFloat32, {8}, std::as_bytes(std::span(ones))})
                  .ok());
  std::string state = folder + "/state.safetensors";
  auto run = [&](const std::string &arguments) {
    Command done = shell(folder + "/both " + arguments + " " + folder + "/x.npy --output " +
                         folder + "/y.npy");
    EXPECT_EQ(done.code, 0) << done.text;
    auto file = runtime::read_npy(folder + "/y.npy");
    EXPECT_TRUE(file.ok());
    const float *y = reinterpret_cast<const float *>(file->array.bytes.data());
    return std::vector<float>(y, y + file->array.bytes.size() / 4);
  };
  auto of_scale = [&](float scale, float bias) { // w of the fixture is the scale
    std::vector<float> values;
    for (float each : w)
      values.push_back(scale * each + bias);
    return values;
  };
  EXPECT_EQ(run("--entry predict"), of_scale(1, -1));
  EXPECT_EQ(run("--save " + state), of_scale(-1, -1));
  EXPECT_EQ(run("--entry predict --load " + state), of_scale(0, -1));
  EXPECT_EQ(runtime::read_safetensors(state)->tensors.size(), 1u);

  // The state is updated where it lies: only the caller's output has memory of its own.
  AotOptions plan = options(Emit::Plan, "plan.mlir");
  plan.weights.clear();
  ASSERT_TRUE(compile(plan, model).ok());
  std::string text = readText(folder + "/plan.mlir");
  std::string train = text.substr(0, text.find("// entry 'predict'"));
  EXPECT_NE(train.find("// entry 'train'"), std::string::npos);
  EXPECT_EQ(llvm::StringRef(train).count("plan.output"), 1u) << train;

  AotOptions wrong = options(Emit::Object, "wrong.o");
  wrong.weights.clear();
  auto message = [&](std::string from, std::string to) {
    std::string changed = model.str();
    changed.replace(changed.find(from), from.size(), to);
    auto result = compile(wrong, changed);
    return result.ok() ? std::string() : std::string(result.status().message());
  };
  EXPECT_NE(message("weft.writes = 1", "weft.writes = 7").find("writes argument 7"),
            std::string::npos);
  EXPECT_NE(message("weft.parameter = \"w\"", "weft.state = \"scale\"").find("'scale'"),
            std::string::npos);
}

TEST_F(AotTest, TheSizeThatVariesHasARange) {
  auto message = [&](llvm::StringRef sizes) {
    AotOptions object = options(Emit::Object, "a.o");
    object.weights.clear();
    return std::string(compile(object, ("module" + sizes + R"( {
func.func @main(%x: tensor<64x8xf32, #weft.dims<n, _>>) -> tensor<64x8xf32, #weft.dims<n, _>> {
  %0 = weft.tanh %x : tensor<64x8xf32, #weft.dims<n, _>>
  return %0 : tensor<64x8xf32, #weft.dims<n, _>>
}})").str()).status().message());
  };
  EXPECT_EQ(message(""), "argument 0 of @main, float32[n, 8], has the size 'n', whose range the "
                         "module does not say; write module attributes {weft.sizes = {n = [MIN, "
                         "MAX]}}");
  EXPECT_EQ(message(" attributes {weft.sizes = {m = [2, 64]}}"),
            "argument 0 of @main, float32[n, 8], has the size 'n', but weft.sizes has the range of "
            "'m'; a model has one");
}

TEST_F(AotTest, SaysWhatIsWrong) {
  auto message = [&](const AotOptions &options, llvm::StringRef text = kModel) {
    auto result = compile(options, text);
    return result.ok() ? std::string() : std::string(result.status().message());
  };
  AotOptions unknown = options(Emit::Object, "a.o");
  unknown.weights[0].name = "layer.v";
  EXPECT_NE(message(unknown).find("'layer.v'"), std::string::npos) << message(unknown);
  AotOptions shape = options(Emit::Object, "a.o");
  shape.weights[0].dims = {4, 2};
  EXPECT_NE(message(shape).find("float32[4, 2]"), std::string::npos) << message(shape);
  EXPECT_NE(message(shape).find("float32[8]"), std::string::npos);
  AotOptions cpu = options(Emit::Object, "a.o");
  cpu.compile.cpu = "no-such-cpu";
  EXPECT_NE(message(cpu).find("no-such-cpu"), std::string::npos) << message(cpu);
  cpu.compile.cpu = "x86-64-v2";
  EXPECT_NE(message(cpu).find("no avx2"), std::string::npos) << message(cpu);
  AotOptions nowhere = options(Emit::Executable, "a");
  nowhere.runtimeFolder = "/nowhere";
  EXPECT_NE(message(nowhere).find("libweft_aot.a"), std::string::npos) << message(nowhere);
  AotOptions unwritable = options(Emit::Object, "a.o");
  unwritable.output = "/nowhere/a.o";
  EXPECT_NE(message(unwritable).find("/nowhere/a.o"), std::string::npos) << message(unwritable);
  AotOptions stdoutObject = options(Emit::Object, "a.o");
  stdoutObject.output = "-";
  EXPECT_NE(message(stdoutObject).find("stdout"), std::string::npos);
  for (const char *name : {"a b", "1x", "_"}) {
    AotOptions named = options(Emit::Object, "a.o");
    named.name = name;
    EXPECT_NE(message(named).find("the model is named '" + std::string(name) +
                                  "'; it must be a C identifier"),
              std::string::npos)
        << message(named);
  }
  AotOptions empty = options(Emit::Object, "a.o");
  empty.weights.clear();
  EXPECT_NE(message(empty, "func.func @other() { return }").find("@main"), std::string::npos);
}

// No file takes more than so many bytes, as on a disk that is full.
class FullDisk {
public:
  explicit FullDisk(rlim_t bytes) : before_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &limit_);
    rlimit full{bytes, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
    // Warnings went to a file where the standard error is one, and LLVM ends a process whose stream
    // has failed.
    llvm::errs().clear_error();
  }

private:
  rlimit limit_;
  void (*before_)(int);
};

TEST_F(AotTest, AFullDiskIsAnErrorForFilesAndAWarningForDumps) {
  for (Emit emit : {Emit::Executable, Emit::SharedLibrary}) {
    AotOptions full = options(emit, "a");
    full.compile.dumpDir = folder + "/dump";
    absl::Status status;
    {
      FullDisk disk(100);
      status = compile(full).status();
    }
    EXPECT_NE(status.message().find("cannot write '"), std::string::npos) << status;
  }
}

} // namespace
} // namespace weft::compiler
