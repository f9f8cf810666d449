#include "backends/cpu/device/matmul_entry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "absl/strings/str_join.h"
#include "backends/cpu/device/library_registry.h"
#include "backends/cpu/device/onednn_matmul.h"
#include "backends/cpu/device/pack_entry.h"
#include "backends/cpu/device/product_tiles.h"
#include "backends/cpu/device/tiled_matmul.h"
#include "backends/cpu/device/widened_call.h"
#include "runtime/core/float16.h"
#include "runtime/executable/program_executable.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/memory/tracing_allocator.h"

namespace weft::backends::cpu {
namespace {

using runtime::LibraryCall;
using runtime::TensorRef;
using Ints = std::vector<int64_t>;

Ints contiguous(const Ints &dims) {
  Ints strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i])
    strides[i] = stride;
  return strides;
}

TensorRef tensor(const Ints &dims) {
  return {0, 0, DType::kFloat32, dims, contiguous(dims)};
}

// The tensor seen through a permutation of its dims.
TensorRef permuted(const Ints &dims, const Ints &order) {
  TensorRef memory = tensor(dims), result = memory;
  for (size_t i = 0; i < order.size(); ++i) {
    result.dims[i] = dims[order[i]];
    result.strides[i] = memory.strides[order[i]];
  }
  return result;
}

LibraryCall call_of(std::vector<TensorRef> operands, runtime::Config config = {}) {
  LibraryCall call{"onednn.matmul", std::move(config), std::move(operands), 0, -1, -1};
  call.inputs = static_cast<int32_t>(call.operands.size()) - 1;
  std::sort(call.config.begin(), call.config.end());
  return call;
}

int64_t extent(const TensorRef &t) {
  int64_t last = 0;
  for (size_t i = 0; i < t.dims.size(); ++i) {
    if (t.dims[i] == 0)
      return 0;
    last += (t.dims[i] - 1) * t.strides[i];
  }
  return last + 1;
}

struct Data {
  std::vector<std::vector<float>> values;
  explicit Data(const LibraryCall &call, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (const TensorRef &operand : call.operands) {
      values.emplace_back(extent(operand));
      for (float &value : values.back())
        value = uniform(random);
    }
  }
  absl::Status run(const LibraryCall &call, int threads) {
    absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> state =
        matmul_entry().init(call, threads);
    if (!state.ok())
      return state.status();
    std::vector<void *> pointers;
    for (std::vector<float> &value : values)
      pointers.push_back(value.data());
    std::vector<char> scratch((*state)->scratch_bytes() + 64);
    char *aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
    return (*state)->run(pointers, aligned);
  }
};

// An element of a tensor that broadcasts to `index`'s rank.
float at(const TensorRef &t, const std::vector<float> &values, const Ints &index) {
  int64_t position = 0;
  size_t lead = index.size() - t.dims.size();
  for (size_t i = 0; i < t.dims.size(); ++i)
    if (t.dims[i] != 1)
      position += index[lead + i] * t.strides[i];
  return values[position];
}

bool next(Ints &index, const Ints &dims) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (++index[i] < dims[i])
      return true;
    index[i] = 0;
  }
  return false;
}

// a [..., M, K], b [..., K, N], c [..., M, N] by definition; then bias and post-ops.
void expect_product(const LibraryCall &call, const TensorRef &a, const TensorRef &b,
                    const TensorRef &c, const Data &before, const Data &after, bool bias = false,
                    const std::vector<std::string> &post_ops = {}) {
  int64_t k_count = a.dims.back();
  Ints index(c.dims.size());
  size_t rank = c.dims.size();
  if (extent(c) == 0)
    return;
  do {
    double sum = 0, magnitude = 0;
    Ints left = index, right = index;
    for (int64_t k = 0; k < k_count; ++k) {
      left[rank - 1] = k;
      right[rank - 2] = k;
      double product =
          static_cast<double>(at(a, before.values[0], left)) * at(b, before.values[1], right);
      sum += product;
      magnitude += std::abs(product);
    }
    size_t operand = 2;
    if (bias)
      sum += at(call.operands[operand], before.values[operand], index), ++operand;
    for (const std::string &op : post_ops) {
      if (op == "relu") {
        sum = std::max(sum, 0.0);
        continue;
      }
      double other = at(call.operands[operand], before.values[operand], index);
      ++operand;
      sum = op == "add"   ? sum + other
            : op == "sub" ? sum - other
            : op == "mul" ? sum * other
            : op == "max" ? std::max(sum, other)
                          : std::min(sum, other);
    }
    int64_t position = 0;
    for (size_t i = 0; i < rank; ++i)
      position += index[i] * c.strides[i];
    ASSERT_NEAR(after.values.back()[position], sum, (magnitude + 3) * (k_count + 4) * 6e-8)
        << absl::StrJoin(index, ",");
  } while (next(index, c.dims));
}

