// Prints arrays as numpy does.
#pragma once

#include "runtime/io/array.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::tools {

// Arrays of more elements than this are printed by their ends, three elements of each dimension a side, as numpy does.
inline constexpr int64_t kSummarizeAbove = 1000;

void printArray(llvm::raw_ostream &stream, const runtime::ArrayView &array);

} // namespace weft::tools
