// The one team of threads: libgomp's, which oneDNN uses too.
#pragma once

#include <cstdint>

namespace weft::runtime {

// Part of a range, on one thread of the team. 0, or an error code.
using RangeBody = int32_t (*)(void *data, int thread, int64_t begin, int64_t end);

// Splits [0, count) at multiples of `grain` into one range for each of at most `threads` threads
// and runs them; the caller is thread 0. Returns the error of the lowest range that failed, or 0.
// To be called from the device's executor only: libgomp gives each calling thread a team of its
// own.
int32_t parallel_for(int64_t count, int64_t grain, int threads, RangeBody body, void *data);

// The processors that this process may use.
int available_processors();

// The number of threads to use: WEFT_NUM_THREADS where it is a number from 1 to 1024, else the
// processors that this process may use.
int default_threads();

// Sets, for the calling thread, the team size that oneDNN and other users of OpenMP see, and
// restores it.
class ScopedTeamSize {
public:
  explicit ScopedTeamSize(int threads);
  ~ScopedTeamSize();
  ScopedTeamSize(const ScopedTeamSize &) = delete;
  ScopedTeamSize &operator=(const ScopedTeamSize &) = delete;

private:
  int before_;
};

} // namespace weft::runtime
