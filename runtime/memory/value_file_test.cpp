#include "runtime/memory/value_file.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <sys/resource.h>

namespace weft::runtime {
namespace {

TEST(ValueFile, GivesBackWhatItWasGiven) {
  std::string folder = testing::TempDir();
  auto first = ValueFile::make(1000, folder), second = ValueFile::make(1000, folder);
  ASSERT_TRUE(first.ok() && second.ok());
  std::vector<char> values(1000), read(1000);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<char>(i * (i + 7) + static_cast<size_t>(round));
    ASSERT_TRUE((*first)->write(values.data()).ok());
    std::vector<char> others(1000, 'x');
    ASSERT_TRUE((*second)->write(others.data()).ok());
    ASSERT_TRUE(ValueFile::read((*first)->token(), read.data(), 1000).ok());
    EXPECT_EQ(read, values);
    ASSERT_TRUE(ValueFile::read((*second)->token(), read.data(), 1000).ok());
    EXPECT_EQ(read, others);
  }
}

TEST(ValueFile, HasNoNameInItsFolder) {
  std::string folder = testing::TempDir() + "/value_file";
  std::filesystem::create_directories(folder);
  auto file = ValueFile::make(10, folder);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(ValueFile, SaysWhichFolderTakesNone) {
  auto file = ValueFile::make(10, "/no/such/folder");
  EXPECT_TRUE(absl::IsFailedPrecondition(file.status())) << file.status();
  EXPECT_NE(file.status().message().find("/no/such/folder"), std::string::npos) << file.status();
}

TEST(ValueFile, HasItsRoomFromTheBeginning) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before, small;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto large = ValueFile::make(1 << 20, testing::TempDir()),
       fits = ValueFile::make(4096, testing::TempDir());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(large.status())) << large.status();
  EXPECT_NE(large.status().message().find("1048576 bytes"), std::string::npos) << large.status();
  EXPECT_TRUE(fits.ok()) << fits.status();
}

TEST(ValueFile, ReadsNoMoreThanThereIs) {
  auto file = ValueFile::make(10, testing::TempDir());
  ASSERT_TRUE(file.ok());
  std::vector<char> read(5000); // more than a page, by which rooms are cut
  EXPECT_FALSE(ValueFile::read((*file)->token(), read.data(), 5000).ok());
  EXPECT_FALSE(ValueFile::read({-1, 0}, read.data(), 10).ok());
}

// Rooms of one file do not meet; one that is given back serves the next values.
TEST(ValueFile, RoomsAreUsedAgain) {
  std::vector<std::unique_ptr<ValueFile>> files;
  auto add = [&](int64_t bytes) {
    files.push_back(*ValueFile::make(bytes, testing::TempDir()));
    return files.back()->token();
  };
  ValueFile::Token first = add(5000), second = add(100), third = add(5000);
  EXPECT_EQ(first.file, third.file);
  EXPECT_EQ(second.offset, first.offset + 8192);
  EXPECT_EQ(third.offset, second.offset + 4096);
  files[0].reset();
  EXPECT_EQ(add(4096).offset, first.offset);
  EXPECT_EQ(add(4096).offset, first.offset + 4096);
  files[1].reset();
  files[2].reset();
  EXPECT_EQ(add(9000).offset, second.offset); // both together
  EXPECT_GT(add(1 << 20).offset, third.offset);
}

TEST(ValueFile, FolderIsTheCallersElseTheEnvironments) {
  setenv("TMPDIR", "/of/the/system", 1);
  EXPECT_EQ(memory_folder(), "/of/the/system");
  setenv("WEFT_MEMORY_FOLDER", "/of/wefts", 1);
  EXPECT_EQ(memory_folder(), "/of/wefts");
  set_memory_folder("/of/the/program");
  EXPECT_EQ(memory_folder(), "/of/the/program");
  set_memory_folder("");
  unsetenv("WEFT_MEMORY_FOLDER");
  unsetenv("TMPDIR");
  EXPECT_EQ(memory_folder(), "/var/tmp");
}

} // namespace
} // namespace weft::runtime
