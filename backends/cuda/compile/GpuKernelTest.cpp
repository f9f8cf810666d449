// Every op that has a lowering, alone in a fusion, on every dtype that its record allows: run by
// the simulator (in both orders of threads) against reference evaluation; and its PTX,
// which ptxas (where it is installed) must take without local memory.
#include "backends/cuda/compile/GpuCodegen.h"
#include "backends/cuda/compile/Simulator.h"

#include <array>
#include <cstdlib>

#include "compiler/codegen/FusionText.h"
#include "compiler/fusion/FusionDomain.h"
#include "dialects/weft/ir/Weft.h"
#include "tests/support/Compare.h"
#include "tests/support/OpCases.h"
#include "tests/support/OpModule.h"
#include "tests/support/Turns.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

namespace weft::backends::cuda {
namespace {

using compiler::FusionDomain;
using compiler::replaced;
using compiler::sample;
using ir::HostTensor;

// Runs what buildGpuKernel made: guards around each buffer, garbage in what a kernel must not rely
// on.
class SimulatedKernel {
public:
  static std::unique_ptr<SimulatedKernel> build(ir::FusionOp fusion, std::string &error) {
    mlir::MLIRContext *context = fusion.getContext();
    compiler::registerCodegenDialects(*context);
    registerGpuDialects(*context);
    mlir::ScopedDiagnosticHandler collect(context, [&](mlir::Diagnostic &diagnostic) {
      error += diagnostic.str() + "\n";
      return mlir::success();
    });
    compiler::CodegenOptions options;
    options.verify = true;
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(fusion.getLoc());
    auto built = buildGpuKernel(fusion, "kernel", *module, options);
    if (mlir::failed(built)) {
      if (error.empty())
        error = "failed without a diagnostic";
      return nullptr;
    }
    auto result = std::make_unique<SimulatedKernel>();
    auto ptx = emitPtx(*module, "sm_80", options);
    if (!ptx.ok()) {
      error += std::string(ptx.status().message());
      return nullptr;
    }
    result->ptx = *ptx;
    result->kernel = *built;
    result->simulator = Simulator::create(*module, *built, error);
    for (mlir::Type type : fusion.getResultTypes())
      result->outputs.push_back(mlir::cast<mlir::RankedTensorType>(type));
    return result->simulator ? std::move(result) : nullptr;
  }

  // Empty, or what is wrong. `shared`: outputs in an input's buffer.
  std::string run(llvm::ArrayRef<HostTensor> inputs, std::vector<HostTensor> &results,
                  llvm::ArrayRef<std::pair<int64_t, int64_t>> shared = {}) {
    constexpr size_t kGuard = 256;
    struct Memory {
      std::vector<std::byte> bytes;
      std::byte *data;
      size_t size;
    };
    std::vector<Memory> memory;
    memory.reserve(inputs.size() + outputs.size() + 2);
    auto make = [&](size_t size) -> Memory & {
      Memory &made = memory.emplace_back();
      made.bytes.assign(size + 3 * kGuard, std::byte(0xCD));
      made.data = reinterpret_cast<std::byte *>(
          (reinterpret_cast<uintptr_t>(made.bytes.data()) + 2 * kGuard - 1) / kGuard * kGuard);
      made.size = size;
      return made;
    };
    std::vector<void *> arguments;
    for (const HostTensor &input : inputs) {
      Memory &made = make(input.bytes.size());
      if (!input.bytes.empty())
        std::memcpy(made.data, input.bytes.data(), input.bytes.size());
      arguments.push_back(made.data);
    }
    std::vector<std::byte *> written;
    for (auto [i, type] : llvm::enumerate(outputs)) {
      std::byte *data = nullptr;
      for (auto [output, input] : shared)
        if (output == static_cast<int64_t>(i))
          data = memory[input].data;
      written.push_back(data ? data : make(HostTensor::of(type).bytes.size()).data);
      arguments.push_back(written.back());
    }
    arguments.push_back(make(kernel.info.partialsBytes).data);
    int32_t flag = 0;
    arguments.push_back(&flag);
    for (const KernelEntry &entry : kernel.entries)
      if (std::string wrong = simulator->launch(entry.symbol, arguments); !wrong.empty())
        return wrong;
    for (Memory &m : memory)
      for (std::byte &byte : m.bytes)
        if ((&byte < m.data || &byte >= m.data + m.size) && byte != std::byte(0xCD))
          return "a kernel wrote beside its buffers";
    results.clear();
    for (auto [i, type] : llvm::enumerate(outputs)) {
      HostTensor result = HostTensor::of(type);
      if (!result.bytes.empty())
        std::memcpy(result.bytes.data(), written[i], result.bytes.size());
      results.push_back(std::move(result));
    }
    return flag ? "an index was out of range" : "";
  }

