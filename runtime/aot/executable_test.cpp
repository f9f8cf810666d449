// The archives, as a program outside this workspace is linked with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <vector>

#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"

namespace weft::runtime {
namespace {

struct Result {
  int code;
  std::string text; // stdout and stderr
};

Result run(const std::string &command) {
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  Result result;
  std::array<char, 4096> piece;
  while (size_t size = std::fread(piece.data(), 1, piece.size(), pipe))
    result.text.append(piece.data(), size);
  int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

struct ExecutableTest : ::testing::Test {
  std::string folder = ::testing::TempDir();
  std::string exe = "runtime/aot/sample_executable";
  std::string x = folder + "/x.npy", idx = folder + "/idx.npy", weights = folder + "/w.safetensors",
              y = folder + "/y.npy";
  std::vector<float> x_values = std::vector<float>(32, 2.0f),
                     w_values = std::vector<float>(64, 0.25f);
  std::vector<int64_t> idx_values = {3, 1};

  void SetUp() override {
    ArrayView w{"w", DType::kFloat32, {8, 8}, std::as_bytes(std::span(w_values))};
    ASSERT_TRUE(write_safetensors(weights, {&w, 1}).ok());
    ASSERT_TRUE(
        write_npy(x, {"x", DType::kFloat32, {4, 8}, std::as_bytes(std::span(x_values))}).ok());
    ASSERT_TRUE(
        write_npy(idx, {"idx", DType::kInt64, {2}, std::as_bytes(std::span(idx_values))}).ok());
  }
  void expect_right() {
    NpyFile file = read_npy(y).value();
    EXPECT_EQ(file.array.dims, (std::vector<int64_t>{4, 8}));
    float first;
    std::memcpy(&first, file.array.bytes.data(), 4);
    EXPECT_EQ(first, 5.0f);
  }
};

TEST_F(ExecutableTest, TheVariableTracesItsRuns) {
  std::string trace = folder + "/trace.json";
  Result result = run("WEFT_PROFILE=" + trace + " " + exe + " --weights " + weights + " --input " +
                      x + " --input " + idx + " --output " + y);
  EXPECT_EQ(result.code, 0) << result.text;
  expect_right();
  std::ifstream file(trace);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const char *what : {"\"cat\":\"program\"", "\"cat\":\"library\"", "\"reads\":[\"x\",\"w\"]",
                           "\"cat\":\"kernel\"", "\"dropped\":0}"})
    EXPECT_NE(text.find(what), std::string::npos) << what << " in " << text;
}

TEST_F(ExecutableTest, AVariableThatIsIgnoredIsSaid) {
  Result result = run("WEFT_NUM_THREADS=many " + exe + " --weights " + weights + " --input " + x +
                      " --input " + idx + " --output " + y);
  EXPECT_EQ(result.code, 0) << result.text;
  expect_right();
  EXPECT_NE(result.text.find("weft: WEFT_NUM_THREADS=many is ignored"), std::string::npos)
      << result.text;
}

TEST_F(ExecutableTest, AFullDiskUnderStandardOutputIsAnError) {
  if (!std::filesystem::exists("/dev/full"))
    GTEST_SKIP() << "no /dev/full here";
  for (const std::string &arguments : {"--weights " + weights + " " + x + " " + idx,
                                       std::string("--help")}) {
    Result result = run("(" + exe + " " + arguments + " > /dev/full)");
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.text.find("cannot write all to standard output"), std::string::npos)
        << result.text;
  }
}

// Files are mapped; where there are no addresses for that, they are read.
TEST_F(ExecutableTest, AFileThatThereIsNoMemoryForIsNamed) {
  if (std::getenv("WEFT_SANITIZER"))
    GTEST_SKIP() << "sanitizers reserve more addresses than the limit leaves";
  std::filesystem::copy_file(x, folder + "/large.npy");
  std::filesystem::resize_file(folder + "/large.npy", 20'000'000'000); // none of it on the disk
  for (const std::string &files : {weights + " " + folder + "/large.npy " + idx,
                                   folder + "/large.npy " + x + " " + idx}) {
    Result result = run("ulimit -v 16000000; " + exe + " --weights " + files);
    EXPECT_EQ(result.code, 2) << result.text;
    EXPECT_NE(result.text.find("cannot read '" + folder + "/large.npy': there is no memory for its "
                               "20000000000 bytes\n"),
              std::string::npos)
        << result.text;
  }
  std::filesystem::remove(folder + "/large.npy");
}

TEST_F(ExecutableTest, HelpListsShapesWithoutAnyFile) {
  Result result = run(exe + " --help");
  EXPECT_EQ(result.code, 0);
  for (const char *text : {"float32[4, 8]", "idx", "int64[2]", "picked", "--weights", "--input"})
    EXPECT_NE(result.text.find(text), std::string::npos) << text << " in " << result.text;
}

TEST_F(ExecutableTest, RunsFilesByOrderNameAndTogether) {
  for (const std::string &inputs :
       {x + " " + idx, "--input " + x + " --input=" + idx, "--input idx=" + idx + " --input x=" + x,
        "--input 1=" + idx + " --input 0=" + x}) {
    Result result =
        run(exe + " --weights " + weights + " --threads 2 --output " + y + " " + inputs);
    EXPECT_EQ(result.code, 0) << result.text;
    expect_right();
    std::remove(y.c_str());
  }
  std::string both = folder + "/both.safetensors", all = folder + "/all.safetensors";
  std::vector<ArrayView> views = {
      {"x", DType::kFloat32, {4, 8}, std::as_bytes(std::span(x_values))},
      {"idx", DType::kInt64, {2}, std::as_bytes(std::span(idx_values))}};
  ASSERT_TRUE(write_safetensors(both, views).ok());
  Result result =
      run(exe + " --weights=" + weights + " " + both + " --output " + all + " --output y=" + y);
  EXPECT_EQ(result.code, 0) << result.text;
  expect_right();
  EXPECT_EQ(read_safetensors(all).value().tensors.size(), 3u);
  result = run(exe + " --weights=" + weights + " " + both);
  EXPECT_NE(result.text.find("y float32[4, 8] 5 5 5"), std::string::npos) << result.text;
}

// They are written after the last step.
TEST_F(ExecutableTest, OutputsOfMoreStepsThanThereIsMemoryForAreNamed) {
  if (std::getenv("WEFT_SANITIZER"))
    GTEST_SKIP() << "sanitizers reserve more addresses than the limit leaves";
  Result result = run("ulimit -v 16000000; " + exe + " --weights " + weights + " " + x + " " + idx +
                      " --steps 1000000000 --output " + y);
  EXPECT_EQ(result.code, 2) << result.text;
  EXPECT_NE(result.text.find("there is no memory for output 0 of 1000000000 steps, 128 bytes each"),
            std::string::npos)
      << result.text;
}

TEST_F(ExecutableTest, BadInputGetsOneLineAndExitCode2) {
  std::string good = " --weights " + weights + " ";
  std::string text = folder + "/text.npy", bad_index = folder + "/bad.npy";
  std::string taken = folder + "/taken.npy";
  std::filesystem::create_directory(taken);
  std::vector<int64_t> far = {0, 9};
  ASSERT_TRUE(write_npy(bad_index, {"", DType::kInt64, {2}, std::as_bytes(std::span(far))}).ok());
  FILE *file = std::fopen(text.c_str(), "w");
  std::fputs("no array", file);
  std::fclose(file);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {x + " " + idx, "--weights"},
      {good, "input 0 'x' float32[4, 8] is missing"},
      {good + x, "input 1 'idx' int64[2] is missing"},
      {good + idx + " " + x, "input 0 'x' is float32[4, 8]; the file holds int64[2]"},
      {good + x + " " + idx + " " + idx, "one too many"},
      {good + x + " --input x=" + x, "was given before"},
      {good + "--input q=" + x, "no input 'q'"},
      {good + text, text},
      {good + "/nowhere.npy", "/nowhere.npy"},
      {good + "main " + x + " " + idx, "'main' is an entry and no file: --entry main runs it"},
      {good + x + " " + idx + " --output y.txt", "y.txt"},
      {good + x + " " + idx + " --output /nowhere/y.npy", "/nowhere/y.npy"},
      // What cannot be written or kept is said before the first step, which would fail.
      {good + x + " " + bad_index + " --output " + taken, "is there and not a regular file"},
      {good + x + " " + bad_index + " --output /nowhere/y.npy", "cannot write '/nowhere/y.npy'"},
      {good + x + " " + bad_index, "model.py:7: weft.index_select: index 9 at position 1 is out of "
                                   "range; it must lie in [0, 4)"},
      {good + "--threads many", "'many'"},
      {good + "--bogus 1", "unknown option --bogus"},
      {good + "--bogus", "unknown option --bogus"},
      {good + "--threads", "--threads needs a value"},
      {good + "--input 2=" + x, "no input '2'"},
      {"--weights " + x + " " + x + " " + idx, x},
  };
  for (const auto &[arguments, message] : cases) {
    Result result = run(exe + " " + arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.text.find(message), std::string::npos) << arguments << " -> " << result.text;
    EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1) << result.text;
  }
}

