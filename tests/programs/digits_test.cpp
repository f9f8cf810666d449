// examples/digits as its user meets it: it learns, goes on after being killed as if nothing had
// been, ships an executable that reads pictures, takes other data, and refuses bad input without
// touching anything.
#include <algorithm>
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

constexpr const char *kProgram = "examples/digits/digits";
// The images to train on that the examples' data has, in batches of 64.
constexpr int kStepsPerEpoch = 1438 / 64;

class Digits : public ::testing::Test {
protected:
  void SetUp() override {
    folder_ = scratch_folder();
    static const std::string cache = scratch_folder();
    setenv("WEFT_CACHE_DIR", cache.c_str(), 1);
  }
  void TearDown() override {
    fs::remove_all(folder_);
  }

  // A small, short run: enough to learn, not to be good.
  std::vector<std::string> command(const std::string &out,
                                   std::vector<std::string> more = {}) const {
    std::vector<std::string> result = {kProgram,   "--out", out,    "--width", "8",
                                       "--epochs", "4",     "--lr", "0.01",    "--train-only"};
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

std::vector<std::string> lines_of(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

uint32_t big_endian(const std::string &bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

std::map<std::string, std::string> files_below(const std::string &folder) {
  std::map<std::string, std::string> files;
  for (const auto &entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[entry.path()] = read_whole(entry.path());
  return files;
}

// An IDX file: its sizes, then bytes.
std::string idx(std::vector<uint32_t> dims, const std::string &bytes, char type = 8) {
  std::string content = {0, 0, type, static_cast<char>(dims.size())};
  for (uint32_t dim : dims)
    for (int shift = 24; shift >= 0; shift -= 8)
      content += static_cast<char>(dim >> shift);
  return content + bytes;
}

// A folder with MNIST's file names: pictures of 14 x 11 pixels of three kinds, a bright band above,
// in the middle or below.
std::string bands(const std::string &folder, uint32_t train, uint32_t test) {
  fs::create_directories(folder);
  std::mt19937 random(3);
  for (auto [prefix, count] : {std::pair{"train", train}, {"t10k", test}}) {
    std::string pixels, labels;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t label = random() % 3;
      labels += static_cast<char>(label);
      for (uint32_t y = 0; y < 14; ++y)
        for (uint32_t x = 0; x < 11; ++x)
          pixels += static_cast<char>((y / 5 == label ? 180 : 20) + random() % 40);
    }
    write_whole(folder + "/" + prefix + "-images-idx3-ubyte", idx({count, 14, 11}, pixels));
    write_whole(folder + "/" + prefix + "-labels-idx1-ubyte", idx({count}, labels));
  }
  return folder;
}

TEST_F(Digits, TheDefaultRunReadsNearlyAllDigits) {
  ProcessResult result = run_process({kProgram, "--out", folder_ + "/out", "--train-only"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_GE(accuracy_of(result.out), 98) << result.out;
  EXPECT_NE(result.out.find("1438 images to train on, 359 to test, 8 x 8, 10 classes"),
            std::string::npos)
      << result.out;
}

TEST_F(Digits, LeavesACurveAndAPictureOfItsErrors) {
  ProcessResult result = run_process(command(folder_ + "/out"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GT(accuracy_of(result.out), 80) << result.out;
  EXPECT_NE(result.out.find("step 88/88"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("ETA 0:00"), std::string::npos);
  EXPECT_EQ(result.out.find('\r'), std::string::npos) << "plain lines off a terminal";
  std::vector<std::string> curve = lines_of(read_whole(folder_ + "/out/curve.csv"));
  ASSERT_EQ(curve.size(), 4u * kStepsPerEpoch + 1);
  EXPECT_EQ(curve[0], "step,loss,test");
  EXPECT_EQ(curve[kStepsPerEpoch - 1].back(), ',') << "no test within an epoch";
  EXPECT_NE(curve[kStepsPerEpoch].back(), ',') << "a test after it";
  // What the last line of the curve says is what the program says.
  EXPECT_NEAR(100 * std::atof(curve.back().substr(curve.back().rfind(',') + 1).c_str()),
              accuracy_of(result.out), 0.006);
  // Ten squares of 32 pixels a side, with gaps of 2.
  std::string picture = read_whole(folder_ + "/out/confusion.png");
  ASSERT_GT(picture.size(), 24u);
  EXPECT_EQ(picture.substr(1, 3), "PNG");
  EXPECT_EQ(big_endian(picture, 16), 342u);
  EXPECT_EQ(big_endian(picture, 20), 342u);
  // The matrix on the screen: ten rows that add up to the test images.
  size_t table = result.out.find("is \\ taken");
  ASSERT_NE(table, std::string::npos);
  std::istringstream rows(result.out.substr(result.out.find('\n', table)));
  int total = 0, right = 0;
  for (int is = 0; is < 10; ++is) {
    int name = -1;
    rows >> name;
    ASSERT_EQ(name, is);
    for (int taken = 0, count = 0; taken < 10; ++taken) {
      rows >> count;
      total += count;
      if (taken == is)
        right += count;
    }
  }
  EXPECT_EQ(total, 359);
  EXPECT_NEAR(100.0 * right / total, accuracy_of(result.out), 0.006);
}

TEST_F(Digits, AKilledRunContinuesTheSameCurve) {
  ASSERT_EQ(run_process(command(folder_ + "/whole")).exit_code, 0);
  std::mt19937 random(7);
  const std::string out = folder_ + "/killed", checkpoint = out + "/checkpoint.safetensors";
  int killed = 0;
  for (int round = 0; round < 8; ++round) {
    auto patience = static_cast<int>(random() % 100);
    std::vector<std::string> resume;
    if (fs::exists(checkpoint))
      resume = {"--resume"};
    ProcessResult result = run_process(command(out, resume),
                                       [&] { return fs::exists(checkpoint) && patience-- <= 0; });
    if (result.signal == 0) {
      EXPECT_EQ(result.exit_code, 0) << result.err;
      break;
    }
    ++killed;
  }
  EXPECT_GE(killed, 1) << "the run ended before it could be killed";
  ProcessResult resumed = run_process(command(out, {"--resume"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resumed     after epoch"), std::string::npos) << resumed.out;
  for (const char *file : {"curve.csv", "checkpoint.safetensors", "confusion.png"})
    EXPECT_EQ(read_whole(out + "/" + file), read_whole(folder_ + "/whole/" + file))
        << file << ": bit for bit";
}

TEST_F(Digits, ShipsAnExecutableThatReadsPictures) {
  std::string out = folder_ + "/out";
  ProcessResult made =
      run_process({kProgram, "--out", out, "--width", "8", "--epochs", "3", "--lr", "0.01"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  ProcessResult read = run_process({out + "/classify", out + "/sample.png"});
  ASSERT_EQ(read.exit_code, 0) << read.err;
  // The training program ran it, too, and says the same.
  EXPECT_NE(made.out.find(out + "/sample.png: " + read.out.substr(0, read.out.find('\n')) + ";"),
            std::string::npos)
      << made.out << read.out;
  EXPECT_GE(read.out[0], '0');
  EXPECT_LE(read.out[0], '9');
  EXPECT_EQ(run_process({out + "/classify", folder_ + "/missing.png"}).exit_code, 2);
  EXPECT_EQ(run_process({out + "/classify", "-i", out + "/sample.png"}).exit_code, 0);
  // Another size of picture is scaled: the confusion matrix is one, of colors.
  EXPECT_EQ(run_process({out + "/classify", out + "/confusion.png"}).exit_code, 0);
  write_whole(folder_ + "/text.png", "no picture");
  EXPECT_EQ(run_process({out + "/classify", folder_ + "/text.png"}).exit_code, 2);
  std::string sample = read_whole(out + "/sample.png");
  write_whole(folder_ + "/cut.png", sample.substr(0, sample.size() - 20));
  EXPECT_EQ(run_process({out + "/classify", folder_ + "/cut.png"}).exit_code, 2);
  EXPECT_EQ(run_process({out + "/classify"}).exit_code, 2);
}

TEST_F(Digits, TakesOtherData) {
  std::string data = bands(folder_ + "/data", 200, 50);
  ProcessResult result =
      run_process({kProgram, "--data", data, "--out", folder_ + "/out", "--width", "4", "--epochs",
                   "4", "--batch", "16", "--lr", "0.01", "--train-only"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("200 images to train on, 50 to test, 14 x 11, 3 classes"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(accuracy_of(result.out), 100) << result.out;
}

// Every kind of bad input: exit code 2, one line on stderr that names what is wrong, and every file
// as it was.
TEST_F(Digits, RefusesBadInput) {
  std::vector<std::string> good_run = command(folder_ + "/good");
  *(std::find(good_run.begin(), good_run.end(), "--epochs") + 1) = "1";
  ASSERT_EQ(run_process(good_run).exit_code, 0);
  const std::string good = read_whole(folder_ + "/good/checkpoint.safetensors");
  auto with_checkpoint = [&](const std::string &name, const std::string &content) {
    fs::create_directories(folder_ + "/" + name);
    write_whole(folder_ + "/" + name + "/checkpoint.safetensors", content);
    return folder_ + "/" + name;
  };
  // A copy of the data with one file changed; empty: left out.
  auto with_data = [&](const std::string &name, const std::string &file,
                       const std::string &content) {
    std::string folder = bands(folder_ + "/" + name, 80, 20);
    if (content.empty())
      fs::remove(folder + "/" + file);
    else
      write_whole(folder + "/" + file, content);
    return folder;
  };
  const std::string images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte",
                    tests = "t10k-images-idx3-ubyte";
  std::string zipped = with_data("zipped", images, "");
  write_whole(zipped + "/" + images + ".gz", "\x1f\x8b");
  std::string damaged = good;
  damaged[20] ^= 0x40;
  std::string renamed = good; // the header still parses, an entry has another name
  renamed.replace(renamed.find("\"epoch\":\""), 9, "\"apoch\":\"");
  const char foreign[] = "\x39\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
                         "offsets\":[0,4]}}   \0\0\0\0";
  write_whole(folder_ + "/file", "");

  struct Case {
    const char *name;
    std::vector<std::string> arguments;
    std::string expected;
  };
  const std::string out = folder_ + "/untouched";
  std::vector<std::string> same = {"--width",  "8", "--lr",     "0.01",
                                   "--epochs", "1", "--resume", "--out"};
  auto resumed = [&](const std::string &folder) {
    std::vector<std::string> arguments = same;
    arguments.push_back(folder);
    return arguments;
  };
  const Case cases[] = {
      {"missing folder",
       {"--data", folder_ + "/nowhere", "--out", out},
       "train-images-idx3-ubyte' does not exist"},
      {"missing file",
       {"--data", with_data("missing", tests, ""), "--out", out},
       "t10k-images-idx3-ubyte' does not exist"},
      {"zipped", {"--data", zipped, "--out", out}, "unpack it with gunzip"},
      {"zipped under the name",
       {"--data", with_data("gzip", images, "\x1f\x8b\x08xyz"), "--out", out},
       "is compressed"},
      {"empty file", {"--data", with_data("text", images, "no"), "--out", out}, "no IDX file"},
      {"cut off",
       {"--data", with_data("cut", images, idx({80, 14, 11}, "short")), "--out", out},
       "its header asks for"},
      {"cut within the header",
       {"--data", with_data("header", images, std::string("\0\0\x08\x03\0\0", 6)), "--out", out},
       "its header"},
      {"rank",
       {"--data", with_data("rank", images, idx({4}, "abcd")), "--out", out},
       "[images, height, width]"},
      {"type",
       {"--data", with_data("type", images, idx({1, 1, 1}, "a", 9)), "--out", out},
       "unsigned bytes"},
      {"other number of labels",
       {"--data", with_data("count", labels, idx({3}, "\1\1\1")), "--out", out},
       "one for each"},
      {"negative label",
       {"--data", with_data("negative", labels, idx({80}, std::string(80, '\xff'), 9)), "--out",
        out},
       "negative label"},
      {"other size of test images",
       {"--data", with_data("size", tests, idx({20, 7, 22}, std::string(20 * 154, 'a'))), "--out",
        out},
       "other sizes or classes"},
      {"too few images",
       {"--data", bands(folder_ + "/few", 10, 5), "--out", out},
       "10 images to train on"},
      {"no test images",
       {"--data", bands(folder_ + "/untested", 80, 0), "--out", out},
       "0 to test"},
      {"out is a file", {"--out", folder_ + "/file"}, "not a folder"},
      {"out below a file", {"--out", folder_ + "/file/below"}, "cannot make the folder"},
      {"out not writable", {"--out", "/proc/weft"}, "cannot make the folder"},
      {"no checkpoint", resumed(out), "checkpoint.safetensors"},
      {"checkpoint cut off", resumed(with_checkpoint("cut_off", good.substr(0, good.size() / 2))),
       "cut"},
      {"empty checkpoint", resumed(with_checkpoint("zero", "")), "not a safetensors file"},
      {"damaged checkpoint", resumed(with_checkpoint("damaged", damaged)), "damaged"},
      {"checkpoint without epoch", resumed(with_checkpoint("renamed", renamed)), "its epoch is ''"},
      {"foreign checkpoint",
       resumed(with_checkpoint("foreign", std::string(foreign, sizeof foreign - 1))),
       "no checkpoint of this program"},
      {"another run",
       {"--out", folder_ + "/good", "--resume", "--width", "16", "--epochs", "1", "--lr", "0.01"},
       "holds another run"},
      {"diverging", {"--out", folder_ + "/good", "--width", "4", "--lr", "1e30"}, "a lower --lr"},
      {"epochs 0", {"--out", out, "--epochs", "0"}, "--epochs"},
      {"batch of text", {"--out", out, "--batch", "many"}, "--batch"},
      {"lr negative", {"--out", out, "--lr", "-1"}, "--lr"},
      {"unknown option", {"--out", out, "--epoch", "3"}, "--epoch"},
  };
  for (const Case &test : cases) {
    SCOPED_TRACE(test.name);
    std::map<std::string, std::string> before = files_below(folder_);
    std::vector<std::string> arguments = test.arguments;
    arguments.insert(arguments.begin(), kProgram);
    ProcessResult result = run_process(arguments);
    EXPECT_EQ(result.exit_code, 2) << "signal " << result.signal << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(test.expected), std::string::npos) << result.err;
    std::map<std::string, std::string> after = files_below(folder_);
    if (std::string(test.name) == "diverging") { // a run that began has a curve of its own; the
                                                 // checkpoint of the one before stays
      after.erase(folder_ + "/good/curve.csv");
      before.erase(folder_ + "/good/curve.csv");
    }
    EXPECT_TRUE(before == after) << "a file was changed";
    EXPECT_FALSE(fs::exists(out)) << "nothing is made for a run that cannot start";
  }
}

TEST_F(Digits, HelpIsNoError) {
  ProcessResult result = run_process({kProgram, "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("--resume"), std::string::npos);
}

} // namespace
} // namespace weft::tests
