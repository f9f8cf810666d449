#include "runtime/memory/memory.h"

#include <algorithm>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/memory/arena_pool.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/slab_allocator.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/memory/tracing_allocator.h"

namespace weft::runtime {
namespace {

TEST(SystemAllocator, AlignsAndCounts) {
  SystemAllocator allocator;
  for (int64_t alignment : {1, 64, 4096})
    for (int64_t bytes : {0, 1, 100, 5 << 20}) {
      void *pointer = allocator.allocate(bytes, alignment).value();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment), 0u);
      std::memset(pointer, 1, static_cast<size_t>(bytes));
      EXPECT_EQ(allocator.stats().live_bytes, bytes);
      allocator.free(pointer, bytes);
    }
  allocator.free(nullptr, 10);
  EXPECT_EQ(allocator.stats().live_bytes, 0);
  EXPECT_EQ(allocator.stats().peak_bytes, 5 << 20);
  EXPECT_EQ(allocator.stats().allocations, 12);
  EXPECT_EQ(allocator.allocate(1, 3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(allocator.allocate(int64_t{1} << 60, 64).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(allocator.stats().failures, 1);
}

TEST(CachingAllocator, ClassesWasteAtMostAnEighth) {
  EXPECT_EQ(CachingAllocator::class_bytes(0), 64);
  EXPECT_EQ(CachingAllocator::class_bytes(65), 128);
  EXPECT_EQ(CachingAllocator::class_bytes(513), 576);
  for (int64_t bytes = 513; bytes < (int64_t{1} << 24); bytes = bytes * 9 / 8 + 13) {
    int64_t block = CachingAllocator::class_bytes(bytes);
    EXPECT_GE(block, bytes);
    EXPECT_LE(block - bytes, bytes / 8 + 64);
    EXPECT_EQ(CachingAllocator::class_bytes(block), block);
  }
}

TEST(CachingAllocator, ReusesTrimsAndStaysInItsBound) {
  auto system = std::make_shared<SystemAllocator>();
  {
    CachingAllocator cache(system, {.max_cached_bytes = 4096});
    void *first = cache.allocate(1000, 64).value();
    cache.free(first, 1000);
    EXPECT_EQ(cache.cached_bytes(), 1024);
    EXPECT_EQ(cache.allocate(1010, 64).value(), first);
    EXPECT_EQ(cache.stats().live_bytes, 1010);
    EXPECT_EQ(cache.stats().reserved_bytes, 1024);
    EXPECT_EQ(system->stats().allocations, 1);
    cache.free(first, 1010);
    std::vector<void *> blocks;
    for (int i = 0; i < 10; ++i)
      blocks.push_back(cache.allocate(1024, 64).value());
    for (void *block : blocks)
      cache.free(block, 1024);
    EXPECT_LE(cache.cached_bytes(), 4096);
    EXPECT_EQ(system->stats().live_bytes, cache.cached_bytes());
    void *page = cache.allocate(100, 4096).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(page) % 4096, 0u);
    cache.free(page, 100);
    cache.trim();
    EXPECT_EQ(system->stats().live_bytes, 0);
    EXPECT_EQ(cache.stats().reserved_bytes, 0);
    cache.free(cache.allocate(10, 64).value(), 10);
  }
  EXPECT_EQ(system->stats().live_bytes, 0);
}

// Whatever order blocks were freed in, the next round gets them in one order; the block that was not
// used for longest still goes first.
TEST(CachingAllocator, MayGiveTheLowestAddressFirst) {
  auto system = std::make_shared<SystemAllocator>();
  {
    CachingAllocator cache(system, {.lowest_address_first = true});
    std::vector<void *> blocks;
    for (int i = 0; i < 8; ++i)
      blocks.push_back(cache.allocate(1024, 64).value());
    std::vector<void *> sorted = blocks;
    std::sort(sorted.begin(), sorted.end(), std::less<void *>());
    for (int round = 0; round < 3; ++round) {
      std::rotate(blocks.begin(), blocks.begin() + 3, blocks.end());
      for (void *block : blocks)
        cache.free(block, 1024);
      for (void *&block : blocks)
        block = cache.allocate(1024, 64).value();
      EXPECT_EQ(blocks, sorted);
    }
    for (void *block : {blocks[5], blocks[0], blocks[7]})
      cache.free(block, 1024);
    cache.trim(2 * 1024); // 5 goes
    EXPECT_EQ(cache.allocate(1024, 64).value(), sorted[0]);
    EXPECT_EQ(cache.allocate(1024, 64).value(), sorted[7]);
    EXPECT_EQ(cache.cached_bytes(), 0);
    for (int i : {0, 1, 2, 3, 4, 6, 7})
      cache.free(sorted[static_cast<size_t>(i)], 1024);
  }
  EXPECT_EQ(system->stats().live_bytes, 0);
}

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(CachingAllocator, CutsLargeBlocksWhichGrowTogetherAgain) {
  auto system = std::make_shared<SystemAllocator>();
  CachingAllocator cache(system);
  auto *block = static_cast<char *>(cache.allocate(8 * kMiB, 64).value());
  cache.free(block, 8 * kMiB);
  void *first = cache.allocate(2 * kMiB - 5, 64).value();
  void *second = cache.allocate(6 * kMiB, 64).value();
  EXPECT_EQ(first, block);
  EXPECT_EQ(second, block + 2 * kMiB);
  EXPECT_EQ(system->stats().allocations, 1);
  EXPECT_EQ(cache.stats().live_bytes, 8 * kMiB - 5);
  EXPECT_EQ(cache.cached_bytes(), 0);
  // A part of a block that is in use cannot go.
  cache.free(first, 2 * kMiB - 5);
  EXPECT_EQ(cache.stats().pinned_bytes, 2 * kMiB);
  EXPECT_EQ(cache.cached_bytes(), 2 * kMiB);
  EXPECT_EQ(cache.cached_blocks(), 0);
  cache.trim();
  EXPECT_EQ(cache.stats().reserved_bytes, 8 * kMiB);
  cache.free(second, 6 * kMiB);
  EXPECT_EQ(cache.stats().pinned_bytes, 0);
  EXPECT_EQ(cache.cached_blocks(), 1);
  EXPECT_EQ(cache.allocate(8 * kMiB, 64).value(), block);
  cache.free(block, 8 * kMiB);
  cache.trim();
  EXPECT_EQ(system->stats().live_bytes, 0);
  // Below split_bytes a request gets a block of its class.
  cache.free(cache.allocate(kMiB - 1, 64).value(), kMiB - 1); // as large as one that would be cut
  cache.free(cache.allocate(512 << 10, 64).value(), 512 << 10);
  EXPECT_EQ(cache.cached_blocks(), 2);
}

TEST(CachingAllocator, ABoundIsKeptButForWhatIsPinned) {
  auto system = std::make_shared<SystemAllocator>();
  CachingAllocator cache(system, {.max_cached_bytes = 4 * kMiB});
  void *one = cache.allocate(2 * kMiB, 64).value(), *two = cache.allocate(3 * kMiB, 64).value();
  cache.free(one, 2 * kMiB);
  cache.free(two, 3 * kMiB); // the one that was freed first goes
  EXPECT_EQ(cache.cached_bytes(), 3 * kMiB);
  void *part = cache.allocate(kMiB, 64).value();
  EXPECT_EQ(part, two);
  cache.trim();
  EXPECT_EQ(cache.cached_bytes(), 2 * kMiB);
  cache.free(part, kMiB);
  cache.trim();
  EXPECT_EQ(system->stats().live_bytes, 0);
}

TEST(CachingAllocator, WhatIsPinnedLeavesRoomForOtherBlocks) {
  auto system = std::make_shared<SystemAllocator>();
  CachingAllocator cache(system, {.max_cached_bytes = 4 * kMiB});
  std::vector<void *> parts;
  for (int block = 0; block < 2; ++block) {
    cache.free(cache.allocate(4 * kMiB, 64).value(), 4 * kMiB);
    for (int part = 0; part < 4; ++part)
      parts.push_back(cache.allocate(kMiB, 64).value());
  }
  for (size_t i = 0; i < parts.size(); ++i)
    if (i % 4)
      cache.free(parts[i], kMiB);
  EXPECT_EQ(cache.stats().pinned_bytes, 6 * kMiB); // more than the bound
  EXPECT_EQ(system->stats().allocations, 2);
  for (int i = 0; i < 10; ++i)
    cache.free(cache.allocate(1000, 64).value(), 1000);
  EXPECT_EQ(system->stats().allocations, 3);
  EXPECT_EQ(cache.cached_blocks(), 1);
  for (int part : {0, 4})
    cache.free(parts[part], kMiB);
  EXPECT_LE(cache.cached_bytes(), 4 * kMiB);
  cache.trim();
  EXPECT_EQ(system->stats().live_bytes, 0);
}

// Of a loop that ends its rounds with the same blocks in use, whatever happened in them.
TEST(CachingAllocator, ARoundFindsTheAddressesOfTheLast) {
  auto system = std::make_shared<SystemAllocator>();
  CachingAllocator cache(system);
  std::mt19937 random(3);
  std::vector<int64_t> sizes = {3 * kMiB, 9 * kMiB, 2 * kMiB, 5 * kMiB, 2 * kMiB};
  std::vector<void *> before;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::pair<void *, int64_t>> live;
    for (int64_t bytes : sizes)
      live.emplace_back(cache.allocate(bytes, 64).value(), bytes);
    std::vector<void *> now;
    for (auto [pointer, bytes] : live)
      now.push_back(pointer);
    if (round > 1)
      EXPECT_EQ(now, before) << round;
    before = now;
    std::shuffle(live.begin(), live.end(), random);
    for (auto [pointer, bytes] : live)
      cache.free(pointer, bytes);
  }
}

TEST(CachingAllocator, CutsNoBlockOnceMemoryWasMissing) {
  auto system = std::make_shared<SystemAllocator>();
  CachingAllocator cache(std::make_shared<LimitAllocator>(system, 8 * kMiB));
  cache.free(cache.allocate(8 * kMiB, 64).value(), 8 * kMiB);
  std::vector<void *> parts;
  for (int i = 0; i < 4; ++i)
    parts.push_back(cache.allocate(2 * kMiB, 64).value());
  EXPECT_EQ(cache.allocate(64 * kMiB, 64).status().code(), absl::StatusCode::kResourceExhausted);
  cache.free(parts[0], 2 * kMiB);
  cache.free(parts[2], 2 * kMiB);
  EXPECT_EQ(cache.allocate(3 * kMiB, 64).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cache.stats().failures, 2);
  cache.free(parts[1], 2 * kMiB);
  cache.free(parts[3], 2 * kMiB);
  void *whole = cache.allocate(2 * kMiB, 64).value(); // the old block went
  EXPECT_EQ(system->stats().live_bytes, 2 * kMiB);
  cache.free(whole, 2 * kMiB);
}

TEST(CachingAllocator, GivesItsBlocksBackBeforeItFails) {
  auto limit = std::make_shared<LimitAllocator>(std::make_shared<SystemAllocator>(), 10000);
  CachingAllocator cache(limit);
  cache.free(cache.allocate(8192, 64).value(), 8192);
  absl::StatusOr<void *> other = cache.allocate(4096, 64);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(cache.allocate(8192, 64).status().code(), absl::StatusCode::kResourceExhausted);
  cache.free(*other, 4096);
}

TEST(CachingAllocator, ManyThreads) {
  auto system = std::make_shared<SystemAllocator>();
  CachingAllocator cache(system, {.max_cached_bytes = 8 * kMiB});
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&cache, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::pair<uint8_t *, int64_t>> live;
      for (int i = 0; i < 2000; ++i) {
        if (live.size() < 20 && random() % 2 == 0) {
          int64_t bytes = random() % 8 == 0 ? kMiB + random() % (3 * kMiB) : random() % 5000 + 1;
          auto *pointer = static_cast<uint8_t *>(cache.allocate(bytes, 64).value());
          pointer[0] = pointer[bytes / 2] = pointer[bytes - 1] = static_cast<uint8_t>(t);
          live.emplace_back(pointer, bytes);
        } else if (!live.empty()) {
          auto [pointer, bytes] = live.back();
          live.pop_back();
          EXPECT_EQ(pointer[0], t);
          EXPECT_EQ(pointer[bytes / 2], t);
          EXPECT_EQ(pointer[bytes - 1], t);
          cache.free(pointer, bytes);
        }
      }
      for (auto [pointer, bytes] : live)
        cache.free(pointer, bytes);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(cache.stats().live_bytes, 0);
  cache.trim();
  EXPECT_EQ(system->stats().live_bytes, 0);
}

TEST(SlabAllocator, CutsWhatIsOfSomePages) {
  auto system = std::make_shared<SystemAllocator>();
  SlabAllocator slabs(system);
  constexpr int64_t kFirst = SlabAllocator::kFirstSlab;
  // Below a page and from kMostBytes on, and at other alignments: blocks of the system's.
  for (auto [bytes, alignment] :
       {std::pair<int64_t, int64_t>{100, 64}, {SlabAllocator::kMostBytes, 64}, {5000, 4096}}) {
    void *whole = slabs.allocate(bytes, alignment).value();
    EXPECT_EQ(system->stats().live_bytes, bytes);
    slabs.free(whole, bytes);
  }
  // Side by side in one slab, which goes back with its last block.
  char *first = static_cast<char *>(slabs.allocate(5001, 64).value()),
       *second = static_cast<char *>(slabs.allocate(4096, 64).value());
  EXPECT_EQ(second - first, 5056);
  EXPECT_EQ(system->stats().live_bytes, kFirst);
  EXPECT_EQ(slabs.stats().live_bytes, 9097);
  EXPECT_EQ(slabs.stats().pinned_bytes, kFirst - 5056 - 4096);
  slabs.free(first, 5001);
  EXPECT_EQ(slabs.allocate(4500, 64).value(), first);
  slabs.free(first, 4500);
  slabs.free(second, 4096);
  EXPECT_EQ(system->stats().live_bytes, 0);
  EXPECT_EQ(slabs.stats().reserved_bytes, 0);
  // Each slab doubles what there is, up to a bound.
  std::vector<void *> blocks;
  for (int i = 0; i < 40; ++i)
    blocks.push_back(slabs.allocate(int64_t{2} << 20, 64).value());
  EXPECT_EQ(system->stats().allocations - 4, 6); // 4, 4, 8, 16, 32, 32 MiB hold 48 blocks
  for (void *block : blocks)
    slabs.free(block, int64_t{2} << 20);
  EXPECT_EQ(system->stats().live_bytes, 0);
}

// Where no slab is to be had there may be room for the block.
TEST(SlabAllocator, TakesABlockWhereThereIsNoSlab) {
  auto system = std::make_shared<SystemAllocator>();
  SlabAllocator slabs(std::make_shared<LimitAllocator>(system, 1 << 20));
  void *block = slabs.allocate(500000, 64).value();
  EXPECT_EQ(system->stats().live_bytes, 500000);
  EXPECT_FALSE(slabs.allocate(600000, 64).ok());
  EXPECT_EQ(slabs.stats().failures, 1);
  slabs.free(block, 500000);
  EXPECT_EQ(slabs.stats().live_bytes, 0);
}

TEST(LimitAllocator, RefusesWhatIsTooMuchAndRecovers) {
  LimitAllocator limit(std::make_shared<SystemAllocator>(), 1000);
  void *first = limit.allocate(600, 64).value();
  absl::Status refused = limit.allocate(401, 64).status();
  EXPECT_EQ(refused.message(), "the limit of 1000 B leaves 400 B");
  void *second = limit.allocate(400, 64).value();
  limit.free(first, 600);
  limit.free(second, 400);
  EXPECT_EQ(limit.stats().live_bytes, 0);
  EXPECT_EQ(limit.stats().failures, 1);
}

TEST(TracingAllocator, ShowsEachEvent) {
  std::vector<AllocationTrace> traces;
  TracingAllocator tracing(
      std::make_shared<LimitAllocator>(std::make_shared<SystemAllocator>(), 100),
      [&](const AllocationTrace &trace) { traces.push_back(trace); });
  void *pointer = tracing.allocate(60, 64).value();
  EXPECT_FALSE(tracing.allocate(60, 64).ok());
  tracing.free(pointer, 60);
  ASSERT_EQ(traces.size(), 3u);
  EXPECT_EQ(traces[0].pointer, pointer);
  EXPECT_EQ(traces[1].kind, AllocationTrace::Kind::kFailure);
  EXPECT_EQ(traces[2].kind, AllocationTrace::Kind::kFree);
  EXPECT_EQ(traces[2].bytes, 60);
}

// Each counts what goes through it: what was asked for, and, behind a cache, its blocks.
TEST(Allocators, StandBehindEachOther) {
  auto system = std::make_shared<SystemAllocator>();
  auto caching = std::make_shared<CachingAllocator>(system);
  auto limit = std::make_shared<LimitAllocator>(caching, 10 * kMiB);
  int traces = 0;
  std::string purposes;
  auto tracing = std::make_shared<TracingAllocator>(limit, [&](const AllocationTrace &trace) {
    ++traces;
    if (trace.kind != AllocationTrace::Kind::kFree)
      purposes += std::string(trace.purpose) + " ";
  });
  auto memory = Memory::create(tracing);
  {
    auto weights = memory->allocate(6 * kMiB + 1, "parameter").value();
    auto small = memory->allocate(1000, "arena").value();
    absl::Status status = memory->allocate(5 * kMiB, "output").status();
    EXPECT_EQ(status.message(),
              "out of memory: output asked for 5.00 MiB; in use 6.00 MiB, by parameter 6.00 MiB in "
              "1 buffer, arena 1000 B in 1 buffer (the limit of 10.00 MiB leaves 4.00 MiB)");
    for (const Allocator *each :
         {static_cast<Allocator *>(tracing.get()), static_cast<Allocator *>(limit.get()),
          static_cast<Allocator *>(caching.get())})
      EXPECT_EQ(each->stats().live_bytes, 6 * kMiB + 1001);
    EXPECT_EQ(tracing->stats().failures, 1);
    EXPECT_EQ(limit->stats().failures, 1);
    EXPECT_EQ(caching->stats().failures, 0);
    EXPECT_EQ(caching->stats().reserved_bytes, 6 * kMiB + (64 << 10) + 1024);
    EXPECT_EQ(system->stats().live_bytes, caching->stats().reserved_bytes);
    weights.reset();
    EXPECT_EQ(limit->stats().live_bytes, 1000);
    EXPECT_EQ(system->stats().live_bytes, caching->stats().reserved_bytes); // it waits
    EXPECT_TRUE(memory->allocate(5 * kMiB, "output").ok());                 // the program goes on
    EXPECT_EQ(system->stats().allocations, 2); // in the block of the weights
  }
  EXPECT_EQ(traces, 3 + 1 + 3);
  EXPECT_EQ(purposes, "parameter arena output output ");
  tracing->free(tracing->allocate(10, 64).value(), 10);
  EXPECT_EQ(purposes, "parameter arena output output  "); // nobody says what it is for
  EXPECT_EQ(tracing->stats().live_bytes, 0);
  EXPECT_EQ(tracing->stats().frees, 4);
  caching->trim();
  EXPECT_EQ(system->stats().live_bytes, 0);
}

TEST(Memory, OutOfMemoryNamesRequesterSizesAndHolders) {
  auto memory = Memory::create(
      std::make_shared<LimitAllocator>(std::make_shared<SystemAllocator>(), 10 << 20));
  auto weights = memory->allocate(6 << 20, "parameter").value();
  auto bias = memory->allocate(1 << 20, "parameter").value();
  auto arena = memory->allocate(2 << 20, "arena").value();
  absl::Status status = memory->allocate(3 << 20, "output").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "out of memory: output asked for 3.00 MiB; in use 9.00 MiB, by "
                              "parameter 7.00 MiB in 2 buffers, arena 2.00 MiB "
                              "in 1 buffer (the limit of 10.00 MiB leaves 1.00 MiB)");
  weights.reset();
  EXPECT_TRUE(memory->allocate(3 << 20, "output").ok()); // the program goes on
  EXPECT_EQ(memory->holders()[0].purpose, std::string("arena"));
}

