// examples/char_gpt as its user meets it: it learns, survives being killed, and refuses bad input
// without touching anything.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/programs/process.h"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char *kProgram = "examples/char_gpt/char_gpt";

class CharGpt : public ::testing::Test {
protected:
  void SetUp() override {
    folder_ = scratch_folder();
    // Programs of one test process compile once for all its runs.
    static const std::string cache = scratch_folder();
    setenv("WEFT_CACHE_DIR", cache.c_str(), 1);
    std::string text;
    std::mt19937 random(1);
    const char *words[] = {"weft ", "warp ", "shuttle ", "loom ", "thread ", "heddle\n"};
    while (text.size() < 6000)
      text += words[random() % 6];
    text_ = folder_ + "/text";
    write_whole(text_, text);
  }
  void TearDown() override {
    fs::remove_all(folder_);
  }

  // A small run that trains only.
  std::vector<std::string> command(const std::string &out,
                                   std::vector<std::string> more = {}) const {
    std::vector<std::string> result = {kProgram,
                                       "--text",
                                       text_,
                                       "--out",
                                       out,
                                       "--train-only",
                                       "--width",
                                       "16",
                                       "--heads",
                                       "2",
                                       "--layers",
                                       "1",
                                       "--context",
                                       "16",
                                       "--batch",
                                       "4",
                                       "--steps",
                                       "60",
                                       "--lr",
                                       "0.01",
                                       "--validate-every",
                                       "20",
                                       "--checkpoint-every",
                                       "7"};
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }
  // Just the arguments given.
  static std::vector<std::string> bare(std::vector<std::string> more) {
    more.insert(more.begin(), kProgram);
    return more;
  }

  std::string folder_, text_;
};

