// Kernels against a memcpy of the same bytes (read + written): softmax and layer_norm of 1024 x 1024, a chain of elementwise ops over 16 M
// elements, a transpose, a reduction over each axis. One thread. The counter `memcpy_ratio` is the kernel's best time over memcpy's best,
// both measured in one run, alternating.
#include <chrono>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "compiler/codegen/KernelTester.h"
#include "mlir/Parser/Parser.h"

namespace weft::compiler {
namespace {

constexpr const char *kSoftmax = R"(
  func.func @main(%arg: tensor<1024x1024xf32>) {
    %r = weft.fusion(%x = %arg : tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>) {
      %m = weft.reduce_max %x, dims = [1] : tensor<1024x1024xf32>
      %m1 = weft.reshape %m : tensor<1024xf32> to tensor<1024x1xf32>
      %m2 = weft.broadcast %m1 : tensor<1024x1xf32> to tensor<1024x1024xf32>
      %d = weft.sub %x, %m2 : tensor<1024x1024xf32>
      %e = weft.exp %d : tensor<1024x1024xf32>
      %s = weft.reduce_sum %e, dims = [1] : tensor<1024x1024xf32>
      %one = weft.constant dense<1.0> : tensor<1024xf32>
      %i = weft.div %one, %s : tensor<1024xf32>
      %i1 = weft.reshape %i : tensor<1024xf32> to tensor<1024x1xf32>
      %i2 = weft.broadcast %i1 : tensor<1024x1xf32> to tensor<1024x1024xf32>
      %q = weft.mul %e, %i2 : tensor<1024x1024xf32>
      weft.yield %q : tensor<1024x1024xf32>
    }
    return
  })";
constexpr const char *kLayerNorm = R"(
  func.func @main(%a: tensor<1024x1024xf32>, %b: tensor<1024xf32>, %c: tensor<1024xf32>) {
    %r = weft.fusion(%x = %a : tensor<1024x1024xf32>, %w = %b : tensor<1024xf32>, %v = %c : tensor<1024xf32>) -> (tensor<1024x1024xf32>) {
      %inv = weft.constant dense<0.0009765625> : tensor<1024xf32>
      %eps = weft.constant dense<1.0e-5> : tensor<1024xf32>
      %s = weft.reduce_sum %x, dims = [1] : tensor<1024x1024xf32>
      %mean = weft.mul %s, %inv : tensor<1024xf32>
      %mean1 = weft.reshape %mean : tensor<1024xf32> to tensor<1024x1xf32>
      %mean2 = weft.broadcast %mean1 : tensor<1024x1xf32> to tensor<1024x1024xf32>
      %d = weft.sub %x, %mean2 : tensor<1024x1024xf32>
      %sq = weft.mul %d, %d : tensor<1024x1024xf32>
      %vs = weft.reduce_sum %sq, dims = [1] : tensor<1024x1024xf32>
      %var = weft.mul %vs, %inv : tensor<1024xf32>
      %ve = weft.add %var, %eps : tensor<1024xf32>
      %rstd = weft.rsqrt %ve : tensor<1024xf32>
      %rstd1 = weft.reshape %rstd : tensor<1024xf32> to tensor<1024x1xf32>
      %rstd2 = weft.broadcast %rstd1 : tensor<1024x1xf32> to tensor<1024x1024xf32>
      %n = weft.mul %d, %rstd2 : tensor<1024x1024xf32>
      %w2 = weft.broadcast %w : tensor<1024xf32> to tensor<1024x1024xf32>
      %v2 = weft.broadcast %v : tensor<1024xf32> to tensor<1024x1024xf32>
      %p = weft.mul %n, %w2 : tensor<1024x1024xf32>
      %y = weft.add %p, %v2 : tensor<1024x1024xf32>
      weft.yield %y : tensor<1024x1024xf32>
    }
    return
  })";
constexpr const char *kChain = R"(
  func.func @main(%p: tensor<16777216xf32>, %q: tensor<16777216xf32>) {
    %r = weft.fusion(%a = %p : tensor<16777216xf32>, %b = %q : tensor<16777216xf32>) -> (tensor<16777216xf32>) {
      %one = weft.constant dense<1.0> : tensor<16777216xf32>
      %0 = weft.mul %a, %b : tensor<16777216xf32>
      %1 = weft.add %0, %one : tensor<16777216xf32>
      %2 = weft.tanh %1 : tensor<16777216xf32>
      %3 = weft.sub %a, %b : tensor<16777216xf32>
      %4 = weft.sigmoid %3 : tensor<16777216xf32>
      %5 = weft.mul %2, %4 : tensor<16777216xf32>
      %6 = weft.add %5, %b : tensor<16777216xf32>
      weft.yield %6 : tensor<16777216xf32>
    }
    return
  })";
constexpr const char *kGelu = R"(
  func.func @main(%arg: tensor<1048576xf32>) {
    %r = weft.fusion(%x = %arg : tensor<1048576xf32>) -> (tensor<1048576xf32>) {
      %y = weft.gelu %x : tensor<1048576xf32>
      weft.yield %y : tensor<1048576xf32>
    }
    return
  })";
constexpr const char *kTranspose = R"(
  func.func @main(%arg: tensor<1024x1024xf32>) {
    %r = weft.fusion(%x = %arg : tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>) {
      %y = weft.transpose %x, [1, 0] : tensor<1024x1024xf32>
      weft.yield %y : tensor<1024x1024xf32>
    }
    return
  })";
