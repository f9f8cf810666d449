// The backend as callers see it: what it needs, what it refuses, what it writes and reads back, and
// how programs go on after a failure.
#include "backends/cuda/compile/CudaBackend.h"

#include <dlfcn.h>

#include "backends/cuda/compile/CudaCompile.h"
#include "backends/cuda/device/cuda_libraries.h"
#include "backends/cuda/device/recording_driver.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Parser/Parser.h"
#include "runtime/executable/executable.h"
#include "tests/support/BackendRun.h"
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

  // A driver without cuBLASLt: the call that needs it is named, and the program runs without.
  auto driver = [](int number) {
    return CudaDevice::create(*open_driver(kRecording), number);
  };
  auto none = [](std::shared_ptr<CudaDevice> device) {
    return library_resolver(std::move(device), "libnoblas.so");
  };
  CudaBackend lacking({.name = "cuda", .device = driver, .kernels = {}, .libraries = none});
  status = lacking.compile(*parse(kProgram), {}, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message().find("model.cpp:7: cuBLASLt was not found (looked for libnoblas.so); "
                                  "install CUDA's libraries"),
            0u)
      << status;
  compiler::CompileOptions unclaimed;
  unclaimed.claim = false;
  EXPECT_TRUE(lacking.compile(*parse(kProgram), unclaimed, nullptr).ok());
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
