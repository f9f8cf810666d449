// Matrix products by cuBLASLt, on the library that stands in for it: whole numbers, which are the
// same in every dtype and whatever the order of sums.
#include "backends/cuda/device/cublaslt_matmul.h"

#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "backends/cuda/device/cuda_executable.h"
#include "backends/cuda/device/recording_driver.h"
#include "backends/cuda/device/recording_elements.h"
#include "runtime/memory/buffer.h"
#include "gtest/gtest.h"

namespace weft::backends::cuda {
namespace {

using namespace runtime;

constexpr const char *kLibrary = "backends/cuda/device/libcuda.so.1";

template <typename Function> Function recorded(const char *name) {
  return reinterpret_cast<Function>(dlsym(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL), name));
}

std::string log() {
  return recorded<weft_recording_log_t>("weft_recording_log")();
}

std::string errors() {
  return recorded<weft_recording_errors_t>("weft_recording_errors")();
}

void fail(const char *function, int n, int error) {
  recorded<weft_recording_fail_t>("weft_recording_fail")(function, n, error);
}

struct Product {
  std::vector<int64_t> batch = {};
  bool one_rhs = false, transpose_lhs = false, transpose_rhs = false, bias = false, relu = false;
  DType dtype = DType::kFloat32, result = DType::kFloat32;
  int64_t m = 3, n = 5, k = 4;
  int64_t offset = 0, bias_offset = 0; // bytes before the elements of operands, and of the bias
};

std::string show(const Product &p) {
  return absl::StrCat(name(p.dtype), " to ", name(p.result), ", ", p.batch.size(), " dims of batch",
                      p.one_rhs ? ", one rhs" : "", p.transpose_lhs ? ", lhs transposed" : "",
                      p.transpose_rhs ? ", rhs transposed" : "", p.bias ? ", bias" : "",
                      p.relu ? ", relu" : "", ", offset ", p.offset, " and ", p.bias_offset);
}

// Element i of lhs, rhs and the bias.
constexpr int kCycle[] = {7, 5, 9}, kLess[] = {3, 1, 6};
double value(size_t operand, int64_t i) {
  return static_cast<double>(i % kCycle[operand]) - kLess[operand];
}

std::vector<double> expected(const Product &p) {
  int64_t products =
      std::accumulate(p.batch.begin(), p.batch.end(), int64_t{1}, std::multiplies<>());
  std::vector<double> result;
  for (int64_t g = 0; g < products; ++g)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = p.bias ? value(2, j) : 0;
        for (int64_t k = 0; k < p.k; ++k)
          sum += value(0, g * p.m * p.k + (p.transpose_lhs ? k * p.m + i : i * p.k + k)) *
                 value(1, (p.one_rhs ? 0 : g * p.k * p.n) +
                              (p.transpose_rhs ? j * p.k + k : k * p.n + j));
        result.push_back(p.relu ? std::max(sum, 0.0) : sum);
      }
  return result;
}

LibraryCall call_of(const Product &p) {
  LibraryCall call;
  call.entry = "cublaslt.matmul";
  auto flag = [&](const char *key, bool is) {
    if (is)
      call.config.emplace_back(key, int64_t{1});
  };
  flag("bias", p.bias);
  if (p.relu)
    call.config.emplace_back("post_ops", std::string("relu"));
  flag("transpose_lhs", p.transpose_lhs);
  flag("transpose_rhs", p.transpose_rhs);
  auto operand = [&](DType dtype, std::vector<int64_t> dims, int64_t offset) {
    TensorRef ref;
    ref.dtype = dtype;
    ref.buffer = static_cast<int32_t>(call.operands.size());
    ref.offset = offset;
    ref.strides.assign(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;)
      ref.strides[i - 1] = ref.strides[i] * dims[i];
    ref.dims = std::move(dims);
    call.operands.push_back(ref);
  };
  auto matrix = [](std::vector<int64_t> dims, int64_t rows, int64_t columns, bool transposed) {
    dims.push_back(transposed ? columns : rows);
    dims.push_back(transposed ? rows : columns);
    return dims;
  };
  operand(p.dtype, matrix(p.batch, p.m, p.k, p.transpose_lhs), p.offset);
  operand(p.dtype, matrix(p.one_rhs ? std::vector<int64_t>{} : p.batch, p.k, p.n, p.transpose_rhs),
          p.offset);
  if (p.bias)
    operand(p.result, {1, p.n}, p.bias_offset);
  call.inputs = static_cast<int32_t>(call.operands.size());
  operand(p.result, matrix(p.batch, p.m, p.n, false), p.offset);
  return call;
}

