// Stands in for cuBLASLt, as far as it is used: column-major, factors of one type. Products are
// computed when the stream is waited for.
#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "backends/cuda/device/recording_elements.h"
#include "backends/cuda/device/recording_state.h"

namespace {

using namespace weft::backends::cuda::recording;

constexpr int kInvalid = 1;

struct Matrix {
  Number number = Number::kFloat32;
  uint64_t rows = 0, columns = 0;
  int64_t distance = 0, stride = 0;
  int32_t batch = 1;
};

// What A, B, C and D are promised to be aligned to.
struct Preference {
  std::array<uint32_t, 4> aligned{256, 256, 256, 256};
};

// cublasLtEpilogue_t, whose others are not used.
constexpr uint32_t kDefault = 1, kRelu = 2, kBias = 4;

struct Product {
  int32_t transpose_a = 0, transpose_b = 0;
  int scale = 0;
  uint32_t epilogue = kDefault;
  const void *bias = nullptr;
  bool adds_bias() const {
    return epilogue == kBias || epilogue == (kRelu | kBias);
  }
};

// What an algorithm was chosen for.
struct Algorithm {
  std::array<uint32_t, 4> aligned;
  uint32_t epilogue, bias_aligned;
};
static_assert(sizeof(Algorithm) <= 64, "cublasLtMatmulAlgo_t");

// The largest power of two that divides the address, of those that matter.
uint32_t alignment_of(const void *pointer) {
  uint32_t most = 256;
  while (reinterpret_cast<uint64_t>(pointer) % most != 0)
    most /= 2;
  return most;
}

// Of cudaDataType_t.
std::optional<Number> number_of(int type) {
  switch (type) {
  case 0:
    return Number::kFloat32;
  case 1:
    return Number::kFloat64;
  case 2:
    return Number::kFloat16;
  case 14:
    return Number::kBFloat16;
  default:
    return std::nullopt;
  }
}

} // namespace

