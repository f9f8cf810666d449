// How many programs a part of a test compiles.
#pragma once

#include "weft/weft.h"

namespace weft::tests {

// Counts the programs that were compiled since it was made.
class Compiles {
public:
  Compiles() {
    synchronize();
  }
  uint64_t count() const {
    synchronize();
    return statistics().compiles - before_;
  }

private:
  uint64_t before_ = statistics().compiles;
};

} // namespace weft::tests