recording::Elements elements(DType dtype, unsigned char *bytes) {
  return {dtype == DType::kFloat32   ? recording::Number::kFloat32
          : dtype == DType::kFloat64 ? recording::Number::kFloat64
          : dtype == DType::kFloat16 ? recording::Number::kFloat16
                                     : recording::Number::kBFloat16,
          bytes};
}

int64_t count(const TensorRef &operand) {
  return std::accumulate(operand.dims.begin(), operand.dims.end(), int64_t{1}, std::multiplies<>());
}

class CublasLtMatmul : public testing::Test {
protected:
  void SetUp() override {
    fail("", 0, 0);
    recorded<weft_recording_reset_t>("weft_recording_reset")();
    absl::StatusOr<Driver> driver = open_driver(kLibrary);
    ASSERT_TRUE(driver.ok()) << driver.status();
    auto made = CudaDevice::create(*driver);
    ASSERT_TRUE(made.ok()) << made.status();
    device = *made;
    absl::StatusOr<CublasLt> library = open_cublaslt(kLibrary);
    ASSERT_TRUE(library.ok()) << library.status();
    entry = make_matmul_entry(device, *library);
  }
  void TearDown() override {
    device.reset();
    EXPECT_EQ(errors(), "");
  }

  // A program of that call alone.
  absl::StatusOr<std::shared_ptr<CudaExecutable>> make(const LibraryCall &call) {
    Program program;
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const TensorRef &operand = call.operands[i];
      int64_t width = byte_size(operand.dtype), bytes = operand.offset + count(operand) * width;
      bool is_input = i < static_cast<size_t>(call.inputs);
      program.buffers.push_back({is_input ? BufferKind::kInput : BufferKind::kOutput,
                                 is_input ? static_cast<int32_t>(i) : 0, 0, bytes});
      if (is_input)
        program.inputs.push_back({"", operand.dtype, {bytes / width}, bytes, false, false});
      else
        program.outputs.push_back({"", operand.dtype, {bytes / width}, bytes, -1, -1, -1});
    }
    program.instructions = {call};
    return CudaExecutable::create(program, {}, device,
                                  [&](std::string_view) { return entry.get(); });
  }

  // What was called for it.
  std::string multiply(const Product &product) {
    SCOPED_TRACE(show(product));
    recorded<weft_recording_reset_t>("weft_recording_reset")();
    LibraryCall call = call_of(product);
    auto executable = make(call);
    EXPECT_TRUE(executable.ok()) << executable.status();
    if (!executable.ok())
      return "";
    std::vector<std::vector<unsigned char>> memory;
    std::vector<std::shared_ptr<Buffer>> buffers;
    std::vector<Buffer *> inputs, outputs;
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const TensorRef &operand = call.operands[i];
      auto &bytes = memory.emplace_back(
          static_cast<size_t>(operand.offset + count(operand) * byte_size(operand.dtype)));
      bool is_input = i < static_cast<size_t>(call.inputs);
      for (int64_t j = 0; is_input && j < count(operand); ++j)
        elements(operand.dtype, bytes.data() + operand.offset).set(j, value(i, j));
      buffers.push_back(Buffer::borrow(bytes.data(), static_cast<int64_t>(bytes.size()), nullptr));
      (is_input ? inputs : outputs).push_back(buffers.back().get());
    }
    absl::Status status = (*executable)->acquire_and_run({}, inputs, outputs);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<double> wanted = expected(product), got;
    for (int64_t i = 0; i < std::ssize(wanted); ++i)
      got.push_back(elements(product.result, memory.back().data() + product.offset).get(i));
    EXPECT_EQ(got, wanted);
    EXPECT_EQ(errors(), "");
    return log();
  }

  std::shared_ptr<CudaDevice> device;
  std::unique_ptr<LibraryEntry> entry;
};

