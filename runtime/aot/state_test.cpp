// What a model keeps from run to run, whatever ties a program's outputs to its inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/aot/weft_model.h"
#include "runtime/executable/program.h"
#include "runtime/io/safetensors.h"

namespace weft::runtime {
namespace {

using Floats = std::vector<float>;

// buffers: indices, then a and b -> a + b.
int32_t add(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
            int64_t begin, int64_t end) {
  if (*static_cast<const int64_t *>(buffers[0]) != 0)
    return WEFT_KERNEL_INDEX_OUT_OF_RANGE;
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(buffers[3])[i] =
        static_cast<const float *>(buffers[1])[i] + static_cast<const float *>(buffers[2])[i];
  return WEFT_KERNEL_OK;
}
int32_t break_down(const weft_kernel_env *, void *const *, const int64_t *, const double *, int64_t,
                   int64_t) {
  return 99;
}

InputSpec input(const char *name, bool donatable) {
  return {name, DType::kFloat32, {2}, 8, donatable, false};
}
OutputSpec output(const char *name, int donated, int alias_input, int alias_output) {
  return {name, DType::kFloat32, {2}, 8, donated, alias_input, alias_output};
}

// x and idx are given. a += x in its place; b and c change places; d = x + w in memory of its own;
// e is what a is; the caller gets the new a, and f, which is written over, as f + x.
Program train_program() {
  Program program;
  program.inputs = {input("x", false), {"idx", DType::kInt64, {1}, 8, false, false},
                    input("a", true),  input("b", true),
                    input("c", true),  input("f", true),
                    input("w", false)};
  program.outputs = {output("a", 2, -1, -1),     output("b", -1, 4, -1), output("c", -1, 3, -1),
                     output("d", -1, -1, -1),    output("e", -1, -1, 0), output("new a", -1, -1, 0),
                     output("f + x", 5, -1, -1), output("f", -1, 0, -1)};
  program.buffers = {{BufferKind::kInput, 0, 0, 8}, {BufferKind::kInput, 1, 0, 8},
                     {BufferKind::kInput, 2, 0, 8}, {BufferKind::kInput, 5, 0, 8},
                     {BufferKind::kInput, 6, 0, 8}, {BufferKind::kOutput, 3, 0, 8}};
  program.symbols = {"add"};
  program.locations = {"train.cpp:3"};
  IndexCheck check{.op = "weft.index_select", .operand = 0, .lower = 0, .upper = 1, .location = 0};
  for (auto [left, target] : {std::pair{4, 5}, {2, 2}, {3, 3}})
    program.instructions.push_back(Launch{0, -1, {1, left, 0, target}, -1, 2, 2, true, 0, {check}});
  return program;
}

Program predict_program() {
  Program program;
  program.inputs = {
      input("x", false), {"idx", DType::kInt64, {1}, 8, false, false}, input("a", false)};
  program.outputs = {output("y", -1, -1, -1)};
  program.buffers = {{BufferKind::kInput, 0, 0, 8},
                     {BufferKind::kInput, 1, 0, 8},
                     {BufferKind::kInput, 2, 0, 8},
                     {BufferKind::kOutput, 0, 0, 8}};
  program.symbols = {"add"};
  program.instructions = {Launch{0, -1, {1, 2, 0, 3}, -1, 2, 2, true, -1, {}}};
  return program;
}

Program failing_program() {
  Program program;
  program.inputs = {input("a", true)};
  program.outputs = {output("a", 0, -1, -1)};
  program.buffers = {{BufferKind::kInput, 0, 0, 8}};
  program.symbols = {"break_down"};
  program.instructions = {Launch{0, -1, {0}, -1, 2, 2, true, -1, {}}};
  return program;
}

class ModelState : public testing::Test {
protected:
  ModelState() {
    for (const Program &program : {train_program(), predict_program(), failing_program()})
      bytes_.push_back(serialize(program).value());
    auto entry = [&](const char *name, size_t i, std::span<const weft_held_place> reads,
                     std::span<const weft_held_place> writes) {
      entries_.push_back({name, bytes_[i].data(), bytes_[i].size(), reads.size(), reads.data(),
                          writes.size(), writes.data(), nullptr, 0});
    };
    entry("train", 0, reads_, writes_);
    entry("predict", 1, predict_reads_, {});
    entry("fail", 2, fail_places_, fail_places_);
    for (size_t i = 0; i < std::size(names_); ++i)
      held_.push_back({names_[i], dims_, 1, 0, i < 6, &values_[2 * i], 8});
    code_.struct_size = sizeof code_;
    code_.version = WEFT_MODEL_VERSION;
    code_.kernel_version = WEFT_ABI_VERSION;
    code_.name = "counter";
    code_.kernel_count = 2;
    code_.kernel_names = kernel_names_;
    code_.kernels = kernels_;
    code_.held_count = held_.size();
    for (const weft_held_code &held : held_)
      held_table_.push_back(&held);
    for (const weft_entry_code &entry : entries_)
      entry_table_.push_back(&entry);
    code_.held = held_table_.data();
    code_.entry_count = entries_.size();
    level_ = entry_table_.data();
    code_.level_count = 1;
    code_.levels = &level_;
    open();
  }
  ~ModelState() override {
    weft_model_close(model_);
  }