void check(const TensorRef &a, const TensorRef &b, const TensorRef &c,
           std::string_view not_on = "ref:any") {
  LibraryCall call = call_of({a, b, c});
  for (int threads : {1, 2}) {
    Data before(call), after(call);
    absl::Status status = after.run(call, threads);
    ASSERT_TRUE(status.ok()) << status;
    expect_product(call, a, b, c, before, after);
    EXPECT_NE(*matmul_implementation(call, threads), not_on)
        << absl::StrJoin(a.dims, ",") << " strides " << absl::StrJoin(a.strides, ",") << " x "
        << absl::StrJoin(b.dims, ",") << " strides " << absl::StrJoin(b.strides, ",")
        << " c strides " << absl::StrJoin(c.strides, ",");
  }
}

const Ints kSwap2 = {1, 0}, kSwap3 = {0, 2, 1}, kSplit = {0, 2, 1, 3}, kSplitSwap = {0, 2, 3, 1};

TEST(Matmul, TransposedSides) {
  for (auto [m, n, k] : {std::tuple<int, int, int>{5, 7, 3},
                         {1, 9, 4},
                         {6, 1, 8},
                         {1, 1, 1},
                         {33, 65, 17},
                         {128, 64, 1}}) {
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (bool tc : {false, true})
          check(ta ? permuted({k, m}, kSwap2) : tensor({m, k}),
                tb ? permuted({n, k}, kSwap2) : tensor({k, n}),
                tc ? permuted({n, m}, kSwap2) : tensor({m, n}));
  }
}

TEST(Matmul, BatchesAndHeadSplitViews) {
  TensorRef q = permuted({2, 16, 3, 8}, kSplit), kt = permuted({2, 16, 3, 8}, kSplitSwap);
  check(q, kt, tensor({2, 3, 16, 16}));
  check(tensor({2, 3, 16, 8}), kt, tensor({2, 3, 16, 16}));
  check(tensor({2, 3, 16, 16}), q, tensor({2, 3, 16, 8}));
  check(tensor({2, 3, 16, 16}), q, permuted({2, 16, 3, 8}, kSplit));
  check(permuted({2, 3, 16, 16}, {0, 1, 3, 2}), q, permuted({2, 16, 3, 8}, kSplit));
  check(tensor({6, 5, 4}), permuted({6, 7, 4}, kSwap3), tensor({6, 5, 7}));
  check(tensor({2, 3, 5, 4}), tensor({2, 3, 4, 7}), permuted({2, 3, 7, 5}, {0, 1, 3, 2}));
  // Slices of one [batch, time, 3, heads, dim].
  TensorRef slice{0, 0, DType::kFloat32, {2, 3, 16, 8}, {16 * 72, 8, 72, 1}};
  TensorRef slice_t{0, 0, DType::kFloat32, {2, 3, 8, 16}, {16 * 72, 8, 1, 72}};
  check(slice, slice_t, tensor({2, 3, 16, 16}));
}

TEST(Matmul, BatchesBroadcast) {
  check(tensor({4, 5, 6}), tensor({6, 7}), tensor({4, 5, 7}));
  check(tensor({4, 5, 6}), tensor({1, 6, 7}), tensor({4, 5, 7}));
  check(tensor({5, 6}), tensor({4, 6, 7}), tensor({4, 5, 7}));
  check(tensor({2, 1, 5, 6}), tensor({3, 6, 7}), tensor({2, 3, 5, 7}));
  check(tensor({2, 3, 5, 6}), tensor({2, 1, 6, 7}), tensor({2, 3, 5, 7}));
  check(tensor({1, 3, 5, 6}), tensor({2, 1, 6, 7}), tensor({2, 3, 5, 7}));
  TensorRef repeated{0, 0, DType::kFloat32, {4, 6, 7}, {0, 7, 1}};
  check(tensor({4, 5, 6}), repeated, tensor({4, 5, 7}));
  check(tensor({2, 3, 2, 2, 3, 4}), tensor({2, 3, 2, 2, 4, 5}), tensor({2, 3, 2, 2, 3, 5}));
}

TEST(Matmul, RandomProblemsAgreeWithTheDefinition) {
  std::mt19937 random(7);
  auto pick = [&](int n) {
    return static_cast<int64_t>(random() % static_cast<unsigned>(n));
  };
  for (int round = 0; round < 150; ++round) {
    size_t rank = 2 + static_cast<size_t>(pick(3));
    Ints batch;
    for (size_t i = 0; i + 2 < rank; ++i)
      batch.push_back(1 + pick(3));
    int64_t m = 1 + pick(9), n = 1 + pick(9), k = 1 + pick(9);
    auto random_tensor = [&](int64_t rows, int64_t columns, bool broadcasts) {
      Ints dims;
      for (int64_t dim : batch)
        dims.push_back(broadcasts && pick(3) == 0 ? 1 : dim);
      dims.push_back(rows);
      dims.push_back(columns);
      // Memory holds the dims in some order.
      Ints order(rank), memory(rank);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      for (size_t i = 0; i < rank; ++i)
        memory[order[i]] = dims[i];
      return permuted(memory, order);
    };
    TensorRef a = random_tensor(m, k, true), b = random_tensor(k, n, true);
    for (size_t i = 0; i < batch.size(); ++i)
      batch[i] = std::max(a.dims[i], b.dims[i]);
    check(a, b, random_tensor(m, n, false), "any implementation will do");
  }
}

