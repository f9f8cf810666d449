#include "tests/support/guarded_allocator.h"

#include <gtest/gtest.h>

namespace weft::tests {
namespace {

TEST(GuardedAllocator, TellsWhatWasWrittenBesideABlock) {
  GuardedAllocator allocator;
  auto block = [&](int64_t bytes) {
    absl::StatusOr<void *> memory = allocator.allocate(bytes, 64);
    EXPECT_TRUE(memory.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 64, 0u);
    return static_cast<unsigned char *>(*memory);
  };
  unsigned char *a = block(10), *b = block(0), *c = block(5000);
  EXPECT_EQ(a[0], 0xff);
  std::fill_n(a, 10, 1);
  EXPECT_EQ(allocator.fault(), "");
  a[10] ^= 1;
  EXPECT_EQ(allocator.fault(), "0 bytes behind the end of a block of 10 bytes was written");
  EXPECT_EQ(allocator.fault(), "");
  // Of a block that is gone, too.
  c[-3] ^= 1;
  allocator.free(c, 5000);
  EXPECT_EQ(allocator.fault(), "3 bytes before a block of 5000 bytes was written");
  EXPECT_EQ(allocator.stats().live_bytes, 10);
  allocator.free(a, 10);
  allocator.free(b, 0);
  EXPECT_EQ(allocator.fault(), "");
}

} // namespace
} // namespace weft::tests
