// examples/image_classification as its user meets it, on shapes that the test draws: it learns,
// goes on after being killed as if nothing had been, takes folders and IDX files, and names bad
// files.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/programs/process.h"
#include "tests/support/jpeg.h"
#include "weft/data/random.h"
#include "weft/image/png.h"
#include "weft/models/models.h"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;

const std::string kProgram = "examples/image_classification/image_classification";
const std::vector<std::string> kShapes = {"bars", "cross", "disc"};

// A bright shape on dark ground, in colors of its own.
image::Image drawn(size_t shape, data::SplitMix64 &random) {
  image::Image image{40, 48, 3, {}};
  auto between = [&](uint64_t low, uint64_t high) {
    return static_cast<int64_t>(low + random.below(high - low));
  };
  int64_t cy = between(16, 24), cx = between(18, 30), radius = between(9, 14);
  int64_t dark[3], bright[3];
  for (int c = 0; c < 3; ++c)
    dark[c] = between(0, 90), bright[c] = between(150, 255);
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x) {
      int64_t dy = std::abs(y - cy), dx = std::abs(x - cx);
      bool inside = shape == 0   ? x / 4 % 2 == 0
                    : shape == 1 ? std::min(dy, dx) < 3 && std::max(dy, dx) < radius
                                 : dy * dy + dx * dx < radius * radius;
      for (int c = 0; c < 3; ++c)
        image.pixels.push_back(static_cast<uint8_t>(inside ? bright[c] : dark[c]));
    }
  return image;
}

// A folder for each shape; every fourth file is a JPEG.
void draw_shapes(const std::string &folder, int count, uint64_t seed) {
  data::SplitMix64 random(seed);
  for (size_t shape = 0; shape < kShapes.size(); ++shape) {
    fs::create_directories(folder + "/" + kShapes[shape]);
    for (int i = 0; i < count; ++i) {
      const std::string path = folder + "/" + kShapes[shape] + "/" + std::to_string(i);
      image::Image image = drawn(shape, random);
      if (i % 4 == 0)
        write_whole(path + ".jpg", jpeg_of(image));
      else
        image::write_png(path + ".png", image);
    }
  }
}

class ImageClassification : public ::testing::Test {
protected:
  void SetUp() override {
    folder_ = scratch_folder();
    data_ = folder_ + "/shapes";
    static const std::string cache = scratch_folder();
    setenv("WEFT_CACHE_DIR", cache.c_str(), 1);
  }
  void TearDown() override {
    fs::remove_all(folder_);
  }
  // Batches of 8, unless `more` says otherwise.
  std::vector<std::string> command(const std::string &out, std::vector<std::string> more = {}) {
    std::vector<std::string> result = {kProgram, "--data", data_,        "--out", out,
                                       "--size", "32",     "--min-area", "0.6"};
    if (std::find(more.begin(), more.end(), "--batch") == more.end())
      more.insert(more.end(), {"--batch", "8"});
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }
  // Exit code 2, and one line with these words.
  void expect_refused(const std::vector<std::string> &more, const std::string &words) {
    ProcessResult result = run_process(command(folder_ + "/refused", more));
    EXPECT_EQ(result.exit_code, 2) << words << ": " << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  std::string folder_, data_;
};

std::vector<std::vector<std::string>> table_of(const std::string &csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');)
      rows.back().push_back(cell);
  }
  return rows;
}

// Of the losses in rows [first, last) of a curve.
double mean_loss(const std::vector<std::vector<std::string>> &curve, size_t first, size_t last) {
  double sum = 0;
  for (size_t i = first; i < last; ++i)
    sum += std::atof(curve[i][1].c_str());
  return sum / static_cast<double>(last - first);
}

