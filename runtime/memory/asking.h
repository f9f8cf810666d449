// Who asks for memory on this thread, for those who trace it (tracing_allocator.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

namespace weft::runtime {

// An op and the line that recorded it: "weft.matmul", "train.cpp:12".
struct Origin {
  std::string op, line;
};

// A run that takes what it needs: the line that asked for it, and what its outputs come from, which
// may be empty.
struct AskingRun {
  std::string line;
  std::vector<Origin> outputs;
};

struct Asking {
  const char *purpose = "";       // "output", "arena": Memory's
  const AskingRun *run = nullptr; // null: none
  const Origin *origin = nullptr; // of the output that it is for
};
inline constinit thread_local Asking asking;

// How many allocators want to know. Where there is none nobody needs to say it.
inline std::atomic<int> asking_is_traced{0};

} // namespace weft::runtime
