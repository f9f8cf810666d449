#include "runtime/memory/prepared_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/system_allocator.h"

namespace weft::runtime {
namespace {

struct PreparedStoreTest : ::testing::Test {
  std::shared_ptr<LimitAllocator> limit =
      std::make_shared<LimitAllocator>(std::make_shared<SystemAllocator>(), 1000);
  std::shared_ptr<Memory> memory = Memory::create(limit);
  PreparedStore &store = PreparedStore::instance();
  int64_t bound = store.max_bytes();
  void TearDown() override {
    store.release(*memory, INT64_MAX);
    store.set_max_bytes(bound);
  }

  std::shared_ptr<Buffer> buffer(int64_t bytes) {
    return memory->allocate(bytes, "test").value();
  }
  std::shared_ptr<Prepared> take(const std::string &recipe, std::vector<Buffer *> sources,
                                 int64_t bytes = 64) {
    return store.take(*memory, recipe, sources, bytes).value();
  }
  int64_t prepared_bytes() const {
    for (const MemoryHolder &holder : memory->holders())
      if (std::string_view(holder.purpose) == kPreparedPurpose)
        return holder.bytes;
    return 0;
  }
};

TEST_F(PreparedStoreTest, IsFoundByRecipeAndContents) {
  auto a = buffer(8), b = buffer(8);
  auto first = take("r", {a.get()});
  EXPECT_EQ(take("r", {a.get()}), first);
  EXPECT_NE(take("other", {a.get()}), first);
  EXPECT_NE(take("r", {b.get()}), first);
  EXPECT_NE(take("r", {a.get(), b.get()}), first);
  EXPECT_EQ(prepared_bytes(), 4 * 64);
}

TEST_F(PreparedStoreTest, TheLastResultServesWhileItIsTheResult) {
  auto a = buffer(8), b = buffer(8);
  auto take_after = [&](const std::shared_ptr<Prepared> &last, Buffer *source) {
    return store.take(*memory, "r", {&source, 1}, 64, last).value();
  };
  auto of_a = take_after(nullptr, a.get());
  EXPECT_EQ(take_after(of_a, a.get()), of_a);
  auto of_b = take_after(of_a, b.get());
  EXPECT_NE(of_b, of_a);
  // It counts as a use: the other one is the first to go.
  EXPECT_EQ(take_after(of_a, a.get()), of_a);
  EXPECT_EQ(store.release(*memory, 64), 64);
  EXPECT_NE(of_a->block(), nullptr);
  EXPECT_EQ(of_b->block(), nullptr);
  // One that was dropped, or is of old contents, does not.
  auto again = take_after(of_b, b.get());
  EXPECT_NE(again, of_b);
  EXPECT_NE(again->block(), nullptr);
  a->changed();
  auto fresh = take_after(of_a, a.get());
  EXPECT_NE(fresh, of_a);
  EXPECT_NE(fresh->block(), nullptr);
}

TEST_F(PreparedStoreTest, GoesWithAWriteAndWithTheSource) {
  auto a = buffer(8), b = buffer(8);
  auto of_a = take("r", {a.get()}), of_both = take("r", {a.get(), b.get()});
  uint64_t contents = a->contents();
  a->changed();
  EXPECT_NE(a->contents(), contents);
  EXPECT_EQ(of_a->block(), nullptr);
  EXPECT_EQ(of_both->block(), nullptr);
  EXPECT_EQ(prepared_bytes(), 0);
  auto again = take("r", {a.get()}), of_b = take("r", {b.get()});
  EXPECT_NE(again, of_a);
  b = nullptr;
  EXPECT_EQ(of_b->block(), nullptr);
  EXPECT_NE(again->block(), nullptr);
  // A run that writes counts as a write from its submission on.
  a->begin_write(std::make_shared<Event>());
  EXPECT_EQ(again->block(), nullptr);
  EXPECT_EQ(prepared_bytes(), 0);
}

TEST_F(PreparedStoreTest, IsMadeOnceByOneOfManyThreads) {
  auto a = buffer(8);
  auto result = take("r", {a.get()});
  auto block = result->block();
  std::atomic<int> calls{0}, makers{0};
  bool made = false;
  EXPECT_FALSE(
      result->compute(*block, [](void *) { return absl::InternalError("broke"); }, made).ok());
  EXPECT_FALSE(made);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      bool mine = false;
      ASSERT_TRUE(
          result->compute(*block, [&](void *) { return ++calls, absl::OkStatus(); }, mine).ok());
      makers += mine;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(makers, 1);
}

TEST_F(PreparedStoreTest, GivesWayToWhoeverNeedsMemory) {
  auto a = buffer(100);
  auto old = take("old", {a.get()}, 300), recent = take("recent", {a.get()}, 300);
  take("old", {a.get()}, 300);                   // used again: now the other is the older one
  auto tensor = memory->allocate(500, "tensor"); // 700 of 1000 are taken
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(recent->block(), nullptr);
  EXPECT_EQ(old->block() == nullptr, prepared_bytes() == 0);
  EXPECT_FALSE(memory->allocate(2000, "tensor").ok());
  EXPECT_EQ(old->block(), nullptr);
  // What a run holds gives its memory back when the run ends.
  auto held = take("held", {a.get()}, 200);
  auto block = held->block();
  EXPECT_FALSE(memory->allocate(400, "tensor").ok());
  block = nullptr;
  EXPECT_TRUE(memory->allocate(400, "tensor").ok());
}

TEST_F(PreparedStoreTest, StaysWithinItsBound) {
  auto a = buffer(8);
  store.set_max_bytes(store.stats().bytes + 150);
  auto first = take("1", {a.get()}), second = take("2", {a.get()}), third = take("3", {a.get()});
  EXPECT_EQ(first->block(), nullptr);
  EXPECT_NE(third->block(), nullptr);
  Buffer *source = a.get();
  absl::Status refused = store.take(*memory, "large", {&source, 1}, bound + 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
}

// What drops a result drops those made of it, without holding its lock meanwhile (ThreadSanitizer
// sees the locks' order).
TEST_F(PreparedStoreTest, AResultOfAResultGoesWithIt) {
  auto chain = [&](Buffer *source) {
    auto first = take("r", {source});
    return std::pair(first, take("s", {first->block().get()}));
  };
  auto a = buffer(8);
  auto [first, second] = chain(a.get());
  EXPECT_EQ(prepared_bytes(), 2 * 64);
  EXPECT_EQ(store.release(*memory, 64),
            64); // asked for the first one only, the least recently used
  EXPECT_EQ(first->block(), nullptr);
  EXPECT_EQ(second->block(), nullptr);
  EXPECT_EQ(prepared_bytes(), 0);
  auto [third, fourth] = chain(a.get());
  store.set_max_bytes(2 * 64);
  auto fifth = take("t", {a.get()});
  EXPECT_EQ(third->block(), nullptr);
  EXPECT_EQ(fourth->block(), nullptr);
  EXPECT_NE(fifth->block(), nullptr);
  EXPECT_EQ(prepared_bytes(), 64);
}

TEST_F(PreparedStoreTest, ADependentOfOldContentsIsDroppedAtOnce) {
  auto a = buffer(8);
  struct Dependent : BufferDependent {
    int drops = 0;
    void drop() override {
      ++drops;
    }
  };
  auto dependent = std::make_shared<Dependent>();
  uint64_t contents = a->contents();
  a->changed();
  a->add_dependent(dependent, contents);
  EXPECT_EQ(dependent->drops, 1);
}

} // namespace
} // namespace weft::runtime