  GpuKernel kernel;
  std::string ptx;
  std::unique_ptr<Simulator> simulator;
  std::vector<mlir::RankedTensorType> outputs;
};

// What ptxas says of a module for both GPU generations; empty where it is content. Registers that
// do not suffice become local memory.
class Ptxas {
public:
  Ptxas() {
    auto found = llvm::sys::findProgramByName("ptxas");
    if (!found)
      found = llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin", "/usr/lib/cuda/bin"});
    if (found)
      path_ = *found;
  }
  explicit operator bool() const {
    return !path_.empty();
  }
  // `architecture` is that of the PTX or a later one.
  std::string check(llvm::StringRef ptx, const std::string &architecture) const {
    // Shards may share the folder of the test.
    std::string folder = std::getenv("TEST_TMPDIR") ? std::getenv("TEST_TMPDIR") : ".",
                stem = folder + "/" + std::to_string(llvm::sys::Process::getProcessId()),
                file = stem + ".ptx", log = stem + ".log";
    std::error_code error;
    {
      llvm::raw_fd_ostream stream(file, error);
      stream << ptx;
    }
    // A redirected program writes over the start of a file that is there, and leaves its rest.
    llvm::sys::fs::remove(log);
    std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(log),
                                                  llvm::StringRef(log)};
    int code = llvm::sys::ExecuteAndWait(
        path_, {path_, "-v", "-arch=" + architecture, "-o", "/dev/null", file}, std::nullopt,
        redirects);
    auto buffer = llvm::MemoryBuffer::getFile(log);
    std::string text = buffer ? (*buffer)->getBuffer().str() : "";
    if (code != 0)
      return "ptxas fails: " + text;
    llvm::StringRef rest(text);
    llvm::StringRef kernel;
    for (auto [line, after] = rest.split('\n'); !rest.empty();
         std::tie(line, after) = (rest = after).split('\n')) {
      if (line.contains("Compiling entry function"))
        kernel = line;
      // One register may be spilled, as some version of ptxas chooses; an array is larger.
      uint64_t bytes = 0;
      if (line.contains("bytes stack frame") &&
          (line.trim().consumeInteger(10, bytes) || bytes > 8))
        return "local memory: " + line.str() + " of " + kernel.str();
    }
    return "";
  }

private:
  std::string path_;
};

class GpuOps : public testing::TestWithParam<DType> {};

TEST_P(GpuOps, HavePtxThatPtxasTakes) {
  mlir::MLIRContext context;
  compiler::registerCodegenDialects(context);
  registerGpuDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  int64_t number = 0;
  for (const tests::OpCase &c : tests::allCases(context)) {
    tests::OpModule made = tests::buildModule(context, c, GetParam());
    if (!made.op || FusionDomain::fusible(made.op) != compiler::Refusal::None ||
        !tests::hasTurn(c.name(), "ptx", GetParam()))
      continue;
    // This backend keeps no composite whole (attention): all are decomposed before.
    if (mlir::cast<ir::WeftOp>(made.op).kind() == ir::Kind::Composite)
      continue;
    // In float64, of several elements a thread, these keep a part in local memory: slow, but right.
    if (mlir::isa<ir::LgammaOp, ir::PolygammaOp>(made.op))
      continue;
    std::string name = "kernel" + std::to_string(number++) + "_" + c.name();
    std::replace_if(
        name.begin(), name.end(), [](unsigned char letter) { return !std::isalnum(letter); }, '_');
    ASSERT_TRUE(mlir::succeeded(buildGpuKernel(compiler::fusionAround(made.op), name, *module)))
        << c.name();
  }
  EXPECT_GT(number, 15);
  Ptxas ptxas;
  for (const char *architecture : {"sm_80", "sm_90"}) {
    auto ptx = emitPtx(*module, architecture);
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    EXPECT_EQ(ptx->find(".local"), std::string::npos);
    EXPECT_EQ(ptx->find("call"), std::string::npos);
    // Integers are the same to both, and ptxas is two thirds of the time of this.
    if (ptxas && (is_floating(GetParam()) || llvm::StringRef(architecture) == "sm_80"))
      EXPECT_EQ(ptxas.check(*ptx, architecture), "") << architecture;
  }
  if (!ptxas)
    GTEST_SKIP() << "ptxas is not installed (looked on the PATH and in /usr/local/cuda/bin)";
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GpuOps,
                         testing::Values(DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                         DType::kFloat16, DType::kInt64, DType::kInt32,
                                         DType::kInt16, DType::kInt8, DType::kUInt8, DType::kBool),
                         [](const auto &info) { return std::string(name(info.param)); });

//===-- Fusions -------------------------------------------------------------------------------===//

// Half a unit in the last place of 1: what rounding to the dtype may change. 0 for integers.
double roundingOf(DType dtype) {
  switch (dtype) {
  case DType::kBFloat16:
    return 0x1p-8;
  case DType::kFloat16:
    return 0x1p-11;
  default:
    return 0;
  }
}

// A kernel of `body`, which yields `results` ("%r: tensor<2xf32>", ...), against reference
// evaluation: within `error`, absolute and relative. What is so near may round to neighbours of 16
// bits.
void check(const std::string &arguments, const std::string &body,
           const std::vector<std::string> &results, double error = 2e-5) {
  SCOPED_TRACE(arguments + "\n" + body);
  auto parsed = compiler::parseFusion(arguments, body, llvm::join(results, ", "));
  ir::FusionOp fusion = parsed->fusion;
  if (!fusion)
    return;
  std::string message;
  auto kernel = SimulatedKernel::build(fusion, message);
  ASSERT_TRUE(kernel) << message;
  EXPECT_EQ(kernel->ptx.find(".local"), std::string::npos);
  if (Ptxas ptxas; ptxas)
    EXPECT_EQ(ptxas.check(kernel->ptx, "sm_80"), "");
  llvm::SmallVector<HostTensor> inputs, expected;
  for (mlir::Type type : fusion.getInputs().getTypes())
    inputs.push_back(sample(type, inputs.size() + 1));
  auto consumed = inputs;
  ASSERT_TRUE(mlir::succeeded(ir::evaluateBlock(fusion.getBody().front(), consumed, expected)));
  std::vector<HostTensor> one;
  ASSERT_EQ(kernel->run(inputs, one), "");
  for (size_t i = 0; i < expected.size(); ++i) {
    std::vector<double> bounds;
    for (int64_t k = 0; k < expected[i].size(); ++k)
      bounds.push_back((error + 2 * roundingOf(expected[i].dtype)) *
                       (1 + std::abs(expected[i].getDouble(k))));
    EXPECT_EQ(tests::compareWithin(one[i], expected[i], 0, bounds), "") << "result " << i;
  }
  for (auto pair : kernel->kernel.info.inPlace) {
    std::vector<HostTensor> shared;
    ASSERT_EQ(kernel->run(inputs, shared, pair), "");
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(tests::compareExact(shared[i], one[i]), "")
          << "result " << i << ", result " << pair.first << " in place of " << pair.second;
  }
}

TEST(GpuFusions, Elementwise) {
  for (const char *n : {"1", "3", "17", "1024", "1025", "5001"}) {
    auto of = [&](const std::string &text) {
      return replaced(text, "N", n);
    };
    check(of("%a: tensor<Nxf32>, %b: tensor<Nxf32>, %s: tensor<f32>"), of(R"(
      %c = weft.broadcast %s : tensor<f32> to tensor<Nxf32>
      %0 = weft.mul %a, %b : tensor<Nxf32>
      %2 = weft.tanh %0 : tensor<Nxf32>
      %6 = weft.add %2, %c : tensor<Nxf32>)"),
          {of("%6: tensor<Nxf32>"), of("%2: tensor<Nxf32>")});
  }
  check("%x: tensor<7x3x36xf32>, %y: tensor<36xf32>, %z: tensor<7x1x1xf32>", R"(
    %c = weft.broadcast %y : tensor<36xf32> to tensor<7x3x36xf32>
    %d = weft.broadcast %z : tensor<7x1x1xf32> to tensor<7x3x36xf32>
    %0 = weft.add %x, %c : tensor<7x3x36xf32>
    %1 = weft.mul %0, %d : tensor<7x3x36xf32>)",
        {"%1: tensor<7x3x36xf32>"});
}

