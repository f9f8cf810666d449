// An entry that takes a batch of many sizes, made by hand.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/aot/weft_model.h"
#include "runtime/executable/sized_programs.h"

namespace weft::runtime {
namespace {

// y = x * scale + the size, by rows of two floats.
int32_t scale_rows(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
                   int64_t begin, int64_t end) {
  auto *x = static_cast<const float *>(buffers[0]), *scale = static_cast<const float *>(buffers[1]);
  auto *size = static_cast<const int64_t *>(buffers[2]);
  auto *y = static_cast<float *>(buffers[3]);
  for (int64_t i = 2 * begin; i < 2 * end; ++i)
    y[i] = x[i] * *scale + static_cast<float>(*size);
  return 0;
}

Program rows(int64_t size) {
  Program program;
  program.symbols = {"scale_rows"};
  int64_t bytes = size * 8;
  program.inputs = {{"x", DType::kFloat32, {size, 2}, bytes, false, false},
                    {"scale", DType::kFloat32, {}, 4, false, false},
                    {"ids", DType::kInt64, {size}, bytes, false, false}};
  program.outputs = {{"y", DType::kFloat32, {size, 2}, bytes, -1, -1, -1},
                     {"ids", DType::kInt64, {size}, bytes, -1, 2, -1}};
  program.constants.resize(64);
  std::memcpy(program.constants.data(), &size, sizeof size);
  program.buffers = {{BufferKind::kInput, 0, 0, bytes},
                     {BufferKind::kInput, 1, 0, 4},
                     {BufferKind::kConstant, -1, 0, 8},
                     {BufferKind::kOutput, 0, 0, bytes}};
  Launch launch;
  launch.kernel = 0;
  launch.operands = {0, 1, 2, 3};
  launch.count = size;
  program.instructions.emplace_back(launch);
  return program;
}

SizeTable table(int64_t largest) {
  using Place = SizeTable::Place;
  SizeTable table;
  table.names = {"batch"};
  table.entries = {{Place::kInputDim, 0, 0, 0, {1, {0}}, largest},
                   {Place::kInputDim, 2, 0, 0, {1, {0}}, largest},
                   {Place::kOutputDim, 0, 0, 0, {1, {0}}, largest},
                   {Place::kOutputDim, 1, 0, 0, {1, {0}}, largest},
                   {Place::kCount, 0, 0, 0, {1, {0}}, largest},
                   {Place::kConstant, 0, 0, 0, {1, {0}}, largest}};
  return table;
}

class BatchModel : public testing::Test {
protected:
  void SetUp() override {
    SizedPrograms programs;
    programs.name = "batch";
    programs.parts.push_back({2, 2, rows(2), {}});
    programs.parts.push_back({3, 40, rows(40), table(40)});
    bytes_ = serialize(programs).value();
    entry_.name = "main";
    entry_.program = bytes_.data();
    entry_.program_bytes = bytes_.size();
    code_.struct_size = sizeof code_;
    code_.version = WEFT_MODEL_VERSION;
    code_.kernel_version = WEFT_ABI_VERSION;
    code_.kernel_count = 1;
    code_.name = "rows";
    code_.kernel_names = &kernel_name_;
    code_.kernels = &kernel_;
    code_.entry_count = code_.level_count = 1;
    code_.levels = &level_;
    ASSERT_EQ(weft_model_open(&code_, nullptr, &model_), 0) << weft_model_error();
  }
  void TearDown() override {
    weft_model_close(model_);
  }

  // At the size, with shapes of other sizes where they are given.
  int32_t run(int64_t size, int64_t x_rows, int64_t ids_rows) {
    x_.assign(static_cast<size_t>(2 * size), 3.0f);
    ids_.assign(static_cast<size_t>(size), size);
    y_.assign(x_.size(), 0);
    same_.assign(ids_.size(), 0);
    const int64_t x_dims[] = {x_rows, 2}, ids_dims[] = {ids_rows};
    const int64_t *dims[] = {x_dims, nullptr, ids_dims};
    const void *inputs[] = {x_.data(), &scale_, ids_.data()};
    void *outputs[] = {y_.data(), same_.data()};
    return weft_model_run_sized(model_, dims, inputs, outputs);
  }

