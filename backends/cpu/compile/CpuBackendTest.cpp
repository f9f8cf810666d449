// Whole programs through the CPU backend, fused and unfused, against the reference interpreter.
#include "backends/cpu/compile/CpuBackend.h"

#include <cmath>
#include <random>
#include <thread>

#include "backends/cpu/compile/CpuExecutable.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "runtime/executor/device.h"
#include "runtime/io/array_text.h"
#include "runtime/memory/buffer.h"
#include "gtest/gtest.h"

namespace weft::backends::cpu {
namespace {

using Buffers = std::vector<std::shared_ptr<runtime::Buffer>>;
using ExecutablePtr = std::shared_ptr<runtime::Executable>;

absl::StatusOr<ExecutablePtr> compile(const char *backendName, llvm::StringRef text,
                                      compiler::CompileReport *report = nullptr,
                                      compiler::CompileOptions options = {}) {
  auto backend = compiler::findBackend(backendName);
  if (!backend.ok())
    return backend.status();
  mlir::DialectRegistry registry;
  (*backend)->registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return absl::InvalidArgumentError("the test's program does not parse");
  options.verifyEachPhase = true;
  return (*backend)->compile(*module, options, report);
}

// Values of every dtype that are exact in it: floats in (-2, 2), small integers, both bools.
std::shared_ptr<runtime::Buffer> randomBuffer(const runtime::InputSpec &spec,
                                              std::mt19937 &random) {
  auto buffer = *runtime::cpu_device().memory()->allocate(spec.bytes, "input");
  for (int64_t i = 0, n = spec.bytes / byte_size(spec.dtype); i < n; ++i) {
    double value = double(int(random() % 4001) - 2000) / 1000.0;
    switch (spec.dtype) {
    case DType::kFloat32:
      static_cast<float *>(buffer->data())[i] = float(value);
      break;
    case DType::kFloat64:
      static_cast<double *>(buffer->data())[i] = value;
      break;
    case DType::kInt32:
      static_cast<int32_t *>(buffer->data())[i] = int32_t(random() % 3);
      break;
    case DType::kInt64:
      static_cast<int64_t *>(buffer->data())[i] = int64_t(random() % 3);
      break;
    default:
      static_cast<uint8_t *>(buffer->data())[i] = uint8_t(random() % 2);
    }
  }
  return buffer;
}

Buffers randomInputs(const runtime::Executable &executable, unsigned seed) {
  std::mt19937 random(seed);
  Buffers inputs;
  for (const runtime::InputSpec &spec : executable.input_specs())
    inputs.push_back(randomBuffer(spec, random));
  return inputs;
}

absl::StatusOr<Buffers> run(const ExecutablePtr &executable, const Buffers &inputs) {
  Buffers outputs(executable->output_specs().size());
  if (absl::Status status = runtime::cpu_device().executor().submit(executable, inputs, outputs);
      !status.ok())
    return status;
  for (auto &output : outputs)
    if (absl::Status status = output->wait(); !status.ok())
      return status;
  return outputs;
}

::testing::AssertionResult sameBits(const runtime::OutputSpec &spec, const runtime::Buffer &a,
                                    const runtime::Buffer &b) {
  if (spec.bytes == 0 || std::memcmp(a.data(), b.data(), size_t(spec.bytes)) == 0)
    return ::testing::AssertionSuccess();
  auto text = [&](const runtime::Buffer &buffer) {
    return runtime::array_text(
        {"",
         spec.dtype,
         spec.dims,
         {static_cast<const std::byte *>(buffer.data()), size_t(spec.bytes)}});
  };
  return ::testing::AssertionFailure() << text(a) << "\nis not\n" << text(b);
}

template <typename T>
double largestError(const runtime::Buffer &a, const runtime::Buffer &b, int64_t n) {
  double error = 0;
  for (int64_t i = 0; i < n; ++i) {
    double x = double(static_cast<const T *>(a.data())[i]),
           y = double(static_cast<const T *>(b.data())[i]);
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    if (!std::isfinite(x) || !std::isfinite(y))
      return INFINITY;
    error = std::max(error, std::abs(x - y) / std::max(1.0, std::abs(y)));
  }
  return error;
}

struct Case {
  const char *name;
  const char *text;
  double tolerance = 1e-5;
};

const Case kCases[] = {
    {"Elementwise", R"(
func.func @main(%a: tensor<5x7xf32>, %b: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %0 = weft.mul %a, %b : tensor<5x7xf32>
  %1 = weft.tanh %0 : tensor<5x7xf32>
  %2 = weft.add %1, %b : tensor<5x7xf32>
  return %2 : tensor<5x7xf32>
})"},
    {"Softmax", R"(
func.func @main(%x: tensor<33x65xf32>) -> tensor<33x65xf32> {
  %0 = weft.softmax %x, dim = 1 : tensor<33x65xf32>
  return %0 : tensor<33x65xf32>
})"},
    {"MlpStep", R"(
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32> {weft.donatable}, %y: tensor<8x4xf32>) -> (tensor<16x4xf32>, tensor<f32>) {
  %p = weft.matmul %x, %w : tensor<8x16xf32>, tensor<16x4xf32>
  %d = weft.sub %p, %y : tensor<8x4xf32>
  %q = weft.mul %d, %d : tensor<8x4xf32>
  %l = weft.reduce_sum %q, dims = [0, 1] : tensor<8x4xf32>
  %g = weft.matmul %x, %d {transpose_lhs = true} : tensor<8x16xf32>, tensor<8x4xf32>
  %r = weft.constant dense<0.01> : tensor<16x4xf32>
  %s = weft.mul %g, %r : tensor<16x4xf32>
  %n = weft.sub %w, %s : tensor<16x4xf32>
  return %n, %l : tensor<16x4xf32>, tensor<f32>
})",
     1e-4},
    {"Reductions", R"(
func.func @main(%x: tensor<6x5x7xf32>) -> (tensor<6x7xf32>, tensor<5xf32>, tensor<f32>) {
  %0 = weft.reduce_sum %x, dims = [1] : tensor<6x5x7xf32>
  %1 = weft.reduce_max %x, dims = [0, 2] : tensor<6x5x7xf32>
  %2 = weft.reduce_mean %x, dims = [0, 1, 2] : tensor<6x5x7xf32>
  return %0, %1, %2 : tensor<6x7xf32>, tensor<5xf32>, tensor<f32>
})"},
    {"Movement", R"(
func.func @main(%x: tensor<4x6xf64>, %i: tensor<3xi64>) -> (tensor<6x4xf64>, tensor<2x3xf64>, tensor<3x6xf64>, tensor<2x12xf64>) {
  %0 = weft.transpose %x, [1, 0] : tensor<4x6xf64>
  %1 = weft.slice %x [[0, 1] : [4, 6] : [2, 2]] : tensor<4x6xf64>
  %2 = weft.index_select %x, %i, dim = 0 : tensor<4x6xf64>, tensor<3xi64>
  %3 = weft.reshape %x : tensor<4x6xf64> to tensor<2x12xf64>
  return %0, %1, %2, %3 : tensor<6x4xf64>, tensor<2x3xf64>, tensor<3x6xf64>, tensor<2x12xf64>
})"},
    {"Integers", R"(
func.func @main(%x: tensor<9xi32>, %y: tensor<9xi32>, %m: tensor<9xi1>) -> (tensor<9xi32>, tensor<9xi1>) {
  %0 = weft.add %x, %y : tensor<9xi32>
  %1 = weft.select %m, %0, %x : tensor<9xi32>
  %2 = weft.compare "lt" %x, %y : tensor<9xi32>
  return %1, %2 : tensor<9xi32>, tensor<9xi1>
})"},
    {"ReturnedAsTheyAre", R"(
func.func @main(%x: tensor<2x3xf32>, %e: tensor<0x3xf32>) -> (tensor<6xf32>, tensor<2xf32>, tensor<2xf32>, tensor<3x2xf32>, tensor<6xf32>, tensor<0x3xf32>) {
  %c = weft.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %r = weft.reshape %x : tensor<2x3xf32> to tensor<6xf32>
  %n = weft.neg %r : tensor<6xf32>
  %m = weft.reshape %n : tensor<6xf32> to tensor<3x2xf32>
  %z = weft.neg %e : tensor<0x3xf32>
  return %r, %c, %c, %m, %n, %z : tensor<6xf32>, tensor<2xf32>, tensor<2xf32>, tensor<3x2xf32>, tensor<6xf32>, tensor<0x3xf32>
})"},
    {"NothingToDo", R"(
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
})"},
    // The layout phase gives images channels last, through batch norm, pooling and their gradients.
    // A weight's gradient is a sum of 2,048 products of up to 50, most often some hundreds, in the
    // order of the machine's kernels: 2,048 roundings of half a unit, 3e-5, add up to 1.4e-3 by
    // chance alone.
    {"ChannelsLast", R"(
func.func @main(%x: tensor<2x8x32x32xf32>, %v: tensor<16x8x3x3xf32>, %w: tensor<16x16x3x3xf32>, %s: tensor<16xf32>, %g: tensor<2x16xf32>)
    -> (tensor<2x16xf32>, tensor<16x16x3x3xf32>, tensor<16x8x3x3xf32>) {
  %0 = weft.conv2d %x, %v {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x8x32x32xf32>, tensor<16x8x3x3xf32>
  %n, %mean, %var = weft.batch_norm %0 weight %s bias %s {eps = 1.0e-5 : f64} : (tensor<2x16x32x32xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x32x32xf32>, tensor<16xf32>, tensor<16xf32>)
  %p, %i = weft.max_pool2d %n {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : tensor<2x16x32x32xf32>
  %3 = weft.relu %p : tensor<2x16x16x16xf32>
  %4 = weft.conv2d %3, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x16x16x16xf32>, tensor<16x16x3x3xf32>
  %5 = weft.reduce_sum %4, dims = [2, 3] : tensor<2x16x16x16xf32>
  %g4 = weft.reshape %g : tensor<2x16xf32> to tensor<2x16x1x1xf32>
  %gb = weft.broadcast %g4 : tensor<2x16x1x1xf32> to tensor<2x16x16x16xf32>
  %dw = weft.conv2d_weight_gradient %3, %gb {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x16x16x16xf32>, tensor<2x16x16x16xf32>) -> tensor<16x16x3x3xf32>
  %dx = weft.conv2d_input_gradient %gb, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x16x16x16xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x16x16xf32>
  %z = weft.constant dense<0.0> : tensor<2x16x16x16xf32>
  %m = weft.compare gt %3, %z : tensor<2x16x16x16xf32>
  %gr = weft.select %m, %dx, %z : tensor<2x16x16x16xf32>
  %gp = weft.max_pool2d_gradient %gr, %i {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : (tensor<2x16x16x16xf32>, tensor<2x16x16x16xi32>) -> tensor<2x16x32x32xf32>
  %dv = weft.conv2d_weight_gradient %x, %gp {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x32x32xf32>, tensor<2x16x32x32xf32>) -> tensor<16x8x3x3xf32>
  return %5, %dw, %dv : tensor<2x16xf32>, tensor<16x16x3x3xf32>, tensor<16x8x3x3xf32>
})",
     5e-3},
};

class Programs : public ::testing::TestWithParam<Case> {};

TEST_P(Programs, AgreeWithTheReferenceAndUnfusedBitForBit) {
  compiler::CompileReport report;
  auto reference = compile("reference", GetParam().text);
  auto cpu = compile("cpu", GetParam().text, &report);
  auto unfused = compile("cpu-unfused", GetParam().text);
  ASSERT_TRUE(reference.ok()) << reference.status();
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  ASSERT_TRUE(unfused.ok()) << unfused.status();
  for (unsigned seed : {1u, 2u}) {
    // A donated input is gone after a run.
    auto expected = run(*reference, randomInputs(**reference, seed));
    auto actual = run(*cpu, randomInputs(**cpu, seed));
    auto other = run(*unfused, randomInputs(**unfused, seed));
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(actual.ok()) << actual.status();
    ASSERT_TRUE(other.ok()) << other.status();
    for (size_t i = 0; i < actual->size(); ++i) {
      const runtime::OutputSpec &spec = (*cpu)->output_specs()[i];
      EXPECT_EQ(spec.dims, (*reference)->output_specs()[i].dims);
      EXPECT_TRUE(sameBits(spec, *(*actual)[i], *(*other)[i]))
          << "fused and unfused differ in output " << i;
      int64_t n = spec.bytes / byte_size(spec.dtype);
      if (spec.dtype == DType::kFloat32)
        EXPECT_LE(largestError<float>(*(*actual)[i], *(*expected)[i], n), GetParam().tolerance)
            << "output " << i;
      else if (spec.dtype == DType::kFloat64)
        EXPECT_LE(largestError<double>(*(*actual)[i], *(*expected)[i], n), 1e-12) << "output " << i;
      else
        EXPECT_TRUE(sameBits(spec, *(*actual)[i], *(*expected)[i])) << "output " << i;
    }
  }
  EXPECT_LE(report.plan.ratio(), 1.05);
}
INSTANTIATE_TEST_SUITE_P(Cpu, Programs, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

TEST(CpuBackend, EqualFusionsAreOneKernel) {
  compiler::CompileReport report;
  auto executable = compile("cpu-unfused", R"(
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = weft.tanh %x : tensor<8xf32>
  %1 = weft.tanh %0 : tensor<8xf32>
  %2 = weft.tanh %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
})",
                            &report);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ(report.kernels, 1);
  EXPECT_EQ(report.launches, 3);
}