TEST(Matmul, ConfigPermutesAndTransposes) {
  // lhs [2,16,3,8] read as [2,3,16,8]; rhs the same, transposed; out [2,3,16,16] written as
  // [2,16,3,16].
  LibraryCall call = call_of({tensor({2, 16, 3, 8}), tensor({2, 16, 3, 8}), tensor({2, 16, 3, 16})},
                             {{"lhs_permutation", kSplit},
                              {"rhs_permutation", kSplit},
                              {"out_permutation", kSplit},
                              {"transpose_rhs", int64_t{1}}});
  Data before(call), after(call);
  absl::Status status = after.run(call, 2);
  ASSERT_TRUE(status.ok()) << status;
  expect_product(call, permuted({2, 16, 3, 8}, kSplit), permuted({2, 16, 3, 8}, kSplitSwap),
                 permuted({2, 16, 3, 16}, kSplit), before, after);
  // A permutation that is not its own inverse: out[i] = c[p[i]].
  call = call_of({tensor({2, 4, 3}), tensor({2, 3, 5}), tensor({5, 2, 4})},
                 {{"out_permutation", Ints{2, 0, 1}}});
  Data before3(call), after3(call);
  ASSERT_TRUE(after3.run(call, 1).ok());
  TensorRef c{0, 0, DType::kFloat32, {2, 4, 5}, {4, 1, 8}};
  expect_product(call, call.operands[0], call.operands[1], c, before3, after3);
}

TEST(Matmul, BiasAndPostOps) {
  struct Case {
    std::vector<TensorRef> operands;
    bool bias;
    std::vector<std::string> post_ops;
  };
  TensorRef a = tensor({4, 5, 6}), b = tensor({6, 7}), c = tensor({4, 5, 7});
  for (const Case &test : std::vector<Case>{
           {{a, b, tensor({7}), c}, true, {}},
           {{a, b, tensor({5, 7}), c}, true, {}},
           {{a, b, tensor({5, 1}), c}, true, {}},
           {{a, b, tensor({4, 5, 7}), c}, false, {"add"}},
           {{a, b, tensor({7}), tensor({4, 5, 7}), c}, true, {"add"}},
           {{a, b, tensor({7}), tensor({4, 5, 7}), tensor({1}), c}, true, {"relu", "mul", "sub"}},
           {{a, b, tensor({1, 1, 7}), tensor({4, 1, 1}), c}, false, {"max", "min"}},
           {{a, b, tensor({7}), permuted({4, 7, 5}, kSwap3)}, true, {"relu"}},
           {{a, tensor({4, 6, 7}), tensor({7}), permuted({4, 7, 5}, kSwap3)}, true, {}},
           {{tensor({5, 6}), b, tensor({7}), permuted({7, 5}, kSwap2)}, true, {}},
           {{tensor({5, 6}), b, tensor({7}), tensor({7}), permuted({7, 5}, kSwap2)},
            true,
            {"mul", "relu"}}}) {
    LibraryCall call = call_of(test.operands, {{"bias", int64_t{test.bias}},
                                               {"post_ops", absl::StrJoin(test.post_ops, ",")}});
    Data before(call), after(call);
    absl::Status status = after.run(call, 2);
    ASSERT_TRUE(status.ok()) << status;
    expect_product(call, test.operands[0], test.operands[1], test.operands.back(), before, after,
                   test.bias, test.post_ops);
    EXPECT_NE(*matmul_implementation(call, 2), "ref:any") << absl::StrJoin(test.post_ops, ",");
  }
}

TEST(Matmul, EmptyProblems) {
  for (auto [m, n, k] : {std::tuple<int, int, int>{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {0, 0, 0}}) {
    LibraryCall call = call_of({tensor({2, m, k}), tensor({2, k, n}), tensor({2, m, n})});
    Data data(call);
    ASSERT_TRUE(data.run(call, 2).ok());
    for (float value : data.values.back())
      EXPECT_EQ(value, 0);
    EXPECT_EQ(*matmul_implementation(call, 1), "none");
  }
}

TEST(Matmul, NanAndInfinityPropagate) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  for (int64_t size : {3, 33, 64}) {
    LibraryCall call =
        call_of({tensor({size, size}), tensor({size, size}), tensor({size}), tensor({size, size})},
                {{"bias", int64_t{1}}});
    Data data(call);
    data.values[0][1] = nan;        // row 0
    data.values[0][size + 1] = inf; // row 1
    data.values[1][2 * size] = 0;
    for (float &value : data.values[1])
      value = std::abs(value) + 1;
    data.values[1][size + 2] = 0; // inf * 0
    data.values[2][0] = nan;      // bias of column 0
    ASSERT_TRUE(data.run(call, 2).ok());
    for (int64_t column = 0; column < size; ++column)
      EXPECT_TRUE(std::isnan(data.values[3][column]));
    EXPECT_TRUE(std::isinf(data.values[3][size + 1]));
    EXPECT_TRUE(std::isnan(data.values[3][size + 2]));
    for (int64_t row = 0; row < size; ++row)
      EXPECT_TRUE(std::isnan(data.values[3][row * size]));
  }
}

