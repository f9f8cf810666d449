// Kernels against a memcpy of the same bytes (read + written): softmax and layer_norm of 1024 x
// 1024, a chain of elementwise ops over 16 M elements, a transpose, a reduction over each axis. One
// thread. The counter `memcpy_ratio` is the kernel's best time over memcpy's best, both measured in
// one run, alternating. Products of matrices, whose name says [batch x] rows x depth x columns,
// count operations a second, and so do attention and its derivative, whose name says matrices x
// queries x keys x features.
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
  if (module)
    module->walk([&](ir::FusionOp op) { fusion = op; });
  std::string error = "does not parse";
  auto kernel = fusion ? TestKernel::build(fusion, error) : nullptr;
  if (!kernel)
    return state.SkipWithError(error.c_str());
  std::vector<std::vector<float>> memory;
  std::vector<void *> buffers;
  int64_t bytes = 0;
  auto add = [&](mlir::Type type) {
    int64_t size = ir::HostTensor::of(mlir::cast<mlir::RankedTensorType>(type)).bytes.size();
    memory.emplace_back(size / 4 + 16);
    for (size_t i = 0; i < memory.back().size(); ++i)
      memory.back()[i] = static_cast<float>(i % 1000) * 1e-3f;
    bytes += size;
  };
  for (mlir::Type type : fusion.getInputs().getTypes())
    add(type);
  for (mlir::Type type : fusion.getResultTypes())
    add(type);
  for (auto &m : memory)
    buffers.push_back(
        reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(m.data()) + 63) / 64 * 64));
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

// [batch, m, k] times [batch, k, n] of float64, each as it is or transposed ("n" or "t") before it
// is read.
void runMatmul(benchmark::State &state, int64_t batch, int64_t m, int64_t k, int64_t n,
               bool transposeLeft, bool transposeRight) {
  mlir::MLIRContext context;
  registerCodegenDialects(context);
  auto tensor = [&](int64_t rows, int64_t columns) {
    return "tensor<" + (batch > 1 ? std::to_string(batch) + "x" : "") + std::to_string(rows) + "x" +
           std::to_string(columns) + "xf64>";
  };
  std::string left = transposeLeft ? tensor(k, m) : tensor(m, k),
              right = transposeRight ? tensor(n, k) : tensor(k, n);
  std::string text =
      "func.func @main(%a: " + left + ", %b: " + right + ") { %r = weft.fusion(%x = %a : " + left +
      ", %y = %b : " + right + ") -> (" + tensor(m, n) +
      ") { %z = weft.matmul %x, %y {transpose_lhs = " + (transposeLeft ? "true" : "false") +
      ", transpose_rhs = " + (transposeRight ? "true" : "false") + "} : " + left + ", " + right +
      "\n weft.yield %z : " + tensor(m, n) + " } return }";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ir::FusionOp fusion;
  if (module)
    module->walk([&](ir::FusionOp op) { fusion = op; });
  std::string error = "does not parse: " + text;
  auto kernel = fusion ? TestKernel::build(fusion, error) : nullptr;
  if (!kernel)
    return state.SkipWithError(error.c_str());
  std::vector<std::vector<double>> memory;
  std::vector<void *> buffers;
  for (int64_t size : {m * k, k * n, m * n}) {
    memory.emplace_back(batch * size + 8);
    for (size_t i = 0; i < memory.back().size(); ++i)
      memory.back()[i] = static_cast<double>(i % 1000) * 1e-3 + 0.1;
  }
  for (auto &one : memory)
    buffers.push_back(
        reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(one.data()) + 63) / 64 * 64));
  double best = 1e9;
  for (auto _ : state) {
    double time = seconds([&] { benchmark::DoNotOptimize(kernel->call(buffers)); });
    state.SetIterationTime(time);
    best = std::min(best, time);
  }
  state.counters["best_us"] = best * 1e6;
  state.counters["gflops"] = 2e-9 * static_cast<double>(batch * m * n * k) / best;
}

