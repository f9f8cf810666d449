// The backend as callers see it: what it needs, what it refuses, what it writes and reads back, and
// how programs go on after a failure.
#include "backends/cuda/compile/CudaBackend.h"

#include <dlfcn.h>

#include <fstream>
#include <sstream>

#include "backends/cuda/compile/CudaCompile.h"
#include "backends/cuda/device/cuda_libraries.h"
#include "backends/cuda/device/recording_driver.h"
#include "compiler/link/Aot.h"
#include "dialects/weft/ir/Extensions.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Parser/Parser.h"
#include "runtime/executable/executable.h"
#include "runtime/profile/profile.h"
#include "tests/support/BackendRun.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

namespace weft::backends::cuda {
namespace {

using ir::HostTensor;

constexpr const char *kRecording = "backends/cuda/device/libcuda.so.1";

constexpr const char *kProgram = R"(
func.func @main(%x: tensor<32x16xf32>, %y: tensor<16x64xf32>) -> tensor<32x64xf32> {
  %0 = weft.tanh %x : tensor<32x16xf32>
  %1 = weft.matmul %0, %y : tensor<32x16xf32>, tensor<16x64xf32> loc("model.cpp":7:1)
  return %1 : tensor<32x64xf32>
})";

constexpr const char *kConvolution = R"(
func.func @main(%x: tensor<2x3x9x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<2x4x5x4xf32> {
  %0 = weft.conv2d %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 1>,
    dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x3x9x8xf32>, tensor<4x3x3x3xf32>
    loc("model.cpp":9:1)
  return %0 : tensor<2x4x5x4xf32>
})";

// As weft::conv2d records it.
constexpr const char *kBiased = R"(
func.func @main(%x: tensor<2x3x9x8xbf16>, %w: tensor<4x3x3x3xbf16>, %b: tensor<4xbf16>)
    -> tensor<2x4x7x6xbf16> {
  %0 = weft.cast %x : tensor<2x3x9x8xbf16> to tensor<2x3x9x8xf32> loc("model.cpp":9:1)
  %1 = weft.cast %w : tensor<4x3x3x3xbf16> to tensor<4x3x3x3xf32> loc("model.cpp":9:1)
  %2 = weft.conv2d %0, %1 {strides = array<i64: 1, 1>, padding = array<i64: 0, 0>,
    dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x3x9x8xf32>, tensor<4x3x3x3xf32>
    loc("model.cpp":9:1)
  %3 = weft.cast %b : tensor<4xbf16> to tensor<4xf32> loc("model.cpp":9:1)
  %4 = weft.reshape %3 : tensor<4xf32> to tensor<4x1x1xf32> loc("model.cpp":9:1)
  %5 = weft.broadcast %4 : tensor<4x1x1xf32> to tensor<2x4x7x6xf32> loc("model.cpp":9:1)
  %6 = weft.add %2, %5 : tensor<2x4x7x6xf32> loc("model.cpp":9:1)
  %7 = weft.cast %6 : tensor<2x4x7x6xf32> to tensor<2x4x7x6xbf16> loc("model.cpp":9:1)
  return %7 : tensor<2x4x7x6xbf16>
})";

class CudaBackendTest : public testing::Test {
protected:
  CudaBackendTest() {
    tests::prepare(context);
  }
  void TearDown() override {
    recordingFail()("", 0, 0);
  }

