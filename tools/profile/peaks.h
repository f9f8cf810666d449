// How fast this machine computes and moves bytes at most.
#pragma once

namespace weft::profile {

struct Peaks {
  double gflops = 0; // float32, a multiplication and an addition being two
  double gbs = 0;    // bytes read and written, of arrays that fit into no cache
};

// Measures both on that many threads, in about a second.
Peaks measure_peaks(int threads);

} // namespace weft::profile
