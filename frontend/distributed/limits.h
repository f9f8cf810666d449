// Bounds of what a rank keeps until its job ends, each with its reason. Private.
#pragma once

#include <cstddef>

namespace weft::distributed {

struct DistributedLimits {
  // Groups of a rank. Recorded ops, histories and meshes name a group by its id alone, so that its
  // two threads stay until the job ends: meshes and pipelines have a few dozen, and a process may
  // have some thousand threads.
  size_t groups = 256;
  // Of what a rank says to the others of a mesh: the text of an error. With the header of a call it
  // fits into one message.
  size_t said_bytes = 1000;
};

inline constexpr DistributedLimits kLimits;

} // namespace weft::distributed