TEST(GpuFusions, Softmax) {
  // A warp with one vector, with a tail, with scalars; a block; rows that registers do not hold.
  for (auto [rows, n] : {std::pair{"5", "128"},
                         {"33", "100"},
                         {"7", "65"},
                         {"3", "1"},
                         {"3", "4100"},
                         {"2", "20004"},
                         {"1", "300"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "R", rows), "N", n);
    };
    check(of("%x: tensor<RxNxf32>"), of(R"(
      %m = weft.reduce_max %x, dims = [1] : tensor<RxNxf32>
      %m1 = weft.reshape %m : tensor<Rxf32> to tensor<Rx1xf32>
      %m2 = weft.broadcast %m1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %d = weft.sub %x, %m2 : tensor<RxNxf32>
      %e = weft.exp %d : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [1] : tensor<RxNxf32>
      %s1 = weft.reshape %s : tensor<Rxf32> to tensor<Rx1xf32>
      %s2 = weft.broadcast %s1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %q = weft.div %e, %s2 : tensor<RxNxf32>)"),
          {of("%q: tensor<RxNxf32>"), of("%s: tensor<Rxf32>")});
  }
}

// Rows that lie side by side, a thread each: in registers, and too long for them; blocks that are
// not full.
TEST(GpuFusions, SoftmaxOfMiddleDims) {
  for (auto [n, c, w] : {std::tuple{"3", "5", "100"},
                         {"2", "40", "65"},
                         {"7", "3", "512"},
                         {"2", "250", "17"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(replaced(text, "N", n), "C", c), "W", w);
    };
    check(of("%x: tensor<NxCxWxf32>"), of(R"(
      %m = weft.reduce_max %x, dims = [1] : tensor<NxCxWxf32>
      %m1 = weft.reshape %m : tensor<NxWxf32> to tensor<Nx1xWxf32>
      %m2 = weft.broadcast %m1 : tensor<Nx1xWxf32> to tensor<NxCxWxf32>
      %d = weft.sub %x, %m2 : tensor<NxCxWxf32>
      %e = weft.exp %d : tensor<NxCxWxf32>
      %s = weft.reduce_sum %e, dims = [1] : tensor<NxCxWxf32>
      %s1 = weft.reshape %s : tensor<NxWxf32> to tensor<Nx1xWxf32>
      %s2 = weft.broadcast %s1 : tensor<Nx1xWxf32> to tensor<NxCxWxf32>
      %q = weft.div %e, %s2 : tensor<NxCxWxf32>)"),
          {of("%q: tensor<NxCxWxf32>"), of("%s: tensor<NxWxf32>")});
  }
}