TEST(Memory, BadAllocatorsAreCaught) {
  struct Misaligned : SystemAllocator {
    absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
      return static_cast<char *>(SystemAllocator::allocate(bytes + 8, alignment).value()) + 8;
    }
    void free(void *pointer, int64_t bytes) override {
      SystemAllocator::free(static_cast<char *>(pointer) - 8, bytes + 8);
    }
  };
  EXPECT_EQ(Memory::create(std::make_shared<Misaligned>())->allocate(100, "test").status().code(),
            absl::StatusCode::kInternal);
}

TEST(Buffer, BorrowsKeepTheirOwner) {
  auto owner = std::make_shared<int>(7);
  auto buffer = Buffer::borrow(owner.get(), 4, owner);
  EXPECT_EQ(owner.use_count(), 2);
  buffer.reset();
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(Buffer, WaitsForWritesAndKeepsErrors) {
  int value = 0;
  auto buffer = Buffer::borrow(&value, 4, nullptr);
  EXPECT_TRUE(buffer->is_idle());
  auto write = std::make_shared<Event>();
  auto read = std::make_shared<Event>();
  EXPECT_EQ(buffer->begin_write(write).write, nullptr);
  EXPECT_EQ(buffer->begin_read(read).write, write);
  EXPECT_FALSE(buffer->is_written());
  std::thread writer([&] {
    value = 5;
    write->complete(absl::InternalError("lost"));
  });
  EXPECT_EQ(buffer->wait().message(), "lost");
  EXPECT_EQ(value, 5);
  writer.join();
  EXPECT_FALSE(buffer->is_idle());
  EXPECT_TRUE(buffer->is_written());
  // Reads end in any order; a write is told of those that have not.
  auto second_read = std::make_shared<Event>();
  buffer->begin_read(second_read);
  second_read->complete(absl::OkStatus());
  EXPECT_FALSE(buffer->is_idle());
  auto third_read = std::make_shared<Event>();
  buffer->begin_read(third_read);
  read->complete(absl::OkStatus());
  EXPECT_FALSE(buffer->is_idle());
  third_read->complete(absl::OkStatus());
  EXPECT_EQ(buffer->wait_idle().message(), "lost");
  EXPECT_EQ(buffer->error().message(), "lost");
}

TEST(ArenaPool, GrowsAndKeepsWhatIsInUse) {
  auto system = std::make_shared<SystemAllocator>();
  auto memory = Memory::create(system);
  ArenaPool pool;
  auto small = pool.take(*memory, 1000).value();
  EXPECT_EQ(pool.take(*memory, 500).value(), small);
  auto large = pool.take(*memory, 5000).value();
  EXPECT_EQ(system->stats().live_bytes, 6000);
  small.reset();
  EXPECT_EQ(system->stats().live_bytes, 5000);
  pool.trim();
  large.reset();
  EXPECT_EQ(system->stats().live_bytes, 0);
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 30), "3.00 GiB");
}