// bf16 factors: the f32 product of the same numbers, where the library has instructions for it,
// where it has none, and on copies.
TEST(Matmul, NarrowFactorsGiveTheirProduct) {
  auto narrowed = [](const std::vector<float> &values) {
    std::vector<uint16_t> bits;
    for (float value : values)
      bits.push_back(float_to_bfloat16(value));
    return bits;
  };
  struct Case {
    TensorRef a, b, bias;
    runtime::Config config;
  };
  const Case cases[] = {
      {tensor({64, 96}), tensor({96, 80}), {}, {}},
      {tensor({64, 96}),
       tensor({80, 96}),
       tensor({80}),
       {{"bias", int64_t{1}}, {"transpose_rhs", int64_t{1}}}},
      {tensor({3000, 40}), tensor({3000, 24}), {}, {{"transpose_lhs", int64_t{1}}}},
      {tensor({3, 16, 32}), tensor({3, 32, 8}), {}, {}},
  };
  for (const Case &each : cases)
    for (DType out_dtype : {DType::kFloat32, DType::kBFloat16}) {
      bool lhs = runtime::find_config(each.config, "transpose_lhs") != nullptr,
           rhs = runtime::find_config(each.config, "transpose_rhs") != nullptr;
      Ints dims = each.a.dims;
      dims[dims.size() - 2] = each.a.dims.end()[lhs ? -1 : -2];
      dims.back() = each.b.dims.end()[rhs ? -2 : -1];
      std::vector<TensorRef> operands = {each.a, each.b};
      if (!each.bias.dims.empty())
        operands.push_back(each.bias);
      operands.push_back(tensor(dims));
      LibraryCall wide = call_of(operands, each.config), narrow = wide;
      Data data(wide);
      std::vector<std::vector<uint16_t>> bits;
      for (int i : {0, 1}) {
        bits.push_back(narrowed(data.values[i]));
        for (size_t k = 0; k < bits[i].size(); ++k)
          data.values[i][k] = bfloat16_to_float(bits[i][k]);
        narrow.operands[i].dtype = DType::kBFloat16;
      }
      ASSERT_TRUE(data.run(wide, 1).ok());
      narrow.operands.back().dtype = out_dtype;
      const size_t count = data.values.back().size();
      auto run = [&](bool widened, int threads) {
        auto state = widened ? init_widened(narrow, matmul_entry(), threads)
                             : matmul_entry().init(narrow, threads);
        EXPECT_TRUE(state.ok()) << state.status();
        std::vector<char> out(count * 4);
        std::vector<void *> pointers = {bits[0].data(), bits[1].data()};
        if (!each.bias.dims.empty())
          pointers.push_back(data.values[2].data());
        pointers.push_back(out.data());
        std::vector<char> scratch((*state)->scratch_bytes() + 64);
        char *aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
        EXPECT_TRUE((*state)->run(pointers, aligned).ok());
        std::vector<float> result(count);
        for (size_t i = 0; i < count; ++i)
          result[i] = out_dtype == DType::kFloat32
                          ? reinterpret_cast<float *>(out.data())[i]
                          : bfloat16_to_float(reinterpret_cast<uint16_t *>(out.data())[i]);
        return result;
      };
      double unit = out_dtype == DType::kFloat32 ? 1e-5 : 0x1p-8;
      for (bool widened : {false, true}) {
        std::vector<float> actual = run(widened, 1);
        for (size_t i = 0; i < count; ++i)
          ASSERT_NEAR(actual[i], data.values.back()[i],
                      unit * std::abs(data.values.back()[i]) + 1e-5 * each.a.dims.back() + 1e-4)
              << i;
        EXPECT_EQ(run(widened, 2), actual) << "two threads give other bits than one";
        EXPECT_EQ(run(widened, 5), actual) << "five threads give other bits than one";
      }
    }
}

TEST(Matmul, BadCallsAreNamed) {
  auto message = [](LibraryCall call) {
    return std::string(matmul_entry().init(call, 1).status().message());
  };
  TensorRef wrong = tensor({3, 4});
  wrong.dtype = DType::kFloat64;
  EXPECT_EQ(
      message(call_of({wrong, tensor({4, 5}), tensor({3, 5})})),
      "operand 0 is float64; lhs and rhs are both float32 or bfloat16, beside bfloat16 ones out "
      "may be, too, and all others are float32");
  EXPECT_EQ(message(call_of({tensor({3, 4}), tensor({5, 6}), tensor({3, 6})})),
            "shapes do not fit: [3, 4] with strides [4, 1] x [5, 6] with strides [6, 1] -> [3, 6] "
            "with strides [6, 1]");
  EXPECT_EQ(message(call_of({tensor({3, 4}), tensor({4, 5}), tensor({3, 5})},
                            {{"post_ops", std::string("gelu")}})),
            "no post-op 'gelu'");
  EXPECT_EQ(
      message(call_of({tensor({3, 4}), tensor({4, 5}), tensor({3, 5})}, {{"bias", int64_t{1}}})),
      "bias and post_ops take 1 operands beside lhs, rhs and out; there are 0");
  EXPECT_EQ(message(call_of({tensor({3, 4}), tensor({4, 5}), tensor({3, 5})},
                            {{"lhs_permutation", Ints{0, 0}}})),
            "config key 'lhs_permutation' is not a permutation of 2 dims");
  EXPECT_NE(message(call_of({tensor({3, 4}), tensor({4, 5}), tensor({4}), tensor({3, 5})},
                            {{"bias", int64_t{1}}}))
                .find("does not broadcast"),
            std::string::npos);
  // Sizes that the library would divide by zero for.
  constexpr int64_t kFar = int64_t(1) << 33;
  EXPECT_NE(message(call_of({tensor({4, 4}), tensor({4, kFar}), tensor({4, kFar})}))
                .find("oneDNN takes dims of at most 1073741824, not 8589934592"),
            std::string::npos);
}

