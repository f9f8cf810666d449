// Convolutions by cuDNN: on the library that stands in for it, and on a GPU where there is one.
//
// Factors are integers whose sums float32 holds, whatever the order: a result has one right value,
// bit for bit. Those of float32 have more digits than TF32, so that an engine that rounds them is
// found; those of 16 bits are rounded once, at the end.
#include "backends/cuda/device/cudnn_convolution.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_join.h"
#include "backends/cuda/device/recording_driver.h"
#include "runtime/core/float16.h"
#include "gtest/gtest.h"

namespace weft::backends::cuda {
namespace {

using namespace runtime;

constexpr const char *kRecording = "backends/cuda/device/libcuda.so.1";

struct Machine {
  std::shared_ptr<CudaDevice> device;
  Cudnn library;
};

absl::StatusOr<Machine> machine(absl::StatusOr<std::shared_ptr<CudaDevice>> device,
                                const std::string &cudnn) {
  if (!device.ok())
    return device.status();
  absl::StatusOr<Cudnn> library = open_cudnn(cudnn);
  if (!library.ok())
    return library.status();
  if (absl::Status status = (*device)->enter(); !status.ok())
    return status;
  return Machine{*device, *library};
}

absl::StatusOr<Machine> recording() {
  absl::StatusOr<Driver> driver = open_driver(kRecording);
  if (!driver.ok())
    return driver.status();
  return machine(CudaDevice::create(*driver), kRecording);
}

template <typename Function> Function recorded(const char *name) {
  return reinterpret_cast<Function>(dlsym(dlopen(kRecording, RTLD_NOW | RTLD_LOCAL), name));
}

using Dims = std::vector<int64_t>;

struct Shape {
  Dims image, weight;
  Dims strides = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;

