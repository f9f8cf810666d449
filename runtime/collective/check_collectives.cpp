#include "runtime/collective/check_collectives.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/core/float16.h"

namespace weft::runtime {
namespace {

uint64_t hashed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

template <typename T> T load(const std::vector<char> &bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T> void store(std::vector<char> &bytes, int64_t index, T value) {
  std::memcpy(bytes.data() + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

double load_float(DType dtype, const std::vector<char> &bytes, int64_t index) {
  switch (dtype) {
  case DType::kFloat64:
    return load<double>(bytes, index);
  case DType::kBFloat16:
    return bfloat16_to_float(load<uint16_t>(bytes, index));
  case DType::kFloat16:
    return float16_to_float(load<uint16_t>(bytes, index));
  default:
    return load<float>(bytes, index);
  }
}
void store_float(DType dtype, std::vector<char> &bytes, int64_t index, double value) {
  switch (dtype) {
  case DType::kFloat64:
    return store(bytes, index, value);
  case DType::kBFloat16:
    return store(bytes, index, float_to_bfloat16(static_cast<float>(value)));
  case DType::kFloat16:
    return store(bytes, index, float_to_float16(static_cast<float>(value)));
  default:
    return store(bytes, index, static_cast<float>(value));
  }
}
int64_t load_int(DType dtype, const std::vector<char> &bytes, int64_t index) {
  switch (dtype) {
  case DType::kInt8:
    return load<int8_t>(bytes, index);
  case DType::kInt16:
    return load<int16_t>(bytes, index);
  case DType::kInt32:
    return load<int32_t>(bytes, index);
  case DType::kInt64:
    return load<int64_t>(bytes, index);
  default:
    return load<uint8_t>(bytes, index);
  }
}
void store_int(DType dtype, std::vector<char> &bytes, int64_t index, int64_t value) {
  std::memcpy(bytes.data() + index * byte_size(dtype), &value, // the low bytes come first
              static_cast<size_t>(byte_size(dtype)));
}

// A sum of floats is rounded after each term, to float32 at least.
double next_float(DType dtype, Reduction reduction, double a, double b) {
  auto rounded = [&](double value) {
    return dtype == DType::kFloat64 ? value : static_cast<double>(static_cast<float>(value));
  };
  switch (reduction) {
  case Reduction::kSum:
  case Reduction::kMean:
    return rounded(a + b); // a double holds the exact sum of two floats well enough to round once
  case Reduction::kProduct:
    return rounded(a * b);
  default:
    if (std::isnan(a) || std::isnan(b))
      return std::numeric_limits<double>::quiet_NaN();
    return reduction == Reduction::kMin ? (b < a ? b : a) : (b > a ? b : a);
  }
}

int64_t next_int(DType dtype, Reduction reduction, int64_t a, int64_t b) {
  auto u = [](int64_t value) {
    return static_cast<uint64_t>(value);
  };
  int64_t result;
  switch (reduction) {
  case Reduction::kMin:
    result = std::min(a, b);
    break;
  case Reduction::kMax:
    result = std::max(a, b);
    break;
  case Reduction::kProduct:
    result = static_cast<int64_t>(u(a) * u(b));
    break;
  default:
    result = static_cast<int64_t>(u(a) + u(b));
  }
  return dtype == DType::kBool ? result != 0 : result;
}

void reduce_into(const CollectiveCall &call, const std::vector<std::vector<char>> &inputs,
                 std::vector<char> &output) {
  for (int64_t i = 0; i < call.count; ++i)
    if (is_floating(call.dtype)) {
      double value = load_float(call.dtype, inputs[0], i);
      for (size_t rank = 1; rank < inputs.size(); ++rank)
        value =
            next_float(call.dtype, call.reduction, value, load_float(call.dtype, inputs[rank], i));
      if (call.reduction == Reduction::kMean) {
        value /= static_cast<double>(inputs.size());
        if (call.dtype != DType::kFloat64)
          value = static_cast<float>(value);
      }
      store_float(call.dtype, output, i, value);
    } else {
      int64_t value = load_int(call.dtype, inputs[0], i);
      for (size_t rank = 1; rank < inputs.size(); ++rank)
        value = next_int(call.dtype, call.reduction, value, load_int(call.dtype, inputs[rank], i));
      store_int(call.dtype, output, i, value);
    }
}

bool gives_all(Collective kind) {
  return kind == Collective::kAllGather || kind == Collective::kAllToAll;
}
bool takes_all(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kAllToAll;
}

bool same(DType dtype, const std::vector<char> &a, const std::vector<char> &b, int64_t index) {
  int64_t width = byte_size(dtype);
  if (std::memcmp(a.data() + index * width, b.data() + index * width, static_cast<size_t>(width)) ==
      0)
    return true;
  return is_floating(dtype) && std::isnan(load_float(dtype, a, index)) &&
         std::isnan(load_float(dtype, b, index));
}

} // namespace

std::vector<char> sample(DType dtype, int64_t from, int64_t count, int rank, uint64_t seed) {
  std::vector<char> bytes(static_cast<size_t>(count * byte_size(dtype)));
  for (int64_t i = 0; i < count; ++i) {
    uint64_t h =
        hashed(seed * 1000003 + static_cast<uint64_t>(from + i) * 64 + static_cast<uint64_t>(rank));
    if (dtype == DType::kBool)
      store_int(dtype, bytes, i, h >> 60 == 0);
    else if (!is_floating(dtype))
      store_int(dtype, bytes, i, static_cast<int64_t>(h));
    else if (h % 997 == 0)
      store_float(dtype, bytes, i, std::numeric_limits<double>::quiet_NaN());
    else // of different sizes, so that the order of a sum shows
      store_float(dtype, bytes, i,
                  std::ldexp(static_cast<double>(static_cast<int64_t>(h)) * 0x1p-62,
                             static_cast<int>(h % 8) - 4));
  }
  return bytes;
}

std::vector<char> expected(const CollectiveCall &call, int me, int size, uint64_t seed) {
  const int64_t bytes = call.count * byte_size(call.dtype);
  std::vector<std::vector<char>> inputs;
  for (int rank = 0; rank < size; ++rank) // of each input the part that this rank gets
    inputs.push_back(
        sample(call.dtype, takes_all(call.kind) ? me * call.count : 0, call.count, rank, seed));
  std::vector<char> output(static_cast<size_t>(bytes * (gives_all(call.kind) ? size : 1)));
  auto copy = [&](int64_t to, const std::vector<char> &from) {
    std::copy_n(from.data(), bytes, output.data() + to);
  };
  switch (call.kind) {
  case Collective::kAllReduce:
  case Collective::kReduceScatter:
    reduce_into(call, inputs, output);
    break;
  case Collective::kAllGather:
  case Collective::kAllToAll:
    for (int rank = 0; rank < size; ++rank)
      copy(rank * bytes, inputs[static_cast<size_t>(rank)]);
    break;
  case Collective::kBroadcast:
  case Collective::kReceive:
    copy(0, inputs[static_cast<size_t>(call.peer)]);
    break;
  case Collective::kSendReceive:
    if (call.source != kNoRank)
      copy(0, inputs[static_cast<size_t>(call.source)]);
    break;
  default:
    output.clear();
  }
  return output;
}

std::string check_call(Group &group, CollectiveCall call, uint64_t seed, bool in_place) {
  const int me = group.rank(), size = group.size();
  const int64_t bytes = call.count * byte_size(call.dtype);
  std::vector<char> input =
      sample(call.dtype, 0, call.count * (takes_all(call.kind) ? size : 1), me, seed);
  std::vector<char> want = expected(call, me, size, seed), got(want.size(), 0x55);
  call.input = input.data();
  call.output = got.data();
  char *result = got.data();
  if (in_place && call.kind == Collective::kAllGather) {
    std::copy(input.begin(), input.end(), got.begin() + me * bytes);
    call.input = got.data() + me * bytes;
  } else if (in_place && call.kind != Collective::kAllToAll) {
    result = input.data() + (call.kind == Collective::kReduceScatter ? me * bytes : 0);
    call.output = result;
  }
  std::string what =
      absl::StrCat("rank ", me, " of ", size, ": ", describe(call), in_place ? " in place" : "");
  if (absl::Status status = group.run(call); !status.ok())
    return absl::StrCat(what, ": ", status.message());
  std::copy_n(result, got.size(), got.data());
  for (int64_t i = 0; i * byte_size(call.dtype) < static_cast<int64_t>(want.size()); ++i)
    if (!same(call.dtype, got, want, i))
      return absl::StrCat(what, ": element ", i, " is wrong");
  return "";
}

std::string check_collectives(Group &group) {
  uint64_t seed = 0;
  std::string wrong;
  auto check = [&](Collective kind, DType dtype, int64_t count, bool in_place,
                   Reduction reduction = Reduction::kSum, int peer = 0, int source = kNoRank) {
    CollectiveCall call;
    call.kind = kind;
    call.dtype = dtype;
    call.count = count;
    call.reduction = reduction;
    call.peer = peer;
    call.source = source;
    call.place = absl::StrCat("check:", ++seed);
    // After a failure nothing else works: the first one says why.
    if (wrong.empty())
      wrong = check_call(group, call, seed, in_place);
  };
  const int size = group.size();
  for (const DTypeInfo &type : kDTypes) {
    const int64_t fits = Group::kInlineBytes / type.bytes;
    for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{1001}, fits, fits + 1}) {
      for (Collective kind : {Collective::kAllReduce, Collective::kReduceScatter})
        for (Reduction reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMin,
                                    Reduction::kMax, Reduction::kProduct})
          if (reduction != Reduction::kMean || type.is_floating)
            check(kind, type.dtype, count, seed % 2, reduction);
      for (Collective kind : {Collective::kAllGather, Collective::kAllToAll})
        check(kind, type.dtype, count, seed % 2);
      for (int root : {0, size - 1, size / 2})
        check(Collective::kBroadcast, type.dtype, count, seed % 2, Reduction::kSum, root);
      // From each rank of an even number to the next.
      int peer = group.rank() % 2 ? group.rank() - 1 : group.rank() + 1;
      if (peer < size)
        check(group.rank() % 2 ? Collective::kReceive : Collective::kSend, type.dtype, count, false,
              Reduction::kSum, peer);
      else
        ++seed; // the same on all ranks
      // To the next rank: in a ring, and from the first to the last.
      int next = (group.rank() + 1) % size, last = (group.rank() + size - 1) % size;
      if (size > 1)
        check(Collective::kSendReceive, type.dtype, count, false, Reduction::kSum, next, last);
      check(Collective::kSendReceive, type.dtype, count, false, Reduction::kSum,
            next == 0 ? kNoRank : next, group.rank() == 0 ? kNoRank : last);
    }
    check(Collective::kBarrier, type.dtype, 0, false);
  }
  // Several pieces and several messages; what many ranks add to that is above.
  if (size <= 3) {
    check(Collective::kAllReduce, DType::kFloat32, 400009, false);
    if (size > 1)
      check(Collective::kSendReceive, DType::kFloat32, 1200007, false, Reduction::kSum,
            (group.rank() + 1) % size, (group.rank() + size - 1) % size);
    check(Collective::kAllReduce, DType::kFloat32, 400009, true);
    check(Collective::kReduceScatter, DType::kBFloat16, 300007, false);
    check(Collective::kBroadcast, DType::kInt64, 200003, false, Reduction::kSum, size - 1);
    check(Collective::kAllGather, DType::kFloat64, 540001, false);
  }
  return wrong;
}

} // namespace weft::runtime