// Ahead of time, what normalizes a convolution by weights of the program is in its weight and bias,
// which are computed once.
TEST(CpuBackend, ABatchNormOfParametersIsPartOfTheConvolution) {
  llvm::StringRef text = R"(
func.func @main(%x: tensor<2x8x9x9xf32>, %w: tensor<16x8x3x3xf32> {weft.parameter = "p7"}, %m: tensor<16xf32> {weft.parameter = "p8"},
                %v: tensor<16xf32> {weft.parameter = "p9"}, %b: tensor<16xf32> {weft.parameter = "p10"}) -> tensor<2x16x7x7xf32> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x8x9x9xf32>, tensor<16x8x3x3xf32>
  %1 = weft.batch_norm_inference %0 mean %m variance %v bias %b {eps = 10.0 : f64} : (tensor<2x16x7x7xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x7x7xf32>
  return %1 : tensor<2x16x7x7xf32>
})";
  compiler::CompileReport report;
  auto folded = compile("cpu", text, &report), reference = compile("reference", text);
  ASSERT_TRUE(folded.ok() && reference.ok()) << folded.status() << reference.status();
  EXPECT_EQ(report.libraryCalls, 1);
  EXPECT_EQ(report.preparedValues, 2);
  EXPECT_EQ(report.launches, 2)
      << "one each for the weight and the bias, ahead of runs; a run is the library call alone";
  Buffers inputs = randomInputs(**folded, 5);
  auto expected = run(*reference, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status();
  // The second run takes what the first has computed.
  for (int i = 0; i < 2; ++i) {
    auto actual = run(*folded, inputs);
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_LE(largestError<float>(*(*actual)[0], *(*expected)[0], 2 * 16 * 7 * 7), 1e-5);
  }
}