  Dims result() const {
    Dims dims{image[0], weight[0]};
    for (size_t i = 0; i < strides.size(); ++i)
      dims.push_back((image[2 + i] + 2 * padding[i] - dilation[i] * (weight[2 + i] - 1) - 1) /
                         strides[i] +
                     1);
    return dims;
  }
};

const Shape kSmall[] = {
    {{2, 3, 5, 4}, {2, 3, 3, 3}, {1, 1}, {1, 1}},
    {{1, 2, 5, 6}, {4, 1, 3, 2}, {2, 1}, {0, 1}, {1, 2}, 2}, // groups, all pairs uneven
    {{2, 3, 4, 4}, {3, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 3}, // depthwise
    {{2, 3, 3, 2}, {2, 3, 1, 1}},
    {{1, 1, 7, 7}, {1, 1, 3, 3}, {3, 3}, {0, 0}, {2, 2}}, // rows that no window reads
    {{1, 1, 3, 3}, {1, 1, 1, 1}, {2, 2}, {2, 2}},         // windows in the padding alone
    {{3, 4, 1, 9}, {5, 4, 1, 4}, {1, 2}, {0, 3}},         // one row
    {{2, 8, 13, 13}, {12, 4, 3, 3}, {1, 1}, {2, 2}, {2, 2}, 2},
    {{2, 3, 4, 5, 6}, {4, 3, 2, 3, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}}, // three dims
};

// For a GPU: of networks.
const Shape kLarge[] = {
    {{8, 3, 224, 224}, {64, 3, 7, 7}, {2, 2}, {3, 3}},
    {{8, 64, 56, 56}, {64, 64, 3, 3}, {1, 1}, {1, 1}},
    {{8, 256, 56, 56}, {512, 256, 1, 1}, {2, 2}},
    {{2, 16, 15, 17}, {24, 16, 3, 3}, {1, 1}, {1, 1}},
    {{8, 96, 28, 28}, {96, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 96},
    {{8, 128, 28, 28}, {128, 4, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 32},
    {{4, 64, 33, 35}, {32, 64, 3, 3}, {1, 1}, {4, 4}, {4, 4}},
};

int64_t count(const Dims &dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    result *= dim;
  return result;
}

// Integers up to `most`, of both signs.
std::vector<float> integers(const Dims &dims, int64_t most, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count(dims)));
  for (float &value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(static_cast<int64_t>(seed >> 8) % (2 * most + 1) - most);
  }
  return values;
}

std::vector<unsigned char> stored(const std::vector<float> &values, DType dtype) {
  auto width = static_cast<size_t>(byte_size(dtype));
  std::vector<unsigned char> bytes(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t narrow = dtype == DType::kFloat16 ? float_to_float16(values[i])
                                               : float_to_bfloat16(values[i]);
    std::memcpy(bytes.data() + i * width,
                width == 4 ? static_cast<const void *>(&values[i]) : &narrow, width);
  }
  return bytes;
}

// Image, weight and result in the order of the kinds' operands; the last is computed.
struct Kind {
  const char *name;
  int operands[3];
};
constexpr Kind kKinds[] = {
    {"forward", {0, 1, 2}}, {"input_gradient", {2, 1, 0}}, {"weight_gradient", {0, 2, 1}}};

// Element `at` of the tensor that the kind computes, sum by sum.
float expected(const Shape &s, const Kind &kind, const std::vector<float> (&values)[3],
               int64_t at) {
  Dims dims[3] = {s.image, s.weight, s.result()};
  int target = kind.operands[2];
  Dims of(dims[target].size());
  for (size_t i = of.size(); i-- > 0; at /= dims[target][i])
    of[i] = at % dims[target][i];
  double sum = 0;
  size_t rank = of.size();
  int64_t of_group = s.weight[0] / s.groups;
  // The free indices: n and o, the channel within a group, for each dim the result's and the tap.
  // Those that the element fixes have one value.
  int64_t n0 = target == 1 ? 0 : of[0], n1 = target == 1 ? s.image[0] : of[0] + 1;
  int64_t o0 = target == 1 ? of[0] : target == 2 ? of[1] : of[1] / s.weight[1] * of_group;
  int64_t o1 = target == 0 ? o0 + of_group : o0 + 1;
  int64_t c0 = target == 1 ? of[1] : target == 0 ? of[1] % s.weight[1] : 0;
  int64_t c1 = target == 2 ? s.weight[1] : c0 + 1;
  // Walks the dims; positions in the tensors grow along.
  auto walk = [&](auto &&self, size_t dim, int64_t image, int64_t weight, int64_t result) -> void {
    if (dim == rank) {
      const int64_t offsets[3] = {image, weight, result};
      sum += static_cast<double>(values[kind.operands[0]][static_cast<size_t>(
                 offsets[kind.operands[0]])]) *
             values[kind.operands[1]][static_cast<size_t>(offsets[kind.operands[1]])];
      return;
    }
    size_t i = dim - 2;
    int64_t taps = dims[1][dim], outs = dims[2][dim];
    for (int64_t tap = target == 1 ? of[dim] : 0; tap < (target == 1 ? of[dim] + 1 : taps); ++tap)
      for (int64_t y = target == 2 ? of[dim] : 0; y < (target == 2 ? of[dim] + 1 : outs); ++y) {
        int64_t x = y * s.strides[i] + tap * s.dilation[i] - s.padding[i];
        if (x < 0 || x >= s.image[dim] || (target == 0 && x != of[dim]))
          continue;
        self(self, dim + 1, image * s.image[dim] + x, weight * taps + tap, result * outs + y);
      }
  };
  for (int64_t n = n0; n < n1; ++n)
    for (int64_t o = o0; o < o1; ++o)
      for (int64_t c = c0; c < c1; ++c)
        walk(walk, 2, n * s.image[1] + o / of_group * s.weight[1] + c, o * s.weight[1] + c,
             n * s.weight[0] + o);
  return static_cast<float>(sum);
}

enum class Bias { kNone, kAdded };

LibraryCall call_of(const Shape &s, const Kind &kind, DType dtype, bool transforms = false,
                    Bias bias = Bias::kNone) {
  LibraryCall call;
  call.entry = "cudnn.convolution";
  call.inputs = 2;
  call.config = {{"dilation", s.dilation}, {"groups", s.groups},   {"kind", std::string(kind.name)},
                 {"padding", s.padding},   {"strides", s.strides}};
  if (transforms)
    call.config.emplace_back("transforms", int64_t{1});
  std::vector<Dims> dims;
  for (int operand : kind.operands)
    dims.push_back(std::array{s.image, s.weight, s.result()}[static_cast<size_t>(operand)]);
  if (bias == Bias::kAdded) {
    call.inputs = 3;
    call.config.emplace_back("bias", int64_t{1});
    dims.insert(dims.end() - 1, {s.weight[0], 1, 1});
  }
  for (const Dims &each : dims) {
    TensorRef ref;
    ref.buffer = static_cast<int32_t>(call.operands.size());
    ref.dtype = dtype;
    ref.dims = each;
    ref.strides.assign(ref.dims.size(), 1);
    for (size_t i = ref.dims.size(); i-- > 1;)
      ref.strides[i - 1] = ref.strides[i] * ref.dims[i];
    call.operands.push_back(ref);
  }
  return call;
}

// Memory on the GPU.
class Block {
public:
  Block(const Machine &machine, int64_t bytes)
      : machine_(machine), bytes_(std::max<int64_t>(bytes, 1)) {
    absl::StatusOr<void *> made = machine.device->allocator()->allocate(bytes_, 256);
    EXPECT_TRUE(made.ok()) << made.status();
    data_ = made.ok() ? *made : nullptr;
  }
  ~Block() {
    machine_.device->allocator()->free(data_, bytes_);
  }
  Block(const Block &) = delete;
  void *data() const {
    return data_;
  }

private:
  const Machine &machine_;
  int64_t bytes_;
  void *data_ = nullptr;
};

// Computes it, and compares every `step`-th element; with `timed`, says how, and how long it takes.
void check(const Machine &machine, const Shape &s, const Kind &kind, DType dtype, int64_t step,
           bool timed, Bias bias = Bias::kNone, std::string *detour = nullptr) {
  Dims dims[3] = {s.image, s.weight, s.result()};
  std::string what = std::string(kind.name) + " " + std::string(name(dtype)) + " " +
                     absl::StrJoin(s.image, "x") + " by " + absl::StrJoin(s.weight, "x") +
                     (bias == Bias::kAdded ? " + bias" : "");
  SCOPED_TRACE(what);
  LibraryCall call = call_of(s, kind, dtype, false, bias);
  std::unique_ptr<LibraryEntry> entry = make_convolution_entry(machine.device, machine.library);
  absl::StatusOr<std::unique_ptr<LibraryCallState>> state = entry->init(call, 1);
  ASSERT_TRUE(state.ok()) << state.status();
  if (detour)
    *detour = (*state)->detour();
  // float32: 12 bits. 16 bits: what all of them hold, and of whose sums float16 is not too small.
  int64_t most = dtype == DType::kFloat32 ? 4095 : dtype == DType::kBFloat16 ? 255 : 15;
  std::vector<float> values[3];
  values[kind.operands[0]] = integers(dims[kind.operands[0]], most, 1);
  values[kind.operands[1]] = integers(dims[kind.operands[1]], 1, 2);
  int64_t bytes[3];
  for (int i = 0; i < 3; ++i)
    bytes[i] = count(dims[kind.operands[i]]) * byte_size(dtype);
  std::vector<float> biases = integers({s.weight[0]}, most, 3);
  std::vector<unsigned char> stored_bias = stored(biases, dtype);
  auto bias_bytes = static_cast<int64_t>(stored_bias.size());
  Block first(machine, bytes[0]), second(machine, bytes[1]), third(machine, bias_bytes),
      computed(machine, bytes[2]), scratch(machine, (*state)->scratch_bytes());
  ASSERT_TRUE(machine.device->write(third.data(), stored_bias.data(), bias_bytes).ok());
  const Block *factors[2] = {&first, &second};
  for (int i = 0; i < 2; ++i) {
    std::vector<unsigned char> host = stored(values[kind.operands[i]], dtype);
    ASSERT_TRUE(machine.device->write(factors[i]->data(), host.data(), bytes[i]).ok());
  }
  std::vector<void *> operands{first.data(), second.data(), computed.data()};
  if (bias == Bias::kAdded)
    operands.insert(operands.end() - 1, third.data());
  auto run = [&](std::vector<unsigned char> &result) {
    result.assign(static_cast<size_t>(bytes[2]), 0xff); // NaNs
    ASSERT_TRUE(machine.device->write(computed.data(), result.data(), bytes[2]).ok());
    absl::Status status = (*state)->run(operands, scratch.data());
    ASSERT_TRUE(status.ok()) << status;
    status = machine.device->synchronize();
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(machine.device->read(result.data(), computed.data(), bytes[2]).ok());
  };
  std::vector<unsigned char> result, again;
  run(result);
  run(again);
  EXPECT_EQ(result, again) << "differs from run to run";
  auto width = static_cast<size_t>(byte_size(dtype));
  int wrong = 0;
  Dims result_dims = s.result();
  for (int64_t i = 0; i < count(dims[kind.operands[2]]) && wrong < 3; i += step) {
    float right = expected(s, kind, values, i);
    if (bias == Bias::kAdded)
      right += biases[static_cast<size_t>(i / count({result_dims.begin() + 2, result_dims.end()}) %
                                          s.weight[0])];
    auto *got = result.data() + static_cast<size_t>(i) * width;
    // -0 is as right as 0.
    std::vector<unsigned char> plus = stored({right}, dtype), minus = stored({-right}, dtype);
    if (std::memcmp(got, plus.data(), width) != 0 &&
        !(right == 0 && std::memcmp(got, minus.data(), width) == 0)) {
      uint32_t bits = 0;
      std::memcpy(&bits, got, width);
      ADD_FAILURE() << "element " << i << " is not " << right << " but of the bits " << std::hex
                    << bits;
      ++wrong;
    }
  }
  if (!timed)
    return;
  absl::StatusOr<std::string> how =
      convolution_implementation(machine.device, machine.library, call);
  ASSERT_TRUE(how.ok()) << how.status();
  constexpr int kRuns = 20;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; ++i)
    ASSERT_TRUE((*state)->run(operands, scratch.data()).ok());
  ASSERT_TRUE(machine.device->synchronize().ok());
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kRuns;
  std::printf("%-60s %9.1f us %8.2f TFLOP/s  %s\n", what.c_str(), seconds * 1e6,
              entry->operations(call) / seconds * 1e-12, how->c_str());
}

void check_all(const Machine &machine, std::span<const Shape> shapes, int64_t step, bool timed) {
  for (const Shape &shape : shapes)
    for (const Kind &kind : kKinds)
      for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
        check(machine, shape, kind, dtype, step, timed);
}

// Their bias is added in the way of that name; empty: as the result is written.
void check_biases(const Machine &machine, std::span<const Shape> shapes, int64_t step, bool timed,
                  const std::string &way) {
  for (const Shape &shape : shapes)
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      std::string detour;
      check(machine, shape, kKinds[0], dtype, step, timed, Bias::kAdded, &detour);
      EXPECT_EQ(detour.substr(0, detour.find(':')), way) << detour;
    }
}

class CudnnConvolution : public testing::Test {
protected:
  void SetUp() override {
    recorded<weft_recording_reset_t>("weft_recording_reset")();
    auto made = recording();
    ASSERT_TRUE(made.ok()) << made.status();
    machine = *made;
  }
  void TearDown() override {
    recorded<weft_recording_fail_t>("weft_recording_fail")("", 0, 0);
    EXPECT_STREQ(recorded<weft_recording_errors_t>("weft_recording_errors")(), "");
  }
  static std::string log() {
    return recorded<weft_recording_log_t>("weft_recording_log")();
  }
  absl::Status init(const LibraryCall &call) const {
    return make_convolution_entry(machine.device, machine.library)->init(call, 1).status();
  }

