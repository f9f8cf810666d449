#include "tests/support/errors.h"
#include "weft/image/folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "weft/image/png.h"
#include "weft/weft.h"

namespace weft::image {
namespace {

namespace fs = std::filesystem;

class Folder : public ::testing::Test {
protected:
  void SetUp() override {
    const char *base = std::getenv("TEST_TMPDIR");
    root_ = std::string(base ? base : "/tmp") + "/folder." +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  // A picture of one color.
  void picture(const std::string &path, uint8_t value, int64_t height = 2, int64_t width = 3) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    write_png(root_ + "/" + path,
              {height, width, 1, std::vector<uint8_t>(static_cast<size_t>(height * width), value)});
  }
  void text(const std::string &path, const std::string &content) {
    std::ofstream(root_ + "/" + path) << content;
  }

  std::string root_;
};

TEST_F(Folder, AClassForEachSubfolder) {
  picture("dog/b.PNG", 20);
  picture("dog/a.png", 10);
  picture("dog/more/c.jpeg", 30); // a PNG by its bytes
  picture("cat/x.png", 40);
  picture("dog/.hidden.png", 1);
  picture("loose.png", 2);
  text("dog/notes.txt", "notes");
  ImageFolder folder(root_, {.channels = 1});
  EXPECT_EQ(folder.classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(folder.size(), 4);
  EXPECT_EQ(folder.path(0), root_ + "/cat/x.png");
  EXPECT_EQ(folder.path(1), root_ + "/dog/a.png");
  EXPECT_EQ(folder.label(3), 1);
  data::HostBatch batch = folder.fetch(std::vector<int64_t>{3, 0, 1});
  EXPECT_EQ(batch.input.shape, (std::vector<int64_t>{3, 1, 2, 3}));
  EXPECT_FLOAT_EQ(batch.input.as<float>()[0], 30 / 255.0f);
  EXPECT_FLOAT_EQ(batch.input.as<float>()[6], 40 / 255.0f);
  EXPECT_EQ(batch.target.as<int64_t>()[1], 0);
  // Through the loader, on its thread.
  data::DataLoader loader(folder, {.batch_size = 4});
  auto [input, target] = loader.next();
  EXPECT_EQ(target.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1, 1}));
  EXPECT_EQ(input.shape(), (Shape{4, 1, 2, 3}));
}

TEST_F(Folder, NamesTheFileThatIsDamaged) {
  picture("a/good.png", 1);
  text("a/nopicture.png", "text");
  picture("a/zcut.png", 9, 40, 40);
  fs::resize_file(root_ + "/a/zcut.png", fs::file_size(root_ + "/a/zcut.png") - 20);
  ImageFolder folder(root_, {.channels = 1});
  data::DataLoader loader(folder, {.batch_size = 2});
  EXPECT_MESSAGE(loader.next(), root_ + "/a/nopicture.png' is neither a PNG nor a JPEG");
  EXPECT_MESSAGE(folder.fetch(std::vector<int64_t>{2}),
                 root_ + "/a/zcut.png' cannot be read as PNG");
  fs::remove(root_ + "/a/good.png");
  EXPECT_MESSAGE(folder.fetch(std::vector<int64_t>{0}), "/a/good.png' does not exist");
}

TEST_F(Folder, NamesWhatDoesNotFit) {
  picture("a/large.png", 1, 5, 5);
  picture("a/small.png", 1, 2, 2);
  ImageFolder plain(root_);
  EXPECT_MESSAGE(
      plain.fetch(std::vector<int64_t>{0, 1}),
      "a/small.png' is 3 x 2 x 2 after its transformations, the first of its batch 3 x 5 x 5");
  ImageFolder cropped(root_, {.transform = CenterCrop(4, 4)});
  EXPECT_MESSAGE(cropped.fetch(std::vector<int64_t>{0, 1}),
                 "a/small.png': CenterCrop: the picture of 2 x 2");
  ImageFolder resized(root_,
                      {.transform = Compose({Resize(3, 3), ToFloat(), Normalize({0.5}, {0.5})})});
  EXPECT_EQ(resized.fetch(std::vector<int64_t>{0, 1}).input.shape,
            (std::vector<int64_t>{2, 3, 3, 3}));
}

// An error stands where the loader was made, else where the data set was; on any thread.
TEST_F(Folder, ErrorsStandAtTheCallersLine) {
  using testing_support::message_of;
  picture("a/large.png", 1, 5, 5);
  picture("a/small.png", 1, 2, 2);
  text("a/text.png", "text");
  ImageFolder folder(root_, {.transform = CenterCrop(4, 4)});
  const int made_at = __LINE__ - 1;
  std::vector<int64_t> small = {1}, unreadable = {2};
  message_of([&] { folder.fetch(small); }, ErrorKind::kShape, made_at);
  message_of([&] { folder.fetch(unreadable); }, ErrorKind::kFile, made_at);
  for (int64_t prefetch : {0, 2}) {
    data::DataLoader loader(folder, {.batch_size = 2, .prefetch = prefetch});
    const int asked_at = __LINE__ - 1;
    message_of([&] { loader.next(); }, ErrorKind::kShape, asked_at);
  }
  ImageFolder plain(root_);
  data::DataLoader sizes(plain, {.batch_size = 2});
  message_of([&] { sizes.next(); }, ErrorKind::kShape, __LINE__ - 1);
  data::DataLoader transformed(
      std::make_shared<TransformedDataset>(
          std::make_shared<data::TensorDataset>(zeros({2, 1, 3, 3}), arange(2)), CenterCrop(4, 4)),
      {.batch_size = 2});
  EXPECT_EQ(message_of([&] { transformed.next(); }, ErrorKind::kShape).find("item 0: CenterCrop: "),
            0u);
}

TEST_F(Folder, NamesTheFolderThatIsNone) {
  EXPECT_MESSAGE(ImageFolder(root_ + "/nowhere"), "nowhere' does not exist");
  text("file", "");
  EXPECT_MESSAGE(ImageFolder(root_ + "/file"), "is not a folder");
  EXPECT_MESSAGE(ImageFolder{root_}, "has no subfolders");
  fs::create_directories(root_ + "/empty");
  EXPECT_MESSAGE(ImageFolder{root_}, "no pictures (.png, .jpg, .jpeg) in its subfolder 'empty'");
  EXPECT_MESSAGE(ImageFolder(root_, {.channels = 2}), "channels");
}

} // namespace
} // namespace weft::image