  static weft_recording_fail_t recordingFail() {
    void *library = dlopen(kRecording, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<weft_recording_fail_t>(dlsym(library, "weft_recording_fail"));
  }
  mlir::OwningOpRef<mlir::ModuleOp> parse(const char *text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }
  static compiler::Backend &simulated() {
    return **compiler::findBackend("cuda-simulated");
  }
  static std::vector<HostTensor> inputs() {
    std::vector<HostTensor> result{HostTensor(DType::kFloat32, {32, 16}),
                                   HostTensor(DType::kFloat32, {16, 64})};
    for (HostTensor &tensor : result)
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.set(i, double(i % 7) - 3);
    return result;
  }
  static void expectWorks(const std::shared_ptr<runtime::Executable> &executable) {
    auto results = tests::run(executable, inputs(), 1);
    ASSERT_TRUE(results.ok()) << results.status();
    double sum = 0;
    for (int64_t k = 0; k < 16; ++k)
      sum += std::tanh(inputs()[0].getDouble(k)) * inputs()[1].getDouble(64 * k);
    EXPECT_NEAR((*results)[0].getDouble(0), sum, 1e-5);
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

// The device has no sort of its own: the op is refused by name, and counted by kernels.
TEST_F(CudaBackendTest, SortsByComparisonsAndSaysWhy) {
  compiler::CompileReport report;
  auto executable = simulated().compile(*parse(R"(
func.func @main(%x: tensor<3x5xf32>) -> tensor<3x2xi64> {
  %0 = weft.arg_sort %x, dim = 1 {descending = true, count = 2 : i64} : tensor<3x5xf32>
  return %0 : tensor<3x2xi64>
})"),
                                        {}, &report);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_TRUE(llvm::any_of(report.remarks, [](const std::string &line) {
    return line.find("no-sort") != std::string::npos;
  }));
  HostTensor x(DType::kFloat32, {3, 5});
  for (int64_t i = 0; i < x.size(); ++i)
    x.set(i, double(i * 7 % 4));
  auto results = tests::run(*executable, {x}, 1);
  ASSERT_TRUE(results.ok()) << results.status();
  // 0 3 2 1 0 / 3 2 1 0 3 / 2 1 0 3 2
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 6; ++i)
    indices.push_back((*results)[0].getInt(i));
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 2, 0, 4, 3, 0}));
}

TEST_F(CudaBackendTest, SaysWhatIsMissing) {
  auto nowhere = [](int) -> absl::StatusOr<std::shared_ptr<CudaDevice>> {
    return open_driver("libnowhere.so.1").status();
  };
  CudaBackend backend({.name = "cuda", .device = nowhere, .kernels = {}, .libraries = {}});
  absl::Status status = backend.compile(*parse(kProgram), {}, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("NVIDIA's driver was not found (libnowhere.so.1"),
            std::string::npos)
      << status;
  EXPECT_NE(status.message().find("the backend \"cpu\" runs everywhere"), std::string::npos)
      << status;
  EXPECT_EQ(backend.load({}).status().code(), absl::StatusCode::kUnavailable);

  // A driver without libraries: the call that needs one is named, and the program runs without.
  auto driver = [](int number) {
    return CudaDevice::create(*open_driver(kRecording), number);
  };
  auto none = [](std::shared_ptr<CudaDevice> device) {
    return library_resolver(std::move(device),
                            {.cublaslt = "libnoblas.so", .cudnn = "libnodnn.so"});
  };
  CudaBackend lacking({.name = "cuda", .device = driver, .kernels = {}, .libraries = none});
  status = lacking.compile(*parse(kProgram), {}, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message().find("model.cpp:7: cuBLASLt was not found (looked for libnoblas.so); "
                                  "install CUDA's libraries"),
            0u)
      << status;
  status = lacking.compile(*parse(kConvolution), {}, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message().find("model.cpp:9: cuDNN was not found (looked for libnodnn.so); "
                                  "install cuDNN 9"),
            0u)
      << status;
  compiler::CompileOptions unclaimed;
  unclaimed.claim = false;
  for (const char *program : {kProgram, kConvolution})
    EXPECT_TRUE(lacking.compile(*parse(program), unclaimed, nullptr).ok());
}

