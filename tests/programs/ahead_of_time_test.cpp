// A module, traced and compiled ahead of time: its weights' names, and that the executable computes
// what the module does.
#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/programs/process.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

struct Mlp : nn::Module {
  nn::Linear up = child("up", nn::Linear(12, 16));
  nn::LayerNorm norm = child("norm", nn::LayerNorm(16));
  nn::Linear down = child("down", nn::Linear(16, 3));
  Tensor operator()(const Tensor &x) const {
    return down(norm(tanh(up(x))));
  }
};

class AheadOfTime : public testing::Test {
protected:
  std::string folder_ = scratch_folder();
  Mlp model_;
  Tensor x_ = rand({5, 12});

  // The executable's output for x_, with the options.
  void expect_same(const std::vector<std::string> &options) {
    io::save_npy(folder_ + "/x.npy", x_);
    std::vector<std::string> command = {folder_ + "/mlp", "--input", folder_ + "/x.npy", "--output",
                                        folder_ + "/y.npy"};
    command.insert(command.end(), options.begin(), options.end());
    ProcessResult run = run_process(command);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    std::vector<float> expected = model_(x_).to_vector<float>(),
                       values = io::load_npy(folder_ + "/y.npy").to_vector<float>();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], expected[i]) << i;
  }
};

TEST_F(AheadOfTime, WeightsAreEmbedded) {
  Program program = trace(model_, {zeros({5, 12})});
  program.compile({.emit = Emit::executable, .output = folder_ + "/mlp"});
  expect_same({});
  // Others, which would be ignored, are refused.
  io::save_safetensors(folder_ + "/other.safetensors", model_.state());
  ProcessResult run = run_process({folder_ + "/mlp", "--weights", folder_ + "/other.safetensors",
                                   "--input", folder_ + "/x.npy"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("other.safetensors: the model 'model' has its weights inside and reads "
                         "none; compile it with weights beside it"),
            std::string::npos)
      << run.err;
}

TEST_F(AheadOfTime, WeightsHaveTheNamesOfTheModule) {
  Program program = trace(model_, {zeros({5, 12})});
  EXPECT_NE(program.to_string().find("\"up.weight\""), std::string::npos);
  program.compile({.emit = Emit::executable, .output = folder_ + "/mlp", .embed_weights = false});
  auto weights = io::load_safetensors(folder_ + "/mlp.safetensors");
  std::vector<std::string> names;
  for (const auto &[name, tensor] : weights.tensors) {
    names.push_back(name);
    for (const auto &[own, value] : model_.state())
      if (own == name)
        EXPECT_EQ(tensor.to_vector<float>(), value.to_vector<float>()) << name;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"down.bias", "down.weight", "norm.bias", "norm.weight",
                                             "up.bias", "up.weight"}));
  expect_same({"--weights", folder_ + "/mlp.safetensors"});
}

// What a lambda captures has no name but is a weight all the same.
TEST_F(AheadOfTime, CapturedTensorsWithoutNames) {
  Tensor wide = rand({12, 30}), small = tensor({3.f});
  trace([&](const Tensor &x) { return matmul(x, wide) * small; }, {zeros({5, 12})})
      .compile({.emit = Emit::executable, .output = folder_ + "/mlp", .embed_weights = false});
  auto weights = io::load_safetensors(folder_ + "/mlp.safetensors");
  ASSERT_EQ(weights.tensors.size(), 1u) << "a single element is a constant";
  EXPECT_EQ(weights.tensors[0].first, "captured_0");
  EXPECT_EQ(weights.tensors[0].second.to_vector<float>(), wide.to_vector<float>());
}

TEST_F(AheadOfTime, InputsAndOutputsHaveNames) {
  Program program = trace(model_, {zeros({5, 12})});
  program.set_names({"features"}, {"scores"});
  program.save(folder_ + "/mlp.mlir");
  Program::load(folder_ + "/mlp.mlir").compile({.output = folder_ + "/mlp"});
  ProcessResult help = run_process({folder_ + "/mlp", "--help"});
  for (const char *name : {"0  features ", "0  scores "})
    EXPECT_NE(help.out.find(name), std::string::npos) << name << " in " << help.out;
  io::save_safetensors(folder_ + "/x.safetensors", {{"features", x_}});
  ProcessResult run = run_process({folder_ + "/mlp", "--input", folder_ + "/x.safetensors",
                                   "--output", folder_ + "/y.safetensors"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  auto file = io::load_safetensors(folder_ + "/y.safetensors");
  ASSERT_EQ(file.tensors.size(), 1u);
  EXPECT_EQ(file.tensors[0].first, "scores");
  EXPECT_EQ(file.tensors[0].second.to_vector<float>(), model_(x_).to_vector<float>());
}

// Kernels compute with the byte: 2 would leave as 2.
TEST_F(AheadOfTime, ABoolIsZeroOrOne) {
  trace([](const Tensor &x) { return x * 1; }, {zeros({2}, boolean)})
      .compile({.output = folder_ + "/mlp"});
  std::string path = folder_ + "/flags.npy";
  io::save_npy(path, ones({2}, boolean));
  std::vector<std::string> command = {folder_ + "/mlp", path, "--output", folder_ + "/y.npy"};
  EXPECT_EQ(run_process(command).exit_code, 0);
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put(2);
  }
  ProcessResult run = run_process(command);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("the file holds bool[2] with elements that are neither 0 nor 1"),
            std::string::npos)
      << run.err;
}

// More rows than the library can count to are a kernel of ours.
TEST_F(AheadOfTime, ARangeBeyondWhatALibraryCounts) {
  nn::Linear layer(4, 3);
  trace(layer, {zeros({2, 4})}, {}, BatchRange{1, int64_t(1) << 33})
      .compile({.emit = Emit::executable, .output = folder_ + "/mlp"});
  ProcessResult help = run_process({folder_ + "/mlp", "--help"});
  EXPECT_NE(help.out.find("float32[1..8589934592, 4]"), std::string::npos) << help.out;
}

TEST_F(AheadOfTime, AProcessorWithoutFusedMultiplyAddIsRefused) {
  Program program = trace(model_, {zeros({5, 12})});
  try {
    program.compile({.emit = Emit::object, .output = folder_ + "/mlp.o", .cpu = "x86-64-v2"});
    FAIL() << "compiled for a CPU without AVX2";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("the CPU 'x86-64-v2' has no avx2"), std::string::npos)
        << error.what();
  }
}

#if defined(__x86_64__)
// No machine has all of these: the newest of two makers.
TEST_F(AheadOfTime, AnExecutableForAnotherProcessorSaysSo) {
  std::string cpu;
  if (!__builtin_cpu_supports("x86-64-v4"))
    cpu = "x86-64-v4";
  else if (!__builtin_cpu_supports("avx512vp2intersect"))
    cpu = "znver5";
  else if (!__builtin_cpu_supports("avx512fp16"))
    cpu = "sapphirerapids";
  if (cpu.empty())
    return;
  Program program = trace(model_, {zeros({5, 12})});
  program.compile({.emit = Emit::executable, .output = folder_ + "/mlp", .cpu = cpu});
  io::save_npy(folder_ + "/x.npy", x_);
  ProcessResult run = run_process(
      {folder_ + "/mlp", "--input", folder_ + "/x.npy", "--output", folder_ + "/y.npy"});
  EXPECT_GT(run.exit_code, 0);
  EXPECT_EQ(run.signal, 0);
  EXPECT_NE(run.err.find("which this one lacks"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
}
#endif

} // namespace
} // namespace weft::tests