TEST(Matmul, ScratchComesFromTheProgramsAllocator) {
  // Transposed sides are repacked into scratch.
  LibraryCall call =
      call_of({permuted({512, 64}, kSwap2), permuted({96, 512}, kSwap2), tensor({64, 96})});
  Ints bytes = {512 * 64 * 4, 96 * 512 * 4, 64 * 96 * 4};
  for (int32_t i = 0; i < 3; ++i)
    call.operands[static_cast<size_t>(i)].buffer = i;
  runtime::Program program;
  program.inputs = {{"a", DType::kFloat32, {512, 64}, bytes[0], false, false},
                    {"b", DType::kFloat32, {96, 512}, bytes[1], false, false}};
  program.outputs = {{"c", DType::kFloat32, {64, 96}, bytes[2], -1, -1, -1}};
  program.buffers = {{runtime::BufferKind::kInput, 0, 0, bytes[0]},
                     {runtime::BufferKind::kInput, 1, 0, bytes[1]},
                     {runtime::BufferKind::kOutput, 0, 0, bytes[2]}};
  program.instructions = {call};
  auto allocator =
      std::make_shared<runtime::TracingAllocator>(std::make_shared<runtime::SystemAllocator>());
  auto memory = runtime::Memory::create(allocator);
  runtime::RunContext context{memory, 2};
  auto executable =
      runtime::ProgramExecutable::create(program, nullptr, find_library_entry, memory).value();
  auto resources = executable->acquire(context).value();
  int64_t scratch = matmul_entry().init(call, 2).value()->scratch_bytes();
  EXPECT_GE(allocator->stats().live_bytes, scratch);
  EXPECT_LT(allocator->stats().live_bytes, scratch + 64);
  Data before(call), after(call);
  std::vector<std::shared_ptr<runtime::Buffer>> buffers;
  for (size_t i = 0; i < 3; ++i)
    buffers.push_back(runtime::Buffer::borrow(after.values[i].data(), bytes[i], nullptr));
  runtime::Buffer *inputs[] = {buffers[0].get(), buffers[1].get()};
  runtime::Buffer *outputs[] = {buffers[2].get()};
  ASSERT_TRUE(executable->run(context, *resources, inputs, outputs).ok());
  expect_product(call, call.operands[0], call.operands[1], call.operands[2], before, after);
}

TEST(LibraryRegistry, FindsEntriesByName) {
  EXPECT_EQ(find_library_entry("onednn.matmul"), &matmul_entry());
  EXPECT_EQ(find_library_entry("onednn.pack"), &pack_entry());
  EXPECT_EQ(find_library_entry("onednn.nothing"), nullptr);
}

// Bit for bit what the plain call gives, for the shapes in which blocks are cut, bias and
// transposes included.
TEST(MatmulEntry, APackedMatrixGivesTheSameBits) {
  struct Case {
    int64_t m, k, n;
    bool transposed, bias;
  };
  int packed_calls = 0;
  for (const Case &test : {Case{1, 256, 256, false, false}, Case{1, 256, 256, true, true},
                           Case{3, 1000, 130, true, false}, Case{7, 129, 300, false, true},
                           Case{64, 513, 257, true, true}, Case{17, 96, 100, true, false}}) {
    TensorRef a = tensor({test.m, test.k}),
              b = test.transposed ? tensor({test.n, test.k}) : tensor({test.k, test.n});
    std::vector<TensorRef> operands = {a, b};
    if (test.bias)
      operands.push_back(tensor({test.n}));
    operands.push_back(tensor({test.m, test.n}));
    runtime::Config config;
    if (test.bias)
      config.emplace_back("bias", int64_t{1});
    if (test.transposed)
      config.emplace_back("transpose_rhs", int64_t{1});
    LibraryCall call = call_of(operands, config);
    std::vector<bool> stable(operands.size());
    EXPECT_EQ(*matmul_entry().init_packed(call, stable, 1), nullptr) << "nothing is stable";
    stable[0] = true;
    EXPECT_EQ(*matmul_entry().init_packed(call, stable, 1), nullptr)
        << "the left side is not packed";
    stable[1] = true;
    for (int threads : {1, 2}) {
      Data plain(call), packed(call);
      ASSERT_TRUE(plain.run(call, threads).ok());
      auto state = matmul_entry().init_packed(call, stable, threads);
      ASSERT_TRUE(state.ok()) << state.status();
      // Only the library's implementations for AVX-512 have packed forms, and ours.
      std::string implementation = matmul_implementation(call, threads).value();
      ASSERT_EQ(*state != nullptr, onednn_packs() || implementation == kTiledMatmul)
          << implementation;
      if (!*state)
        continue;
      ++packed_calls;
      EXPECT_EQ((*state)->operand(), 1);
      auto aligned = [](std::vector<char> &memory) {
        return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
      };
      std::vector<char> form(static_cast<size_t>((*state)->packed_bytes() + 64)),
          scratch(static_cast<size_t>((*state)->scratch_bytes() + 64));
      ASSERT_TRUE((*state)->pack(packed.values[1].data(), aligned(form)).ok());
      std::vector<void *> pointers;
      for (std::vector<float> &value : packed.values)
        pointers.push_back(value.data());
      pointers[1] = aligned(form);
      ASSERT_TRUE((*state)->run(pointers, aligned(scratch)).ok());
      EXPECT_EQ(packed.values.back(), plain.values.back())
          << test.m << " " << test.k << " " << test.n << " on " << threads;
    }
  }
  EXPECT_EQ(packed_calls, onednn_packs() ? 12 : prefers_product_tiles() ? 2 : 0);
}

