#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/data/data.h"

namespace weft::data {
namespace {

using testing_support::message_of;

namespace fs = std::filesystem;

std::string scratch_folder() {
  const char *base = std::getenv("TEST_TMPDIR");
  std::string folder = std::string(base ? base : "/tmp") + "/data_test." +
                       std::to_string(getpid()) + "." +
                       ::testing::UnitTest::GetInstance()->current_test_info()->name();
  fs::create_directories(folder);
  return folder;
}
void write(const std::string &path, const std::string &content) {
  std::ofstream(path, std::ios::binary) << content;
}

// Item i is i; counts calls, and fails where it is told to.
class Numbers : public Dataset {
public:
  explicit Numbers(int64_t size) : size_(size) {}
  int64_t size() const override {
    return size_;
  }
  HostBatch fetch(std::span<const int64_t> items) const override {
    ++fetched;
    for (int64_t item : items)
      if (item == failing.load())
        throw std::runtime_error("item " + std::to_string(item) + " is broken");
    HostArray array = HostArray::empty(DType::kInt64, {static_cast<int64_t>(items.size())});
    std::copy(items.begin(), items.end(), array.as<int64_t>().begin());
    return {array, array};
  }
  mutable std::atomic<int> fetched{0};
  std::atomic<int64_t> failing{-1};

private:
  int64_t size_;
};

DatasetPtr numbers_to(int64_t size) {
  return std::make_shared<Numbers>(size);
}

std::vector<int64_t> values(const Tensor &tensor) {
  return tensor.to_vector<int64_t>();
}

// Gives what it was made with, whatever is asked for.
struct Given : Dataset {
  HostBatch batch;
  explicit Given(HostBatch batch) : batch(std::move(batch)) {}
  int64_t size() const override {
    return 8;
  }
  HostBatch fetch(std::span<const int64_t>) const override {
    return batch;
  }
};

TEST(Loader, ChecksWhatADataSetGives) {
  HostArray rows = HostArray::empty(DType::kFloat32, {4, 3}), few = rows, longer = rows;
  few.shape = {3, 4};
  longer.shape = {4, 5000};
  auto said = [](HostBatch batch) {
    DataLoader loader(Given(std::move(batch)), {.batch_size = 4});
    return message_of([&] { loader.next(); });
  };
  EXPECT_NE(said({longer, rows}).find("gave the input as float32 [4, 5000], but 48 bytes for it"),
            std::string::npos);
  EXPECT_NE(said({rows, few}).find("gave the target as float32 [3, 4], but was asked for 4 items"),
            std::string::npos);
  DataLoader unlabelled(Given({rows, {}}), {.batch_size = 4});
  Batch batch = unlabelled.next();
  EXPECT_EQ(batch.input.shape(), (Shape{4, 3}));
  EXPECT_FALSE(batch.target.defined());
}

TEST(Utf8, RoundTripAndRefusals) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA7\xB5\n";
  std::u32string characters = decode_utf8(text, "it");
  EXPECT_EQ(characters, U"a\u00e9\u20ac\U0001F9F5\n");
  EXPECT_EQ(encode_utf8(characters), text);
  for (const char *bad :
       {"\x80", "ab\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"})
    EXPECT_NE(message_of([&] { decode_utf8(bad, "it"); }).find("it is not UTF-8 text: byte "),
              std::string::npos)
        << bad;
  EXPECT_NE(message_of([&] { decode_utf8(std::string("a\0b", 3), "it"); }).find("byte 1 of 3"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { decode_utf8("", "it"); }), "it is empty");
}

TEST(TextFiles, AFolderInOrderEachFileOnce) {
  std::string folder = scratch_folder();
  write(folder + "/b", "b");
  write(folder + "/a", "a");
  write(folder + "/.hidden", "h");
  fs::create_directory(folder + "/below");
  fs::create_symlink("b", folder + "/c");
  EXPECT_EQ(text_files(folder), (std::vector<std::string>{folder + "/a", folder + "/b"}));
  EXPECT_EQ(text_files(folder + "/c"), std::vector<std::string>{folder + "/c"});
  EXPECT_NE(message_of([&] { text_files(folder + "/none"); }).find("no such file or folder"),
            std::string::npos);
  EXPECT_NE(message_of([&] { text_files(folder + "/below"); }).find("holds no files"),
            std::string::npos);
  EXPECT_NE(message_of([&] { read_text(folder); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(message_of([&] { read_text(folder + "/none"); }).find("no such file"),
            std::string::npos);
  EXPECT_EQ(read_text(folder + "/a"), U"a");
}

TEST(Vocabulary, NumbersByCodePoint) {
  Vocabulary vocabulary(U"banana\u20ac");
  EXPECT_EQ(vocabulary.characters(), U"abn\u20ac");
  EXPECT_EQ(vocabulary.encode(U"nab"), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(vocabulary.decode(std::vector<int64_t>{3, 0}), U"\u20aca");
  EXPECT_NE(message_of([&] { vocabulary.encode(U"ax"); }).find("'x' (U+0078)"), std::string::npos);
  EXPECT_NE(message_of([&] { vocabulary.decode(std::vector<int64_t>{4}); }).find("the id 4"),
            std::string::npos);
}

TEST(TextDataset, WindowsAndTheirSuccessors) {
  TextDataset data({10, 11, 12, 13, 14, 15}, 3, 2);
  ASSERT_EQ(data.size(), 2);
  HostBatch batch = data.fetch(std::vector<int64_t>{1, 0});
  EXPECT_EQ(batch.input.shape, (std::vector<int64_t>{2, 3}));
  std::span<const int64_t> input = std::as_const(batch.input).as<int64_t>(),
                           target = std::as_const(batch.target).as<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(input.begin(), input.end()),
            (std::vector<int64_t>{12, 13, 14, 10, 11, 12}));
  EXPECT_EQ(std::vector<int64_t>(target.begin(), target.end()),
            (std::vector<int64_t>{13, 14, 15, 11, 12, 13}));
  EXPECT_EQ(TextDataset({1, 2, 3, 4}, 3).size(), 1);
  EXPECT_NE(message_of([] { TextDataset({1, 2, 3}, 3); }).find("too short"), std::string::npos);
  EXPECT_NE(message_of([] { TextDataset({1, 2, 3}, 0); }).find("at least 1"), std::string::npos);
}

TEST(TensorDataset, RowsOfBoth) {
  TensorDataset data(Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}),
                     Tensor::from(std::vector<int64_t>{7, 8, 9}));
  HostBatch batch = data.fetch(std::vector<int64_t>{2, 2, 0});
  EXPECT_EQ(batch.input.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(batch.input.as<float>()[0], 5);
  EXPECT_EQ(batch.input.as<float>()[5], 2);
  EXPECT_EQ(batch.target.as<int64_t>()[1], 9);
  EXPECT_NE(message_of([] { TensorDataset(zeros({3, 2}), zeros({2})); }).find("[3, 2] and [2]"),
            std::string::npos);
  EXPECT_NE(message_of([] { TensorDataset(zeros({1}), scalar(1)); })
                .find("TensorDataset: targets has no dimensions"),
            std::string::npos);
  EXPECT_NE(message_of([] { TensorDataset(scalar(1), scalar(1)); })
                .find("TensorDataset: inputs has no dimensions"),
            std::string::npos);
}

TEST(SplitMix64, IsThePublishedGeneratorAndUnbiased) {
  SplitMix64 random(1234567); // reference values: https://prng.di.unimi.it/splitmix64.c
  EXPECT_EQ(random.next(), 6457827717110365317ull);
  EXPECT_EQ(random.next(), 3203168211198807973ull);
  EXPECT_EQ(random.next(), 9817491932198370423ull);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i)
    ++counts[random.below(7)];
  for (int count : counts)
    EXPECT_NEAR(count, 10000, 500);
}

class Loader : public ::testing::TestWithParam<int> {}; // batches ahead

TEST_P(Loader, InOrderWithARaggedEnd) {
  DataLoader loader(numbers_to(7), {.batch_size = 3, .prefetch = GetParam()});
  EXPECT_EQ(loader.batches(), 3);
  std::vector<std::vector<int64_t>> seen;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto [input, target] : loader)
      seen.push_back(values(input));
  EXPECT_EQ(seen, (std::vector<std::vector<int64_t>>{
                      {0, 1, 2}, {3, 4, 5}, {6}, {0, 1, 2}, {3, 4, 5}, {6}}));
  DataLoader whole(numbers_to(7), {.batch_size = 3, .drop_last = true, .prefetch = GetParam()});
  EXPECT_EQ(whole.batches(), 2);
  // By reference as well.
  int64_t sizes = 0;
  for (auto &batch : whole)
    sizes += batch.input.size();
  for (const Batch &batch : whole)
    sizes += batch.input.size();
  for (auto &[input, target] : whole)
    sizes += input.size();
  EXPECT_EQ(sizes, 18);
}

TEST_P(Loader, ShufflesEachEpochAnew) {
  std::vector<std::vector<int64_t>> epochs;
  DataLoader loader(numbers_to(50),
                    {.batch_size = 8, .shuffle = true, .seed = 3, .prefetch = GetParam()});
  for (int epoch = 0; epoch < 3; ++epoch) {
    epochs.emplace_back();
    for (auto [input, target] : loader)
      for (int64_t value : values(input))
        epochs.back().push_back(value);
    std::vector<int64_t> sorted = epochs.back();
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < 50; ++i)
      EXPECT_EQ(sorted[i], i) << "each item once";
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  DataLoader same(numbers_to(50),
                  {.batch_size = 50, .shuffle = true, .seed = 3, .prefetch = GetParam()});
  EXPECT_EQ(values(same.next().input), epochs[0]) << "the order does not depend on the batch size";
  DataLoader other(numbers_to(50),
                   {.batch_size = 50, .shuffle = true, .seed = 4, .prefetch = GetParam()});
  EXPECT_NE(values(other.next().input), epochs[0]);
}

TEST_P(Loader, ResumesAtAnyBatch) {
  for (bool replacement : {false, true}) {
    LoaderOptions options{.batch_size = 4,
                          .shuffle = true,
                          .replacement = replacement,
                          .seed = 9,
                          .prefetch = GetParam()};
    DataLoader first(numbers_to(10), options);
    std::vector<LoaderState> states;
    std::vector<std::vector<int64_t>> batches;
    for (int i = 0; i < 8; ++i) {
      states.push_back(first.state());
      batches.push_back(values(first.next().input));
    }
    for (int i = 0; i < 8; ++i) {
      options.seed = 77; // the stored one counts
      DataLoader second(numbers_to(10), options);
      second.next();
      second.restore(states[i]);
      for (int k = i; k < 8; ++k)
        EXPECT_EQ(values(second.next().input), batches[k]) << i << " " << k;
    }
  }
  DataLoader loader(numbers_to(10), {.batch_size = 4, .prefetch = GetParam()});
  EXPECT_NE(
      message_of([&] { loader.restore({.seed = 0, .epoch = 0, .batch = 3}); }).find("no batch 3"),
      std::string::npos);
}

TEST_P(Loader, ALoopLeftEarlyStartsANewEpochARestoredOneGoesOn) {
  DataLoader loader(numbers_to(6), {.batch_size = 2, .prefetch = GetParam()});
  for (auto [input, target] : loader)
    break;
  EXPECT_EQ(loader.state(), (LoaderState{.seed = 0, .epoch = 0, .batch = 1}));
  std::vector<int64_t> seen;
  for (auto [input, target] : loader)
    seen.push_back(values(input)[0]);
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(loader.state(), (LoaderState{.seed = 0, .epoch = 2, .batch = 0}));
  loader.restore({.seed = 0, .epoch = 5, .batch = 2});
  seen.clear();
  for (auto [input, target] : loader)
    seen.push_back(values(input)[0]);
  EXPECT_EQ(seen, std::vector<int64_t>{4});
  auto rest = [&] {
    seen.clear();
    for (auto [input, target] : loader)
      seen.push_back(values(input)[0]);
    return seen;
  };
  loader.restore({.seed = 0, .epoch = 7, .batch = 0});
  loader.next();
  EXPECT_EQ(rest(), (std::vector<int64_t>{2, 4}));
  loader.next(); // of epoch 8, of which no loop has begun
  EXPECT_EQ(rest(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(rest(), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(loader.state(), (LoaderState{.seed = 0, .epoch = 10, .batch = 0}));
  for (auto [input, target] : loader)
    break;
  loader.next();
  EXPECT_EQ(rest(), std::vector<int64_t>{4});
  EXPECT_EQ(loader.state(), (LoaderState{.seed = 0, .epoch = 11, .batch = 0}));
}

TEST_P(Loader, AnIteratorHasOneBatchUntilItGoesOn) {
  DataLoader loader(numbers_to(6), {.batch_size = 2, .prefetch = GetParam()});
  auto it = loader.begin();
  EXPECT_EQ(values((*it).input), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(values((*it).target), (std::vector<int64_t>{0, 1}));
  ++it;
  ++it; // one that nobody asks for
  EXPECT_EQ(values((*it).input), (std::vector<int64_t>{4, 5}));
  EXPECT_FALSE(it == loader.end()) << "the last one is still there";
  EXPECT_EQ(values((*it).input), (std::vector<int64_t>{4, 5}));
  ++it;
  EXPECT_TRUE(it == loader.end());
}

TEST_P(Loader, AnErrorReachesTheCallerAndTheBatchIsTriedAgain) {
  auto numbers = std::make_shared<Numbers>(6);
  numbers->failing = 3;
  DataLoader loader(numbers, {.batch_size = 2, .prefetch = GetParam()});
  EXPECT_EQ(values(loader.next().input), (std::vector<int64_t>{0, 1}));
  for (int i = 0; i < 2; ++i)
    EXPECT_THROW(loader.next(), std::runtime_error);
  numbers->failing = -1;
  EXPECT_EQ(values(loader.next().input), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(values(loader.next().input), (std::vector<int64_t>{4, 5}));
}

TEST_P(Loader, EndsWithBatchesUnderWay) {
  for (int i = 0; i < 50; ++i) {
    auto numbers = std::make_shared<Numbers>(1000);
    {
      DataLoader loader(numbers, {.batch_size = 1, .prefetch = GetParam()});
      for (int k = 0; k < i % 5; ++k)
        loader.next();
      DataLoader moved = std::move(loader);
      moved.next();
    }
    EXPECT_EQ(numbers.use_count(), 1) << "its thread is gone";
    EXPECT_LE(numbers->fetched, i % 5 + 2 + GetParam()) << "no more than asked for is prepared";
  }
}

// Its thread is not there: nothing waits for it, nor for its lock.
TEST_P(Loader, EndsInAForkedChild) {
  DataLoader loader(std::make_shared<Numbers>(1000), {.batch_size = 1, .prefetch = GetParam()});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50)); // until the thread waits
  pid_t child = fork();
  if (child == 0) {
    alarm(30);
    loader.restore({});
    DataLoader(std::move(loader));
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(values(loader.next().input), (std::vector<int64_t>{1}));
}

// All ranks' parts, one after the other, are what one process gets; where the last batch does not
// divide, with the first items of the epoch behind it. They resume on another number of ranks.
TEST_P(Loader, RanksShareEachBatch) {
  for (bool shuffle : {false, true})
    for (int ranks : {1, 2, 3, 4}) {
      LoaderOptions options{
          .batch_size = 12, .shuffle = shuffle, .seed = 5, .prefetch = GetParam()};
      DataLoader alone(numbers_to(31), options);
      std::vector<DataLoader> parts;
      options.ranks = ranks;
      for (options.rank = 0; options.rank < ranks; ++options.rank)
        parts.emplace_back(numbers_to(31), options);
      std::vector<int64_t> epoch;
      for (int batch = 0; batch < 7; ++batch) {
        std::vector<int64_t> expected = values(alone.next().input), found;
        if (batch % 3 == 0)
          epoch.clear();
        epoch.insert(epoch.end(), expected.begin(), expected.end());
        size_t rows = (expected.size() + ranks - 1) / ranks;
        for (DataLoader &part : parts) {
          EXPECT_EQ(part.batches(), alone.batches());
          std::vector<int64_t> of_rank = values(part.next().input);
          EXPECT_EQ(of_rank.size(), rows);
          found.insert(found.end(), of_rank.begin(), of_rank.end());
          EXPECT_EQ(part.state(), alone.state());
        }
        for (size_t i = 0; expected.size() < found.size(); ++i)
          expected.push_back(epoch[i]);
        EXPECT_EQ(found, expected) << ranks << " ranks, batch " << batch;
      }
      options.ranks = 6;
      options.rank = 2;
      DataLoader later(numbers_to(31), options);
      later.restore(parts[0].state());
      std::vector<int64_t> all = values(alone.next().input);
      EXPECT_EQ(values(later.next().input), std::vector<int64_t>(all.begin() + 4, all.begin() + 6));
    }
  // Fewer items than ranks: each gets one.
  DataLoader few(numbers_to(2), {.batch_size = 5, .prefetch = GetParam(), .rank = 4, .ranks = 5});
  EXPECT_EQ(values(few.next().input), std::vector<int64_t>{0});
}

TEST_P(Loader, ABatchMayBeLargerThanAnyDataSet) {
  DataLoader loader(numbers_to(3), {.batch_size = std::numeric_limits<int64_t>::max(),
                                    .prefetch = GetParam()});
  EXPECT_EQ(loader.batches(), 1);
  for (int epoch = 0; epoch < 2; ++epoch)
    EXPECT_EQ(values(loader.next().input), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(loader.state().epoch, 2);
}

INSTANTIATE_TEST_SUITE_P(Prefetch, Loader, ::testing::Values(0, 1, 3));

TEST(DataLoader, RefusesBadOptions) {
  EXPECT_NE(message_of([] { DataLoader(numbers_to(3), {.batch_size = 0}); }).find("batch_size"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              DataLoader(numbers_to(3), {.batch_size = 1, .prefetch = -1});
            }).find("prefetch"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              DataLoader(numbers_to(3), {.batch_size = 4, .drop_last = true});
            }).find("no batch of 4"),
            std::string::npos);
  EXPECT_NE(message_of([] { DataLoader(numbers_to(0), {.batch_size = 4}); }).find("0 items"),
            std::string::npos);
  EXPECT_NE(message_of([] { DataLoader(DatasetPtr(), {}); }).find("null"), std::string::npos);
  EXPECT_NE(message_of([] { DataLoader(numbers_to(3), {.rank = 2, .ranks = 2}); }).find("rank 2"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              DataLoader(numbers_to(3), {.batch_size = 3, .ranks = 2});
            }).find("does not divide among 2 ranks"),
            std::string::npos);
}

//===-- IDX -----------------------------------------------------------------------------------===//

// An IDX file of this type and these dims; sizes are big-endian.
std::string idx(int type, const std::vector<uint32_t> &dims, const std::string &elements) {
  std::string text{'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (uint32_t dim : dims)
    for (int shift : {24, 16, 8, 0})
      text += static_cast<char>(dim >> shift & 255);
  return text + elements;
}

TEST(DataLoader, DrawsItemsByTheirWeights) {
  std::vector<float> numbers = {0, 1, 2, 3};
  DatasetPtr data = std::make_shared<TensorDataset>(Tensor::from(numbers), Tensor::from(numbers));
  auto counts = [&](uint64_t seed) {
    DataLoader loader(data, {.batch_size = 4, .weights = {0, 1, 3, 0}, .seed = seed});
    std::vector<int> drawn(4);
    for (int i = 0; i < 1000; ++i)
      for (float x : loader.next().input.to_vector<float>())
        ++drawn[static_cast<size_t>(x)];
    return drawn;
  };
  std::vector<int> drawn = counts(1);
  EXPECT_EQ(drawn[0] + drawn[3], 0);
  EXPECT_NEAR(drawn[2], 3000, 120); // four standard deviations
  EXPECT_EQ(counts(1), drawn);
  EXPECT_NE(counts(2), drawn);
  auto refused = [&](std::vector<double> weights) {
    return message_of([&] { DataLoader(data, {.weights = std::move(weights)}); });
  };
  EXPECT_NE(refused({1, 2}).find("2 weights for 4 items"), std::string::npos);
  EXPECT_NE(refused({0, 0, 0, 0}).find("one must be above 0"), std::string::npos);
  EXPECT_NE(refused({1, NAN, 1, 1}).find("weight 1 is nan"), std::string::npos);
}

TEST(RandomSplit, EachItemIsInOnePart) {
  std::vector<float> numbers(10);
  std::iota(numbers.begin(), numbers.end(), 0.f);
  DatasetPtr data = std::make_shared<TensorDataset>(Tensor::from(numbers), Tensor::from(numbers));
  std::vector<Subset> parts = random_split(data, {7, 0, 3}, 5);
  std::vector<int64_t> all = parts[0].items();
  EXPECT_EQ(parts[1].size(), 0);
  all.insert(all.end(), parts[2].items().begin(), parts[2].items().end());
  EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
  EXPECT_EQ(random_split(data, {7, 0, 3}, 5)[2].items(), parts[2].items());
  EXPECT_NE(random_split(data, {7, 0, 3}, 6)[0].items(), parts[0].items());
  DataLoader loader(parts[2], {.batch_size = 3});
  std::vector<float> batch = loader.next().input.to_vector<float>();
  EXPECT_EQ(std::vector<int64_t>(batch.begin(), batch.end()), parts[2].items());
  std::sort(all.begin(), all.end());
  for (int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(all[static_cast<size_t>(i)], i);
  EXPECT_NE(message_of([&] { Subset(data, {3, 10}); }).find("no item 10 in a data set of 10"),
            std::string::npos);
}

TEST(Idx, ReadsArraysOfAllTypes) {
  std::string path = scratch_folder() + "/a.idx";
  write(path, idx(8, {2, 3}, "abcdef"));
  HostArray bytes = read_idx(path);
  EXPECT_EQ(bytes.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(bytes.as<uint8_t>()[5], 'f');
  write(path, idx(0x0C, {2}, {'\0', '\0', '\1', '\2', '\xff', '\xff', '\xff', '\xff'}));
  EXPECT_EQ(read_idx(path).as<int32_t>()[0], 258);
  EXPECT_EQ(read_idx(path).as<int32_t>()[1], -1);
  write(path, idx(0x0D, {1}, {'\x3f', '\xc0', '\0', '\0'}));
  EXPECT_EQ(read_idx(path).as<float>()[0], 1.5f);
}

TEST(Idx, RefusesOtherFiles) {
  std::string path = scratch_folder() + "/a.idx";
  auto message = [&](const std::string &content) {
    write(path, content);
    return message_of([&] { read_idx(path); });
  };
  EXPECT_NE(message("").find("no IDX file"), std::string::npos);
  EXPECT_NE(message("text").find("no IDX file"), std::string::npos);
  EXPECT_NE(message(idx(7, {1}, "a")).find("type 7"), std::string::npos);
  EXPECT_NE(message(idx(8, {4}, "abc")).find("asks for 4"), std::string::npos);
  EXPECT_NE(message(idx(8, {2}, "abc")).find("asks for 2"), std::string::npos);
  EXPECT_NE(message(idx(8, {1000000000, 1000000000, 1000000000, 1000000000}, ""))
                .find("more than there can be"),
            std::string::npos);
  EXPECT_NE(message(idx(8, {9, 9}, "").substr(0, 7)).find("within its header"), std::string::npos);
  EXPECT_NE(message_of([&] { read_idx(path + ".no"); }).find("does not exist"), std::string::npos);
  EXPECT_NE(message_of([&] { read_idx(scratch_folder()); }).find("not a file"), std::string::npos);
}

TEST(Idx, ImagesAndLabels) {
  std::string folder = scratch_folder(), images = folder + "/train-images-idx3-ubyte",
              labels = folder + "/train-labels-idx1-ubyte";
  write(images, idx(8, {3, 1, 2}, {'\0', '\xff', '\x33', '\0', '\1', '\2'}));
  write(labels, idx(8, {3}, {'\4', '\0', '\1'}));
  IdxDataset set = mnist(folder, true, {.mean = 0.5, .deviation = 0.5});
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.classes(), 5);
  const int64_t items[] = {1, 0};
  HostBatch batch = set.fetch(items);
  EXPECT_EQ(batch.input.shape, (std::vector<int64_t>{2, 1, 1, 2}));
  EXPECT_FLOAT_EQ(batch.input.as<float>()[0], (0.2f - 0.5f) / 0.5f);
  EXPECT_FLOAT_EQ(batch.input.as<float>()[3], 1);
  EXPECT_EQ(batch.target.as<int64_t>()[1], 4);
  write(labels, idx(8, {2}, {'\4', '\0'}));
  EXPECT_NE(message_of([&] { mnist(folder); }).find("3 images"), std::string::npos);
  write(labels, idx(0x0D, {1}, {'\x3f', '\xc0', '\0', '\0'}));
  EXPECT_NE(message_of([&] { mnist(folder); }).find("must hold integers"), std::string::npos);
  for (auto [height, width] : {std::pair{0u, 28u}, {28u, 0u}}) {
    write(images, idx(8, {3, height, width}, ""));
    EXPECT_EQ(message_of([&] { mnist(folder); }),
              "'" + images + "' holds images of " + std::to_string(height) + " x " +
                  std::to_string(width) + " pixels; there must be a row and a column at least");
  }
}

} // namespace
} // namespace weft::data