  void open() {
    weft_model_close(model_);
    ASSERT_EQ(weft_model_open(&code_, nullptr, &model_), 0) << weft_model_error();
  }

  int32_t step(float x, int64_t index = 0) {
    Floats input = {x, 10 * x};
    const void *inputs[] = {input.data(), &index};
    void *outputs[] = {new_a_.data(), f_plus_x_.data()};
    return weft_model_run(model_, inputs, outputs);
  }
  Floats get(const char *name) {
    Floats value(2);
    EXPECT_EQ(weft_model_get_state(model_, name, value.data(), 8), 0) << weft_model_error();
    return value;
  }

  static constexpr int64_t dims_[] = {2};
  const char *const names_[7] = {"a", "b", "c", "d", "e", "f", "w"};
  alignas(64) const float values_[14] = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 100, 100};
  const char *const kernel_names_[2] = {"add", "break_down"};
  const weft_kernel kernels_[2] = {add, break_down};
  const weft_held_place reads_[5] = {{2, 0}, {3, 1}, {4, 2}, {5, 5}, {6, 6}};
  const weft_held_place writes_[6] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {7, 5}};
  const weft_held_place predict_reads_[1] = {{2, 0}};
  const weft_held_place fail_places_[1] = {{0, 0}};
  std::vector<std::string> bytes_;
  std::vector<weft_entry_code> entries_;
  std::vector<weft_held_code> held_;
  std::vector<const weft_entry_code *> entry_table_;
  const weft_entry_code *const *level_ = nullptr;
  std::vector<const weft_held_code *> held_table_;
  weft_model_code code_ = {};
  weft_model *model_ = nullptr;
  Floats new_a_ = Floats(2), f_plus_x_ = Floats(2);
};

TEST_F(ModelState, ChangesFromRunToRun) {
  ASSERT_EQ(step(1), 0) << weft_model_error();
  EXPECT_EQ(new_a_, (Floats{2, 11}));
  EXPECT_EQ(f_plus_x_, (Floats{7, 16}));
  EXPECT_EQ(get("a"), (Floats{2, 11}));
  EXPECT_EQ(get("b"), (Floats{3, 3}));
  EXPECT_EQ(get("c"), (Floats{2, 2}));
  EXPECT_EQ(get("d"), (Floats{101, 110}));
  EXPECT_EQ(get("e"), (Floats{2, 11}));
  EXPECT_EQ(get("f"), (Floats{1, 10}));
  ASSERT_EQ(step(2), 0) << weft_model_error();
  EXPECT_EQ(new_a_, (Floats{4, 31}));
  EXPECT_EQ(f_plus_x_, (Floats{3, 30}));
  EXPECT_EQ(get("a"), (Floats{4, 31}));
  EXPECT_EQ(get("b"), (Floats{2, 2}));
  EXPECT_EQ(get("c"), (Floats{3, 3}));
  EXPECT_EQ(get("d"), (Floats{102, 120}));
  EXPECT_EQ(get("e"), (Floats{4, 31}));
  EXPECT_EQ(get("f"), (Floats{2, 20}));
  open(); // the values in the code are as they were
  EXPECT_EQ(get("a"), (Floats{1, 1}));
}

