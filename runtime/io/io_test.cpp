#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "runtime/io/json_reader.h"
#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"

namespace weft::runtime {
namespace {

namespace fs = std::filesystem;

// The memory of this process that lies in RAM.
int64_t resident_bytes() {
  std::ifstream stream("/proc/self/statm");
  int64_t pages = 0;
  stream >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

std::string scratch_folder() {
  const char *base = std::getenv("TEST_TMPDIR");
  std::string folder = std::string(base ? base : "/tmp") + "/io_test." + std::to_string(getpid()) +
                       "." + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  fs::create_directories(folder);
  return folder;
}
std::vector<std::byte> bytes_of(const std::string &text) {
  std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string npy(const std::string &header, const std::string &data) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         data;
}
std::string safetensors(const std::string &header, const std::string &data) {
  std::string length(8, '\0');
  uint64_t size = header.size();
  std::memcpy(length.data(), &size, 8);
  return length + header + data;
}

TEST(Npy, WritesWhatItReadsForEveryDTypeAndRank) {
  std::string path = scratch_folder() + "/x.npy";
  std::vector<std::byte> data(24 * 8);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>(i & 1);
  for (const DTypeInfo &dtype : kDTypes) {
    for (std::vector<int64_t> dims : {std::vector<int64_t>{}, {24}, {2, 12}, {2, 3, 4}, {0, 5}}) {
      ArrayView view{"", dtype.dtype, dims,
                     std::span<const std::byte>(data).first(array_bytes(dtype.dtype, dims))};
      absl::Status written = write_npy(path, view);
      if (dtype.dtype == DType::kBFloat16) {
        EXPECT_EQ(written.code(), absl::StatusCode::kUnimplemented);
        continue;
      }
      ASSERT_TRUE(written.ok()) << written;
      absl::StatusOr<NpyFile> read = read_npy(path);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->array.dtype, dtype.dtype);
      EXPECT_EQ(read->array.dims, dims);
      EXPECT_TRUE(std::equal(read->array.bytes.begin(), read->array.bytes.end(), view.bytes.begin(),
                             view.bytes.end()));
      EXPECT_EQ((fs::file_size(path) - view.bytes.size()) % 64, 0u)
          << "data is aligned as NumPy aligns it";
    }
  }
}

TEST(Npy, ReadsWhatNumpyWrites) {
  // np.save of np.array([[1, 2, 3], [4, 5, 6]], np.int16, order='F'), version 1.
  std::string data;
  for (int16_t value : {1, 4, 2, 5, 3, 6})
    data.append(reinterpret_cast<const char *>(&value), 2);
  absl::StatusOr<NpyFile> file = parse_npy(
      bytes_of(npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }  \n", data)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->array.dims, (std::vector<int64_t>{2, 3}));
  std::vector<int16_t> values(6);
  std::memcpy(values.data(), file->array.bytes.data(), 12);
  EXPECT_EQ(values, (std::vector<int16_t>{1, 2, 3, 4, 5, 6}));
  // Version 2 has a length of four bytes.
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}\n";
  std::string second = std::string("\x93NUMPY\x02\x00", 8) + static_cast<char>(header.size()) +
                       std::string(3, '\0') + header + "\x07";
  std::vector<std::byte> kept = bytes_of(second);
  file = parse_npy(kept);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->array.bytes[0], std::byte{7});
}

TEST(Npy, RefusesDamagedFiles) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n",
                    data(8, 'x');
  ASSERT_TRUE(parse_npy(bytes_of(npy(header, data))).ok());
  for (size_t length = 0; length < npy(header, data).size(); ++length)
    EXPECT_EQ(parse_npy(bytes_of(npy(header, data).substr(0, length))).status().code(),
              absl::StatusCode::kDataLoss)
        << length;
  EXPECT_EQ(parse_npy(bytes_of(npy(header, data + "x"))).status().code(),
            absl::StatusCode::kDataLoss);
  for (const char *bad :
       {"", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -1)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, "
        "4611686018427387904)}"})
    EXPECT_EQ(parse_npy(bytes_of(npy(bad, data))).status().code(), absl::StatusCode::kDataLoss)
        << bad;
  for (const char *foreign : {">f4", "<c8", "|O", "<U3", "<f16"}) {
    absl::Status status = parse_npy(bytes_of(npy("{'descr': '" + std::string(foreign) +
                                                     "', 'fortran_order': False, 'shape': (2,)}",
                                                 data)))
                              .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(std::string(status.message()).find(foreign), std::string::npos)
        << "the type is named";
    EXPECT_NE(std::string(status.message()).find("can be read is <f4, <f8"), std::string::npos);
  }
}

