// Work over a range, on the calling thread's pool.
#pragma once

#include <cstdint>
#include <optional>

namespace weft::runtime {

// Part of a range, on one thread of the team. 0, or an error code.
using RangeBody = int32_t (*)(void *data, int thread, int64_t begin, int64_t end);

// Splits [0, count) at multiples of `grain` into pieces, a few for each of at most `threads`
// threads, and runs them; the caller is thread 0. Which pieces there are depends on `threads`, who
// runs which on chance: results must depend on neither. Returns the error of the lowest piece that
// failed, or 0. Each calling thread has a pool of its own (thread_pool.h), so that devices'
// executors are the ones to call it.
int32_t parallel_for(int64_t count, int64_t grain, int threads, RangeBody body, void *data);

// The processors that this process may use.
int available_processors();

// WEFT_NUM_THREADS where it is a number from 1 to 1024. Of another text the first call says on
// standard error that it is ignored, unless it is empty or 0, which is as if there were none.
std::optional<int> threads_from_environment();

// The number of threads to use: that one, else the processors that this process may use.
int default_threads();

} // namespace weft::runtime
