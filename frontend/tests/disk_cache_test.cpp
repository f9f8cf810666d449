// The disk cache: hits across caches in memory, damage, bounds, folders that cannot be trusted.
#include "weft/weft.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "compiler/pipeline/Registrations.h"
#include "weft/profile.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class DiskCache : public testing::Test {
protected:
  void SetUp() override {
    before_ = config();
    folder_ = testing::TempDir() + "/weft-disk-cache-test-" + std::to_string(::getpid());
    fs::remove_all(folder_);
    forget();
    // A program for each n.
    use([&](Config &options) { options.cache_dir = folder_, options.symbolic = false; });
  }
  void TearDown() override {
    set_config(before_);
    fs::remove_all(folder_);
  }
  template <typename F> void use(F change) {
    Config options = config();
    change(options);
    set_config(options);
  }

  // Evaluates a program of its own for each n, and says how it was found.
  Evaluation evaluate(int64_t n) {
    Tensor x = ones({n}) * 3 + 1;
    Evaluation evaluation = explain(x);
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(n, 4.f));
    return evaluation;
  }
  // Pushes everything out of the cache in memory.
  void forget() {
    std::string folder = config().cache_dir;
    use([](Config &options) { options.cache_dir = "off"; });
    (zeros({1, 1, 1, 1}) + 1).eval();
    use([](Config &options) { options.cache_entries = 1; });
    use([&](Config &options) { options.cache_dir = folder; });
    use([](Config &options) { options.cache_entries = 100; });
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    for (const auto &file : fs::directory_iterator(folder_))
      if (file.path().extension() == ".weft")
        found.push_back(file.path());
    return found;
  }

  Config before_;
  std::string folder_;
};

// A source that was edited between two runs has its own lines in the second one's trace.
TEST_F(DiskCache, TracesNameTheLinesOfThisSource) {
  if (before_.backend != "cpu")
    GTEST_SKIP() << "the interpreter's traces have no ops";
  std::string path = testing::TempDir() + "/weft_disk_cache_trace.json";
  Tensor x = ones({3}).eval();
  (x * 5 + 2).eval();
  forget();
  {
    Profile profile(path);
    (x * 5 + 2).eval();
    synchronize();
  }
  std::string place = "disk_cache_test.cpp:" + std::to_string(__LINE__ - 3) + "\"";
  std::ifstream stream(path);
  std::string trace{std::istreambuf_iterator<char>(stream), {}};
  size_t kernel = trace.find("\"cat\":\"kernel\"");
  ASSERT_NE(kernel, std::string::npos) << trace;
  EXPECT_NE(trace.substr(kernel, trace.find('}', kernel) - kernel).find(place), std::string::npos)
      << trace;
}

TEST_F(DiskCache, HoldsProgramsForManySizes) {
  if (before_.backend != "cpu")
    GTEST_SKIP() << "programs for many sizes are the cpu backend's";
  use([](Config &options) { options.symbolic = true; });
  EXPECT_EQ(evaluate(20).outcome, CacheOutcome::kCompiled);
  Evaluation many = evaluate(32);
  EXPECT_EQ(many.outcome, CacheOutcome::kCompiled);
  EXPECT_NE(many.symbolic.find("[2, 32]"), std::string::npos) << many.to_string();
  EXPECT_EQ(many.disk_cache, "");
  EXPECT_EQ(entries().size(), 2u);
  EXPECT_EQ(evaluate(7).outcome, CacheOutcome::kMemoryHit);
  forget();
  // Other sizes of the same range.
  Evaluation found = evaluate(9);
  EXPECT_EQ(found.outcome, CacheOutcome::kDiskHit) << found.to_string();
  EXPECT_NE(found.symbolic.find("[2, 32]"), std::string::npos) << found.to_string();
  EXPECT_EQ(evaluate(31).outcome, CacheOutcome::kMemoryHit);
  EXPECT_EQ(entries().size(), 2u);
}