extern "C" {

int cublasLtCreate(void **handle) {
  // Of the GPU whose context it is made in.
  *handle = new const void *(context_of_thread());
  return 0;
}
int cublasLtMatmulDescCreate(void **desc, int compute, int scale) {
  *desc = new Product{.scale = scale};
  return (compute == 68 && scale == 0) || (compute == 70 && scale == 1) ? 0 : kInvalid;
}
int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes) {
  auto *product = static_cast<Product *>(desc);
  if (bytes == 4 && (attribute == 3 || attribute == 4))
    std::memcpy(attribute == 3 ? &product->transpose_a : &product->transpose_b, value, 4);
  else if (attribute == 7 && bytes == 4)
    std::memcpy(&product->epilogue, value, 4);
  else if (attribute == 8 && bytes == 8)
    std::memcpy(&product->bias, value, 8);
  else
    return kInvalid;
  return 0;
}
int cublasLtMatmulDescDestroy(void *desc) {
  delete static_cast<Product *>(desc);
  return 0;
}
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t distance) {
  std::optional<Number> number = number_of(type);
  *layout = new Matrix{number.value_or(Number::kFloat32), rows, columns, distance, 0, 1};
  return number && distance >= static_cast<int64_t>(rows) ? 0 : kInvalid;
}
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes) {
  auto *matrix = static_cast<Matrix *>(layout);
  if (attribute == 5 && bytes == 4)
    std::memcpy(&matrix->batch, value, 4);
  else if (attribute == 6 && bytes == 8)
    std::memcpy(&matrix->stride, value, 8);
  else
    return kInvalid;
  return 0;
}
int cublasLtMatrixLayoutDestroy(void *layout) {
  delete static_cast<Matrix *>(layout);
  return 0;
}
int cublasLtMatmulPreferenceCreate(void **preference) {
  *preference = new Preference;
  return 0;
}
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                         size_t bytes) {
  if (attribute >= 5 && attribute <= 8 && bytes == 4) {
    std::memcpy(&static_cast<Preference *>(preference)->aligned[static_cast<size_t>(attribute - 5)],
                value, 4);
    return 0;
  }
  // The most of workspace; the ways in which partial results are added up.
  return (attribute == 1 && bytes == 8) || (attribute == 3 && bytes == 4) ? 0 : kInvalid;
}
int cublasLtMatmulPreferenceDestroy(void *preference) {
  delete static_cast<Preference *>(preference);
  return 0;
}
int cublasLtMatmulAlgoGetHeuristic(void *, void *desc, void *, void *, void *, void *,
                                   void *preference, int, void *results, int *returned) {
  std::lock_guard lock(mutex());
  *returned = 0;
  if (int error = failure_of("cublasLtMatmulAlgoGetHeuristic"))
    return error;
  // cublasLtMatmulHeuristicResult_t: 64 bytes of an algorithm, then the workspace that it asks for.
  // The algorithm relies on all that was promised.
  const Product &product = *static_cast<Product *>(desc);
  if ((product.epilogue != kDefault && product.epilogue != kRelu && !product.adds_bias()) ||
      (product.adds_bias() && product.bias == nullptr))
    return kInvalid;
  Algorithm algorithm{static_cast<Preference *>(preference)->aligned, product.epilogue,
                      alignment_of(product.bias)};
  std::memset(results, 0, 96);
  std::memcpy(results, &algorithm, sizeof(algorithm));
  size_t workspace = 1024;
  std::memcpy(static_cast<char *>(results) + 64, &workspace, sizeof(workspace));
  *returned = 1;
  return 0;
}
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const void *algorithm, void *workspace,
                   size_t workspace_bytes, void *stream) {
  std::lock_guard lock(mutex());
  if (int error = failure_of("cublasLtMatmul"))
    return error;
  if (*static_cast<const void **>(handle) != context_of_thread())
    object("a handle of cuBLASLt is used on another GPU than it was made on");
  const auto &chosen = *static_cast<const Algorithm *>(algorithm);
  const void *operands[] = {a, b, c, d};
  for (size_t i = 0; i < chosen.aligned.size(); ++i)
    if (reinterpret_cast<uint64_t>(operands[i]) % chosen.aligned[i] != 0)
      object("a matrix is aligned to less than its algorithm was chosen for");
  if (reinterpret_cast<uint64_t>(workspace) % 16 != 0)
    object("workspace of a product is not aligned to 16 bytes");
  Product product = *static_cast<Product *>(desc);
  if (product.epilogue != chosen.epilogue)
    object("an algorithm was chosen for another epilogue");
  if (product.adds_bias() && alignment_of(product.bias) < chosen.bias_aligned)
    object("a bias is aligned to less than its algorithm was chosen for");
  Matrix ma = *static_cast<Matrix *>(a_layout), mb = *static_cast<Matrix *>(b_layout),
         md = *static_cast<Matrix *>(d_layout);
  uint64_t m = product.transpose_a ? ma.columns : ma.rows,
           k = product.transpose_a ? ma.rows : ma.columns;
  uint64_t n = product.transpose_b ? mb.rows : mb.columns;
  if (m != md.rows || n != md.columns || k != (product.transpose_b ? mb.columns : mb.rows))
    return kInvalid;
  bool wide = product.scale == 1;
  bool fits =
      md.number == ma.number || (md.number == Number::kFloat32 && byte_size(ma.number) == 2);
  if (mb.number != ma.number || !fits || wide != (md.number == Number::kFloat64))
    return kInvalid;
  unsigned char *scales[] = {static_cast<unsigned char *>(const_cast<void *>(alpha)),
                             static_cast<unsigned char *>(const_cast<void *>(beta))};
  Number scale = wide ? Number::kFloat64 : Number::kFloat32;
  double times_c = Elements(scale, scales[1]).get(0);
  if (Elements(scale, scales[0]).get(0) != 1 || (times_c != 0 && times_c != 1))
    return kInvalid;
  if (c != d || c_layout != d_layout)
    object("a product is added to another matrix than it is written to");
  record("matmul " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
         ", batch " + std::to_string(md.batch) + (product.adds_bias() ? ", bias" : "") +
         (product.epilogue & kRelu ? ", relu" : "") + (times_c != 0 ? ", added" : ""));
  auto address = [](const void *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
  };
  put_on(stream, [=] {
    (void)find_bytes(address(workspace), workspace_bytes, "workspace");
    // Of the result's type, packed, and the same for all products (its stride is 0 unasked).
    Elements bias(md.number, nullptr);
    if (product.adds_bias()) {
      unsigned char *pb = find_bytes(address(product.bias),
                                     static_cast<uint64_t>(byte_size(md.number)) * md.rows, "bias");
      if (!pb)
        return;
      bias = Elements(md.number, pb);
    }
    for (int32_t batch = 0; batch < md.batch; ++batch) {
      auto matrix = [&](const void *pointer, const Matrix &of) {
        auto bytes = static_cast<uint64_t>(byte_size(of.number));
        return find_bytes(address(pointer) + bytes * static_cast<uint64_t>(batch * of.stride),
                          bytes * of.rows * of.columns, "matmul");
      };
      unsigned char *pa = matrix(a, ma), *pb = matrix(b, mb), *pd = matrix(d, md);
      if (!pa || !pb || !pd)
        return;
      Elements ea(ma.number, pa), eb(mb.number, pb), ed(md.number, pd);
      auto at = [](uint64_t i) {
        return static_cast<int64_t>(i);
      };
      for (uint64_t j = 0; j < n; ++j)
        for (uint64_t i = 0; i < m; ++i) {
          long double sum = 0; // as exact as sums by blocks are
          for (uint64_t l = 0; l < k; ++l)
            sum += static_cast<long double>(ea.get(at(product.transpose_a ? l + i * ma.rows : i + l * ma.rows))) *
                   eb.get(at(product.transpose_b ? j + l * mb.rows : l + j * mb.rows));
          if (times_c != 0)
            sum += ed.get(at(i + j * md.rows));
          if (product.adds_bias())
            sum += bias.get(at(i));
          if (product.epilogue & kRelu) // NaN becomes 0, as the library's does
            sum = sum > 0 ? sum : 0;
          ed.set(at(i + j * md.rows), static_cast<double>(sum));
        }
    }
  });
  return 0;
}

} // extern "C"