std::unique_ptr<runtime::LibraryCallState> init(const runtime::LibraryEntry &entry,
                                                const LibraryCall &call, int threads) {
  auto state = entry.init(call, threads);
  EXPECT_TRUE(state.ok()) << state.status();
  return state.ok() ? *std::move(state) : nullptr;
}

// A matrix that one call packs for many products: the same bits as from the plain one, whether the
// library has a form for it (the first rows, on AVX-512) or the copy is a plain one (the last rows:
// small, many rows, padding). Never more memory than the plain one takes.
TEST(PackEntry, ProductsThatShareAPackedMatrixGiveTheSameBits) {
  struct Case {
    int64_t m, k, n;
    bool transposed, bias, term;
  };
  for (const Case &test :
       {Case{16, 128, 512, true, false, true}, Case{16, 512, 128, false, false, false},
        Case{1, 256, 256, false, true, false}, Case{3, 1024, 128, true, true, true},
        Case{64, 512, 64, false, false, true}, Case{16, 64, 64, false, false, false},
        Case{65, 256, 256, true, false, false}, Case{7, 129, 300, false, true, false}}) {
    TensorRef a = tensor({test.m, test.k}),
              b = test.transposed ? tensor({test.n, test.k}) : tensor({test.k, test.n});
    std::vector<TensorRef> operands = {a, b};
    if (test.bias)
      operands.push_back(tensor({test.n}));
    if (test.term)
      operands.push_back(tensor({test.m, test.n}));
    operands.push_back(tensor({test.m, test.n}));
    runtime::Config config;
    if (test.bias)
      config.emplace_back("bias", int64_t{1});
    if (test.term)
      config.emplace_back("post_ops", std::string("add"));
    if (test.transposed)
      config.emplace_back("transpose_rhs", int64_t{1});
    LibraryCall plain_call = call_of(operands, config), packed_call = plain_call;
    packed_call.config.emplace_back("packed_rhs", int64_t{1});
    LibraryCall pack_call = call_of({b, b}, config);
    pack_call.config.emplace_back("lhs", Ints{test.m, test.k});
    pack_call.config.emplace_back("out", Ints{test.m, test.n});
    for (int threads : {1, 2}) {
      Data plain(plain_call), packed(plain_call);
      ASSERT_TRUE(plain.run(plain_call, threads).ok());
      auto pack = init(pack_entry(), pack_call, threads),
           product = init(matmul_entry(), packed_call, threads);
      ASSERT_TRUE(pack && product);
      auto aligned = [](std::vector<char> &memory) {
        return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
      };
      constexpr char kGuard = 0x5a;
      size_t bytes = static_cast<size_t>(test.k * test.n) * sizeof(float);
      std::vector<char> form(bytes + 128, kGuard),
          scratch(static_cast<size_t>(product->scratch_bytes() + 64));
      EXPECT_EQ(pack->scratch_bytes(), 0);
      void *pack_operands[] = {packed.values[1].data(), aligned(form)};
      ASSERT_TRUE(pack->run(pack_operands, nullptr).ok());
      EXPECT_TRUE(std::all_of(aligned(form) + bytes, form.data() + form.size(),
                              [](char c) { return c == kGuard; }));
      std::vector<void *> pointers;
      for (std::vector<float> &value : packed.values)
        pointers.push_back(value.data());
      pointers[1] = aligned(form);
      ASSERT_TRUE(product->run(pointers, aligned(scratch)).ok());
      EXPECT_EQ(packed.values.back(), plain.values.back())
          << test.m << " " << test.k << " " << test.n << " on " << threads;
    }
    EXPECT_EQ(*matmul_entry().init_packed(packed_call, std::vector<bool>(operands.size(), true), 1),
              nullptr)
        << "it is packed already";
  }
  auto form = matmul_with_packed_rhs(
      call_of({tensor({16, 128}), tensor({128, 512}), tensor({16, 512})}), 1);
  ASSERT_TRUE(form.ok());
  EXPECT_EQ(*form != nullptr, onednn_packs());
  EXPECT_EQ(*matmul_with_packed_rhs(
                call_of({tensor({16, 129}), tensor({129, 500}), tensor({16, 500})}), 1),
            nullptr)
      << "padding";
}