// layer_norm's gradient, of float32 %x and %g [R, N] and %w [N]: sums over the rows beside sums
// over their elements.
constexpr const char *kNormGradient = R"(
  %sum = weft.reduce_sum %x, dims = [1] : tensor<RxNxf32>
  %rstd = weft.tanh %sum : tensor<Rxf32>
  %rstd1 = weft.reshape %rstd : tensor<Rxf32> to tensor<Rx1xf32>
  %rstd2 = weft.broadcast %rstd1 : tensor<Rx1xf32> to tensor<RxNxf32>
  %xhat = weft.mul %x, %rstd2 : tensor<RxNxf32>
  %w2 = weft.broadcast %w : tensor<Nxf32> to tensor<RxNxf32>
  %gw = weft.mul %g, %w2 : tensor<RxNxf32>
  %gx = weft.mul %g, %xhat : tensor<RxNxf32>
  %dw = weft.reduce_sum %gx, dims = [0] : tensor<RxNxf32>
  %db = weft.reduce_sum %g, dims = [0] : tensor<RxNxf32>
  %dot = weft.mul %gw, %xhat : tensor<RxNxf32>
  %sd = weft.reduce_sum %dot, dims = [1] : tensor<RxNxf32>
  %sd1 = weft.reshape %sd : tensor<Rxf32> to tensor<Rx1xf32>
  %sd2 = weft.broadcast %sd1 : tensor<Rx1xf32> to tensor<RxNxf32>
  %t = weft.mul %xhat, %sd2 : tensor<RxNxf32>
  %dx = weft.sub %gw, %t : tensor<RxNxf32>)";

TEST(GpuFusions, LayerNormBackward) {
  for (auto [rows, n] : {std::pair{"600", "64"}, {"7", "33"}, {"300", "1000"}, {"3", "12288"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "R", rows), "N", n);
    };
    check(of("%x: tensor<RxNxf32>, %g: tensor<RxNxf32>, %w: tensor<Nxf32>"), of(kNormGradient),
          {of("%dx: tensor<RxNxf32>"), of("%dw: tensor<Nxf32>"), of("%db: tensor<Nxf32>"),
           of("%rstd: tensor<Rxf32>")},
          1e-2);
  }
}

TEST(GpuFusions, ReductionsOverRowsAndEverything) {
  for (auto [rows, n] : {std::pair{"200", "37"}, {"3000", "16"}, {"64", "132"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "R", rows), "N", n);
    };
    check(of("%x: tensor<RxNxf32>"), of(R"(
      %e = weft.mul %x, %x : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [0] : tensor<RxNxf32>
      %m = weft.reduce_max %x, dims = [0] : tensor<RxNxf32>
      %n = weft.neg %s : tensor<Nxf32>)"),
          {of("%e: tensor<RxNxf32>"), of("%n: tensor<Nxf32>"), of("%m: tensor<Nxf32>")}, 1e-4);
    check(of("%x: tensor<RxNxf32>, %b: tensor<Nxf32>"), of(R"(
      %c = weft.broadcast %b : tensor<Nxf32> to tensor<RxNxf32>
      %e = weft.mul %x, %c : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [0, 1] : tensor<RxNxf32>
      %t = weft.add %s, %s : tensor<f32>)"),
          {"%t: tensor<f32>"}, 1e-3);
    check(of("%x: tensor<RxNxf32>"), of(R"(
      %s = weft.reduce_max %x, dims = [1] : tensor<RxNxf32>
      %e = weft.exp %s : tensor<Rxf32>
      %t = weft.reduce_sum %e, dims = [0] : tensor<Rxf32>)"),
          {"%t: tensor<f32>", of("%e: tensor<Rxf32>")}, 1e-3);
  }
  check("%x: tensor<100001xi64>", "%s = weft.reduce_sum %x, dims = [0] : tensor<100001xi64>",
        {"%s: tensor<i64>"}, 0);
}