// The numbers of library calls and of launches that relu(a product of channels) and a pool of it
// take, from a convolution or an argument.
std::pair<int64_t, int64_t> callsAndLaunches(const std::string &pool, bool convolution) {
  std::string from = convolution ? "%c" : "%x",
              text = "func.func @main(%x: tensor<2x16x32x32xf32>, %w: tensor<16x16x3x3xf32>, "
                     "%s: tensor<16x1x1xf32>) -> tensor<2x16x16x16xf32> {\n";
  if (convolution)
    text += "  %c = weft.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1>, "
            "dilation = array<i64: 1, 1>, groups = 1 : "
            "i64} : tensor<2x16x32x32xf32>, tensor<16x16x3x3xf32>\n";
  text +=
      "  %0 = weft.broadcast %s : tensor<16x1x1xf32> to tensor<2x16x32x32xf32>\n  %1 = weft.mul " +
      from + ", %0 : tensor<2x16x32x32xf32>\n  %2 = weft.relu %1 : tensor<2x16x32x32xf32>\n  " +
      pool + " : tensor<2x16x32x32xf32>\n  return %3 : tensor<2x16x16x16xf32>\n}";
  compiler::CompileReport report;
  auto executable = compile("cpu", text, &report);
  EXPECT_TRUE(executable.ok()) << executable.status();
  bool named = llvm::any_of(report.remarks, [&](const std::string &line) {
    return line.find(pool.find("max") != std::string::npos ? "max-pool-drops-nan"
                                                           : "pooling-fuses") != std::string::npos;
  });
  EXPECT_TRUE(named) << "no remark says why no library pools";
  return {report.libraryCalls, report.launches};
}