// Attention over [matrices, length, features] of float32, or the gradients of its three operands.
void runAttention(benchmark::State &state, int64_t matrices, int64_t queries, int64_t keys,
                  int64_t features, bool causal, bool gradient) {
  mlir::MLIRContext context;
  registerCodegenDialects(context);
  auto tensor = [&](std::vector<int64_t> sizes) {
    std::string type = "tensor<" + std::to_string(matrices) + "x";
    for (int64_t size : sizes)
      type += std::to_string(size) + "x";
    return type + "f32>";
  };
  std::string q = tensor({queries, features}), k = tensor({keys, features}), l = tensor({queries}),
              options = std::string("causal = ") + (causal ? "true" : "false") + ", scale = 0.125";
  std::vector<std::string> types = {q, k, k}, results = {q, l};
  std::string op = "%y:2 = weft.attention %x0, %x1, %x2 {" + options + "}", yielded = "%y#0, %y#1";
  if (gradient) {
    types = {q, k, k, q, l, q};
    results = {q, k, k};
    op = "%y:3 = weft.attention_gradient %x0, %x1, %x2 result %x3, %x4 gradient %x5 {" + options +
         ", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>}";
    yielded += ", %y#2";
  }
  auto joined = [](const std::vector<std::string> &parts) {
    std::string text;
    for (const std::string &part : parts)
      text += (text.empty() ? "" : ", ") + part;
    return text;
  };
  std::string arguments, inputs;
  for (auto [i, type] : llvm::enumerate(types)) {
    std::string number = std::to_string(i), comma = i ? ", " : "";
    arguments += comma + "%a" + number + ": " + type;
    inputs += comma + "%x" + number + " = %a" + number + " : " + type;
  }
  std::string text = "func.func @main(" + arguments + ") { %r:" + std::to_string(results.size()) +
                     " = weft.fusion(" + inputs + ") -> (" + joined(results) + ") { " + op +
                     " : (" + joined(types) + ") -> (" + joined(results) + ")\n weft.yield " +
                     yielded + " : " + joined(results) + " } return }";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ir::FusionOp fusion;
  if (module)
    module->walk([&](ir::FusionOp op) { fusion = op; });
  std::string error = "does not parse: " + text;
  auto kernel = fusion ? TestKernel::build(fusion, error) : nullptr;
  if (!kernel)
    return state.SkipWithError(error.c_str());
  std::vector<std::vector<float>> memory;
  std::vector<void *> buffers;
  auto add = [&](mlir::Type type, float least) {
    memory.emplace_back(mlir::cast<mlir::RankedTensorType>(type).getNumElements() + 16);
    for (size_t i = 0; i < memory.back().size(); ++i)
      memory.back()[i] = least + static_cast<float>(i % 1000) * 1e-3f;
  };
  for (mlir::Type type : fusion.getInputs().getTypes())
    add(type, mlir::cast<mlir::RankedTensorType>(type).getRank() == 2 ? 8.0f : -0.5f);
  for (mlir::Type type : fusion.getResultTypes())
    add(type, 0);
  for (auto &one : memory)
    buffers.push_back(
        reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(one.data()) + 63) / 64 * 64));
  double best = 1e9;
  for (auto _ : state) {
    double time = seconds([&] { benchmark::DoNotOptimize(kernel->call(buffers)); });
    state.SetIterationTime(time);
    best = std::min(best, time);
  }
  state.counters["best_us"] = best * 1e6;
  state.counters["gflops"] = 1e-9 * kernel->info.flops / best;
}

BENCHMARK_CAPTURE(runAttention, 96x128x128x64, 96, 128, 128, 64, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runAttention, 96x197x197x64, 96, 197, 197, 64, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runAttention, causal_12x1024x1024x64, 12, 1024, 1024, 64, true, false)
    ->UseManualTime();
BENCHMARK_CAPTURE(runAttention, gradient_96x128x128x64, 96, 128, 128, 64, false, true)
    ->UseManualTime();
BENCHMARK_CAPTURE(runAttention, gradient_96x197x197x64, 96, 197, 197, 64, false, true)
    ->UseManualTime();
BENCHMARK_CAPTURE(runAttention, gradient_causal_12x1024x1024x64, 12, 1024, 1024, 64, true, true)
    ->UseManualTime();
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
BENCHMARK_CAPTURE(runMatmul, 16x16x16_nn, 1, 16, 16, 16, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 32x32x32_nn, 1, 32, 32, 32, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 64x64x64_nn, 1, 64, 64, 64, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 96x96x96_nn, 1, 96, 96, 96, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 100x100x100_nn, 1, 100, 100, 100, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 128x128x128_nn, 1, 128, 128, 128, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 192x192x192_nn, 1, 192, 192, 192, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 256x256x256_nn, 1, 256, 256, 256, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 384x384x384_nn, 1, 384, 384, 384, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 512x512x512_nn, 1, 512, 512, 512, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 768x768x768_nn, 1, 768, 768, 768, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 1024x1024x1024_nn, 1, 1024, 1024, 1024, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 64x64x64_nt, 1, 64, 64, 64, false, true)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 64x64x64_tn, 1, 64, 64, 64, true, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 128x128x128_nt, 1, 128, 128, 128, false, true)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 128x128x128_tn, 1, 128, 128, 128, true, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 256x256x256_nt, 1, 256, 256, 256, false, true)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 256x256x256_tn, 1, 256, 256, 256, true, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 512x512x512_nt, 1, 512, 512, 512, false, true)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 512x512x512_tn, 1, 512, 512, 512, true, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 1024x1024x1024_nt, 1, 1024, 1024, 1024, false, true)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 1024x1024x1024_tn, 1, 1024, 1024, 1024, true, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 8x64x64x64_nn, 8, 64, 64, 64, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 8x128x128x128_nn, 8, 128, 128, 128, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 8x256x256x256_nn, 8, 256, 256, 256, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 8x64x64x64_nt, 8, 64, 64, 64, false, true)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 4096x64x64_nn, 1, 4096, 64, 64, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 64x4096x64_tn, 1, 64, 4096, 64, true, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 2048x512x8_nn, 1, 2048, 512, 8, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 8x512x2048_nn, 1, 8, 512, 2048, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 333x777x555_nn, 1, 333, 777, 555, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 64x784x128_nn, 1, 64, 784, 128, false, false)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 12x512x64x512_nt, 12, 512, 64, 512, false, true)->UseManualTime();
BENCHMARK_CAPTURE(runMatmul, 12x512x512x64_nn, 12, 512, 512, 64, false, false)->UseManualTime();

} // namespace
} // namespace weft::compiler

BENCHMARK_MAIN();