// One compilation for all sizes of a range, also from its bytes: each has the bits of a program of
// its own.
TEST_F(CudaBackendTest, OneProgramServesManySizes) {
  auto text = [](int64_t rows, bool varies) {
    auto rowsOf = [&](const std::string &columns) {
      return "tensor<" + std::to_string(rows) + "x" + columns + "xf32" +
             (varies ? ", #weft.dims<n, _>>" : ">");
    };
    std::string x = rowsOf("16"), y = rowsOf("64"), w = "tensor<16x64xf32>";
    return std::string("module") +
           (varies ? " attributes {weft.sizes = {n = [4, " + std::to_string(rows) + "]}}" : "") +
           " {\nfunc.func @main(%x: " + x + ", %w: " + w + ") -> " + y +
           " {\n%0 = weft.tanh %x : " + x + "\n%1 = weft.matmul %0, %w : " + x + ", " + w +
           "\n%2 = weft.softmax %1, dim = 1 : " + y + "\nreturn %2 : " + y + "\n}\n}";
  };
  auto run = [&](const std::shared_ptr<runtime::Executable> &executable, int64_t rows) {
    std::vector<HostTensor> given = inputs();
    HostTensor x(DType::kFloat32, {rows, 16});
    for (int64_t i = 0; i < x.size(); ++i)
      x.set(i, std::sin(double(i)));
    auto results = tests::run(executable, {x, given[1]}, 1);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? (*results)[0].bytes : std::vector<std::byte>();
  };
  compiler::CompileReport report;
  auto executable = simulated().compile(*parse(text(40, true).c_str()), {}, &report);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ(report.libraryCalls, 1);
  std::optional<std::string> blob = simulated().serialize(**executable);
  ASSERT_TRUE(blob);
  auto loaded = simulated().load({blob->data(), blob->size()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(simulated().serialize(**loaded), blob);
  for (int64_t rows : {4, 7, 31, 40}) {
    auto alone = simulated().compile(*parse(text(rows, false).c_str()), {}, nullptr);
    ASSERT_TRUE(alone.ok()) << alone.status();
    std::vector<std::byte> expected = run(*alone, rows);
    for (const auto &large : {*executable, *loaded}) {
      auto sized = large->at_sizes({{"n", rows}});
      ASSERT_TRUE(sized.ok()) << sized.status();
      EXPECT_TRUE(run(*sized, rows) == expected) << rows;
    }
  }
}

// What has one size says why.
TEST_F(CudaBackendTest, RefusesSizesByName) {
  constexpr const char *kSum = R"(
module attributes {weft.sizes = {n = [2, 64]}} {
  func.func @main(%x: tensor<64x8xf32, #weft.dims<n, _>>) -> tensor<8xf32> {
    %0 = weft.reduce_sum %x, dims = [0] : tensor<64x8xf32, #weft.dims<n, _>> loc("model.cpp":3:1)
    return %0 : tensor<8xf32>
  }
})";
  absl::Status status = simulated().compile(*parse(kSum), {}, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "model.cpp:3: weft.reduce_sum adds up a size that varies, in an "
                              "order that follows from it on GPUs");
  EXPECT_EQ(simulated().compileAheadOfTime(*parse(kSum), {}).status().message(),
            "models for GPUs are compiled for one size each");
}

// A convolution of one thing, as it is compiled: what was refused, and which engine ran it.
TEST_F(CudaBackendTest, ClaimsConvolutionsAndSaysWhichNot) {
  auto compiled = [&](const std::string &type, const std::string &image, const std::string &result,
                      int padding, const compiler::CompileOptions &options,
                      std::shared_ptr<runtime::Executable> *executable = nullptr) {
    std::string one = "array<i64: 1, 1>", pads = "array<i64: " + std::to_string(padding) + ", " +
                                                 std::to_string(padding) + ">";
    std::string x = "tensor<" + image + "x" + type + ">", w = "tensor<4x3x3x3x" + type + ">",
                y = "tensor<" + result + "x" + type + ">";
    compiler::CompileReport report;
    auto made = simulated().compile(
        *parse(("func.func @main(%x: " + x + ", %w: " + w + ") -> " + y +
                " { %0 = weft.conv2d %x, %w {strides = " + one + ", padding = " + pads +
                ", dilation = " + one + ", groups = 1 : i64} : " + x + ", " + w +
                " return %0 : " + y + " }")
                   .c_str()),
        options, &report);
    EXPECT_TRUE(made.ok()) << made.status();
    if (executable && made.ok())
      *executable = *made;
    return llvm::join(report.remarks, "\n");
  };
  compiler::CompileOptions fast;
  fast.math = compiler::MathMode::Fast;
  EXPECT_EQ(compiled("f32", "2x3x6x5", "2x4x6x5", 1, {}), "");
  EXPECT_EQ(compiled("f32", "2x3x6x5", "2x4x10x9", 3, {}), "");
  EXPECT_NE(compiled("f64", "2x3x6x5", "2x4x6x5", 1, {}).find("dtype"), std::string::npos);
  EXPECT_NE(compiled("f32", "0x3x6x5", "0x4x6x5", 1, {}).find("empty"), std::string::npos);

  // The call reads and writes 16-bit numbers; their products are added up in float32, and rounded
  // once. Which engine computes is the stand-in's affair (recording_cudnn.cpp).
  for (auto [type, dtype, options, engine] :
       {std::tuple("f32", DType::kFloat32, compiler::CompileOptions(), "engine 16"),
        std::tuple("f32", DType::kFloat32, fast, "engine 12"),
        std::tuple("bf16", DType::kBFloat16, compiler::CompileOptions(), "engine 15"),
        std::tuple("f16", DType::kFloat16, compiler::CompileOptions(), "engine 15")}) {
    std::shared_ptr<runtime::Executable> executable;
    EXPECT_EQ(compiled(type, "2x3x6x5", "2x4x6x5", 1, options, &executable), "") << type;
    ASSERT_TRUE(executable) << type;
    void *library = dlopen(kRecording, RTLD_NOW | RTLD_LOCAL);
    reinterpret_cast<weft_recording_reset_t>(dlsym(library, "weft_recording_reset"))();
    HostTensor x(dtype, {2, 3, 6, 5}), w(dtype, {4, 3, 3, 3});
    for (HostTensor *tensor : {&x, &w})
      for (int64_t i = 0; i < tensor->size(); ++i)
        tensor->set(i, double(i % 7) - 3);
    auto results = tests::run(executable, {x, w}, 1);
    ASSERT_TRUE(results.ok()) << results.status();
    double sum = 0; // of the window at row 1, column 1 of the first image, for the first channel
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 3; ++j)
          sum += x.getDouble(c * 30 + i * 5 + j) * w.getDouble(c * 9 + i * 3 + j);
    EXPECT_EQ((*results)[0].getDouble(6), sum) << type;
    std::string log =
        reinterpret_cast<weft_recording_log_t>(dlsym(library, "weft_recording_log"))();
    EXPECT_NE(log.find(engine), std::string::npos) << type << ": " << log;
    EXPECT_EQ(log.find("launch"), std::string::npos) << type << ": " << log;
  }
}

