// Where memory comes from: an interface of three calls that users may implement.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace weft::runtime {

struct AllocatorStats {
  int64_t live_bytes = 0;     // handed out and not yet freed
  int64_t peak_bytes = 0;     // the most that live_bytes has been
  int64_t reserved_bytes = 0; // live_bytes and what is kept for reuse
  int64_t pinned_bytes = 0;   // of them, unused parts of blocks that are in use: no trim frees them
  int64_t allocations = 0;    // calls of allocate() that succeeded
  int64_t frees = 0;          // calls of free() with a pointer that is not null
  int64_t failures = 0;       // calls of allocate() that failed
};

// Safe to call from several threads at once.
class Allocator {
public:
  virtual ~Allocator() = default;
  // At least `bytes` bytes (0 gives a pointer that may be freed and not be read), at a multiple of
  // `alignment`, a power of 2. The contents are undefined. ResourceExhausted when there is none
  // left; Memory (memory.h) adds to the message who asked and who holds the rest, and takes an
  // exception for a failure: std::bad_alloc is ResourceExhausted, any other Internal.
  virtual absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) = 0;
  // `bytes` as it was given to allocate(); `pointer` may be null.
  virtual void free(void *pointer, int64_t bytes) = 0;
  virtual AllocatorStats stats() const = 0;
};

} // namespace weft::runtime