TEST(GpuFusions, ReductionsOverMiddleDims) {
  for (auto [dims, kept] :
       {std::pair{"[1]", "3x5x72"}, {"[0, 2]", "4x72"}, {"[1, 3]", "3x5"}, {"[0, 2, 3]", "4"}})
    check("%x: tensor<3x4x5x72xf32>",
          replaced(replaced(R"(
      %e = weft.mul %x, %x : tensor<3x4x5x72xf32>
      %s = weft.reduce_sum %e, dims = D : tensor<3x4x5x72xf32>
      %m = weft.reduce_max %e, dims = D : tensor<3x4x5x72xf32>
      %t = weft.sub %s, %m : tensor<Kxf32>)",
                            "D", dims),
                   "K", kept),
          {replaced("%t: tensor<Kxf32>", "K", kept)}, 1e-4);
}

// batch_norm: rows of several runs, which vectors fill or not.
TEST(GpuFusions, RowsOfSeveralRuns) {
  for (auto [full, c] : {std::pair{"3x5x72", "5"}, {"40x3x49", "3"}, {"9x2x1024", "2"}}) {
    auto of = [&, full = full, c = c](const std::string &text) {
      return replaced(replaced(text, "FULL", full), "C", c);
    };
    check(of("%x: tensor<FULLxf32>, %g: tensor<FULLxf32>"), of(R"(
      %sum = weft.reduce_sum %x, dims = [0, 2] : tensor<FULLxf32>
      %t = weft.tanh %sum : tensor<Cxf32>
      %t1 = weft.reshape %t : tensor<Cxf32> to tensor<Cx1xf32>
      %t2 = weft.broadcast %t1 : tensor<Cx1xf32> to tensor<FULLxf32>
      %y = weft.mul %x, %t2 : tensor<FULLxf32>
      %gy = weft.mul %g, %y : tensor<FULLxf32>
      %dw = weft.reduce_sum %gy, dims = [0, 2] : tensor<FULLxf32>
      %db = weft.reduce_sum %g, dims = [0, 2] : tensor<FULLxf32>
      %db1 = weft.reshape %db : tensor<Cxf32> to tensor<Cx1xf32>
      %db2 = weft.broadcast %db1 : tensor<Cx1xf32> to tensor<FULLxf32>
      %dx = weft.sub %gy, %db2 : tensor<FULLxf32>)"),
          {of("%dx: tensor<FULLxf32>"), of("%dw: tensor<Cxf32>"), of("%db: tensor<Cxf32>")}, 1e-3);
  }
}

// group_norm: sums of parts of rows, over samples; runs that the vectors of a group fill once,
// several times, or in part.
TEST(GpuFusions, SumsOfPartsOfRows) {
  for (auto [n, groups, channels, pixels] :
       {std::array{3, 2, 4, 64}, {5, 3, 2, 7}, {2, 2, 2, 600}, {3, 4, 1, 40}}) {
    std::string full = "tensor<" + std::to_string(n) + "x" + std::to_string(groups) + "x" +
                       std::to_string(channels) + "x" + std::to_string(pixels) + "xf32>";
    std::string row = "tensor<" + std::to_string(n) + "x" + std::to_string(groups) + "xf32>";
    std::string ones = "tensor<" + std::to_string(n) + "x" + std::to_string(groups) + "x1x1xf32>";
    std::string column =
        "tensor<" + std::to_string(groups) + "x" + std::to_string(channels) + "xf32>";
    auto of = [&](std::string text) {
      return replaced(replaced(replaced(replaced(text, "FULL", full), "ROW", row), "ONES", ones),
                      "COLUMN", column);
    };
    check(of("%x: FULL, %g: FULL, %w: COLUMN"), of(R"(
      %mean = weft.reduce_max %x, dims = [2, 3] : FULL
      %mean1 = weft.reshape %mean : ROW to ONES
      %mean2 = weft.broadcast %mean1 : ONES to FULL
      %c = weft.sub %x, %mean2 : FULL
      %gx = weft.mul %g, %c : FULL
      %dw = weft.reduce_sum %gx, dims = [0, 3] : FULL
      %most = weft.reduce_max %g, dims = [0, 3] : FULL
      %step = weft.sub %w, %dw : COLUMN)"),
          {of("%gx: FULL"), of("%step: COLUMN"), of("%most: COLUMN"), of("%mean: ROW")}, 1e-3);
  }
}

// What is computed of slices of a row once its sums are known.
TEST(GpuFusions, SlicesOfNormalizedRows) {
  for (auto [rows, columns] : {std::pair{"5", "40"}, {"2", "2000"}}) {
    auto of = [&, rows = rows,
               half = std::to_string(std::stoi(columns) / 2)](const std::string &text) {
      return replaced(replaced(replaced(text, "HALF", half), "ROWS", rows), "COLUMNS", columns);
    };
    check(of("%x: tensor<3xROWSxCOLUMNSxf32>"), of(R"(
      %sum = weft.reduce_sum %x, dims = [0, 2] : tensor<3xROWSxCOLUMNSxf32>
      %s1 = weft.reshape %sum : tensor<ROWSxf32> to tensor<ROWSx1xf32>
      %s2 = weft.broadcast %s1 : tensor<ROWSx1xf32> to tensor<3xROWSxCOLUMNSxf32>
      %c = weft.sub %x, %s2 : tensor<3xROWSxCOLUMNSxf32>
      %a = weft.slice %c[[0, 0, 0] : [3, ROWS, COLUMNS] : [1, 1, 2]] : tensor<3xROWSxCOLUMNSxf32>
      %b = weft.slice %c[[0, 0, 1] : [3, ROWS, COLUMNS] : [1, 1, 2]] : tensor<3xROWSxCOLUMNSxf32>
      %m = weft.maximum %a, %b : tensor<3xROWSxHALFxf32>)"),
          {of("%m: tensor<3xROWSxHALFxf32>"), of("%c: tensor<3xROWSxCOLUMNSxf32>")}, 1e-3);
  }
}

