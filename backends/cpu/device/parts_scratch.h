// Scratch for a call that is computed in parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/core/alignment.h"

namespace weft::backends::cpu {

// A thread computes one part at a time, so that there are as many regions as threads, or as parts
// where those are fewer. What a part leaves behind it leaves elsewhere.
class PartsScratch {
public:
  void add(int64_t bytes) {
    region_ = std::max(region_, runtime::align(bytes));
    ++parts_;
  }
  int64_t bytes(int threads) const {
    return region_ * std::min<int64_t>(parts_, threads);
  }
  // The region of a part that `thread` computes.
  char *of(char *scratch, int64_t part, int thread, int threads) const {
    return scratch + region_ * (parts_ <= threads ? part : thread);
  }

private:
  int64_t region_ = 0, parts_ = 0;
};

} // namespace weft::backends::cpu