TEST(PackEntry, ErrorsSayWhatDoesNotFit) {
  auto message = [](const LibraryCall &call) {
    return std::string(pack_entry().init(call, 1).status().message());
  };
  TensorRef b = tensor({128, 512});
  EXPECT_EQ(message(call_of({b, b})), "config key 'lhs' is missing");
  EXPECT_EQ(message(call_of({b, b}, {{"lhs", Ints{16}}, {"out", Ints{16, 512}}})),
            "config keys 'lhs' and 'out' are the dims of matrices");
  EXPECT_EQ(message(call_of({b, tensor({512, 128})})),
            "rhs and out must be row-major, with the same dims and dtype");
  EXPECT_EQ(message(call_of({b, b, b})), "there are 3 operands; there must be rhs and out");
  EXPECT_NE(message(call_of({b, b}, {{"lhs", Ints{16, 99}}, {"out", Ints{16, 512}}}))
                .find("shapes do not fit"),
            std::string::npos);
}

// A term that the call adds is one rounding after the product, as in a kernel of its own.
TEST(MatmulEntry, ATermGivesTheBitsOfASumAfterTheProduct) {
  for (auto [m, k, n] : {std::array<int64_t, 3>{16, 128, 512}, std::array<int64_t, 3>{1, 1000, 70},
                         std::array<int64_t, 3>{33, 2048, 48}}) {
    LibraryCall bare = call_of({tensor({m, k}), tensor({k, n}), tensor({m, n})});
    LibraryCall both = call_of({tensor({m, k}), tensor({k, n}), tensor({m, n}), tensor({m, n})},
                               {{"post_ops", std::string("add")}});
    for (int threads : {1, 2}) {
      Data sum(both), product(bare);
      product.values[0] = sum.values[0];
      product.values[1] = sum.values[1];
      ASSERT_TRUE(product.run(bare, threads).ok());
      ASSERT_TRUE(sum.run(both, threads).ok());
      std::vector<float> expected = product.values.back();
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] += sum.values[2][i];
      EXPECT_EQ(sum.values.back(), expected) << m << " " << k << " " << n << " on " << threads;
    }
  }
}

TEST(MatmulEntry, WhatDoesNotPayIsNotPacked) {
  auto packed = [](int64_t m, int64_t k, int64_t n) {
    return *matmul_entry().init_packed(call_of({tensor({m, k}), tensor({k, n}), tensor({m, n})}),
                                       {true, true, false}, 1) != nullptr;
  };
  EXPECT_EQ(packed(64, 256, 256), onednn_packs() || prefers_product_tiles());
  EXPECT_EQ(packed(65, 256, 256), prefers_product_tiles()) << "many rows";
  EXPECT_FALSE(packed(257, 256, 256)) << "many rows";
  EXPECT_FALSE(packed(1, 64, 64)) << "a small matrix";
  EXPECT_FALSE(packed(1, 1024, 10)) << "most of the packed form would be padding";
  // One matrix for each of a batch.
  LibraryCall batch = call_of({tensor({4, 2, 128}), tensor({4, 128, 128}), tensor({4, 2, 128})});
  EXPECT_EQ(*matmul_entry().init_packed(batch, {true, true, false}, 1), nullptr);
}

// Large enough to be computed in parts, of rows, columns, a batch dim or terms, with all that
// follows a sum.
TEST(Matmul, WhatFollowsASumInParts) {
  struct Case {
    TensorRef a, b, c, bias, factor, term;
  };
  TensorRef one_a_row = tensor({260, 1}), one_a_column = tensor({130});
  const Case cases[] = {
      {tensor({260, 70}), tensor({70, 130}), tensor({260, 130}), one_a_column, one_a_row,
       tensor({260, 130})},
      {tensor({40, 70}), tensor({70, 430}), tensor({40, 430}), tensor({430}), tensor({430}),
       tensor({40, 430})},
      {tensor({6, 40, 70}), tensor({6, 70, 50}), tensor({6, 40, 50}), tensor({50}),
       tensor({6, 1, 1}), tensor({6, 40, 50})},
      {permuted({4100, 24}, kSwap2), tensor({4100, 20}), tensor({24, 20}), tensor({20}),
       tensor({24, 1}), tensor({24, 20})},
      {permuted({4100, 24}, kSwap2), tensor({4100, 20}), permuted({20, 24}, kSwap2), tensor({20}),
       tensor({24, 1}), tensor({24, 20})},
  };
  for (const Case &test : cases) {
    LibraryCall call = call_of({test.a, test.b, test.bias, test.factor, test.term, test.c},
                               {{"bias", int64_t{1}}, {"post_ops", std::string("mul,add,relu")}});
    Data before(call), one(call);
    ASSERT_TRUE(one.run(call, 1).ok());
    expect_product(call, test.a, test.b, test.c, before, one, true, {"mul", "add", "relu"});
    for (int threads : {2, 5}) {
      Data several(call);
      ASSERT_TRUE(several.run(call, threads).ok());
      EXPECT_EQ(several.values.back(), one.values.back()) << threads << " threads";
    }
  }
}

