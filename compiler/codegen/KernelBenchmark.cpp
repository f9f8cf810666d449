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
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"
#include "llvm/Support/FormatVariadic.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// The texts of parseFusion.
struct Fusion {
  std::string name, signature, body, results;
};

const Fusion kByMemory[] = {
    {"run/softmax_1024x1024", "%x: tensor<1024x1024xf32>",
     R"(
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
       %q = weft.mul %e, %i2 : tensor<1024x1024xf32>)",
     "%q: tensor<1024x1024xf32>"},
    {"run/layer_norm_1024x1024",
     "%x: tensor<1024x1024xf32>, %w: tensor<1024xf32>, %v: tensor<1024xf32>",
     R"(
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
       %y = weft.add %p, %v2 : tensor<1024x1024xf32>)",
     "%y: tensor<1024x1024xf32>"},
    {"run/tanh_sigmoid_chain_16M", "%a: tensor<16777216xf32>, %b: tensor<16777216xf32>",
     R"(
       %one = weft.constant dense<1.0> : tensor<16777216xf32>
       %0 = weft.mul %a, %b : tensor<16777216xf32>
       %1 = weft.add %0, %one : tensor<16777216xf32>
       %2 = weft.tanh %1 : tensor<16777216xf32>
       %3 = weft.sub %a, %b : tensor<16777216xf32>
       %4 = weft.sigmoid %3 : tensor<16777216xf32>
       %5 = weft.mul %2, %4 : tensor<16777216xf32>
       %6 = weft.add %5, %b : tensor<16777216xf32>)",
     "%6: tensor<16777216xf32>"},
    {"run/gelu_1M", "%x: tensor<1048576xf32>",
     R"(
       %y = weft.gelu %x : tensor<1048576xf32>)",
     "%y: tensor<1048576xf32>"},
    {"run/transpose_1024x1024", "%x: tensor<1024x1024xf32>",
     R"(
       %y = weft.transpose %x, [1, 0] : tensor<1024x1024xf32>)",
     "%y: tensor<1024x1024xf32>"},
    {"run/column_sum_1024x1024", "%x: tensor<1024x1024xf32>",
     R"(
       %y = weft.reduce_sum %x, dims = [0] : tensor<1024x1024xf32>)",
     "%y: tensor<1024xf32>"},
    {"run/total_1024x1024", "%x: tensor<1024x1024xf32>",
     R"(
       %y = weft.reduce_sum %x, dims = [0, 1] : tensor<1024x1024xf32>)",
     "%y: tensor<f32>"},
    {"run/transpose_1000x1000", "%x: tensor<1000x1000xf32>",
     R"(
       %y = weft.transpose %x, [1, 0] : tensor<1000x1000xf32>)",
     "%y: tensor<1000x1000xf32>"},
    {"run/transpose_add_1024x1024", "%x: tensor<1024x1024xf32>, %z: tensor<1024x1024xf32>",
     R"(
       %y = weft.transpose %x, [1, 0] : tensor<1024x1024xf32>
       %s = weft.add %y, %z : tensor<1024x1024xf32>)",
     "%s: tensor<1024x1024xf32>"},
    {"run/dropout_1024x1024", "%x: tensor<1024x1024xf32>, %s: tensor<2xi64>",
     R"(
       %rate = weft.constant dense<0.1> : tensor<1024x1024xf32>
       %zero = weft.constant dense<0.0> : tensor<1024x1024xf32>
       %u = weft.random_uniform %s : tensor<1024x1024xf32>
       %k = weft.compare ge %u, %rate : tensor<1024x1024xf32>
       %y = weft.select %k, %x, %zero : tensor<1024x1024xf32>)",
     "%y: tensor<1024x1024xf32>"},
};

