#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "runtime/executor/device.h"
#include "runtime/memory/memory.h"
#include "tests/support/errors.h"
#include "weft/io/io.h"
#include "weft/weft.h"

namespace weft::io {
namespace {

using testing_support::error_of;

namespace fs = std::filesystem;

std::string scratch_folder() {
  const char *base = std::getenv("TEST_TMPDIR");
  std::string folder = std::string(base ? base : "/tmp") + "/tensor_io_test." +
                       std::to_string(getpid()) + "." +
                       ::testing::UnitTest::GetInstance()->current_test_info()->name();
  fs::create_directories(folder);
  return folder;
}
std::string content(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(Safetensors, TensorsComeBackBitForBit) {
  std::string path = scratch_folder() + "/x.safetensors";
  Tensor x = Tensor::from(std::vector<float>{-0.f, INFINITY, 1e-45f, 3.f, 4.f, 5.f}, {2, 3});
  std::vector<std::pair<std::string, Tensor>> tensors = {
      {"x", x},
      {"transposed", x.t()}, // a view, written in row-major order
      {"computed", x * 2},
      {"int", Tensor::from(std::vector<int64_t>{INT64_MIN, -1, INT64_MAX})},
      {"bool", Tensor::from(std::vector<int32_t>{0, 5, 0}) != 0},
      {"scalar", scalar(2.5, float64)},
      {"empty", zeros({0, 4})},
  };
  save_safetensors(path, tensors, {{"step", "12"}});
  SafeTensors loaded = load_safetensors(path);
  EXPECT_EQ(loaded.metadata, (std::map<std::string, std::string>{{"step", "12"}}));
  ASSERT_EQ(loaded.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto &[name, tensor] = loaded.tensors[i];
    EXPECT_EQ(name, tensors[i].first);
    EXPECT_EQ(tensor.dtype(), tensors[i].second.dtype());
    ASSERT_EQ(tensor.shape(), tensors[i].second.shape());
    if (tensor.nbytes() > 0)
      EXPECT_EQ(std::memcmp(tensor.data_bytes(), tensors[i].second.data_bytes(), tensor.nbytes()),
                0)
          << name;
  }
  EXPECT_EQ(loaded.tensors[1].second.to_vector<float>()[1], 3.f);
}

TEST(Npy, TensorsComeBackBitForBit) {
  std::string path = scratch_folder() + "/x.npy";
  for (const Tensor &x : {tensor({{1.f, 2.f}, {3.f, 4.f}}).t(), scalar(7),
                          zeros({3, 0, 2}, float64), tensor<int32_t>({1, 2})}) {
    save_npy(path, x);
    Tensor y = load_npy(path);
    EXPECT_EQ(y.dtype(), x.dtype());
    ASSERT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.to_vector<double>(), x.to_vector<double>());
  }
}

struct Line : nn::Module {
  nn::Linear layer = child("layer", nn::Linear(64, 64));
  Tensor operator()(const Tensor &x) {
    return layer(x);
  }
};

Tensor weight_in(const SafeTensors &file) {
  for (const auto &[name, tensor] : file.tensors)
    if (name == "layer.weight")
      return tensor;
  return Tensor();
}

// What was loaded is written by training, by hand and through a pointer; the file never is.
TEST(Safetensors, AFileStaysAsItIs) {
  std::string path = scratch_folder() + "/x.safetensors";
  manual_seed(3);
  Line line;
  save_safetensors(path, line.state());
  const std::string before = content(path);
  Tensor x = randn({8, 64}).eval();
  auto train = [&](Line &model) {
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      (model(x) * model(x)).sum().backward();
      optimizer.step();
    }
    return model.layer.weight.to_vector<float>();
  };
  Line loaded, copied;
  SafeTensors file = load_safetensors(path);
  loaded.load_state(file.tensors);
  copied.load_state(line.state());
  EXPECT_EQ(train(loaded), train(copied));
  EXPECT_EQ(content(path), before);
  EXPECT_EQ(weight_in(file).to_vector<float>(), line.layer.weight.to_vector<float>());
  // The loaded tensors themselves, in each way that there is to write one.
  file = load_safetensors(path);
  Tensor weight = weight_in(file);
  ASSERT_EQ(weight.shape(), (Shape{64, 64}));
  weight += 1;
  weight.eval();
  weight.narrow(0, 0, 1).zero_();
  weight.eval();
  Tensor pointed = weight_in(load_safetensors(path));
  std::fill_n(pointed.mutable_data<float>(), 64, 5.f);
  EXPECT_EQ(pointed.to_vector<float>()[63], 5.f);
  Tensor given = weight_in(load_safetensors(path));
  given = given * 2; // the program may have its memory
  given.eval();
  Tensor jitted = weight_in(load_safetensors(path));
  auto grow = jit([&](const Tensor &by) {
    jitted += by;
    return jitted.sum();
  });
  grow(ones({64}));
  jitted.eval();
  synchronize();
  EXPECT_EQ(content(path), before);
  // Over itself, while it is mapped; and gone.
  file = load_safetensors(path);
  save_safetensors(path, file.tensors);
  EXPECT_EQ(weight_in(load_safetensors(path)).to_vector<float>(),
            line.layer.weight.to_vector<float>());
  fs::remove(path);
  EXPECT_EQ(weight_in(file).to_vector<float>(), line.layer.weight.to_vector<float>());
}

// A float64 behind three float32 is not aligned to its elements.
TEST(Safetensors, AlignsWhatIsNot) {
  std::string path = scratch_folder() + "/x.safetensors";
  Tensor odd = tensor({1.f, 2.f, 3.f}), x = Tensor::from(std::vector<double>{4, 5, 6});
  save_safetensors(path, {{"odd", odd}, {"x", x}});
  Tensor read = load_safetensors(path).tensors[1].second;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read.data<double>()) % sizeof(double), 0u);
  EXPECT_EQ((read * 2).to_vector<double>(), (std::vector<double>{8, 10, 12}));
}