TEST_F(ModelState, IsListed) {
  ASSERT_EQ(weft_model_state_count(model_), 6);
  EXPECT_STREQ(weft_model_state(model_, 3)->name, "d");
  EXPECT_EQ(weft_model_state(model_, 3)->rank, 1);
  EXPECT_EQ(weft_model_state(model_, 3)->dims[0], 2);
  EXPECT_EQ(weft_model_state(model_, 6), nullptr) << "a weight";
  EXPECT_EQ(weft_model_input_count(model_), 2);
  EXPECT_EQ(weft_model_output_count(model_), 2);
  EXPECT_STREQ(weft_model_output(model_, 1)->name, "f + x");
}

TEST_F(ModelState, IsSharedByEntries) {
  ASSERT_EQ(weft_model_entry_count(model_), 3);
  EXPECT_STREQ(weft_model_entry_name(model_, 1), "predict");
  EXPECT_EQ(weft_model_entry_name(model_, 3), nullptr);
  weft_model *predict = weft_model_entry(model_, "predict");
  ASSERT_NE(predict, nullptr);
  EXPECT_EQ(weft_model_output_count(predict), 1);
  EXPECT_EQ(weft_model_state_count(predict), 6);
  auto expect = [&](Floats wanted) {
    Floats x = {0, 0}, y(2);
    int64_t index = 0;
    const void *inputs[] = {x.data(), &index};
    void *outputs[] = {y.data()};
    ASSERT_EQ(weft_model_run(predict, inputs, outputs), 0) << weft_model_error();
    EXPECT_EQ(y, wanted);
  };
  expect({1, 1});
  weft_model_close(predict); // goes with the model, and not before
  EXPECT_STREQ(weft_model_error(), "weft_model_close was given the entry 'predict' of the model "
                                   "'counter'; close what weft_model_open() gave");
  expect({1, 1});
  ASSERT_EQ(step(1), 0);
  expect({2, 11});
  EXPECT_EQ(weft_model_entry(model_, "test"), nullptr);
  EXPECT_STREQ(weft_model_error(),
               "the model 'counter' has no entry 'test'; it has train, predict, fail");
}

TEST_F(ModelState, IsSetByName) {
  Floats value = {40, 50};
  ASSERT_EQ(weft_model_set_state(model_, "a", value.data(), 8), 0) << weft_model_error();
  ASSERT_EQ(step(1), 0);
  EXPECT_EQ(get("a"), (Floats{41, 60}));
  EXPECT_NE(weft_model_set_state(model_, "a", value.data(), 4), 0);
  EXPECT_STREQ(weft_model_error(), "the state 'a' is float32[2], which takes 8 bytes, not 4");
  EXPECT_NE(weft_model_get_state(model_, "w", value.data(), 8), 0);
  EXPECT_STREQ(weft_model_error(), "the model 'counter' has no state 'w'; it has a, b, c, d, e, f");
  EXPECT_NE(weft_model_get_state(model_, "a", nullptr, 8), 0);
}

TEST_F(ModelState, IsWrittenToAFileAndReadAgain) {
  std::string path = testing::TempDir() + "/state.safetensors";
  ASSERT_EQ(step(1), 0);
  ASSERT_EQ(weft_model_save_state(model_, path.c_str()), 0) << weft_model_error();
  EXPECT_EQ(read_safetensors(path).value().tensors.size(), 6u);
  ASSERT_EQ(step(2), 0);
  Floats a = get("a"), b = get("b"), d = get("d");
  open();
  ASSERT_EQ(weft_model_load_state(model_, path.c_str()), 0) << weft_model_error();
  ASSERT_EQ(step(2), 0);
  EXPECT_EQ(get("a"), a);
  EXPECT_EQ(get("b"), b);
  EXPECT_EQ(get("d"), d);

  // All or nothing.
  Floats value = {7, 7};
  std::vector<ArrayView> views;
  for (const char *name : {"a", "b", "c", "d", "e"})
    views.push_back({name, DType::kFloat32, {2}, std::as_bytes(std::span(value))});
  std::string part = testing::TempDir() + "/part.safetensors";
  ASSERT_TRUE(write_safetensors(part, views).ok());
  EXPECT_NE(weft_model_load_state(model_, part.c_str()), 0);
  EXPECT_EQ(weft_model_error(), part + ": there is no state 'f'");
  EXPECT_EQ(get("a"), a);
  views.push_back({"f", DType::kFloat32, {1, 2}, std::as_bytes(std::span(value))});
  ASSERT_TRUE(write_safetensors(part, views).ok());
  EXPECT_NE(weft_model_load_state(model_, part.c_str()), 0);
  EXPECT_EQ(weft_model_error(),
            part + ": the state 'f' is float32[1, 2]; the model takes float32[2]");
  EXPECT_EQ(get("a"), a);
}

