#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/aot/c_executable.h"
#include "runtime/aot/cpu_check.h"
#include "runtime/aot/sample_model.h"
#include "runtime/aot/weft_model.h"
#include "runtime/executable/program.h"
#include "runtime/io/safetensors.h"
#include "runtime/memory/buffer.h"

namespace weft::runtime {
namespace {

std::string write_weights(const char *file, const char *name, std::vector<int64_t> dims,
                          float value) {
  std::string path = ::testing::TempDir() + "/" + file;
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  std::vector<float> data(static_cast<size_t>(count), value);
  ArrayView view{name, DType::kFloat32, dims, std::as_bytes(std::span(data))};
  EXPECT_TRUE(write_safetensors(path, {&view, 1}).ok());
  return path;
}

struct Model {
  weft_model *model = nullptr;
  explicit Model(int threads = 0) {
    std::string weights = write_weights("weights.safetensors", "w", {8, 8}, 0.5f);
    weft_model_options options{sizeof(options), threads, weights.c_str()};
    EXPECT_EQ(weft_model_open(&weft_model_sample, &options, &model), 0) << weft_model_error();
  }
  ~Model() {
    weft_model_close(model);
  }
};

struct Values {
  std::vector<float> x = std::vector<float>(32), y = std::vector<float>(32),
                     copy = std::vector<float>(32), picked = std::vector<float>(16);
  std::vector<int64_t> idx = {2, 0};
  Values() {
    for (int i = 0; i < 32; ++i)
      x[static_cast<size_t>(i)] = static_cast<float>(i);
  }
  int32_t run(weft_model *model) {
    const void *inputs[] = {x.data(), idx.data()};
    void *outputs[] = {y.data(), copy.data(), picked.data()};
    return weft_model_run(model, inputs, outputs);
  }
  void expect_right() const {
    for (size_t row = 0; row < 4; ++row)
      for (size_t column = 0; column < 8; ++column)
        EXPECT_EQ(y[row * 8 + column], (row * 64 + 28) * 0.5f + 1);
    EXPECT_EQ(copy, x);
    EXPECT_EQ(picked[0], 16);
    EXPECT_EQ(picked[8], 0);
  }
};

TEST(Model, RefusesOutputsThatOverlap) {
  Model model;
  Values values;
  auto message = [&](const void *x, float *y, float *copy) {
    const void *inputs[] = {x, values.idx.data()};
    void *outputs[] = {y, copy, values.picked.data()};
    return weft_model_run(model.model, inputs, outputs) == 0 ? "" : std::string(weft_model_error());
  };
  float *x = values.x.data(), *y = values.y.data();
  std::vector<float> room(40);
  EXPECT_EQ(message(x, x, values.copy.data()),
            "output 0 overlaps input 0; give each output memory of its own");
  EXPECT_EQ(message(x, y, y),
            "output 0 overlaps output 1; give each output memory of its own");
  EXPECT_EQ(message(room.data() + 8, y, room.data()),
            "output 1 overlaps input 0; give each output memory of its own");
  EXPECT_EQ(message(x, y, values.copy.data()), "");
}

TEST(Model, DescribesItself) {
  Model model;
  ASSERT_EQ(weft_model_input_count(model.model), 2);
  ASSERT_EQ(weft_model_output_count(model.model), 3);
  const weft_tensor_info *idx = weft_model_input(model.model, 1);
  EXPECT_STREQ(idx->name, "idx");
  EXPECT_EQ(idx->dtype, static_cast<int>(DType::kInt64));
  EXPECT_EQ(idx->rank, 1);
  EXPECT_EQ(idx->dims[0], 2);
  EXPECT_EQ(idx->bytes, 16);
  EXPECT_EQ(weft_model_input(model.model, 2), nullptr);
  EXPECT_EQ(weft_model_output(model.model, -1), nullptr);
  EXPECT_STREQ(weft_model_output(model.model, 2)->name, "picked");
}

TEST(Model, RunsOnAnyNumberOfThreads) {
  for (int threads : {0, 1, 2}) {
    Model model(threads);
    for (int i = 0; i < 3; ++i) {
      Values values;
      ASSERT_EQ(values.run(model.model), 0) << weft_model_error();
      values.expect_right();
    }
  }
}

TEST(Model, RunsFromManyThreads) {
  Model shared;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      Model own;
      for (int i = 0; i < 20; ++i) {
        Values values;
        EXPECT_EQ(values.run(i % 2 == 0 ? own.model : shared.model), 0) << weft_model_error();
        values.expect_right();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Model, ErrorsSayWhatIsWrong) {
  weft_model *model = nullptr;
  EXPECT_NE(weft_model_open(&weft_model_sample, nullptr, &model), 0);
  EXPECT_STREQ(weft_model_error(), "the model 'sample' needs 1 weight; name a safetensors file");
  EXPECT_EQ(model, nullptr);
  auto message = [&](const std::string &weights, int threads = 0) {
    weft_model_options options{sizeof(options), threads, weights.c_str()};
    EXPECT_NE(weft_model_open(&weft_model_sample, &options, &model), 0);
    return std::string(weft_model_error());
  };
  EXPECT_NE(message("/nowhere.safetensors").find("/nowhere.safetensors"), std::string::npos);
  EXPECT_NE(
      message(write_weights("other.safetensors", "v", {8, 8}, 0)).find("there is no weight 'w'"),
      std::string::npos);
  EXPECT_NE(message(write_weights("shape.safetensors", "w", {4, 8}, 0))
                .find("the weight 'w' is float32[4, 8]; the model takes float32[8, 8]"),
            std::string::npos);
  for (int threads : {-1, 1025})
    EXPECT_EQ(message("x", threads), "cannot use " + std::to_string(threads) +
                                         " threads; it must be a number from 1 to 1024, or 0 for "
                                         "all");
  weft_entry_code cut_entry = *weft_model_sample.levels[0][0];
  const weft_entry_code *cut_entries[] = {&cut_entry};
  const weft_entry_code *const *cut_levels[] = {cut_entries};
  cut_entry.program_bytes -= 1;
  weft_model_code cut = weft_model_sample;
  cut.levels = cut_levels;
  EXPECT_NE(weft_model_open(&cut, nullptr, &model), 0);
  weft_model_code bare = weft_model_sample;
  bare.library_count = 0;
  EXPECT_NE(weft_model_open(&bare, nullptr, &model), 0);
  EXPECT_STREQ(weft_model_error(), "no library entry 'onednn.matmul' in this build");
}

TEST(Model, NoExceptionLeavesTheInterface) {
  weft_model *model = nullptr;
  const weft_library_finder throws[] = {
      [](const char *) -> const weft_library_entry * { throw std::runtime_error("no library"); }};
  weft_model_code code = weft_model_sample;
  code.libraries = throws;
  std::string weights = write_weights("weights.safetensors", "w", {8, 8}, 0.5f);
  weft_model_options options{sizeof(options), 1, weights.c_str()};
  EXPECT_EQ(weft_model_open(&code, &options, &model), 1);
  EXPECT_STREQ(weft_model_error(), "the call threw an exception: no library");
  EXPECT_EQ(model, nullptr);
}

TEST(Model, NullIsAnErrorEverywhere) {
  auto expect_error = [](const char *function) {
    EXPECT_EQ(weft_model_error(), std::string(function) + " was given no model");
  };
  EXPECT_EQ(weft_model_input_count(nullptr), 0);
  expect_error("weft_model_input_count");
  EXPECT_EQ(weft_model_output_count(nullptr), 0);
  expect_error("weft_model_output_count");
  EXPECT_EQ(weft_model_input(nullptr, 0), nullptr);
  expect_error("weft_model_input");
  EXPECT_EQ(weft_model_output(nullptr, 0), nullptr);
  expect_error("weft_model_output");
  EXPECT_EQ(weft_model_entry_count(nullptr), 0);
  expect_error("weft_model_entry_count");
  EXPECT_EQ(weft_model_entry_name(nullptr, 0), nullptr);
  expect_error("weft_model_entry_name");
  EXPECT_EQ(weft_model_state_count(nullptr), 0);
  expect_error("weft_model_state_count");
  EXPECT_EQ(weft_model_state(nullptr, 0), nullptr);
  expect_error("weft_model_state");
  weft_model_close(nullptr);
}

TEST(Model, OtherMinorVersionsWorkAndOtherMajorOnesDoNot) {
  std::string weights = write_weights("weights.safetensors", "w", {8, 8}, 0.5f);
  // Newer ones have larger structs.
  struct {
    weft_model_code known;
    const void *field;
  } code = {weft_model_sample, &code};
  code.known.struct_size = sizeof code;
  code.known.version = WEFT_VERSION(4, 7);
  code.known.kernel_version = WEFT_VERSION(1, 7);
  struct {
    weft_model_options known;
    const void *field;
  } options = {{sizeof options, 0, weights.c_str()}, &options};
  weft_model *model = nullptr;
  ASSERT_EQ(weft_model_open(&code.known, &options.known, &model), 0) << weft_model_error();
  Values values;
  EXPECT_EQ(values.run(model), 0) << weft_model_error();
  values.expect_right();
  weft_model_close(model);

  code.known.version = WEFT_VERSION(5, 2);
  EXPECT_NE(weft_model_open(&code.known, &options.known, &model), 0);
  EXPECT_STREQ(weft_model_error(),
               "the model was built for version 5.2 of runtime/aot/weft_model.h; this Weft has "
               "version 4.1, which does not fit: build it anew");
  code.known.version = WEFT_MODEL_VERSION;
  code.known.kernel_version = WEFT_VERSION(2, 0);
  EXPECT_NE(weft_model_open(&code.known, &options.known, &model), 0);
  EXPECT_STREQ(weft_model_error(),
               "a kernel of the model 'sample' was built for version 2.0 of "
               "runtime/abi/weft_runtime.h; this Weft has version 1.2, which does not fit: build "
               "it anew");
  code.known = weft_model_sample;
  code.known.struct_size = offsetof(weft_model_code, make_executable);
  EXPECT_NE(weft_model_open(&code.known, &options.known, &model), 0);
  options.known.struct_size = 0;
  EXPECT_NE(weft_model_open(&weft_model_sample, &options.known, &model), 0);
  EXPECT_NE(std::string(weft_model_error()).find("options has a struct_size of 0"),
            std::string::npos);
}

// A device that negates, across the plain C.
struct Negation : Executable {
  Negation() : program(described()) {}
  static Program described() {
    Program program;
    program.inputs = {{"x", DType::kFloat32, {2}, 8, false, false}};
    program.outputs = {{"y", DType::kFloat32, {2}, 8, -1, -1, -1},
                       {"again", DType::kFloat32, {2}, 8, -1, -1, 0}};
    return program;
  }
  std::span<const InputSpec> input_specs() const override {
    return program.inputs;
  }
  std::span<const OutputSpec> output_specs() const override {
    return program.outputs;
  }
  int64_t arena_bytes() const override {
    return 0;
  }
  bool is_serial() const override {
    return false;
  }
  absl::StatusOr<std::unique_ptr<RunResources>> acquire(const RunContext &) override {
    return std::make_unique<RunResources>();
  }
  absl::Status run(const RunContext &, RunResources &, std::span<Buffer *const> inputs,
                   std::span<Buffer *const> outputs) override {
    const float *x = static_cast<const float *>(inputs[0]->data());
    if (x[0] == 0)
      return absl::InternalError("the device is gone");
    for (int i = 0; i < 2; ++i)
      static_cast<float *>(outputs[0]->data())[i] = -x[i];
    return absl::OkStatus();
  }
  Program program;
};

const char *make_negation(const void *, uint64_t, const void *, uint64_t, weft_executable *to) {
  return give_executable(std::make_shared<Negation>(), to);
}
const char *make_nothing(const void *, uint64_t, const void *, uint64_t, weft_executable *to) {
  return give_executable(absl::UnavailableError("there is no such device here"), to);
}
// Whose room is not there.
template <bool throws> struct Full : Negation {
  absl::StatusOr<std::unique_ptr<RunResources>> acquire(const RunContext &) override {
    if (throws)
      throw std::runtime_error("no room");
    return std::unique_ptr<RunResources>();
  }
};
template <bool throws>
const char *make_full(const void *, uint64_t, const void *, uint64_t, weft_executable *to) {
  return give_executable(std::make_shared<Full<throws>>(), to);
}
const char *make_newer(const void *, uint64_t, const void *, uint64_t, weft_executable *to) {
  const char *wrong = give_executable(std::make_shared<Negation>(), to);
  to->version = WEFT_VERSION(9, 0);
  to->close(to->self);
  return wrong;
}

TEST(Model, RunsOnADeviceOfItsOwn) {
  std::string program = serialize(Negation().program).value();
  weft_model_code code = {};
  code.struct_size = sizeof code;
  code.version = WEFT_MODEL_VERSION;
  code.kernel_version = WEFT_ABI_VERSION;
  code.name = "negation";
  weft_entry_code entry = {};
  entry.name = "main";
  entry.program = program.data();
  entry.program_bytes = program.size();
  code.entry_count = 1;
  const weft_entry_code *entries[] = {&entry};
  const weft_entry_code *const *levels[] = {entries};
  code.level_count = 1;
  code.levels = levels;
  code.make_executable = make_negation;
  weft_model *model = nullptr;
  ASSERT_EQ(weft_model_open(&code, nullptr, &model), 0) << weft_model_error();
  float x[] = {1, 2}, y[2] = {}, again[2] = {};
  const void *inputs[] = {x};
  void *outputs[] = {y, again};
  ASSERT_EQ(weft_model_run(model, inputs, outputs), 0) << weft_model_error();
  EXPECT_EQ(y[1], -2);
  EXPECT_EQ(again[0], -1);
  x[0] = 0;
  EXPECT_NE(weft_model_run(model, inputs, outputs), 0);
  EXPECT_STREQ(weft_model_error(), "the device is gone");
  weft_model_close(model);
  code.make_executable = make_nothing;
  EXPECT_NE(weft_model_open(&code, nullptr, &model), 0);
  EXPECT_STREQ(weft_model_error(), "there is no such device here");
  code.make_executable = make_full<false>;
  EXPECT_NE(weft_model_open(&code, nullptr, &model), 0);
  EXPECT_STREQ(weft_model_error(), "acquire() of the executable gave null and no error");
  code.make_executable = make_full<true>;
  EXPECT_NE(weft_model_open(&code, nullptr, &model), 0);
  EXPECT_STREQ(weft_model_error(), "acquire() of the executable threw an exception: no room");
  code.make_executable = make_newer;
  EXPECT_NE(weft_model_open(&code, nullptr, &model), 0);
  EXPECT_NE(
      std::string(weft_model_error()).find("the device of the model was built for version 9.0"),
      std::string::npos)
      << weft_model_error();
}

TEST(Model, BadRunsAreRefused) {
  Model model;
  Values values;
  const void *inputs[] = {values.x.data(), nullptr};
  void *outputs[] = {values.y.data(), values.copy.data(), values.picked.data()};
  EXPECT_NE(weft_model_run(model.model, inputs, outputs), 0);
  EXPECT_STREQ(weft_model_error(), "input 1 is NULL");
  inputs[1] = reinterpret_cast<const char *>(values.idx.data()) + 4;
  EXPECT_NE(weft_model_run(model.model, inputs, outputs), 0);
  EXPECT_STREQ(weft_model_error(), "input 1 is not aligned to its elements of 8 bytes");
  values.idx[1] = 4;
  EXPECT_NE(values.run(model.model), 0);
  EXPECT_EQ(std::string(weft_model_error()).substr(0, 12), "model.py:7: ");
  values.idx[1] = 0;
  EXPECT_EQ(values.run(model.model), 0); // and goes on
  values.expect_right();
}

TEST(CpuCheck, NamesWhatIsMissing) {
  EXPECT_TRUE(check_cpu("").ok());
#if defined(__x86_64__)
  EXPECT_TRUE(check_cpu("x86_64-pc-linux-gnu|x86-64|").ok());
  EXPECT_TRUE(check_cpu("x86_64-pc-linux-gnu|znver3|+64bit,-avx512f").ok());
  EXPECT_EQ(check_cpu("x86_64-pc-linux-gnu|x86-64|+avx512f").ok(),
            __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(check_cpu("x86_64-pc-linux-gnu|x86-64-v4|").ok(),
            __builtin_cpu_supports("x86-64-v4") != 0);
  EXPECT_EQ(check_cpu("aarch64-linux-gnu|generic|").message(),
            "the model was compiled for aarch64; this machine is x86_64");
#endif
}

} // namespace
} // namespace weft::runtime