// The file of another program, with dtypes that Weft has not.
TEST(Safetensors, ADtypeThatWeftHasNotLeavesTheOthers) {
  std::string path = scratch_folder() + "/x.safetensors";
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                             R"("scale":{"dtype":"F8_E5M2","shape":[1,2],"data_offsets":[2,4]},)"
                             R"("b":{"dtype":"BOOL","shape":[1],"data_offsets":[4,5]}})";
  const auto length = static_cast<uint64_t>(header.size());
  std::ofstream(path, std::ios::binary)
      << std::string(reinterpret_cast<const char *>(&length), 8) << header
      << std::string("\x01\x02\x03\x04\x01", 5);
  SafeTensors file = load_safetensors(path);
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.at("a").to_vector<uint8_t>(), (std::vector<uint8_t>{1, 2}));
  EXPECT_EQ(file.at("b").dtype(), boolean);
  ASSERT_EQ(file.unread.size(), 1u);
  EXPECT_EQ(file.unread[0].name, "scale");
  EXPECT_EQ(file.unread[0].shape, (Shape{1, 2}));
  int line = __LINE__ + 1;
  Error error = error_of([&] { file.at("scale"); });
  EXPECT_EQ(error.kind(), ErrorKind::kDType);
  EXPECT_EQ(error.line(), line);
  EXPECT_NE(error.message().find("'scale' is F8_E5M2 [1, 2] in the file"), std::string::npos)
      << error.message();
  EXPECT_EQ(error_of([&] { file.at("none"); }).kind(), ErrorKind::kFile);
}

// Weights in a file are prepared like others: nobody writes them.
TEST(Safetensors, LoadingTakesNoMemoryOfTensors) {
  std::string path = scratch_folder() + "/x.safetensors";
  save_safetensors(path, {{"x", zeros({1 << 20})}});
  auto allocated = [] {
    return runtime::cpu_device().memory()->allocator().stats().live_bytes;
  };
  int64_t before = allocated();
  Tensor x = load_safetensors(path).tensors[0].second;
  EXPECT_EQ(allocated(), before);
  x += 1;
  EXPECT_EQ(x.sum().item<float>(), 1 << 20);
}