constexpr const char *kOddTranspose = R"(
  func.func @main(%arg: tensor<1000x1000xf32>) {
    %r = weft.fusion(%x = %arg : tensor<1000x1000xf32>) -> (tensor<1000x1000xf32>) {
      %y = weft.transpose %x, [1, 0] : tensor<1000x1000xf32>
      weft.yield %y : tensor<1000x1000xf32>
    }
    return
  })";
constexpr const char *kTransposeAdd = R"(
  func.func @main(%p: tensor<1024x1024xf32>, %q: tensor<1024x1024xf32>) {
    %r = weft.fusion(%x = %p : tensor<1024x1024xf32>, %z = %q : tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>) {
      %y = weft.transpose %x, [1, 0] : tensor<1024x1024xf32>
      %s = weft.add %y, %z : tensor<1024x1024xf32>
      weft.yield %s : tensor<1024x1024xf32>
    }
    return
  })";
constexpr const char *kColumnSum = R"(
  func.func @main(%arg: tensor<1024x1024xf32>) {
    %r = weft.fusion(%x = %arg : tensor<1024x1024xf32>) -> (tensor<1024xf32>) {
      %y = weft.reduce_sum %x, dims = [0] : tensor<1024x1024xf32>
      weft.yield %y : tensor<1024xf32>
    }
    return
  })";
constexpr const char *kTotal = R"(
  func.func @main(%arg: tensor<1024x1024xf32>) {
    %r = weft.fusion(%x = %arg : tensor<1024x1024xf32>) -> (tensor<f32>) {
      %y = weft.reduce_sum %x, dims = [0, 1] : tensor<1024x1024xf32>
      weft.yield %y : tensor<f32>
    }
    return
  })";
constexpr const char *kDropout = R"(
  func.func @main(%arg: tensor<1024x1024xf32>, %state: tensor<2xi64>) {
    %r = weft.fusion(%x = %arg : tensor<1024x1024xf32>, %s = %state : tensor<2xi64>) -> (tensor<1024x1024xf32>) {
      %rate = weft.constant dense<0.1> : tensor<1024x1024xf32>
      %zero = weft.constant dense<0.0> : tensor<1024x1024xf32>
      %u = weft.random_uniform %s : tensor<1024x1024xf32>
      %k = weft.compare ge %u, %rate : tensor<1024x1024xf32>
      %y = weft.select %k, %x, %zero : tensor<1024x1024xf32>
      weft.yield %y : tensor<1024x1024xf32>
    }
    return
  })";

double seconds(const std::function<void()> &f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void run(benchmark::State &state, const char *text) {
  mlir::MLIRContext context;
  registerCodegenDialects(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ir::FusionOp fusion;
  if (module) module->walk([&](ir::FusionOp op) { fusion = op; });
  std::string error = "does not parse";
  auto kernel = fusion ? TestKernel::build(fusion, error) : nullptr;
  if (!kernel) return state.SkipWithError(error.c_str());
  std::vector<std::vector<float>> memory;
  std::vector<void *> buffers;
  int64_t bytes = 0;
  auto add = [&](mlir::Type type) {
    int64_t size = ir::HostTensor::of(mlir::cast<mlir::RankedTensorType>(type)).bytes.size();
    memory.emplace_back(size / 4 + 16);
    for (size_t i = 0; i < memory.back().size(); ++i) memory.back()[i] = static_cast<float>(i % 1000) * 1e-3f;
    bytes += size;
  };
  for (mlir::Type type : fusion.getInputs().getTypes()) add(type);
  for (mlir::Type type : fusion.getResultTypes()) add(type);
  for (auto &m : memory) buffers.push_back(reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(m.data()) + 63) / 64 * 64));
  std::vector<char> from(bytes / 2, 1), to(bytes / 2, 2);
  double best = 1e9, bestCopy = 1e9;
  for (auto _ : state) {
    double time = seconds([&] { benchmark::DoNotOptimize(kernel->call(buffers)); });
    state.SetIterationTime(time);
    best = std::min(best, time);
    bestCopy = std::min(bestCopy, seconds([&] {
                          std::memcpy(to.data(), from.data(), from.size());
                          benchmark::DoNotOptimize(to.data());
                        }));
  }
  state.counters["best_ms"] = best * 1e3;
  state.counters["memcpy_ms"] = bestCopy * 1e3;
  state.counters["memcpy_ratio"] = best / bestCopy;
}

BENCHMARK_CAPTURE(run, softmax_1024x1024, kSoftmax)->UseManualTime();
BENCHMARK_CAPTURE(run, layer_norm_1024x1024, kLayerNorm)->UseManualTime();
BENCHMARK_CAPTURE(run, tanh_sigmoid_chain_16M, kChain)->UseManualTime();
BENCHMARK_CAPTURE(run, gelu_1M, kGelu)->UseManualTime();
BENCHMARK_CAPTURE(run, transpose_1024x1024, kTranspose)->UseManualTime();
BENCHMARK_CAPTURE(run, column_sum_1024x1024, kColumnSum)->UseManualTime();
BENCHMARK_CAPTURE(run, total_1024x1024, kTotal)->UseManualTime();
BENCHMARK_CAPTURE(run, transpose_1000x1000, kOddTranspose)->UseManualTime();
BENCHMARK_CAPTURE(run, transpose_add_1024x1024, kTransposeAdd)->UseManualTime();
BENCHMARK_CAPTURE(run, dropout_1024x1024, kDropout)->UseManualTime();

} // namespace
} // namespace weft::compiler

BENCHMARK_MAIN();