// One call and no kernel, whichever way the bias goes in; explain and profiles have the other way.
TEST_F(CudaBackendTest, SaysWhereABiasIsAddedAhead) {
  void *library = dlopen(kRecording, RTLD_NOW | RTLD_LOCAL);
  std::vector<HostTensor> factors{HostTensor(DType::kBFloat16, {2, 3, 9, 8}),
                                  HostTensor(DType::kBFloat16, {4, 3, 3, 3}),
                                  HostTensor(DType::kBFloat16, {4})};
  for (HostTensor &tensor : factors)
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, double(i % 23) - 11);
  std::vector<double> numbers[2];
  for (bool ahead : {false, true}) {
    if (ahead)
      recordingFail()("a bias in a graph", kWeftRecordingEvery, 3000);
    compiler::CompileReport report;
    auto executable = simulated().compile(*parse(kBiased), {}, &report);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const std::string line = "model.cpp:9: cudnn.convolution: bias-ahead: ";
    EXPECT_EQ(llvm::join(report.remarks, "\n").substr(0, line.size()), ahead ? line : "");
    reinterpret_cast<weft_recording_reset_t>(dlsym(library, "weft_recording_reset"))();
    std::string trace = testing::TempDir() + "bias.json";
    ASSERT_TRUE(runtime::profile::start(trace).ok());
    auto results = tests::run(*executable, factors, 1);
    ASSERT_TRUE(runtime::profile::stop().ok());
    ASSERT_TRUE(results.ok()) << results.status();
    for (int64_t i = 0; i < (*results)[0].size(); ++i)
      numbers[ahead].push_back((*results)[0].getDouble(i));
    std::string log =
        reinterpret_cast<weft_recording_log_t>(dlsym(library, "weft_recording_log"))();
    EXPECT_NE(log.find(ahead ? " + what is there, engine 15" : " + bias, engine 15"),
              std::string::npos)
        << log;
    EXPECT_EQ(log.find("launch"), std::string::npos) << log;
    std::stringstream text;
    text << std::ifstream(trace).rdbuf();
    EXPECT_EQ(text.str().find("bias-ahead: ") != std::string::npos, ahead) << text.str();
  }
  EXPECT_EQ(numbers[0], numbers[1]);
}