// Through tiles in shared memory: whole ones and parts, several operands, one that is read in step
// and elsewhere as well, other types.
TEST(GpuFusions, Transposes) {
  for (auto [m, n] : {std::pair{"64", "96"}, {"33", "70"}, {"16", "257"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "M", m), "N", n);
    };
    for (const char *type : {"f32", "f64", "bf16", "f16", "i16", "i8", "ui8", "i1"}) {
      auto typed = [&](const std::string &text) {
        return replaced(of(text), "T", type);
      };
      check(typed("%x: tensor<MxNxT>"), typed("%0 = weft.transpose %x, [1, 0] : tensor<MxNxT>"),
            {typed("%0: tensor<NxMxT>")});
    }
    check(of("%x: tensor<MxNxf32>, %y: tensor<MxNxf32>, %z: tensor<NxMxf32>, %b: tensor<Mxf32>"),
          of(R"(
      %s = weft.mul %x, %y : tensor<MxNxf32>
      %0 = weft.transpose %s, [1, 0] : tensor<MxNxf32>
      %c = weft.broadcast %b : tensor<Mxf32> to tensor<NxMxf32>
      %1 = weft.add %0, %z : tensor<NxMxf32>
      %2 = weft.mul %1, %c : tensor<NxMxf32>)"),
          {of("%2: tensor<NxMxf32>"), of("%0: tensor<NxMxf32>")});
    check(of("%x: tensor<3xMx2xNxf32>"),
          of("%0 = weft.transpose %x, [2, 3, 0, 1] : tensor<3xMx2xNxf32>"),
          {of("%0: tensor<2xNx3xMxf32>")});
  }
  check("%x: tensor<40x40xf32>", R"(
    %0 = weft.transpose %x, [1, 0] : tensor<40x40xf32>
    %1 = weft.add %0, %x : tensor<40x40xf32>)",
        {"%1: tensor<40x40xf32>"});
}

TEST(GpuFusions, MovementAndIndexing) {
  check("%x: tensor<6x5x20xf32>, %y: tensor<20x6x5xf32>", R"(
    %0 = weft.transpose %x, [2, 0, 1] : tensor<6x5x20xf32>
    %1 = weft.add %0, %y : tensor<20x6x5xf32>)",
        {"%1: tensor<20x6x5xf32>"});
  check("%x: tensor<4x30xf32>, %y: tensor<4x7xf32>, %z: tensor<4x50xf32>", R"(
    %0 = weft.concat %x, %y, %z dim = 1 : tensor<4x30xf32>, tensor<4x7xf32>, tensor<4x50xf32>
    %1 = weft.tanh %0 : tensor<4x87xf32>)",
        {"%1: tensor<4x87xf32>"});
  check("%x: tensor<9x40xf32>, %y: tensor<3x13xf32>", R"(
    %n = weft.neg %y : tensor<3x13xf32>
    %0 = weft.insert_slice %n into %x[[1, 38] : [3, -2]] : tensor<3x13xf32> into tensor<9x40xf32>
    %1 = weft.add %0, %x : tensor<9x40xf32>)",
        {"%1: tensor<9x40xf32>"});
  check("%t: tensor<11x40xf32>, %i: tensor<2x3xi64>, %p: tensor<3x40xf32>", R"(
    %e = weft.exp %t : tensor<11x40xf32>
    %0 = weft.index_select %e, %i, dim = 0 : tensor<11x40xf32>, tensor<2x3xi64>
    %b = weft.broadcast %p : tensor<3x40xf32> to tensor<2x3x40xf32>
    %1 = weft.add %0, %b : tensor<2x3x40xf32>)",
        {"%1: tensor<2x3x40xf32>"});
  check("%z: tensor<f32>, %i: tensor<3x5xi64>, %s: tensor<3x5x130xf32>", R"(
    %b = weft.broadcast %z : tensor<f32> to tensor<7x130xf32>
    %n = weft.neg %s : tensor<3x5x130xf32>
    %0 = weft.index_add %b, %i, %n, dim = 0 : tensor<7x130xf32>, tensor<3x5xi64>, tensor<3x5x130xf32>)",
        {"%0: tensor<7x130xf32>"});
}

//===-- Elements of 8 and 16 bits -------------------------------------------------------------===//

// As weft-widen writes what accumulates: in float32, between casts.
constexpr const char *kNarrowFloats[] = {"bf16", "f16"};