  std::string bytes_;
  weft_entry_code entry_ = {};
  const weft_entry_code *entries_[1] = {&entry_};
  const weft_entry_code *const *level_ = entries_;
  const char *kernel_name_ = "scale_rows";
  weft_kernel kernel_ = scale_rows;
  weft_model_code code_ = {};
  weft_model *model_ = nullptr;
  float scale_ = 2;
  std::vector<float> x_, y_;
  std::vector<int64_t> ids_, same_;
};

TEST_F(BatchModel, RunsAtEachSize) {
  // More sizes than are kept, and again.
  for (int round = 0; round < 2; ++round)
    for (int64_t size = 2; size <= 40; size += 1 + round * 6) {
      ASSERT_EQ(run(size, size, size), 0) << weft_model_error();
      EXPECT_EQ(y_, std::vector<float>(x_.size(), 6.0f + static_cast<float>(size)));
      EXPECT_EQ(same_, ids_);
    }
}

TEST_F(BatchModel, SaysWhatItTakes) {
  const weft_tensor_info *x = weft_model_input(model_, 0), *scale = weft_model_input(model_, 1),
                         *ids = weft_model_output(model_, 1);
  EXPECT_EQ(x->min_dims[0], 2);
  EXPECT_EQ(x->dims[0], 40);
  EXPECT_EQ(x->min_dims[1], 2);
  EXPECT_EQ(x->bytes, 320);
  EXPECT_EQ(scale->rank, 0);
  EXPECT_EQ(ids->min_dims[0], 2);
  EXPECT_EQ(ids->dims[0], 40);
  const int64_t x_dims[] = {17, 2}, ids_dims[] = {17};
  const int64_t *dims[] = {x_dims, nullptr, ids_dims};
  std::array<int64_t, 2> y{};
  ASSERT_EQ(weft_model_output_dims(model_, dims, 0, y.data()), 0) << weft_model_error();
  EXPECT_EQ(y, (std::array<int64_t, 2>{17, 2}));
  EXPECT_NE(weft_model_output_dims(model_, dims, 2, y.data()), 0);
  EXPECT_NE(weft_model_output_dims(model_, dims, 0, nullptr), 0);
}

TEST_F(BatchModel, RefusesOtherShapes) {
  for (const auto &[x_rows, ids_rows, message] :
       std::vector<std::tuple<int64_t, int64_t, std::string>>{
           {41, 41, "input 0 'x' is given as float32[41, 2]; the model takes float32[2..40, 2]"},
           {1, 1, "input 0 'x' is given as float32[1, 2]; the model takes float32[2..40, 2]"},
           {0, 0, "input 0 'x' is given as float32[0, 2]; the model takes float32[2..40, 2]"},
           {5, 6, "input 2 'ids' is given as int64[6]; input 0 'x' has a batch of 5"}}) {
    EXPECT_NE(run(5, x_rows, ids_rows), 0);
    EXPECT_EQ(weft_model_error(), message);
  }
  const void *inputs[] = {x_.data(), &scale_, ids_.data()};
  void *outputs[] = {y_.data(), same_.data()};
  EXPECT_NE(weft_model_run_sized(model_, nullptr, inputs, outputs), 0);
  EXPECT_STREQ(weft_model_error(), "input 0 'x' is float32[2..40, 2]: its dims are missing");
  EXPECT_NE(weft_model_run(model_, inputs, outputs), 0);
  EXPECT_STREQ(weft_model_error(), "the entry 'main' takes a batch from 2 to 40: run it with "
                                   "weft_model_run_sized(), which is given the shapes");
  EXPECT_NE(weft_model_run_sized(nullptr, nullptr, inputs, outputs), 0);
  EXPECT_EQ(run(5, 5, 5), 0) << weft_model_error(); // and goes on
}

} // namespace
} // namespace weft::runtime