TEST(CpuBackend, PoolingFusesWithWhatFeedsIt) {
  using Pair = std::pair<int64_t, int64_t>;
  std::string max = "%3, %i = weft.max_pool2d %2 {kernel = array<i64: 2, 2>, strides = array<i64: "
                    "2, 2>, padding = array<i64: 0, 0>, "
                    "dilation = array<i64: 1, 1>}",
              mean = "%3 = weft.avg_pool2d %2 {kernel = array<i64: 2, 2>, strides = array<i64: 2, "
                     "2>, padding = array<i64: 0, 0>}";
  for (const std::string &pool : {max, mean}) {
    EXPECT_EQ(callsAndLaunches(pool, false), Pair(0, 1)) << pool;
    EXPECT_EQ(callsAndLaunches(pool, true), Pair(1, 1)) << pool;
  }
  std::string overlapping = "%3, %i = weft.max_pool2d %2 {kernel = array<i64: 3, 3>, strides = "
                            "array<i64: 2, 2>, padding = array<i64: 1, "
                            "1>, dilation = array<i64: 1, 1>}";
  EXPECT_EQ(callsAndLaunches(overlapping, false), Pair(0, 1));
  EXPECT_EQ(callsAndLaunches(overlapping, true), Pair(1, 1));
}

TEST(CpuBackend, ADonatedParameterIsUpdatedInPlace) {
  auto executable = compile("cpu", kCases[2].text);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ((*executable)->output_specs()[0].donated_input, 1);
  Buffers inputs = randomInputs(**executable, 3);
  auto outputs = run(*executable, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0], inputs[1]);
}