// Vectors, their tails, and each op rounded to the type.
TEST(GpuNarrow, Elementwise) {
  for (const char *n : {"1", "7", "17", "1024", "1027"}) {
    for (const char *type : {"bf16", "f16", "i16", "i8", "ui8"}) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(text, "N", n), "T", type);
      };
      check(of("%a: tensor<NxT>, %b: tensor<NxT>, %s: tensor<T>"), of(R"(
        %c = weft.broadcast %s : tensor<T> to tensor<NxT>
        %0 = weft.mul %a, %b : tensor<NxT>
        %1 = weft.sub %0, %c : tensor<NxT>
        %2 = weft.maximum %1, %a : tensor<NxT>
        %w = weft.cast %2 : tensor<NxT> to tensor<Nxf32>)"),
            {of("%2: tensor<NxT>"), of("%1: tensor<NxT>"), of("%w: tensor<Nxf32>")}, 0);
    }
  }
}

// A warp a row, a block a row, rows that registers do not hold; a row is read in vectors of 8.
TEST(GpuNarrow, Softmax) {
  for (auto [rows, n] :
       {std::pair{"5", "128"}, {"33", "100"}, {"7", "65"}, {"3", "4104"}, {"2", "40008"}}) {
    for (const char *type : kNarrowFloats) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(replaced(text, "R", rows), "N", n), "T", type);
      };
      check(of("%x: tensor<RxNxT>"), of(R"(
        %f = weft.cast %x : tensor<RxNxT> to tensor<RxNxf32>
        %m = weft.reduce_max %f, dims = [1] : tensor<RxNxf32>
        %m1 = weft.reshape %m : tensor<Rxf32> to tensor<Rx1xf32>
        %m2 = weft.broadcast %m1 : tensor<Rx1xf32> to tensor<RxNxf32>
        %d = weft.sub %f, %m2 : tensor<RxNxf32>
        %e = weft.exp %d : tensor<RxNxf32>
        %s = weft.reduce_sum %e, dims = [1] : tensor<RxNxf32>
        %s1 = weft.reshape %s : tensor<Rxf32> to tensor<Rx1xf32>
        %s2 = weft.broadcast %s1 : tensor<Rx1xf32> to tensor<RxNxf32>
        %q = weft.div %e, %s2 : tensor<RxNxf32>
        %r = weft.cast %q : tensor<RxNxf32> to tensor<RxNxT>
        %t = weft.cast %s : tensor<Rxf32> to tensor<RxT>)"),
            {of("%r: tensor<RxNxT>"), of("%t: tensor<RxT>")});
    }
  }
}

// The same of narrow numbers.
constexpr const char *kNormArguments =
    "%x16: tensor<RxNxT>, %g16: tensor<RxNxT>, %w16: tensor<NxT>";
const std::string kNorm = std::string(R"(
  %x = weft.cast %x16 : tensor<RxNxT> to tensor<RxNxf32>
  %g = weft.cast %g16 : tensor<RxNxT> to tensor<RxNxf32>
  %w = weft.cast %w16 : tensor<NxT> to tensor<Nxf32>)") +
    kNormGradient + R"(
  %dx16 = weft.cast %dx : tensor<RxNxf32> to tensor<RxNxT>
  %dw16 = weft.cast %dw : tensor<Nxf32> to tensor<NxT>
  %db16 = weft.cast %db : tensor<Nxf32> to tensor<NxT>)";
const std::vector<std::string> kNormResults = {"%dx16: tensor<RxNxT>", "%dw16: tensor<NxT>",
                                               "%db16: tensor<NxT>"};

TEST(GpuNarrow, LayerNormBackward) {
  for (auto [rows, n] :
       {std::pair{"600", "64"}, {"7", "33"}, {"300", "1024"}, {"40", "16384"}, {"3", "24576"}}) {
    for (const char *type : kNarrowFloats) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(replaced(text, "R", rows), "N", n), "T", type);
      };
      std::vector<std::string> results;
      for (const std::string &result : kNormResults)
        results.push_back(of(result));
      check(of(kNormArguments), of(kNorm), results, 1e-2);
    }
  }
}

// Of rows as long as registers hold, whatever is computed of their elements.
TEST(GpuNarrow, RowsFitRegisters) {
  Ptxas ptxas;
  if (!ptxas)
    GTEST_SKIP() << "ptxas is not installed (looked on the PATH and in /usr/local/cuda/bin)";
  for (const char *n : {"2048", "8192", "16384"}) {
    for (const char *type : {"f32", "bf16", "f16"}) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(replaced(text, "R", "4096"), "N", n), "T", type);
      };
      auto parsed =
          compiler::parseFusion(of(kNormArguments), of(kNorm), of(llvm::join(kNormResults, ", ")));
      ASSERT_TRUE(parsed->fusion);
      std::string error;
      auto kernel = SimulatedKernel::build(parsed->fusion, error);
      ASSERT_TRUE(kernel) << error;
      EXPECT_EQ(ptxas.check(kernel->ptx, "sm_80"), "") << n << " " << type;
    }
  }
}

