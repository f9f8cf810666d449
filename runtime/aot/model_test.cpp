#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "runtime/aot/cpu_check.h"
#include "runtime/aot/sample_model.h"
#include "runtime/aot/weft_model.h"
#include "runtime/executable/program.h"
#include "runtime/io/safetensors.h"

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
  EXPECT_STREQ(weft_model_error(), "the model 'sample' needs 1 weights; name a safetensors file");
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
  EXPECT_EQ(message("x", -1), "cannot use -1 threads");
  weft_model_code old = weft_model_sample;
  old.version = 99;
  EXPECT_NE(weft_model_open(&old, nullptr, &model), 0);
  EXPECT_NE(std::string(weft_model_error()).find("version 99"), std::string::npos);
  weft_model_code cut = weft_model_sample;
  cut.program_bytes -= 1;
  EXPECT_NE(weft_model_open(&cut, nullptr, &model), 0);
  weft_model_code bare = weft_model_sample;
  bare.library_count = 0;
  EXPECT_NE(weft_model_open(&bare, nullptr, &model), 0);
  EXPECT_STREQ(weft_model_error(), "no library entry 'onednn.matmul' in this build");
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
