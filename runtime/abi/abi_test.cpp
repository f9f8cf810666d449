// The boundary's headers in C and in C++, and how structs of other versions are read.
#include <gtest/gtest.h>

#include "runtime/abi/headers_as_c.h"
#include "runtime/abi/read_struct.h"
#include "runtime/abi/weft_collective.h"
#include "runtime/abi/weft_custom.h"
#include "runtime/abi/weft_runtime.h"
#include "runtime/aot/weft_model.h"

namespace weft::runtime {
namespace {

TEST(Abi, IsTheSameInCAndInCpp) {
  constexpr size_t sizes[] = {
#define WEFT_SIZE(type) sizeof(type),
      WEFT_STRUCTS(WEFT_SIZE)
#undef WEFT_SIZE
  };
  size_t in_c[std::size(sizes)];
  ASSERT_EQ(weft_sizes_in_c(in_c), std::size(sizes));
  for (size_t i = 0; i < std::size(sizes); ++i)
    EXPECT_EQ(in_c[i], sizes[i]) << i;
}

// Structs in arrays, whose size is a stride on both sides.
static_assert(sizeof(weft_custom_tensor) == 24 && sizeof(weft_custom_shape) == 136 &&
              sizeof(weft_held_code) == 48 && sizeof(weft_held_place) == 8 &&
              sizeof(weft_entry_code) == 72);

// One interface in three minor versions.
struct First {
  uint32_t struct_size, version;
  int64_t a;
};
struct Second {
  uint32_t struct_size, version;
  int64_t a;
  const char *b;
};
struct Third {
  uint32_t struct_size, version;
  int64_t a;
  const char *b;
  int64_t c;
};

absl::StatusOr<Second> read(const void *given) {
  return read_struct(*static_cast<const Second *>(given), sizeof(First), WEFT_VERSION(1, 1),
                     "the thing", "thing.h");
}

TEST(ReadStruct, TakesOlderAndNewerMinorVersions) {
  First older{sizeof older, WEFT_VERSION(1, 0), 7};
  absl::StatusOr<Second> read_older = read(&older);
  ASSERT_TRUE(read_older.ok()) << read_older.status();
  EXPECT_EQ(read_older->a, 7);
  EXPECT_EQ(read_older->b, nullptr);
  EXPECT_EQ(read_older->struct_size, sizeof(Second));
  Second same{sizeof same, WEFT_VERSION(1, 1), 7, "b"};
  EXPECT_STREQ(read(&same)->b, "b");
  Third newer{sizeof newer, WEFT_VERSION(1, 2), 7, "b", 9};
  absl::StatusOr<Second> read_newer = read(&newer);
  ASSERT_TRUE(read_newer.ok()) << read_newer.status();
  EXPECT_STREQ(read_newer->b, "b");
}

TEST(ReadStruct, RefusesOtherMajorVersionsAndCutStructs) {
  Second other{sizeof other, WEFT_VERSION(2, 0), 7, "b"};
  EXPECT_EQ(read(&other).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(read(&other).status().message(),
            "the thing was built for version 2.0 of thing.h; this Weft has version 1.1, which does "
            "not fit: build it anew");
  First cut{8, WEFT_VERSION(1, 0), 7};
  EXPECT_EQ(read(&cut).status().message(),
            "the thing has a struct_size of 8; it is 16 at least: what sizeof gives");
  // A plugin in C++ calls functions of its host: a newer one may call what is not there.
  auto plugin = [](uint32_t version) {
    return check_cxx_version(version, WEFT_VERSION(2, 3), "the plugin", "plugin.h").ok();
  };
  EXPECT_TRUE(plugin(WEFT_VERSION(2, 3)) && plugin(WEFT_VERSION(2, 0)));
  EXPECT_FALSE(plugin(WEFT_VERSION(2, 4)) || plugin(WEFT_VERSION(1, 3)) ||
               plugin(WEFT_VERSION(3, 0)));
  // Of a struct that is too short for its version nothing is looked at.
  First nothing{0, WEFT_VERSION(2, 0), 7};
  EXPECT_EQ(read(&nothing).status().code(), absl::StatusCode::kInvalidArgument);
}

} // namespace
} // namespace weft::runtime