TEST(CpuBackend, SurvivesTheWayThroughBytes) {
  compiler::Backend *backend = *compiler::findBackend("cpu");
  for (const Case &test : kCases) {
    auto executable = compile("cpu", test.text);
    ASSERT_TRUE(executable.ok()) << executable.status();
    std::optional<std::string> blob = backend->serialize(**executable);
    ASSERT_TRUE(blob);
    auto loaded = backend->load(*blob);
    ASSERT_TRUE(loaded.ok()) << test.name << ": " << loaded.status();
    auto expected = run(*executable, randomInputs(**executable, 1)),
         actual = run(*loaded, randomInputs(**loaded, 1));
    ASSERT_TRUE(expected.ok() && actual.ok());
    for (size_t i = 0; i < actual->size(); ++i)
      EXPECT_TRUE(sameBits((*executable)->output_specs()[i], *(*actual)[i], *(*expected)[i]));
    EXPECT_FALSE(backend->load(llvm::ArrayRef<char>(blob->data(), blob->size() - 1)).ok());
    std::string changed = *blob;
    changed[changed.size() / 2] ^= 1;
    EXPECT_EQ(backend->load(changed).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(CpuBackend, CompilesOnSeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> succeeded{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (const Case &test : kCases)
        if (auto executable = compile(t % 2 ? "cpu" : "cpu-unfused", test.text);
            executable.ok() && run(*executable, randomInputs(**executable, 1)).ok())
          ++succeeded;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(succeeded, int(4 * std::size(kCases)));
}

TEST(CpuBackend, TheKeySeesOptionsAndTargets) {
  compiler::Backend *cpu = *compiler::findBackend("cpu"),
                    *unfused = *compiler::findBackend("cpu-unfused");
  compiler::CompileOptions options, other;
  EXPECT_EQ(cpu->targetKey(options), cpu->targetKey(other));
  EXPECT_NE(cpu->targetKey(options), unfused->targetKey(options));
  other.cpu = "x86-64-v3";
  EXPECT_NE(cpu->targetKey(options), cpu->targetKey(other));
  other.cpu.clear();
  other.math = compiler::MathMode::Fast;
  EXPECT_NE(cpu->targetKey(options), cpu->targetKey(other));
}

TEST(CpuBackend, SaysWhatIsWrong) {
  compiler::CompileOptions options;
  options.cpu = "no-such-cpu";
  auto unknown = compile("cpu", kCases[0].text, nullptr, options);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(std::string(unknown.status().message()).find("no-such-cpu"), std::string::npos)
      << unknown.status();

  auto noMain = compile("cpu", "func.func @other() { return }");
  ASSERT_FALSE(noMain.ok());
  EXPECT_NE(std::string(noMain.status().message()).find("main"), std::string::npos)
      << noMain.status();
}

} // namespace
} // namespace weft::backends::cpu