// Its weight is what the model needs, or beside it.
TEST_F(ExecutableTest, ADtypeThatWeftHasNotIsNamedWhereItIsNeeded) {
  const std::string inputs = " " + x + " " + idx + " --output " + y;
  auto run_with = [&](const std::string &other) {
    std::string path = folder + "/foreign.safetensors";
    std::string header = R"({"w":{"dtype":"F32","shape":[8,8],"data_offsets":[0,256]},)"
                         R"("f8":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[256,264]}})";
    if (!other.empty())
      header.replace(header.find("F32"), 3, other);
    const auto length = static_cast<uint64_t>(header.size());
    std::ofstream file(path, std::ios::binary);
    file << std::string(reinterpret_cast<const char *>(&length), 8) << header;
    file.write(reinterpret_cast<const char *>(w_values.data()), 256) << "ffffffff";
    file.close();
    return run(exe + " --weights " + path + inputs);
  };
  Result result = run_with("");
  EXPECT_EQ(result.code, 0) << result.text;
  expect_right();
  result = run_with("U32");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.text.find("foreign.safetensors: the weight 'w' is U32 [8, 8] in the file"),
            std::string::npos)
      << result.text;
  result = run(exe + " --weights " + weights + " " + folder + "/foreign.safetensors");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.text.find("foreign.safetensors: 'w' is U32 [8, 8]"), std::string::npos)
      << result.text;
}

TEST_F(ExecutableTest, NeedsNoLibraryThatIsNotOnEveryDebian) {
  Result result = run("ldd " + exe);
  EXPECT_EQ(result.code, 0);
  for (const char *absent : {"LLVM", "MLIR", "absl", "weft"})
    EXPECT_EQ(result.text.find(absent), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("libdnnl"), std::string::npos);
  result = run("ldd runtime/aot/plain_executable");
  EXPECT_EQ(result.text.find("libdnnl"), std::string::npos) << result.text;
}

} // namespace
} // namespace weft::runtime
