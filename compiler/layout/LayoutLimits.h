// The numbers by which the layout phase decides, each with its reason.
#pragma once

#include <cstdint>

namespace weft::compiler::limits {

// A transpose that stays in the program takes as long as this many copies of as many bytes into
// blocks of channels, which a call of the library makes for itself from row-major images: those
// move whole cache lines, a transpose reads or writes with strides.
inline constexpr int64_t kTransposeCost = 2;

// Where calls copy less than this for one image, that takes under a microsecond: not worth that
// sums are added up in another order than call by call. Of an image, not of a batch, so that a
// network has one layout, and an image one result, at every batch size.
inline constexpr int64_t kMinCopiedBytes = 8 << 10;

// Images of fewer channels are not copied into blocks: half of each block would be padding.
inline constexpr int64_t kMinBlockedChannels = 8;

// A broadcast of something smaller than its result by at least this factor is made again in the
// other order instead of transposed: what is transposed is what it reads.
inline constexpr int64_t kMinBroadcastFactor = 4;

} // namespace weft::compiler::limits