TEST_F(ImageClassification, LearnsShapesAndCountsWhatItTakesThemFor) {
  draw_shapes(data_ + "/train", 24, 1);
  draw_shapes(data_ + "/val", 8, 2);
  const std::string out = folder_ + "/out";
  ProcessResult result =
      run_process(command(out, {"--model", "resnet18", "--epochs", "6", "--lr", "0.002"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("72 images to train on, 24 to test, 3 classes"), std::string::npos)
      << result.out;
  auto curve = table_of(read_whole(out + "/curve.csv"));
  ASSERT_EQ(curve.size(), 1u + 6 * 9);
  EXPECT_LT(mean_loss(curve, 46, 55), 0.6 * mean_loss(curve, 1, 10));

  auto confusion = table_of(read_whole(out + "/confusion.csv"));
  ASSERT_EQ(confusion.size(), 4u);
  EXPECT_EQ(confusion[0],
            (std::vector<std::string>{"is\\taken", "\"bars\"", "\"cross\"", "\"disc\""}));
  int right = 0;
  for (size_t is = 1; is < 4; ++is) {
    int row = 0;
    for (size_t taken = 1; taken < 4; ++taken) {
      row += std::atoi(confusion[is][taken].c_str());
      right += is == taken ? std::atoi(confusion[is][taken].c_str()) : 0;
    }
    EXPECT_EQ(row, 8) << "all pictures of a class are taken for something";
  }
  EXPECT_GE(right, 16);
  char said[80];
  std::snprintf(said, sizeof said, "test        %.2f %% of 24 images right, of 100.00 %%",
                100.0 * right / 24);
  EXPECT_NE(result.out.find(said), std::string::npos) << result.out;
}

TEST_F(ImageClassification, AKilledRunContinuesTheSameCurve) {
  draw_shapes(data_, 16, 3);
  const std::vector<std::string> run = {"--model", "shufflenet_v2_x0_5", "--epochs",
                                        "4",       "--checkpoint-every", "2"};
  auto with = [&](const std::string &out, bool resumes) {
    std::vector<std::string> result = command(out, run);
    if (resumes)
      result.push_back("--resume");
    return result;
  };
  const std::string whole = folder_ + "/whole", out = folder_ + "/killed";
  ProcessResult first = run_process(with(whole, false));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string checkpoint = out + "/checkpoint.safetensors";
  ProcessResult killed = run_process(with(out, false), [&] { return fs::exists(checkpoint); });
  ASSERT_NE(killed.signal, 0) << "the run ended before it could be killed";
  ProcessResult resumed = run_process(with(out, true));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resumed     after step "), std::string::npos) << resumed.out;
  EXPECT_EQ(resumed.out.find("resumed     after step 0\n"), std::string::npos) << resumed.out;
  for (const char *file : {"curve.csv", "checkpoint.safetensors", "confusion.csv"})
    EXPECT_EQ(read_whole(out + "/" + file), read_whole(whole + "/" + file)) << file;
  // What was trained is not taken up by another run.
  std::vector<std::string> other = with(out, true);
  other.insert(other.end(), {"--lr", "0.5"});
  ProcessResult refused = run_process(other);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("holds another run"), std::string::npos) << refused.err;
}

// In 16 bits, and goes on from a checkpoint that holds the scale of the loss.
TEST_F(ImageClassification, TrainsInMixedPrecision) {
  data_ = "examples/digits/data";
  auto losses = [&](const std::string &precision) {
    const std::string out = folder_ + "/" + precision;
    ProcessResult result =
        run_process(command(out, {"--model", "shufflenet_v2_x0_5", "--epochs", "2", "--batch",
                                  "128", "--precision", precision}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    auto curve = table_of(read_whole(out + "/curve.csv"));
    EXPECT_EQ(curve.size(), 1u + 2 * 11);
    return std::pair(mean_loss(curve, 1, 6), mean_loss(curve, curve.size() - 5, curve.size()));
  };
  double exact = losses("float32").second;
  EXPECT_NEAR(losses("bfloat16").second, exact, 0.05 * exact);
  // Its first steps are left out, until the scale fits.
  auto [first, last] = losses("float16");
  EXPECT_LT(last, 0.9 * first);
  ProcessResult resumed = run_process(
      command(folder_ + "/float16", {"--model", "shufflenet_v2_x0_5", "--epochs", "2", "--batch",
                                     "128", "--precision", "float16", "--resume"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  ProcessResult other = run_process(
      command(folder_ + "/float16", {"--model", "shufflenet_v2_x0_5", "--epochs", "2", "--batch",
                                     "128", "--precision", "bfloat16", "--resume"}));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("holds another run"), std::string::npos) << other.err;
}

TEST_F(ImageClassification, TakesIdxFiles) {
  data_ = "examples/digits/data";
  ProcessResult result = run_process(command(
      folder_ + "/out", {"--model", "shufflenet_v2_x0_5", "--epochs", "1", "--batch", "512"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("1438 images to train on, 359 to test, 10 classes"), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("of 359 images right"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("among the first 5"), std::string::npos) << result.out;
}

TEST_F(ImageClassification, BadInputIsOneLineThatNamesIt) {
  expect_refused({}, "'" + data_ + "' is no folder");
  fs::create_directories(data_ + "/train");
  expect_refused({}, "neither test nor val");
  fs::remove(data_ + "/train");
  expect_refused({}, "has no subfolders");
  draw_shapes(data_, 8, 4);
  expect_refused({"--model", "resnet81"}, "there is no model 'resnet81'; the nearest names are");
  expect_refused({"--model", "gpt2"},
                 "'gpt2' is of the kind 'language model', no image classifier");
  expect_refused({"--batch", "32"}, "fewer than a --batch of 32");
  expect_refused({"--test-share", "0"}, "0 would be to test on");
  expect_refused({"--resume"}, "refused/checkpoint.safetensors");
  EXPECT_FALSE(fs::exists(folder_ + "/refused")) << "nothing is written before all is known";
  // Pictures that cannot be read are found on the way.
  for (const std::string &shape : kShapes)
    write_whole(data_ + "/" + shape + "/broken.png", "no picture");
  for (int i = 0; i < 8; ++i)
    fs::remove(data_ + "/disc/" + std::to_string(i) + (i % 4 ? ".png" : ".jpg"));
  write_whole(data_ + "/disc/other.png", "none either");
  fs::create_directories(folder_ + "/refused");
  ProcessResult result =
      run_process(command(folder_ + "/refused", {"--model", "shufflenet_v2_x0_5"}));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find(".png'"), std::string::npos) << result.err;
}

// An IDX file of this type and these dims; sizes are big-endian.
std::string idx(int type, const std::vector<uint32_t> &dims, const std::string &elements) {
  std::string text{'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (uint32_t dim : dims)
    for (int shift : {24, 16, 8, 0})
      text += static_cast<char>(dim >> shift & 255);
  return text + elements;
}

TEST_F(ImageClassification, BadIdxFilesAreNamed) {
  fs::create_directories(data_);
  const std::string whole = idx(8, {8, 2, 2}, std::string(32, '\1')),
                    labels = idx(8, {8}, std::string(8, '\1'));
  auto write = [&](const std::string &train, const std::string &train_labels,
                   const std::string &test, const std::string &test_labels) {
    write_whole(data_ + "/train-images-idx3-ubyte", train);
    write_whole(data_ + "/train-labels-idx1-ubyte", train_labels);
    write_whole(data_ + "/t10k-images-idx3-ubyte", test);
    write_whole(data_ + "/t10k-labels-idx1-ubyte", test_labels);
  };
  write(idx(8, {8, 0, 2}, ""), labels, whole, labels);
  expect_refused({}, "train-images-idx3-ubyte' holds images of 0 x 2 pixels");
  write(whole, labels, whole, idx(8, {0}, ""));
  expect_refused({}, "labels; there must be one for each");
  write(whole, labels, idx(8, {0, 2, 2}, ""), idx(8, {0}, ""));
  expect_refused({}, "'" + data_ + "' has no images to test on");
  std::string far(32, '\0');
  far[0] = '\x77'; // of the first label, 0x77000000
  write(whole, idx(0x0C, {8}, far), whole, labels);
  expect_refused({}, "/train-labels-idx1-ubyte' has the label 1996488704; there may be 32768");
}

TEST(Registry, ClassifiersTakeOtherSizes) {
  for (const models::Record &record : models::all()) {
    EXPECT_EQ(record.make_classifier != nullptr, record.kind == models::kImageClassifier)
        << record.name;
    if (record.name != "resnet18" && record.name != "squeezenet1_1" && record.name != "vit_b_16")
      continue; // one of each kind of head, and the one that is made for a size
    models::AnyModel model = record.make_classifier({.classes = 7, .channels = 1, .image = 64});
    model.module().eval();
    EXPECT_EQ(model({zeros({2, 1, 64, 64})})[0].shape(), (Shape{2, 7})) << record.name;
  }
}

} // namespace
} // namespace weft::tests