// A file that would be ignored is refused: as a whole, or by the name of what is embedded.
TEST_F(ModelState, AFileForWhatIsEmbeddedIsRefused) {
  Floats value = {7, 7};
  auto file = [&](const std::vector<const char *> &names) {
    std::vector<ArrayView> views;
    for (const char *name : names)
      views.push_back({name, DType::kFloat32, {2}, std::as_bytes(std::span(value))});
    std::string path = testing::TempDir() + "/given.safetensors";
    EXPECT_TRUE(write_safetensors(path, views).ok());
    return path;
  };
  auto open_with = [&](const std::string &path) -> std::string {
    weft_model_close(model_);
    weft_model_options options{sizeof options, 0, path.c_str()};
    return weft_model_open(&code_, &options, &model_) == 0 ? "" : weft_model_error();
  };
  const std::string path = file({"w"});
  const std::string how = "; weft_model_load_state() and an executable's --load read state";
  EXPECT_EQ(open_with(path),
            path + ": the model 'counter' has its weights inside and reads none; compile it with "
                   "weights beside it (weft::CompileOptions::embed_weights = false, weft-compile "
                   "--weights-mode=beside, weft-models export --weights-beside)" +
                how);
  held_[6].value = nullptr;
  EXPECT_EQ(open_with(file({"w", "e"})),
            path + ": the state 'e' is inside the model 'counter' and is not read; leave it out" +
                how);
  ASSERT_EQ(open_with(file({"w", "other"})), "");
  ASSERT_EQ(step(1), 0) << weft_model_error();
  EXPECT_EQ(get("d"), (Floats{8, 17}));
  // One weight of two.
  held_[5].is_state = 0;
  EXPECT_EQ(open_with(file({"f", "w"})),
            path + ": the weight 'f' is inside the model 'counter' and is not read; leave it out");
}

TEST_F(ModelState, StaysWhereAnIndexIsOutOfRange) {
  ASSERT_EQ(step(1), 0);
  std::vector<Floats> before;
  for (int i = 0; i < 6; ++i)
    before.push_back(get(names_[i]));
  EXPECT_NE(step(2, 7), 0);
  EXPECT_EQ(std::string(weft_model_error()).substr(0, 13), "train.cpp:3: ");
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(get(names_[i]), before[static_cast<size_t>(i)]) << names_[i];
  ASSERT_EQ(step(2), 0);
  EXPECT_EQ(get("a"), (Floats{4, 31}));
  EXPECT_EQ(get("b"), (Floats{2, 2}));
}

TEST_F(ModelState, IsLostInOtherFailuresUntilItIsLoaded) {
  std::string path = testing::TempDir() + "/before.safetensors";
  ASSERT_EQ(weft_model_save_state(model_, path.c_str()), 0);
  EXPECT_NE(weft_model_run(weft_model_entry(model_, "fail"), nullptr, nullptr), 0);
  Floats value(2);
  for (int32_t failed : {step(1), weft_model_get_state(model_, "a", value.data(), 8),
                         weft_model_set_state(model_, "a", value.data(), 8),
                         weft_model_save_state(model_, (path + "2").c_str())})
    EXPECT_NE(failed, 0);
  EXPECT_NE(std::string(weft_model_error()).find("was lost in a run that failed; load it again"),
            std::string::npos)
      << weft_model_error();
  ASSERT_EQ(weft_model_load_state(model_, path.c_str()), 0);
  ASSERT_EQ(step(1), 0);
  EXPECT_EQ(get("a"), (Floats{2, 11}));
}

} // namespace
} // namespace weft::runtime