TEST(Safetensors, WritesWhatItReads) {
  std::string path = scratch_folder() + "/x.safetensors";
  std::vector<std::byte> data(64);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>(i);
  std::vector<ArrayView> tensors;
  for (const DTypeInfo &dtype : kDTypes) {
    std::vector<int64_t> dims = {2, 3};
    tensors.push_back({std::string("layer.\"") + dtype.name + "\\\n\xC3\xA9", dtype.dtype, dims,
                       std::span<const std::byte>(data).first(array_bytes(dtype.dtype, dims))});
  }
  tensors.push_back({"scalar", DType::kFloat64, {}, std::span<const std::byte>(data).first(8)});
  tensors.push_back({"empty", DType::kInt32, {0, 7}, {}});
  std::map<std::string, std::string> metadata = {
      {"format", "test"}, {"text", "tab\t quote\" \x01 \xF0\x9F\xA7\xB5"}, {"", ""}};
  ASSERT_TRUE(write_safetensors(path, tensors, metadata).ok());
  absl::StatusOr<SafetensorsFile> file = read_safetensors(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata, metadata);
  ASSERT_EQ(file->tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file->tensors[i].name, tensors[i].name);
    EXPECT_EQ(file->tensors[i].dtype, tensors[i].dtype);
    EXPECT_EQ(file->tensors[i].dims, tensors[i].dims);
    EXPECT_TRUE(std::equal(file->tensors[i].bytes.begin(), file->tensors[i].bytes.end(),
                           tensors[i].bytes.begin(), tensors[i].bytes.end()));
  }
  ASSERT_TRUE(write_safetensors(path, {}, {}).ok());
  file = read_safetensors(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tensors.empty());
}

TEST(Safetensors, RefusesDamagedFiles) {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", data(16, 'x');
  const std::string good =
      "{" + a +
      R"(,"b":{"dtype":"I8","shape":[2,4],"data_offsets":[8,16]},"__metadata__":{"k":"v"}})";
  ASSERT_TRUE(parse_safetensors(bytes_of(safetensors(good, data))).ok());
  std::string whole = safetensors(good, data);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_EQ(parse_safetensors(bytes_of(whole.substr(0, length))).status().code(),
              absl::StatusCode::kDataLoss)
        << length;
  EXPECT_EQ(parse_safetensors(bytes_of(whole + "x")).status().code(), absl::StatusCode::kDataLoss);
  const std::string bad[] = {
      "",
      "[]",
      "{",
      "{\"a\":1}",
      "{" + a,
      "{" + a + "," + a + "}",
      "{" + a + R"(,"b":{"dtype":"I8","shape":[8],"data_offsets":[4,12]}})",  // overlap
      "{" + a + R"(,"b":{"dtype":"I8","shape":[4],"data_offsets":[12,16]}})", // gap
      "{" + a + R"(,"b":{"dtype":"I8","shape":[9],"data_offsets":[8,16]}})",  // shape
      "{" + a + R"(,"b":{"dtype":"I8","shape":[-8],"data_offsets":[8,16]}})",
      "{" + a + R"(,"b":{"dtype":"I8","shape":[8],"data_offsets":[8,1e1]}})",
      "{" + a + R"(,"b":{"dtype":"I8","shape":[8],"data_offsets":[8,16],"more":[]}})",
      "{" + a + R"(,"b":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[8,16]}})",
      "{" + a + R"(,"\ud800":{"dtype":"I8","shape":[8],"data_offsets":[8,16]}})",
      "{" + a + R"(,"b":{"dtype":"I8","shape":[8],"data_offsets":[8,16]}} x)",
  };
  for (const std::string &header : bad)
    EXPECT_EQ(parse_safetensors(bytes_of(safetensors(header, data))).status().code(),
              absl::StatusCode::kDataLoss)
        << header;
}