TEST_F(DiskCache, FindsWhatAnEarlierRunCompiled) {
  Evaluation compiled = evaluate(5);
  EXPECT_EQ(compiled.outcome, CacheOutcome::kCompiled);
  struct stat info;
  ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_EQ(evaluate(5).outcome, CacheOutcome::kMemoryHit);
  forget();
  Evaluation found = evaluate(5);
  EXPECT_EQ(found.outcome, CacheOutcome::kDiskHit);
  EXPECT_EQ(memory_table(found.peak_holders), memory_table(compiled.peak_holders));
  EXPECT_EQ(found.live_bytes, compiled.live_bytes);
  EXPECT_EQ(evaluate(6).outcome, CacheOutcome::kCompiled);
}

// What a compilation says of memory, as who reads its entry learns it.
TEST_F(DiskCache, TellsWhatTheProgramTakes) {
  if (before_.backend != "cpu")
    GTEST_SKIP() << "the interpreter plans no memory";
  Tensor w = ones({64, 64}, bfloat16).eval(), x = ones({8, 64}).eval();
  auto tell = [&] {
    Program program = trace([&](const Tensor &x) { return matmul(x, w.to(float32)); }, {x});
    MemoryEstimate estimate = program.memory();
    EXPECT_GE(estimate.state, w.nbytes()) << estimate.to_string();
    EXPECT_EQ(program.run({x})[0].sum().item<float>(), 8.f * 64 * 64);
    return estimate.to_string();
  };
  std::string compiled = tell();
  uint64_t hits = statistics().disk_hits;
  forget();
  EXPECT_EQ(tell(), compiled);
  EXPECT_GT(statistics().disk_hits, hits);
}

// A failure has the line of the call, whichever line the program on disk was compiled for.
TEST_F(DiskCache, FailuresHaveTheLineOfTheirCall) {
  auto index = [](Location location = Location::current()) {
    return gather(ones({4}), 0, full({2}, 7, int64), location) * 3;
  };
  auto line_of = [](const Tensor &x) {
    try {
      x.to_vector<float>();
    } catch (const Error &error) {
      return error.line();
    }
    return 0;
  };
  int line = __LINE__;
  EXPECT_EQ(line_of(index()), line + 1);
  EXPECT_EQ(entries().size(), 1u);
  forget();
  Tensor again = index();
  EXPECT_EQ(line_of(again), line + 4);
  EXPECT_EQ(line_of(index()), line + 6);
  EXPECT_EQ(statistics().disk_hits > 0, true);
}

