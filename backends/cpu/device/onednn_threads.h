// Which threads oneDNN works on.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "backends/cpu/device/invalid_flag.h"

namespace weft::backends::cpu {

// What Weft calls oneDNN in: the library has `threads` threads of the calling thread's pool
// (runtime/threading/thread_pool.h) to work on.
class OnednnTeam {
public:
  explicit OnednnTeam(int threads);
  ~OnednnTeam();
  OnednnTeam(const OnednnTeam &) = delete;
  OnednnTeam &operator=(const OnednnTeam &) = delete;

  // After the library's calls: an error where the pool had fewer threads than one of them was made
  // for, since the system gives no more. What the calls wrote is no result then: a region's shares
  // are counted when a primitive is made, and wait for each other.
  absl::Status status() const;

  // Whether the library's calls may have met a NaN where they took a maximum, as their ReLU does,
  // or made one. Always where that cannot be known.
  bool may_have_met_nan() const;

private:
  int before_;
  bool met_before_;
  InvalidFlag flag_;
};

// Whether may_have_met_nan() is ever false on this machine.
bool onednn_tells_nan();

// Why oneDNN works on threads of its OpenMP runtime, beside those of the pool; empty where it
// works on the pool's.
const std::string &onednn_own_threads();

} // namespace weft::backends::cpu