TEST(Safetensors, AnElementTypeThatWeftLacksLeavesTheOthers) {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("f8":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[8,14]},)"
      R"("u16":{"dtype":"U16","shape":[],"data_offsets":[14,16]},)"
      R"("b":{"dtype":"I8","shape":[4],"data_offsets":[16,20]}})";
  std::vector<std::byte> bytes = bytes_of(safetensors(header, "aaaaaaaaffffffuubbbb"));
  absl::StatusOr<SafetensorsFile> file = parse_safetensors(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors.size(), 2u);
  EXPECT_EQ(file->tensors[0].name, "a");
  EXPECT_EQ(file->tensors[1].name, "b");
  EXPECT_EQ(file->tensors[1].bytes[0], std::byte{'b'});
  ASSERT_EQ(file->unread.size(), 2u);
  EXPECT_EQ(file->unread[0].name, "f8");
  EXPECT_EQ(unread_text(file->unread[0]), "F8_E4M3 [2, 3] in the file, an element type that Weft "
                                          "does not have; convert it where it is saved");
  EXPECT_EQ(file->unread[1].dtype, "U16");
  // They count as any other where the file is checked.
  const std::string bad[] = {
      R"({"a":{"dtype":"F8_E5M2","shape":[-8],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F8_E5M2","shape":[8],"data_offsets":[4,8]}})",
      R"({"a":{"dtype":"F8_E5M2","shape":[9],"data_offsets":[0,9]}})",
      R"({"a":{"dtype":"U16","shape":[2],"data_offsets":[0,4]},)"
      R"("a":{"dtype":"U16","shape":[2],"data_offsets":[4,8]}})",
  };
  for (const std::string &text : bad)
    EXPECT_EQ(parse_safetensors(bytes_of(safetensors(text, "01234567"))).status().code(),
              absl::StatusCode::kDataLoss)
        << text;
}

TEST(Safetensors, NoSingleDamagedByteIsDangerous) {
  const std::string
      header =
          R"({"__metadata__":{"k":"v\u00e9"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})",
      data(16, 'x');
  std::mt19937 random(1);
  for (size_t i = 0; i < 8 + header.size(); ++i)
    for (int k = 0; k < 16; ++k) {
      std::string file = safetensors(header, data);
      file[i] = static_cast<char>(random());
      absl::StatusOr<SafetensorsFile> result = parse_safetensors(bytes_of(file));
      if (!result.ok())
        continue;
      for (const ArrayView &tensor : result->tensors)
        EXPECT_EQ(static_cast<int64_t>(tensor.bytes.size()),
                  array_bytes(tensor.dtype, tensor.dims));
    }
}

TEST(Safetensors, RefusesWhatCannotBeReadBack) {
  std::string path = scratch_folder() + "/x.safetensors";
  std::vector<std::byte> data(8);
  auto code = [&](std::vector<ArrayView> tensors,
                  std::map<std::string, std::string> metadata = {}) {
    return write_safetensors(path, tensors, metadata).code();
  };
  ArrayView good{"a", DType::kFloat32, {2}, data};
  EXPECT_EQ(code({good, good}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"__metadata__", DType::kFloat32, {2}, data}}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"\xFF", DType::kFloat32, {2}, data}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{"a", DType::kFloat32, {3}, data}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({good}, {{"k", "\xC0\x80"}}), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(path)) << "a refused write leaves nothing";
}

