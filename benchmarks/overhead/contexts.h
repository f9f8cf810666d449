// What a compilation pays for a new context, where none waits.
#pragma once

namespace weft::benchmarks {

// Seconds to make an MLIR context with the dialects of the CPU backend loaded, and to destroy it;
// the median of that many rounds.
double seconds_per_context(int rounds);

} // namespace weft::benchmarks