TEST(Files, ErrorsNameTheFileAndTheCaller) {
  std::string folder = scratch_folder();
  std::ofstream(folder + "/text") << "not an array";
  int line = __LINE__ + 1;
  Error error = error_of([&] { load_safetensors(folder + "/text"); });
  EXPECT_EQ(error.kind(), ErrorKind::kFile);
  EXPECT_EQ(error.line(), line);
  EXPECT_NE(error.message().find(folder + "/text"), std::string::npos);
  EXPECT_EQ(error_of([&] { load_npy(folder + "/text"); }).kind(), ErrorKind::kFile);
  EXPECT_EQ(error_of([&] { load_npy(folder + "/none"); }).kind(), ErrorKind::kFile);
  EXPECT_EQ(error_of([&] { save_npy(folder + "/none/x.npy", zeros({1})); }).kind(),
            ErrorKind::kFile);
  EXPECT_EQ(error_of([&] {
              save_safetensors(folder + "/x", {{"a", zeros({1})}, {"a", zeros({1})}});
            }).kind(),
            ErrorKind::kFile);
  EXPECT_FALSE(fs::exists(folder + "/x"));
  line = __LINE__ + 2;
  error = error_of(
      [&] { save_safetensors(folder + "/x", {{"a", zeros({1})}, {"layer.bias", Tensor()}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kState);
  EXPECT_EQ(error.line(), line);
  EXPECT_NE(error.message().find("'layer.bias' is an undefined tensor"), std::string::npos)
      << error.what();
  EXPECT_FALSE(fs::exists(folder + "/x"));
}

TEST(Files, WritableFolders) {
  std::string folder = scratch_folder();
  make_writable_folder(folder + "/a/b");
  EXPECT_TRUE(fs::is_empty(folder + "/a/b"));
  write_file(folder + "/a/file", "one");
  write_file(folder + "/a/file", "two");
  EXPECT_EQ(content(folder + "/a/file"), "two");
  EXPECT_EQ(error_of([&] { make_writable_folder(folder + "/a/file"); }).kind(), ErrorKind::kFile);
  EXPECT_EQ(error_of([&] { make_writable_folder(folder + "/a/file/below"); }).kind(),
            ErrorKind::kFile);
  EXPECT_EQ(error_of([&] { make_writable_folder("/proc/none"); }).kind(), ErrorKind::kFile);
}

TEST(Progress, PlainLinesOffATerminal) {
  std::string path = scratch_folder() + "/out";
  std::FILE *file = std::fopen(path.c_str(), "w");
  {
    ProgressBar bar({.total = 10, .plain_every = 4, .stream = file});
    for (int i = 1; i <= 10; ++i)
      bar.update(i, "loss " + std::to_string(i));
  }
  std::fclose(file);
  std::string text = content(path);
  EXPECT_NE(text.find("step 4/10  loss 4  ETA "), std::string::npos) << text;
  EXPECT_NE(text.find("step 8/10"), std::string::npos);
  EXPECT_NE(text.find("step 10/10  loss 10  ETA 0:00\n"), std::string::npos)
      << "the last step always";
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos);
}

TEST(Progress, OneLineOnATerminal) {
  std::string path = scratch_folder() + "/out";
  std::FILE *file = std::fopen(path.c_str(), "w");
  {
    ProgressBar bar({.total = 4, .stream = file, .width = 60});
    bar.update(1, "a status that is much too long for the line, which must not wrap");
    bar.print("a line");
    bar.update(2, "s");
    bar.update(4, "s");
  }
  std::fclose(file);
  std::string text = content(path);
  EXPECT_EQ(text.rfind("\r[#####...............] step 1/4", 0), 0u) << text;
  EXPECT_NE(text.find("\r\x1b[Ka line\n"), std::string::npos);
  EXPECT_NE(text.find("[##########..........] step 2/4"), std::string::npos);
  EXPECT_NE(text.find("[####################] step 4/4"), std::string::npos);
  EXPECT_LE(text.find('\x1b'), 61u) << "shortened to the width";
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, Formats) {
  EXPECT_EQ(format_duration(75.2), "1:15");
  EXPECT_EQ(format_duration(3675), "1:01:15");
  EXPECT_EQ(format_duration(-1), "-");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(12345), "12.3k");
  EXPECT_EQ(format_count(4.1e6), "4.1M");
  EXPECT_EQ(format_bytes(831), "831 B");
  EXPECT_EQ(format_bytes(3.5 * 1024 * 1024), "3.5 MiB");
}

} // namespace
} // namespace weft::io
