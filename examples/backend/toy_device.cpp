#include "toy_device.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <sys/mman.h>

namespace toy {
namespace {

constexpr int64_t kAlignment = 64;
int64_t rounded(int64_t bytes) {
  return (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

// Calls f(position, offset) for the elements of dims in row-major order.
template <typename F>
void for_each(const std::vector<int64_t> &dims, const std::vector<int64_t> &strides, int64_t offset,
              F f) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  std::vector<int64_t> index(dims.size());
  for (int64_t i = 0; i < count; ++i) {
    f(i, offset);
    for (size_t d = dims.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < dims[d])
        break;
      offset -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
}

} // namespace

int64_t FirstFit::take(int64_t bytes) {
  bytes = rounded(bytes);
  for (auto [offset, size] : gaps_) {
    if (size < bytes)
      continue;
    gaps_.erase(offset);
    if (size > bytes)
      gaps_[offset + bytes] = size - bytes;
    highest_ = std::max(highest_, offset + bytes);
    return offset;
  }
  return -1;
}

void FirstFit::give(int64_t offset, int64_t bytes) {
  auto gap = gaps_.emplace(offset, rounded(bytes)).first;
  if (auto next = std::next(gap); next != gaps_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap != gaps_.begin())
    if (auto before = std::prev(gap); before->first + before->second == gap->first) {
      before->second += gap->second;
      gaps_.erase(gap);
    }
}

// Pages are taken from the system when they are first written; the addresses have none.
static void *reserve(int protection) {
  return mmap(nullptr, Device::kCapacity, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
              -1, 0);
}
Device::Device()
    : memory_(static_cast<std::byte *>(reserve(PROT_READ | PROT_WRITE))),
      first_(address_of(reserve(PROT_NONE))) {
  if (memory_ == MAP_FAILED || first_ == address_of(MAP_FAILED))
    space_ = FirstFit(0); // every allocation fails, with a message
}

Device &Device::instance() {
  static Device *device = new Device;
  return *device;
}

absl::StatusOr<Address> Device::allocate(int64_t bytes) {
  std::lock_guard lock(mutex_);
  int64_t offset = space_.take(bytes);
  if (offset < 0)
    return absl::ResourceExhaustedError("the toy device has no " + std::to_string(bytes) +
                                        " contiguous bytes left of its " +
                                        std::to_string(kCapacity));
  return first_ + offset;
}

void Device::free(Address address, int64_t bytes) {
  std::lock_guard lock(mutex_);
  space_.give(offset_of(address), bytes);
}

int64_t Device::offset_of(Address address) const {
  auto offset = static_cast<int64_t>(address) - static_cast<int64_t>(first_);
  if (offset < 0 || offset >= kCapacity) {
    std::fprintf(stderr, "toy: %p is no address of the device's\n",
                 reinterpret_cast<void *>(address));
    std::abort();
  }
  return offset;
}

void Device::copy_in(Address to, const void *from, int64_t bytes) {
  if (bytes > 0)
    std::memcpy(at<std::byte>(to), from, static_cast<size_t>(bytes));
}
void Device::copy_out(void *to, Address from, int64_t bytes) {
  if (bytes > 0)
    std::memcpy(to, at<std::byte>(from), static_cast<size_t>(bytes));
}

template <typename T>
void run_chain(Device &device, const Chain &chain, const std::vector<Address> &inputs,
               const std::vector<Address> &outputs) {
  constexpr int64_t kBlock = 256;
  std::vector<T> registers(static_cast<size_t>(kBlock) *
                           (static_cast<size_t>(chain.inputs) + chain.ops.size()));
  for (int64_t begin = 0; begin < chain.count; begin += kBlock) {
    int64_t n = std::min(kBlock, chain.count - begin);
    for (int32_t i = 0; i < chain.inputs; ++i)
      std::copy_n(device.at<T>(inputs[i]) + begin, n, &registers[i * kBlock]);
    for (size_t i = 0; i < chain.ops.size(); ++i) {
      const Chain::Op &op = chain.ops[i];
      const T *xs = &registers[op.x * kBlock], *ys = &registers[op.y * kBlock];
      T *to = &registers[(static_cast<size_t>(chain.inputs) + i) * kBlock];
      switch (op.function) {
#define FUNCTION(name, operands, formula)                                                          \
  case Function::k_##name:                                                                         \
    for (int64_t j = 0; j < n; ++j) {                                                              \
      [[maybe_unused]] T x = xs[j], y = ys[j];                                                     \
      to[j] = formula;                                                                             \
    }                                                                                              \
    break;
        TOY_FUNCTIONS(FUNCTION)
#undef FUNCTION
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      std::copy_n(&registers[chain.outputs[i] * kBlock], n, device.at<T>(outputs[i]) + begin);
  }
}

void run_gather(Device &device, const Gather &gather, Address input, Address output) {
  const std::byte *from = device.at<std::byte>(input);
  std::byte *to = device.at<std::byte>(output);
  for_each(gather.dims, gather.strides, gather.offset, [&](int64_t i, int64_t offset) {
    std::memcpy(to + i * gather.width, from + offset * gather.width,
                static_cast<size_t>(gather.width));
  });
}

template <typename T>
void run_matmul(Device &device, const Matmul &matmul, Address lhs, Address rhs, Address output) {
  T *to = device.at<T>(output);
  for (size_t batch = 0; batch < matmul.lhs_matrices.size(); ++batch) {
    const T *a = device.at<T>(lhs) + matmul.lhs_matrices[batch],
            *b = device.at<T>(rhs) + matmul.rhs_matrices[batch];
    for (int64_t i = 0; i < matmul.m; ++i)
      for (int64_t j = 0; j < matmul.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < matmul.k; ++l)
          sum += double(a[i * matmul.lhs_row + l * matmul.lhs_column]) *
                 double(b[l * matmul.rhs_row + j * matmul.rhs_column]);
        *to++ = T(sum);
      }
  }
}

template <typename T>
void run_reduce(Device &device, const Reduce &reduce, Address input, Address output) {
  const T *from = device.at<T>(input);
  std::vector<double> results(static_cast<size_t>(reduce.results),
                              reduce.maximum ? -std::numeric_limits<double>::infinity() : 0);
  for_each(reduce.dims, reduce.strides, 0, [&](int64_t i, int64_t at) {
    double x = double(from[i]), &result = results[static_cast<size_t>(at)];
    if (!reduce.maximum)
      result += x;
    else if (x > result || x != x || (x == result && std::signbit(result)))
      result = result != result ? result : x;
  });
  for (size_t i = 0; i < results.size(); ++i)
    device.at<T>(output)[i] = T(results[i]);
}

#define INSTANTIATE(T)                                                                             \
  template void run_chain<T>(Device &, const Chain &, const std::vector<Address> &,                \
                             const std::vector<Address> &);                                        \
  template void run_matmul<T>(Device &, const Matmul &, Address, Address, Address);                \
  template void run_reduce<T>(Device &, const Reduce &, Address, Address);
INSTANTIATE(float)
INSTANTIATE(double)

} // namespace toy