TEST_F(CublasLtMatmul, EveryForm) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16})
    for (DType result : {dtype, DType::kFloat32})
      for (Product product :
           {Product{},
            {.transpose_lhs = true},
            {.transpose_rhs = true},
            {.batch = {2, 3}, .transpose_rhs = true},
            {.batch = {2, 3}, .transpose_lhs = true},
            {.batch = {4}, .one_rhs = true},
            {.batch = {4}, .one_rhs = true, .transpose_lhs = true, .transpose_rhs = true}})
        for (int more = 0; more < (dtype == DType::kFloat64 && result != dtype ? 0 : 4); ++more) {
          product.dtype = dtype;
          product.result = result;
          product.bias = more % 2 != 0;
          product.relu = more / 2 != 0;
          std::string called = multiply(product);
          EXPECT_EQ(called.find(", bias") != std::string::npos, product.bias) << called;
          EXPECT_EQ(called.find(", relu") != std::string::npos, product.relu) << called;
          EXPECT_EQ(called.find(", added"), std::string::npos) << called;
        }
}

// The algorithm is chosen for what operands are aligned to (the recording library objects to
// others).
TEST_F(CublasLtMatmul, InsideOfBuffers) {
  for (int64_t offset : {0, 4, 16, 64})
    multiply({.m = 4, .n = 4, .k = 4, .offset = offset});
  for (int64_t offset : {16, 32, 64})
    EXPECT_NE(multiply({.bias = true, .bias_offset = offset}).find(", bias"), std::string::npos);
}

// Where the library does not add the bias, the product is added to it, whatever the number of rows.
TEST_F(CublasLtMatmul, ABiasAheadOfTheProduct) {
  constexpr const char *kAdded = "added";
  for (int64_t m : {1, 2, 3, 8, 9})
    EXPECT_NE(multiply({.batch = {2}, .bias = true, .m = m, .bias_offset = 8}).find(kAdded),
              std::string::npos);
  for (DType dtype : {DType::kFloat64, DType::kBFloat16})
    for (int error : {7, 15}) {
      fail("cublasLtMatmulAlgoGetHeuristic", 0, error);
      std::string called = multiply({.bias = true, .relu = true, .dtype = dtype, .result = dtype});
      EXPECT_NE(called.find(", relu, added"), std::string::npos) << called;
    }
  // Missing memory is no reason: it is tried again, once what the allocator keeps is freed.
  fail("cublasLtMatmulAlgoGetHeuristic", 0, 3);
  EXPECT_EQ(multiply({.bias = true}).find(kAdded), std::string::npos);
}

TEST_F(CublasLtMatmul, WithoutAnAlgorithm) {
  for (bool bias : {false, true}) {
    fail("cublasLtMatmulAlgoGetHeuristic", kWeftRecordingEvery, 15);
    EXPECT_EQ(make(call_of({.bias = bias})).status(),
              absl::UnimplementedError(
                  "cuBLASLt has no algorithm for this product; compile with --no-claim"));
  }
  // Without memory it is tried again, once what the allocator keeps is freed.
  fail("cublasLtMatmulAlgoGetHeuristic", 0, 3);
  EXPECT_EQ(make(call_of({})).status(), absl::OkStatus());
  fail("cublasLtMatmulAlgoGetHeuristic", 0, 7);
  EXPECT_EQ(make(call_of({})).status(),
            absl::InternalError("cuBLASLt: choosing an algorithm fails with status 7 "
                                "(invalid value)"));
  fail("", 0, 0);
}

TEST_F(CublasLtMatmul, SaysWhatIsWrong) {
  auto says = [&](const std::string &text, const std::function<void(LibraryCall &)> &change) {
    LibraryCall call = call_of({.bias = true});
    change(call);
    absl::Status status = entry->init(call, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos) << status;
  };
  says("takes lhs, rhs and out, and before out the bias where config has bias 1",
       [](LibraryCall &call) { call.config.clear(); });
  says("takes a bias of one number a column, in the result's dtype: lhs float32[3, 4], rhs "
       "float32[4, 5], bias float32[1, 4], out float32[3, 5]",
       [](LibraryCall &call) { call.operands[2].dims[1] = 4; });
  says("takes a bias of one number a column, in the result's dtype",
       [](LibraryCall &call) { call.operands[2].dtype = DType::kInt32; });
  says("takes contiguous operands", [](LibraryCall &call) { call.operands[2].strides[1] = 2; });
  says("config post_ops is 'gelu'; it must be relu, or not there",
       [](LibraryCall &call) { call.config.emplace_back("post_ops", std::string("gelu")); });
}

} // namespace
} // namespace weft::backends::cuda