TEST(Memory, AFreeThatThrowsIsTold) {
  class Throws : public SystemAllocator {
  public:
    void free(void *data, int64_t bytes) override {
      SystemAllocator::free(data, bytes);
      throw std::runtime_error("out of luck");
    }
  };
  testing::internal::CaptureStderr();
  Memory::create(std::make_shared<Throws>())->allocate(2048, "test").value().reset();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "weft: free() of the allocator, given 2.00 KiB, threw an exception: out of luck\n");
}

TEST(Memory, ExceptionsOfTheUsersAllocatorAreFailures) {
  class Throws : public SystemAllocator {
  public:
    explicit Throws(bool bad_alloc) : bad_alloc_(bad_alloc) {}
    absl::StatusOr<void *> allocate(int64_t, int64_t) override {
      if (bad_alloc_)
        throw std::bad_alloc();
      throw 3;
    }

  private:
    bool bad_alloc_;
  };
  auto failure = [](bool bad_alloc) {
    return Memory::create(std::make_shared<Throws>(bad_alloc))->allocate(64, "test").status();
  };
  EXPECT_EQ(failure(true).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(failure(false).code(), absl::StatusCode::kInternal);
  EXPECT_NE(std::string(failure(false).message())
                .find("the allocator threw an exception that is no std::exception"),
            std::string::npos)
      << failure(false);
}

} // namespace
} // namespace weft::runtime