// Sums are the same ones however many threads share the work: few results of many terms, rows and
// columns that are no multiple of a vector, batches, operands read transposed, and slices, which
// the library takes to another implementation.
TEST(Matmul, BitsDoNotDependOnTheNumberOfThreads) {
  std::vector<LibraryCall> calls;
  for (auto [m, k, n] : std::vector<std::array<int64_t, 3>>{{16, 8192, 16},
                                                            {64, 4096, 48},
                                                            {33, 700, 129},
                                                            {1, 2048, 3000},
                                                            {3000, 2048, 1},
                                                            {7, 1024, 1000},
                                                            {1000, 1024, 7},
                                                            {300, 300, 300},
                                                            {2048, 128, 17},
                                                            {129, 33, 1027},
                                                            {32, 2047, 24},
                                                            {48, 2048, 128},
                                                            {512, 4096, 64}}) {
    calls.push_back(call_of({tensor({m, k}), tensor({k, n}), tensor({m, n})}));
    calls.push_back(call_of({permuted({k, m}, {1, 0}), tensor({k, n}), tensor({m, n})}));
    calls.push_back(call_of({tensor({m, k}), permuted({n, k}, {1, 0}), tensor({m, n})}));
  }
  calls.push_back(call_of({tensor({5, 60, 70}), tensor({5, 70, 90}), tensor({5, 60, 90})}));
  TensorRef q = tensor({6, 4, 64, 32}), k = q;
  q.strides = k.strides = {64 * 3 * 4 * 32, 32, 3 * 4 * 32, 1};
  calls.push_back(call_of({q, k, tensor({6, 4, 64, 64})}, {{"transpose_rhs", int64_t{1}}}));
  for (const LibraryCall &call : calls) {
    Data one(call);
    ASSERT_TRUE(one.run(call, 1).ok());
    for (int threads : {2, 3, 8}) {
      Data several(call);
      ASSERT_TRUE(several.run(call, threads).ok());
      EXPECT_TRUE(several.values.back() == one.values.back())
          << absl::StrJoin(call.operands[0].dims, " ") << " by "
          << absl::StrJoin(call.operands[1].dims, " ") << " (strides "
          << absl::StrJoin(call.operands[0].strides, " ") << ", "
          << absl::StrJoin(call.operands[1].strides, " ") << ") on " << threads
          << " threads: " << matmul_implementation(call, threads).value();
    }
  }
}

// What updates in pieces rely on (compiler/plan/PlanPieces.cpp): a product of some rows gives these
// rows of the whole product, also where rows are columns in memory.
TEST(Matmul, SomeRowsHaveTheBitsOfAll) {
  for (auto [m, k, n] : std::vector<std::array<int64_t, 3>>{
           {960, 1, 96}, {960, 24, 250}, {640, 700, 129}, {640, 2047, 64}, {640, 2048, 1024}})
    for (bool transposed : {true, false})
      for (int64_t rows : {int64_t(64), int64_t(128), int64_t(320)}) {
        if (m % rows != 0)
          continue;
        LibraryCall whole = call_of({tensor({m, k}), tensor({k, n}), tensor({m, n})});
        LibraryCall piece = whole;
        piece.operands[0].dims[0] = piece.operands[2].dims[0] = rows;
        if (transposed) {
          TensorRef columns = tensor({k, rows});
          columns.strides[0] = m;
          whole.operands[0] = tensor({k, m});
          whole.config = {{"transpose_lhs", int64_t{1}}};
          piece.operands[0] = columns;
          piece.config = {{"dense_lhs", int64_t{1}}, {"transpose_lhs", int64_t{1}}};
        }
        // Of many terms and few columns gemm:jit adds up by the number of rows: the provider of
        // products leaves these whole.
        std::string implementation = matmul_implementation(whole, 1).value();
        if (k > 1024 && n < 128 && !implementation.starts_with("brg"))
          continue;
        for (int threads : {1, 2, 8}) {
          Data all(whole);
          ASSERT_TRUE(all.run(whole, threads).ok());
          auto state = matmul_entry().init(piece, threads);
          ASSERT_TRUE(state.ok()) << state.status();
          std::vector<float> pieces(static_cast<size_t>(m * n));
          std::vector<char> scratch((*state)->scratch_bytes() + 64);
          char *aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
          for (int64_t row = 0; row < m; row += rows) {
            std::array<void *, 3> operands = {all.values[0].data() + row * (transposed ? 1 : k),
                                              all.values[1].data(), pieces.data() + row * n};
            ASSERT_TRUE((*state)->run(operands, aligned).ok());
          }
          EXPECT_TRUE(pieces == all.values[2])
              << rows << " of " << m << " rows, " << k << " terms, " << n << " columns, " << threads
              << " threads: " << implementation;
        }
      }
}

} // namespace
} // namespace weft::backends::cpu