std::vector<std::string> lines_of(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

TEST_F(CharGpt, LearnsAndLeavesACompleteCurve) {
  ProcessResult result = run_process(command(folder_ + "/out"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("step 60/60"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("tokens/s"), std::string::npos);
  EXPECT_NE(result.out.find("ETA 0:00"), std::string::npos);
  EXPECT_EQ(result.out.find('\r'), std::string::npos) << "plain lines off a terminal";
  std::vector<std::string> curve = lines_of(read_whole(folder_ + "/out/curve.csv"));
  ASSERT_EQ(curve.size(), 61u);
  EXPECT_EQ(curve[0], "step,loss,validation");
  double first = std::stod(curve[1].substr(curve[1].find(',') + 1)),
         last = std::stod(curve[60].substr(curve[60].find(',') + 1));
  EXPECT_LT(last, 0.7 * first);
  EXPECT_EQ(curve[59].back(), ',') << "no validation at step 59";
  EXPECT_NE(curve[60].back(), ',') << "a validation at the last step";
}

// And the same state in the end.
TEST_F(CharGpt, RecomputedBlocksGiveTheSameCurve) {
  ASSERT_EQ(run_process(command(folder_ + "/kept")).exit_code, 0);
  const std::string again = folder_ + "/again";
  ProcessResult result = run_process(command(again, {"--recompute"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string curve = read_whole(folder_ + "/kept/curve.csv");
  EXPECT_FALSE(curve.empty());
  EXPECT_EQ(read_whole(again + "/curve.csv"), curve);
  EXPECT_EQ(read_whole(again + "/checkpoint.safetensors"),
            read_whole(folder_ + "/kept/checkpoint.safetensors"));
}

TEST_F(CharGpt, AKilledRunContinuesTheSameCurve) {
  ASSERT_EQ(run_process(command(folder_ + "/whole")).exit_code, 0);
  const std::string curve = read_whole(folder_ + "/whole/curve.csv"),
                    checkpoint = read_whole(folder_ + "/whole/checkpoint.safetensors");
  ASSERT_FALSE(curve.empty() || checkpoint.empty());
  std::mt19937 random(7);
  const std::string out = folder_ + "/killed";
  int killed = 0;
  for (int round = 0; round < 8; ++round) {
    // Killed as soon as there is a checkpoint, then at random moments: a fast machine may have
    // ended before the first of these.
    auto patience = round == 0 ? 0 : static_cast<int>(random() % 120);
    ProcessResult result =
        run_process(command(out, fs::exists(out + "/checkpoint.safetensors")
                                     ? std::vector<std::string>{"--resume"}
                                     : std::vector<std::string>{}),
                    [&] { return fs::exists(out + "/checkpoint.safetensors") && patience-- <= 0; });
    if (result.signal == 0) {
      EXPECT_EQ(result.exit_code, 0) << result.err;
      break;
    }
    ++killed;
  }
  EXPECT_GE(killed, 1) << "the run ended before it could be killed";
  ProcessResult result = run_process(command(out, {"--resume"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("resuming    after step "), std::string::npos);
  EXPECT_EQ(read_whole(out + "/curve.csv"), curve) << "bit for bit";
  EXPECT_EQ(read_whole(out + "/checkpoint.safetensors"), checkpoint) << "bit for bit";
}

TEST_F(CharGpt, ResumesWithWhatTheCheckpointSays) {
  ASSERT_EQ(run_process(command(folder_ + "/out", {"--steps", "10"})).exit_code, 2)
      << "an option given twice is refused";
  std::vector<std::string> first = command(folder_ + "/out");
  *(std::find(first.begin(), first.end(), "--steps") + 1) = "14";
  ASSERT_EQ(run_process(first).exit_code, 0);
  // Nothing but the text and the folder needs to be said again; more steps may be asked for.
  ProcessResult more = run_process(bare(
      {"--text", text_, "--out", folder_ + "/out", "--train-only", "--resume", "--steps", "20"}));
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_EQ(lines_of(read_whole(folder_ + "/out/curve.csv")).size(), 21u);
  // A finished run has nothing left to do.
  ProcessResult done =
      run_process(bare({"--text", text_, "--out", folder_ + "/out", "--train-only", "--resume"}));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(lines_of(read_whole(folder_ + "/out/curve.csv")).size(), 21u);
}

// Every kind of bad input: exit code 2, one line on stderr that names what is wrong, and the folder
// as it was.
// What it ships needs nothing of Weft's: the executables compute what the process does. Dropout
// draws from the generator, which the trainer keeps with all else.
TEST_F(CharGpt, ShipsTheModelAndItsTrainer) {
  constexpr uintmax_t kMostBytes = 4'000'000;
  std::string out = folder_ + "/out";
  std::vector<std::string> shipping = command(out);
  std::erase(shipping, "--train-only");
  ProcessResult result = run_process(shipping);
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_NE(result.out.find("its 4 steps equal this process's, bit for bit"), std::string::npos)
      << result.out;
  EXPECT_LE(fs::file_size(out + "/trainer"), kMostBytes);
  ProcessResult libraries = run_process({"/usr/bin/ldd", out + "/trainer"});
  ASSERT_EQ(libraries.exit_code, 0) << libraries.err;
  for (const char *absent : {"LLVM", "MLIR", "weft", "absl"})
    EXPECT_EQ(libraries.out.find(absent), std::string::npos) << libraries.out;

  // The same steps give the same bytes; others follow from what they left.
  auto take = [&](const std::string &name, std::vector<std::string> more) {
    std::vector<std::string> training = {out + "/trainer",
                                         "--weights",
                                         out + "/trainer.safetensors",
                                         "--steps",
                                         "2",
                                         "--save",
                                         folder_ + "/" + name,
                                         out + "/input.npy",
                                         out + "/target.npy",
                                         out + "/lr.npy"};
    training.insert(training.end(), more.begin(), more.end());
    return run_process(training);
  };
  ProcessResult first = take("first", {});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(lines_of(first.out).size(), 2u);
  ProcessResult again = take("again", {});
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(read_whole(folder_ + "/again"), read_whole(folder_ + "/first"));
  ProcessResult next = take("next", {"--load", folder_ + "/first"});
  EXPECT_EQ(next.exit_code, 0) << next.err;
  EXPECT_NE(next.out, first.out);
}

TEST_F(CharGpt, RefusesBadInput) {
  ASSERT_EQ(run_process(command(folder_ + "/good")).exit_code, 0);
  const std::string good = read_whole(folder_ + "/good/checkpoint.safetensors");
  auto with_checkpoint = [&](const std::string &name, const std::string &content) {
    fs::create_directories(folder_ + "/" + name);
    write_whole(folder_ + "/" + name + "/checkpoint.safetensors", content);
    return folder_ + "/" + name;
  };
  auto text = [&](const std::string &name, const std::string &content) {
    write_whole(folder_ + "/" + name, content);
    return folder_ + "/" + name;
  };
  std::string damaged = good;
  damaged[20] ^= 0x40;
  std::string shifted = good; // the header still parses, a number in it does not
  shifted.replace(shifted.find("\"step\":\""), 8, "\"stop\":\"");
  const char foreign[] = "\x39\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
                         "offsets\":[0,4]}}   \0\0\0\0";
  fs::create_directory(folder_ + "/no_files");

  struct Case {
    const char *name;
    std::vector<std::string> arguments;
    std::string expected;
  };
  const std::string out = folder_ + "/untouched";
  const Case cases[] = {
      {"missing text", {"--text", folder_ + "/none", "--out", out}, "no such file"},
      {"empty text", {"--text", text("empty", ""), "--out", out}, "is empty"},
      {"binary text",
       {"--text",
        text("binary", std::string("\x7f"
                                   "ELF\x02\x01\0\0\xff\xfe",
                                   10)),
        "--out", out},
       "is not UTF-8"},
      {"latin-1 text",
       {"--text", text("latin1", std::string(5000, 'a') + "\xe9t\xe9"), "--out", out},
       "is not UTF-8"},
      {"short text",
       {"--text", text("short", "too short to learn from"), "--out", out},
       "too short"},
      {"folder without files", {"--text", folder_ + "/no_files", "--out", out}, "holds no files"},
      {"out is a file", {"--text", text_, "--out", text_}, "not a folder"},
      {"out below a file", {"--text", text_, "--out", text_ + "/below"}, "cannot make the folder"},
      {"out not writable", {"--text", text_, "--out", "/proc/weft"}, "cannot make the folder"},
      {"no checkpoint", {"--text", text_, "--out", out, "--resume"}, "checkpoint.safetensors"},
      {"checkpoint cut off",
       {"--text", text_, "--out", with_checkpoint("cut", good.substr(0, good.size() / 2)),
        "--resume"},
       "cut"},
      {"empty checkpoint",
       {"--text", text_, "--out", with_checkpoint("zero", ""), "--resume"},
       "not a safetensors file"},
      {"damaged checkpoint",
       {"--text", text_, "--out", with_checkpoint("damaged", damaged), "--resume"},
       "damaged"},
      {"checkpoint without step",
       {"--text", text_, "--out", with_checkpoint("shifted", shifted), "--resume"},
       "damaged checkpoint"},
      {"foreign checkpoint",
       {"--text", text_, "--out",
        with_checkpoint("foreign", std::string(foreign, sizeof foreign - 1)), "--resume"},
       "no checkpoint of this program"},
      {"text as checkpoint",
       {"--text", text_, "--out", with_checkpoint("text_in", read_whole(text_)), "--resume"},
       "not a safetensors file"},
      {"another text",
       {"--text", text("other", read_whole(text_) + "loom\n"), "--out", folder_ + "/good",
        "--resume"},
       "another text"},
      {"another width",
       {"--text", text_, "--out", folder_ + "/good", "--resume", "--width", "32"},
       "--width"},
      {"another context",
       {"--text", text_, "--out", folder_ + "/good", "--resume", "--context", "8"},
       "--context"},
      {"steps 0", {"--text", text_, "--out", out, "--steps", "0"}, "--steps"},
      {"steps no number", {"--text", text_, "--out", out, "--steps", "many"}, "--steps"},
      {"heads", {"--text", text_, "--out", out, "--width", "10", "--heads", "3"}, "--heads"},
      {"unknown option", {"--text", text_, "--out", out, "--stesp", "3"}, "--stesp"},
  };
  for (const Case &test : cases) {
    SCOPED_TRACE(test.name);
    std::map<std::string, std::string> before;
    for (const auto &entry : fs::recursive_directory_iterator(folder_))
      if (entry.is_regular_file())
        before[entry.path()] = read_whole(entry.path());
    ProcessResult result = run_process(bare(test.arguments));
    EXPECT_EQ(result.exit_code, 2) << "signal " << result.signal;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(test.expected), std::string::npos) << result.err;
    std::map<std::string, std::string> after;
    for (const auto &entry : fs::recursive_directory_iterator(folder_))
      if (entry.is_regular_file())
        after[entry.path()] = read_whole(entry.path());
    EXPECT_EQ(before == after, true) << "a file was changed";
    EXPECT_FALSE(fs::exists(out)) << "nothing is made for a run that cannot start";
  }
}

TEST_F(CharGpt, HelpIsNoError) {
  ProcessResult result = run_process(bare({"--help"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("--resume"), std::string::npos);
}

} // namespace
} // namespace weft::tests
