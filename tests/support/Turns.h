// What a run of the tests takes a third of: the same kernels made in another way, or those that
// another test makes as well.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "tests/support/OpModule.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/xxhash.h"

namespace weft::tests {

// Whether this run takes the op in the dtype, of a way to run it that takes every third one.
// WEFT_CONFORMANCE says which: 0, 1 or 2 (tools/test.sh draws it for each tree), or all.
inline bool hasTurn(llvm::StringRef op, llvm::StringRef way, DType dtype) {
  const char *given = std::getenv("WEFT_CONFORMANCE");
  llvm::StringRef third = given ? given : "0";
  uint64_t turn = llvm::xxh3_64bits(op) % 3 + llvm::xxh3_64bits(way) % 3 +
                  static_cast<uint64_t>(dtype) +
                  (third == "1"   ? 1
                   : third == "2" ? 2
                                  : 0);
  return third == "all" || turn % 3 == 0;
}

} // namespace weft::tests