TEST(Files, AnErrorNamesTheFileAndLeavesTheOldOne) {
  std::string folder = scratch_folder();
  EXPECT_EQ(read_file(folder + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(read_file(folder).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(read_npy(folder + "/none").status().message()).find("/none"),
            std::string::npos);
  std::vector<std::byte> content = bytes_of("old");
  std::span<const std::byte> pieces[] = {content, content};
  ASSERT_TRUE(write_file_atomically(folder + "/file", pieces).ok());
  EXPECT_EQ(*read_file(folder + "/file"), bytes_of("oldold"));
  EXPECT_EQ(write_file_atomically(folder + "/missing/file", pieces).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(write_file_atomically(folder + "/file/below", pieces).code(),
            absl::StatusCode::kNotFound);
  fs::create_directory(folder + "/taken");
  EXPECT_EQ(write_file_atomically(folder + "/taken", pieces).code(),
            absl::StatusCode::kInvalidArgument);
  std::set<std::string> left;
  for (const auto &entry : fs::directory_iterator(folder))
    left.insert(entry.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"file", "taken"})) << "no temporary file stays";
}

TEST(Files, AReplacedFileKeepsItsPermissions) {
  std::string path = scratch_folder() + "/file";
  std::vector<std::byte> content = bytes_of("x");
  std::span<const std::byte> pieces[] = {content};
  mode_t before = ::umask(0027);
  EXPECT_TRUE(write_file_atomically(path, pieces).ok());
  ::umask(before);
  auto mode = [&] {
    return static_cast<unsigned>(fs::status(path).permissions());
  };
  EXPECT_EQ(mode(), 0640u) << "a new file has those of the process";
  for (mode_t kept : {0600, 0664, 0755, 0444}) {
    ASSERT_EQ(::chmod(path.c_str(), kept), 0);
    EXPECT_TRUE(write_file_atomically(path, pieces).ok());
    EXPECT_EQ(mode(), kept);
  }
}

TEST(Files, ALinkStaysAndItsTargetIsReplaced) {
  std::string folder = scratch_folder(), inner = folder + "/inner";
  fs::create_directories(inner);
  // One link leads to another, in another folder; at first there is no file at their end.
  for (const char *link : {"/link", "/inner/next"})
    fs::remove(folder + link);
  fs::remove(inner + "/file");
  fs::create_symlink("inner/next", folder + "/link");
  fs::create_symlink(inner + "/file", inner + "/next");
  for (const char *text : {"first", "second"}) {
    std::vector<std::byte> content = bytes_of(text);
    std::span<const std::byte> pieces[] = {content};
    ASSERT_TRUE(write_file_atomically(folder + "/link", pieces).ok());
    EXPECT_TRUE(fs::is_symlink(folder + "/link"));
    EXPECT_TRUE(fs::is_symlink(inner + "/next"));
    EXPECT_FALSE(fs::is_symlink(inner + "/file"));
    EXPECT_EQ(*read_file(inner + "/file"), content);
  }
  // One without an end is an error, as for whoever opens it.
  fs::remove(inner + "/next");
  fs::create_symlink("../link", inner + "/next");
  std::vector<std::byte> content = bytes_of("x");
  std::span<const std::byte> pieces[] = {content};
  EXPECT_FALSE(write_file_atomically(folder + "/link", pieces).ok());
  EXPECT_TRUE(fs::is_symlink(folder + "/link"));
  // The message has the name that was given.
  fs::remove(inner + "/next");
  fs::create_symlink("missing/file", inner + "/next");
  absl::Status status = write_file_atomically(folder + "/link", pieces);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find(folder + "/link"), std::string::npos);
}

// What a killed process has left goes; what is another's, or a file of the user's, stays.
TEST(Files, WhatAKilledWriterLeftGoesWithTheNextWrite) {
  std::string folder = scratch_folder(), path = folder + "/file";
  pid_t gone = ::fork();
  ASSERT_GE(gone, 0);
  if (gone == 0)
    ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  auto name = [&](const std::string &base, const std::string &rest) {
    return base + ".tmp." + rest;
  };
  const std::string dead = std::to_string(gone), alive = std::to_string(::getpid());
  const std::vector<std::string> stay = {name("file", alive + ".99999"),
                                         name("file", dead),
                                         name("file", dead + ".0x"),
                                         name("file", dead + ".0.json"),
                                         name("file", "-1.0"),
                                         name("other", dead + ".0"),
                                         name("file", ".0"),
                                         name("file", "notes.1"),
                                         name("file", dead + ".3")};
  for (const std::string &each : stay)
    std::ofstream(folder + "/" + each) << "x";
  for (const char *number : {".0", ".17"})
    std::ofstream(folder + "/" + name("file", dead + number)) << "half";
  // As a writer has it whose process is not to be seen here.
  int locked = ::open((folder + "/" + stay.back()).c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(locked, LOCK_EX | LOCK_NB), 0);
  std::vector<std::byte> bytes = bytes_of("new");
  std::span<const std::byte> pieces[] = {bytes};
  ASSERT_TRUE(write_file_atomically(path, pieces).ok());
  ::close(locked);
  std::set<std::string> left, expected(stay.begin(), stay.end());
  expected.insert("file");
  for (const auto &entry : fs::directory_iterator(folder))
    left.insert(entry.path().filename());
  EXPECT_EQ(left, expected);
  ASSERT_TRUE(write_file_atomically(path, pieces).ok());
  EXPECT_FALSE(fs::exists(folder + "/" + stay.back()));
}

TEST(Files, AFullDiskLeavesTheOldFile) {
  if (!fs::exists("/dev/full"))
    GTEST_SKIP() << "no /dev/full here";
  std::vector<std::byte> content = bytes_of("x");
  std::span<const std::byte> pieces[] = {content};
  absl::Status status = write_file_atomically("/dev/full", pieces);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
      << "a device is not replaced by a file";
}

