// examples/digits as its user meets it: it learns, goes on after being killed as if nothing had been, and refuses bad input.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/programs/process.h"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char *kProgram = "examples/digits/digits";

class Digits : public ::testing::Test {
protected:
  void SetUp() override {
    folder_ = scratch_folder();
    static const std::string cache = scratch_folder();
    setenv("WEFT_CACHE_DIR", cache.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A small, short run: enough to learn, not to be good.
  std::vector<std::string> command(const std::string &out, std::vector<std::string> more = {}) const {
    std::vector<std::string> result = {kProgram, "--out", out, "--width", "8", "--epochs", "4", "--lr", "0.01", "--train-only"};
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }

  std::string folder_;
};

// The share of test images that the program says it reads, in percent.
double accuracy_of(const std::string &output) {
  size_t at = output.rfind("\ntest        ");
  return at == std::string::npos ? -1 : std::atof(output.c_str() + at + 12);
}

TEST_F(Digits, LearnsAndGoesOnAfterBeingKilled) {
  ProcessResult whole = run_process(command(folder_ + "/whole"));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_GT(accuracy_of(whole.out), 80) << whole.out;
  EXPECT_TRUE(fs::file_size(folder_ + "/whole/confusion.png") > 0);
  std::string checkpoint = folder_ + "/killed/checkpoint.safetensors";
  ProcessResult killed = run_process(command(folder_ + "/killed"), [&] { return fs::exists(checkpoint); });
  ASSERT_NE(killed.signal, 0) << "the run ended before it was killed";
  ProcessResult resumed = run_process(command(folder_ + "/killed", {"--resume"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resumed     after epoch"), std::string::npos) << resumed.out;
  EXPECT_EQ(read_whole(checkpoint), read_whole(folder_ + "/whole/checkpoint.safetensors")) << "the resumed run is another one";
}

TEST_F(Digits, ShipsAnExecutableThatReadsPictures) {
  std::string out = folder_ + "/out";
  ProcessResult made = run_process({kProgram, "--out", out, "--width", "8", "--epochs", "3", "--lr", "0.01"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  ProcessResult read = run_process({out + "/classify", out + "/sample.png"});
  ASSERT_EQ(read.exit_code, 0) << read.err;
  // The training program ran it, too, and says the same.
  EXPECT_NE(made.out.find(out + "/sample.png: " + read.out.substr(0, read.out.find('\n')) + ";"), std::string::npos)
      << made.out << read.out;
  EXPECT_GE(read.out[0], '0');
  EXPECT_LE(read.out[0], '9');
  EXPECT_EQ(run_process({out + "/classify", folder_ + "/missing.png"}).exit_code, 2);
  EXPECT_EQ(run_process({out + "/classify", "-i", out + "/sample.png"}).exit_code, 0);
  write_whole(folder_ + "/text.png", "no picture");
  EXPECT_EQ(run_process({out + "/classify", folder_ + "/text.png"}).exit_code, 2);
  EXPECT_EQ(run_process({out + "/classify"}).exit_code, 2);
}

TEST_F(Digits, RefusesBadInput) {
  auto expect_refusal = [&](const std::vector<std::string> &run, const std::string &part) {
    ProcessResult result = run_process(run);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  };
  expect_refusal(command(folder_ + "/out", {"--data", folder_ + "/nowhere"}), "does not exist");
  expect_refusal(command(folder_ + "/out", {"--resume"}), "checkpoint.safetensors");
  fs::create_directories(folder_ + "/bad");
  write_whole(folder_ + "/bad/checkpoint.safetensors", "no checkpoint");
  expect_refusal(command(folder_ + "/bad", {"--resume"}), "checkpoint.safetensors");
  EXPECT_EQ(read_whole(folder_ + "/bad/checkpoint.safetensors"), "no checkpoint");
  write_whole(folder_ + "/file", "");
  expect_refusal(command(folder_ + "/file/out"), "file");
  expect_refusal({kProgram, "--epochs", "0"}, "--epochs");
}

} // namespace
} // namespace weft::tests