TEST_F(DiskCache, RecompilesAndReplacesDamagedEntries) {
  evaluate(5);
  ASSERT_EQ(entries().size(), 1u);
  fs::path path = entries()[0];
  std::ifstream in(path, std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  in.close();
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  for (const std::string &damaged :
       {std::string(), whole.substr(0, 20), whole.substr(0, whole.size() - 1), flipped, whole + "x",
        std::string(4096, '\0')}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    forget();
    uint64_t before = statistics().corrupt_entries;
    EXPECT_EQ(evaluate(5).outcome, CacheOutcome::kCompiled);
    EXPECT_EQ(statistics().corrupt_entries - before, 1u);
    forget();
    EXPECT_EQ(evaluate(5).outcome, CacheOutcome::kDiskHit); // replaced
  }
}

// As after files of a folder were restored under names of others.
TEST_F(DiskCache, AnEntryUnderAnothersNameIsDamaged) {
  evaluate(5);
  fs::path five = entries().at(0);
  evaluate(6);
  for (const fs::path &path : entries())
    if (path != five)
      fs::copy_file(path, five, fs::copy_options::overwrite_existing);
  forget();
  uint64_t before = statistics().corrupt_entries;
  EXPECT_EQ(evaluate(5).outcome, CacheOutcome::kCompiled);
  EXPECT_EQ(statistics().corrupt_entries - before, 1u);
  EXPECT_EQ(evaluate(6).outcome, CacheOutcome::kDiskHit);
}

TEST_F(DiskCache, CountsDamagedEntriesOfTracedProgramsToo) {
  Tensor x = ones({7}).eval();
  auto run = [&] {
    Program program = trace([](const Tensor &a) { return a * 5; }, {x});
    EXPECT_EQ(program.run({x})[0].to_vector<float>(), std::vector<float>(7, 5.f));
  };
  run();
  ASSERT_FALSE(entries().empty());
  for (const fs::path &path : entries())
    std::ofstream(path, std::ios::binary | std::ios::trunc) << "damaged";
  uint64_t before = statistics().corrupt_entries;
  run();
  EXPECT_EQ(statistics().corrupt_entries - before, 1u);
}

TEST_F(DiskCache, IsBounded) {
  evaluate(1);
  ASSERT_FALSE(entries().empty());
  int64_t one = static_cast<int64_t>(fs::file_size(entries()[0]));
  use([&](Config &options) { options.disk_cache_bytes = 4 * one; });
  for (int64_t n = 2; n < 12; ++n)
    evaluate(n);
  int64_t total = 0;
  for (const fs::path &path : entries())
    total += static_cast<int64_t>(fs::file_size(path));
  EXPECT_LE(total, 4 * one);
  EXPECT_FALSE(entries().empty());
}

TEST_F(DiskCache, IsOffWhereTheFolderIsOpenToOthers) {
  fs::create_directories(folder_);
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::group_all | fs::perms::others_all);
  testing::internal::CaptureStderr();
  Evaluation evaluation = evaluate(5);
  EXPECT_NE(evaluation.disk_cache.find("open to other users"), std::string::npos)
      << evaluation.disk_cache;
  EXPECT_TRUE(entries().empty());
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("weft: the disk cache is off, and every process compiles anew: " + folder_ +
                      " has mode 0777 and is open to other users (its entries are code): chmod "
                      "700 " +
                      folder_),
            std::string::npos)
      << said;
  testing::internal::CaptureStderr();
  evaluate(6);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), ""); // it was told
}

TEST_F(DiskCache, IsOffWhereTheFolderIsAFile) {
  std::ofstream(folder_) << "a file";
  Evaluation evaluation = evaluate(5);
  EXPECT_NE(evaluation.disk_cache.find("off: "), std::string::npos) << evaluation.disk_cache;
  use([](Config &options) { options.cache_dir = "off"; });
  EXPECT_EQ(evaluate(7).disk_cache, "off: switched off");
}

// What such a thing does may change without a sign.
TEST_F(DiskCache, IsOffWhereWhatIsRegisteredHasNoVersion) {
  if (config().backend == "reference")
    GTEST_SKIP() << "it runs no passes of users";
  compiler::addRegistration({.kind = "test", .name = "mine", .version = "", .place = ""});
  EXPECT_EQ(evaluate(5).disk_cache, "off: the registered test 'mine' has no version");
  EXPECT_TRUE(!fs::exists(folder_) || entries().empty());
  compiler::removeRegistrations("test");
  EXPECT_EQ(evaluate(7).disk_cache, "");
}

// A process looks at the files of the folder once, and when it has written a part of the bound. Who
// looks removes what dead processes have left.
TEST_F(DiskCache, LeftoversOfDeadProcessesGo) {
  evaluate(5);
  fs::path leftover = folder_ + "/tmp.abcdef";
  std::ofstream(leftover) << "half";
  fs::last_write_time(leftover, fs::file_time_type::clock::now() - std::chrono::hours(2));
  evaluate(6);
  EXPECT_TRUE(fs::exists(leftover));
  int64_t one = static_cast<int64_t>(fs::file_size(entries()[0]));
  use([&](Config &options) { options.disk_cache_bytes = 16 * one; });
  evaluate(7);
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_EQ(entries().size(), 3u);
}

} // namespace
} // namespace weft