  Machine machine;
};

TEST_F(CudnnConvolution, ComputesAllKinds) {
  check_all(machine, kSmall, 1, false);
}

// As one graph, whose sums lie nowhere: nothing else is put on the stream.
TEST_F(CudnnConvolution, AddsABiasAsItWrites) {
  check_biases(machine, kSmall, 1, false, "");
  EXPECT_NE(log().find("convolution forward 2x3x5x4 by 2x3x3x3 + bias, engine 16"),
            std::string::npos)
      << log();
  EXPECT_EQ(log().find("on device"), std::string::npos) << log();
}

// Results are one element a channel and more, of one image and of several.
TEST_F(CudnnConvolution, AddsToABiasWhereNoEngineTakesIt) {
  recorded<weft_recording_fail_t>("weft_recording_fail")("a bias in a graph", kWeftRecordingEvery,
                                                         3000);
  check_biases(machine, kSmall, 1, false, "bias-ahead");
  EXPECT_NE(log().find("convolution forward 2x3x5x4 by 2x3x3x3 + what is there, engine 16"),
            std::string::npos)
      << log();
  LibraryCall call = call_of(kSmall[0], kKinds[0], DType::kFloat32, false, Bias::kAdded);
  auto state = make_convolution_entry(machine.device, machine.library)->init(call, 1);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ((*state)->detour(),
            "bias-ahead: the result is filled with the bias before the convolution is added to "
            "it; as one graph: cuDNN 9.14.0 has no engine for this operation; compile with "
            "--no-claim. It has some that do not suit: 2 (not deterministic)");
}

// The stand-in's heuristics (recording_cudnn.cpp) name engines that do not suit before those that
// do; of a weight's gradient only the fallbacks suit.
TEST_F(CudnnConvolution, ChoosesEnginesByTheirNotes) {
  auto engine = [&](const Kind &kind, DType dtype, bool transforms) {
    absl::StatusOr<std::string> how = convolution_implementation(
        machine.device, machine.library, call_of(kSmall[0], kind, dtype, transforms));
    EXPECT_TRUE(how.ok()) << how.status();
    return how.value_or("");
  };
  EXPECT_EQ(engine(kKinds[0], DType::kFloat32, false), "engine 16 with 1024 bytes of workspace");
  EXPECT_EQ(engine(kKinds[0], DType::kFloat32, true), "engine 12 with 256 bytes of workspace");
  EXPECT_EQ(engine(kKinds[1], DType::kBFloat16, false), "engine 15 with 1024 bytes of workspace");
  EXPECT_EQ(engine(kKinds[2], DType::kFloat32, false), "engine 21 with 512 bytes of workspace");
}

TEST_F(CudnnConvolution, RunsOnTheStreamOfPrograms) {
  check(machine, kSmall[0], kKinds[0], DType::kFloat32, 1, false);
  EXPECT_NE(log().find("convolution forward 2x3x5x4 by 2x3x3x3, engine 16"), std::string::npos)
      << log();
}

TEST_F(CudnnConvolution, SaysWhatItDoesNotTake) {
  LibraryCall call = call_of(kSmall[0], kKinds[0], DType::kFloat32);
  LibraryCall changed = call;
  changed.operands[2].dims[3] = 9;
  EXPECT_NE(init(changed).message().find("takes contiguous operands"), std::string::npos);
  changed.operands[2].dims = {2, 2, 5, 9};
  changed.operands[2].strides = {90, 45, 9, 1};
  EXPECT_NE(init(changed).message().find("dims are not those of a convolution"), std::string::npos);
  changed = call;
  changed.operands[1].dtype = DType::kBFloat16;
  EXPECT_NE(init(changed).message().find("operands of one dtype"), std::string::npos);
  changed = call_of(kSmall[0], kKinds[0], DType::kFloat64);
  EXPECT_NE(init(changed).message().find("takes float32, bfloat16 or float16"), std::string::npos);
  changed = call_of(kSmall[0], kKinds[1], DType::kFloat32, false, Bias::kAdded);
  EXPECT_NE(init(changed).message().find("adds no bias to an input_gradient"), std::string::npos);
  changed = call_of(kSmall[0], kKinds[0], DType::kFloat32, false, Bias::kAdded);
  changed.operands[2].dims = {3, 1, 1};
  EXPECT_NE(init(changed).message().find("a bias of one number a channel of the result: "),
            std::string::npos);
  changed.operands[2].dtype = DType::kBFloat16;
  EXPECT_NE(init(changed).message().find("operands of one dtype"), std::string::npos);
  changed = call;
  changed.config.emplace_back("bias", int64_t{1});
  EXPECT_NE(init(changed).message().find("and a bias where config has bias 1"), std::string::npos);
  changed = call;
  changed.config[2].second = std::string("sideways");
  EXPECT_NE(init(changed).message().find("config kind is 'sideways'"), std::string::npos);
}

TEST_F(CudnnConvolution, SaysWhyNoEngineSuits) {
  auto fail = recorded<weft_recording_fail_t>("weft_recording_fail");
  LibraryCall call = call_of(kSmall[0], kKinds[0], DType::kFloat32);
  fail("cudnnBackendGetAttribute", kWeftRecordingEvery, 3000);
  absl::Status status = init(call);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_NE(status.message().find("cuDNN 9.14.0 has no engine for this operation; compile with "
                                  "--no-claim. It has some that do not suit"),
            std::string::npos)
      << status;
  fail("", 0, 0);
  EXPECT_TRUE(init(call).ok());
}

TEST(CudnnLibrary, SaysWhatIsMissing) {
  EXPECT_NE(open_cudnn("libnowhere.so")
                .status()
                .message()
                .find("cuDNN was not found (looked for libnowhere.so); install cuDNN 9"),
            std::string::npos);
  EXPECT_NE(open_cudnn("libc.so.6").status().message().find("cuDNN lacks cudnnGetVersion"),
            std::string::npos);
}

class CudnnOnGpu : public testing::Test {
protected:
  void SetUp() override {
    auto made = ::weft::backends::cuda::machine(CudaDevice::get(0), "");
    if (!made.ok())
      GTEST_SKIP() << made.status().message();
    machine = *made;
  }
  Machine machine;
};

TEST_F(CudnnOnGpu, ComputesAllKinds) {
  check_all(machine, kSmall, 1, false);
}

// Whatever the way, all are right; timings say which it was.
TEST_F(CudnnOnGpu, AddsBiases) {
  for (const Shape &shape : kSmall)
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
      check(machine, shape, kKinds[0], dtype, 1, false, Bias::kAdded);
  check_biases(machine, kLarge, 1009, true, "");
}

// A few hundred elements of each.
TEST_F(CudnnOnGpu, ComputesThoseOfNetworks) {
  check_all(machine, kLarge, 1009, true);
}

} // namespace
} // namespace weft::backends::cuda