TEST_F(CudaBackendTest, RefusesOptionsOfOtherMachines) {
  compiler::CompileOptions options;
  options.cpu = "sm_10";
  EXPECT_EQ(simulated().compile(*parse(kProgram), options, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  options = {};
  options.features = "+avx2";
  EXPECT_EQ(simulated().compile(*parse(kProgram), options, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Attention is a kernel of its own where a backend has one; this one has its decomposition.
TEST_F(CudaBackendTest, RefusesByNameWhatItHasNoScheduleFor) {
  auto module = parse(R"(
    func.func @main(%x: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
      %0 = weft.fusion(%q = %x : tensor<2x8x4xf32>) -> (tensor<2x8x4xf32>) {
        %y, %l = weft.attention %q, %q, %q {causal = true, scale = 0.5 : f64} :
          (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>)
          -> (tensor<2x8x4xf32>, tensor<2x8xf32>) loc("model.cpp":3:1)
        weft.yield %y : tensor<2x8x4xf32>
      }
      return %0 : tensor<2x8x4xf32>
    })");
  ir::FusionOp fusion;
  module->walk([&](ir::FusionOp op) { fusion = op; });
  ASSERT_TRUE(fusion);
  absl::Status status = kernelMaker("sm_80").make(fusion, "kernel", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_EQ(status.message(),
            "model.cpp:3: weft.attention has no schedule for GPUs; compile for another backend");
}

TEST_F(CudaBackendTest, ReadsBackWhatItWrote) {
  auto executable = simulated().compile(*parse(kProgram), {}, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  expectWorks(*executable);
  std::optional<std::string> blob = simulated().serialize(**executable);
  ASSERT_TRUE(blob);
  auto loaded = simulated().load({blob->data(), blob->size()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  expectWorks(*loaded);
  for (size_t i = 0; i < blob->size(); i += 97) {
    std::string changed = *blob;
    changed[i] ^= 0x20;
    EXPECT_FALSE(simulated().load({changed.data(), changed.size()}).ok()) << i;
    EXPECT_FALSE(simulated().load({blob->data(), i}).ok()) << i;
  }
  compiler::CompileOptions other;
  other.cpu = "sm_80";
  EXPECT_NE(simulated().targetKey({}), simulated().targetKey(other));
}

TEST_F(CudaBackendTest, TheKeySeesDialectsOfUsers) {
  std::string before = simulated().targetKey({});
  ASSERT_TRUE(ir::registerExtension("unversioned", "", [](mlir::DialectRegistry &) {}));
  EXPECT_NE(simulated().targetKey({}), before);
  EXPECT_EQ(simulated().whyNotCachable({}), "the registered dialect 'unversioned' has no version");
  ir::unregisterExtension("unversioned");
  EXPECT_EQ(simulated().targetKey({}), before);
}

TEST_F(CudaBackendTest, GoesOnAfterAFailure) {
  auto executable = simulated().compile(*parse(kProgram), {}, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  for (auto [function, code, message] :
       {std::tuple{"cuLaunchKernel", absl::StatusCode::kInternal, "launching a kernel"},
        {"cublasLtMatmul", absl::StatusCode::kInternal, "cuBLASLt"},
        {"cuMemcpyHtoDAsync", absl::StatusCode::kInternal, "copying an input to the GPU"}}) {
    recordingFail()(function, 0, 1);
    absl::Status status = tests::run(*executable, inputs(), 1).status();
    EXPECT_EQ(status.code(), code) << function << ": " << status;
    EXPECT_NE(status.message().find(message), std::string::npos) << status;
    recordingFail()("", 0, 0);
    expectWorks(*executable);
  }
  auto convolution = simulated().compile(*parse(kConvolution), {}, nullptr);
  ASSERT_TRUE(convolution.ok()) << convolution.status();
  std::vector<HostTensor> factors{HostTensor(DType::kFloat32, {2, 3, 9, 8}),
                                  HostTensor(DType::kFloat32, {4, 3, 3, 3})};
  recordingFail()("cudnnBackendExecute", 0, 5000);
  absl::Status status = tests::run(*convolution, factors, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_NE(status.message().find("model.cpp:9: cuDNN: running an engine"), std::string::npos)
      << status;
  recordingFail()("", 0, 0);
  EXPECT_TRUE(tests::run(*convolution, factors, 1).ok());
}

// A size that no earlier program has left in the cache of blocks, which is given back before an
// allocation fails for good.
TEST_F(CudaBackendTest, RunningOutOfMemoryIsAnErrorAndNoMore) {
  auto executable = simulated().compile(*parse(R"(
    func.func @main(%x: tensor<513x1025xf32>) -> tensor<513x1025xf32> {
      %0 = weft.neg %x : tensor<513x1025xf32>
      return %0 : tensor<513x1025xf32>
    })"),
                                        {}, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  HostTensor input(DType::kFloat32, {513, 1025});
  input.set(0, 3);
  recordingFail()("cuMemAlloc", kWeftRecordingEvery, 2);
  absl::Status status = tests::run(*executable, {input}, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(status.message().find("allocating memory on the GPU: out of memory"), std::string::npos)
      << status;
  recordingFail()("", 0, 0);
  auto results = tests::run(*executable, {input}, 1);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].getDouble(0), -3);
}

} // namespace
} // namespace weft::backends::cuda