// Integers fold as they are, over a warp, a block, the rows, everything and middle dims; partial
// results are as narrow.
TEST(GpuNarrow, FoldsOfIntegers) {
  for (const char *type : {"i8", "i16"}) {
    for (auto [rows, n] : {std::pair{"200", "37"}, {"3", "4104"}, {"64", "136"}}) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(replaced(text, "R", rows), "N", n), "T", type);
      };
      std::string x = of("%x: tensor<RxNxT>");
      check(x, of(R"(
        %s = weft.reduce_sum %x, dims = [1] : tensor<RxNxT>
        %m = weft.reduce_max %x, dims = [1] : tensor<RxNxT>
        %p = weft.reduce_prod %x, dims = [1] : tensor<RxNxT>)"),
            {of("%s: tensor<RxT>"), of("%m: tensor<RxT>"), of("%p: tensor<RxT>")}, 0);
      check(x, of(R"(
        %e = weft.mul %x, %x : tensor<RxNxT>
        %s = weft.reduce_sum %e, dims = [0] : tensor<RxNxT>
        %m = weft.reduce_min %x, dims = [0] : tensor<RxNxT>)"),
            {of("%e: tensor<RxNxT>"), of("%s: tensor<NxT>"), of("%m: tensor<NxT>")}, 0);
      check(x, of(R"(
        %s = weft.reduce_sum %x, dims = [0, 1] : tensor<RxNxT>
        %m = weft.reduce_max %x, dims = [0, 1] : tensor<RxNxT>)"),
            {of("%s: tensor<T>"), of("%m: tensor<T>")}, 0);
      check(x, of(R"(
        %s = weft.reduce_sum %x, dims = [1] : tensor<RxNxT>
        %s1 = weft.reshape %s : tensor<RxT> to tensor<Rx1xT>
        %s2 = weft.broadcast %s1 : tensor<Rx1xT> to tensor<RxNxT>
        %y = weft.sub %x, %s2 : tensor<RxNxT>
        %c = weft.reduce_sum %y, dims = [0] : tensor<RxNxT>)"),
            {of("%y: tensor<RxNxT>"), of("%c: tensor<NxT>")}, 0);
    }
    for (auto [dims, kept] : {std::pair{"[1]", "3x5x72"}, {"[0, 2, 3]", "4"}}) {
      auto of = [&, dims = dims, kept = kept](const std::string &text) {
        return replaced(replaced(replaced(text, "D", dims), "K", kept), "T", type);
      };
      check(of("%x: tensor<3x4x5x72xT>"),
            of("%s = weft.reduce_sum %x, dims = D : tensor<3x4x5x72xT>"),
            {of("%s: tensor<KxT>")}, 0);
    }
  }
}

// Kernels of their own: products and running sums of integers, as narrow as they are; what is put
// where indices say.
TEST(GpuNarrow, OpsAlone) {
  for (const char *type : {"i8", "i16"}) {
    auto of = [&](const std::string &text) {
      return replaced(text, "T", type);
    };
    check(of("%a: tensor<9x70xT>, %b: tensor<70x12xT>"),
          of("%0 = weft.matmul %a, %b : tensor<9x70xT>, tensor<70x12xT>"),
          {of("%0: tensor<9x12xT>")}, 0);
    check(of("%a: tensor<9x70xT>"), of("%0 = weft.cumsum %a, dim = 1 : tensor<9x70xT>"),
          {of("%0: tensor<9x70xT>")}, 0);
    check(of("%a: tensor<9x70xT>"), of("%0 = weft.cumprod %a, dim = 0 : tensor<9x70xT>"),
          {of("%0: tensor<9x70xT>")}, 0);
    check(of("%a: tensor<9x70xT>, %b: tensor<9x70xT>"),
          of("%0 = weft.recurrence %a, %b, dim = 1 {reverse = true} : tensor<9x70xT>"),
          {of("%0: tensor<9x70xT>")}, 0);
    check(of("%a: tensor<9x70xT>"), of("%0 = weft.cum_arg_max %a, dim = 1 : tensor<9x70xT>"),
          {"%0: tensor<9x70xi64>"}, 0);
    check(of("%a: tensor<7x33xT>, %i: tensor<5xi64>, %s: tensor<5x33xT>"),
          of("%0 = weft.index_add %a, %i, %s, dim = 0 : tensor<7x33xT>, tensor<5xi64>, "
             "tensor<5x33xT>"),
          {of("%0: tensor<7x33xT>")}, 0);
  }
  for (const char *type : {"bf16", "f16", "i16", "i8", "ui8"}) {
    auto of = [&](const std::string &text) {
      return replaced(text, "T", type);
    };
    check(of("%a: tensor<11x40xT>, %i: tensor<2x3xi64>"),
          of("%0 = weft.index_select %a, %i, dim = 0 : tensor<11x40xT>, tensor<2x3xi64>"),
          {of("%0: tensor<2x3x40xT>")}, 0);
  }
}

} // namespace
} // namespace weft::backends::cuda