TEST(Files, SeveralWriteOneNewFile) {
  const std::string path = scratch_folder() + "/x";
  ASSERT_TRUE(write_file_atomically(path, "old").ok());
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  auto text = [](std::string_view text) {
    return std::as_bytes(std::span(text));
  };
  auto files = [&] {
    return std::distance(fs::directory_iterator(fs::path(path).parent_path()), {});
  };
  {
    auto begun = NewFile::begin(path);
    ASSERT_TRUE(begun.ok()) << begun.status();
    ASSERT_TRUE(begun->reserve(6).ok());
    auto joined = NewFile::join(path, begun->mark());
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_TRUE(joined->write(4, text("ew")).ok());
    EXPECT_TRUE(joined->close().ok());
    EXPECT_TRUE(begun->write(0, text("it n")).ok());
    EXPECT_TRUE(begun->close().ok());
    EXPECT_EQ(*read_file(path), bytes_of("old"));
    // Its writers may write it, whatever the old one allows.
    EXPECT_EQ(fs::status(path + begun->mark()).permissions(), fs::perms(0600));
    EXPECT_TRUE(begun->finish().ok());
  }
  EXPECT_EQ(*read_file(path), bytes_of("it new"));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0444));
  EXPECT_EQ(files(), 1);
  { // One that is not finished goes.
    auto begun = NewFile::begin(path);
    ASSERT_TRUE(begun.ok()) << begun.status();
    EXPECT_EQ(files(), 2);
    NewFile moved = *std::move(begun);
    EXPECT_TRUE(moved.write(0, text("not")).ok());
  }
  EXPECT_EQ(*read_file(path), bytes_of("it new"));
  EXPECT_EQ(files(), 1);
  EXPECT_TRUE(absl::IsNotFound(NewFile::join(path, ".tmp.1.1").status()));
}

TEST(Json, Utf8) {
  for (const char *good :
       {"", "a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\xA7\xB5", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_utf8(good));
  for (const char *bad : {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(MappedFile, IsNotReadBeforeItIsLookedAt) {
  // 200 MB of zeros, which take no room on the disk.
  constexpr int64_t kBytes = 200'000'000, kLittle = 8'000'000;
  std::string path = scratch_folder() + "/large.safetensors";
  std::ofstream(path) << safetensors("{\"x\":{\"dtype\":\"F32\",\"shape\":[50000000],"
                                     "\"data_offsets\":[0,200000000]}}",
                                     "");
  fs::resize_file(path, fs::file_size(path) + kBytes);
  std::string array = path + ".npy";
  std::ofstream(array) << npy("{'descr': '<f4', 'fortran_order': False, 'shape': (50000000,), }\n",
                              "");
  fs::resize_file(array, fs::file_size(array) + kBytes);
  int64_t before = resident_bytes();
  absl::StatusOr<SafetensorsFile> file = read_safetensors(path);
  ASSERT_TRUE(file.ok()) << file.status();
  absl::StatusOr<NpyFile> read = read_npy(array);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_LT(resident_bytes() - before, kLittle);
  // It lives as long as its storage, whatever becomes of the file.
  std::shared_ptr<const void> storage = file->storage;
  std::span<const std::byte> bytes = file->tensors[0].bytes;
  file = absl::UnknownError("gone");
  fs::remove(path);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), kBytes);
  EXPECT_EQ(bytes[kBytes - 1], std::byte{0});
  fs::remove(array);
}

TEST(MappedFile, MayBeReplacedWhileItIsThere) {
  std::string path = scratch_folder() + "/x.safetensors";
  std::vector<float> ones(1000, 1), twos(1000, 2);
  ArrayView view{"x", DType::kFloat32, {1000}, std::as_bytes(std::span(ones))};
  ASSERT_TRUE(write_safetensors(path, {&view, 1}).ok());
  absl::StatusOr<SafetensorsFile> old = read_safetensors(path);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(old->tensors[0].bytes.data()) % 64, 0u);
  // What is mapped is written over itself, then something else is.
  ASSERT_TRUE(write_safetensors(path, old->tensors).ok());
  view.bytes = std::as_bytes(std::span(twos));
  ASSERT_TRUE(write_safetensors(path, {&view, 1}).ok());
  EXPECT_EQ(std::memcmp(old->tensors[0].bytes.data(), ones.data(), 4000), 0);
  EXPECT_EQ(std::memcmp(read_safetensors(path)->tensors[0].bytes.data(), twos.data(), 4000), 0);
}

TEST(MappedFile, EmptyAndMissingFiles) {
  std::string path = scratch_folder() + "/empty";
  std::ofstream(path).flush();
  absl::StatusOr<MappedFile> empty = map_file(path);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->bytes.empty());
  EXPECT_EQ(map_file(path + "none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(map_file(scratch_folder()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read_safetensors(path).status().code(), absl::StatusCode::kDataLoss);
}

} // namespace
} // namespace weft::runtime