double seconds(const std::function<void()> &f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Operands rise from `least` of their type on.
void run(benchmark::State &state, const Fusion &fusion, bool besideCopy,
         double (*least)(RankedTensorType)) {
  auto parsed = parseFusion(fusion.signature, fusion.body, fusion.results);
  std::string error = "does not parse";
  auto kernel = parsed->fusion ? TestKernel::build(parsed->fusion, error) : nullptr;
  if (!kernel)
    return state.SkipWithError(error.c_str());
  std::vector<std::vector<std::byte>> memory;
  std::vector<void *> buffers;
  int64_t bytes = 0;
  for (Value value : llvm::concat<Value>(llvm::to_vector(parsed->fusion.getInputs()),
                                         llvm::to_vector(parsed->fusion.getResults()))) {
    auto operand = ir::HostTensor::of(ir::typeOf(value));
    for (int64_t i = 0; i < operand.size(); ++i)
      operand.set(i, least(ir::typeOf(value)) + static_cast<double>(i % 1000) * 1e-3);
    memory.emplace_back(operand.bytes.size() + 128);
    auto start = reinterpret_cast<uintptr_t>(memory.back().data());
    buffers.push_back(reinterpret_cast<void *>((start + 63) / 64 * 64));
    std::memcpy(buffers.back(), operand.bytes.data(), operand.bytes.size());
    bytes += operand.bytes.size();
  }
  std::vector<char> from(besideCopy ? bytes / 2 : 0, 1), to(from.size(), 2);
  double best = 1e9, bestCopy = 1e9;
  for (auto _ : state) {
    double time = seconds([&] { benchmark::DoNotOptimize(kernel->call(buffers)); });
    state.SetIterationTime(time);
    best = std::min(best, time);
    if (besideCopy)
      bestCopy = std::min(bestCopy, seconds([&] {
                            std::memcpy(to.data(), from.data(), from.size());
                            benchmark::DoNotOptimize(to.data());
                          }));
  }
  if (!besideCopy) {
    state.counters["best_us"] = best * 1e6;
    state.counters["gflops"] = 1e-9 * kernel->info.flops / best;
    return;
  }
  state.counters["best_ms"] = best * 1e3;
  state.counters["memcpy_ms"] = bestCopy * 1e3;
  state.counters["memcpy_ratio"] = best / bestCopy;
}

std::string tensor(ArrayRef<int64_t> sizes, const char *element) {
  std::string type = "tensor<";
  for (int64_t size : sizes)
    type += std::to_string(size) + "x";
  return type + element + ">";
}

// [batch, m, k] times [batch, k, n] of float64, each as it is or transposed ("n" or "t") before it
// is read.
struct Product {
  int64_t batch, m, k, n;
  StringRef sides;
};

constexpr Product kProducts[] = {
    {1, 16, 16, 16, "nn"},       {1, 32, 32, 32, "nn"},    {1, 64, 64, 64, "nn"},
    {1, 96, 96, 96, "nn"},       {1, 100, 100, 100, "nn"}, {1, 128, 128, 128, "nn"},
    {1, 192, 192, 192, "nn"},    {1, 256, 256, 256, "nn"}, {1, 384, 384, 384, "nn"},
    {1, 512, 512, 512, "nn"},    {1, 768, 768, 768, "nn"}, {1, 1024, 1024, 1024, "nn"},
    {1, 64, 64, 64, "nt"},       {1, 64, 64, 64, "tn"},    {1, 128, 128, 128, "nt"},
    {1, 128, 128, 128, "tn"},    {1, 256, 256, 256, "nt"}, {1, 256, 256, 256, "tn"},
    {1, 512, 512, 512, "nt"},    {1, 512, 512, 512, "tn"}, {1, 1024, 1024, 1024, "nt"},
    {1, 1024, 1024, 1024, "tn"}, {8, 64, 64, 64, "nn"},    {8, 128, 128, 128, "nn"},
    {8, 256, 256, 256, "nn"},    {8, 64, 64, 64, "nt"},    {1, 4096, 64, 64, "nn"},
    {1, 64, 4096, 64, "tn"},     {1, 2048, 512, 8, "nn"},  {1, 8, 512, 2048, "nn"},
    {1, 333, 777, 555, "nn"},    {1, 64, 784, 128, "nn"},  {12, 512, 64, 512, "nt"},
    {12, 512, 512, 64, "nn"}};

Fusion fusionOf(const Product &p) {
  auto matrix = [&](int64_t rows, int64_t columns) {
    SmallVector<int64_t> sizes = {p.batch, rows, columns};
    return tensor(ArrayRef(sizes).drop_front(p.batch == 1), "f64");
  };
  bool left = p.sides[0] == 't', right = p.sides[1] == 't';
  std::string x = left ? matrix(p.k, p.m) : matrix(p.m, p.k),
              y = right ? matrix(p.n, p.k) : matrix(p.k, p.n);
  auto word = [](bool is) {
    return is ? "true" : "false";
  };
  return {llvm::formatv("runMatmul/{0}{1}x{2}x{3}_{4}",
                        p.batch == 1 ? "" : std::to_string(p.batch) + "x", p.m, p.k, p.n, p.sides),
          "%x: " + x + ", %y: " + y,
          llvm::formatv(
              "%z = weft.matmul %x, %y {{transpose_lhs = {0}, transpose_rhs = {1}} : {2}, {3}",
              word(left), word(right), x, y),
          "%z: " + matrix(p.m, p.n)};
}

// Over [matrices, length, features] of float32, or the gradients of its three operands.
struct Attention {
  int64_t matrices, queries, keys, features;
  bool causal, gradient;
};

constexpr Attention kAttentions[] = {
    {96, 128, 128, 64, false, false},  {96, 197, 197, 64, false, false},
    {12, 1024, 1024, 64, true, false}, {96, 128, 128, 64, false, true},
    {96, 197, 197, 64, false, true},   {12, 1024, 1024, 64, true, true}};

Fusion fusionOf(const Attention &a) {
  std::string q = tensor({a.matrices, a.queries, a.features}, "f32"),
              k = tensor({a.matrices, a.keys, a.features}, "f32"),
              l = tensor({a.matrices, a.queries}, "f32"),
              options = llvm::formatv("{{causal = {0}, scale = 0.125", a.causal ? "true" : "false");
  std::vector<std::string> types = {q, k, k}, results = {q, l};
  std::string op = "weft.attention %x0, %x1, %x2 " + options + "}";
  if (a.gradient) {
    types = {q, k, k, q, l, q};
    results = {q, k, k};
    op = "weft.attention_gradient %x0, %x1, %x2 result %x3, %x4 gradient %x5 " + options +
         ", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>}";
  }
  std::string signature, yielded;
  for (auto [i, type] : llvm::enumerate(types))
    signature += (i ? ", " : "") + ("%x" + std::to_string(i)) + ": " + type;
  for (auto [i, type] : llvm::enumerate(results))
    yielded += (i ? ", " : "") + ("%y#" + std::to_string(i)) + ": " + type;
  return {llvm::formatv("runAttention/{0}{1}{2}x{3}x{4}x{5}", a.gradient ? "gradient_" : "",
                        a.causal ? "causal_" : "", a.matrices, a.queries, a.keys, a.features),
          signature,
          llvm::formatv("%y:{0} = {1} : ({2}) -> ({3})", results.size(), op,
                        llvm::join(types, ", "), llvm::join(results, ", ")),
          yielded};
}

void add(Fusion fusion, bool besideCopy, double (*least)(RankedTensorType)) {
  std::string name = fusion.name;
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State &state) {
    run(state, fusion, besideCopy, least);
  })->UseManualTime();
}

} // namespace
} // namespace weft::compiler

int main(int argc, char **argv) {
  using namespace weft::compiler;
  for (const Attention &each : kAttentions)
    add(fusionOf(each), false, [](auto type) { return type.getRank() == 2 ? 8.0 : -0.5; });
  for (const Fusion &each : kByMemory)
    add(each, true, [](auto) { return 0.0; });
  for (const Product &each : kProducts)
    add(fusionOf(each), false, [](auto) { return 0.1; });
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
