// Which threads oneDNN works on.
#pragma once

#include <string>

namespace weft::backends::cpu {

// What Weft calls oneDNN in: the library has `threads` threads of the calling thread's pool
// (runtime/threading/thread_pool.h) to work on.
class OnednnTeam {
public:
  explicit OnednnTeam(int threads);
  ~OnednnTeam();
  OnednnTeam(const OnednnTeam &) = delete;
  OnednnTeam &operator=(const OnednnTeam &) = delete;

private:
  int before_;
};

// Why oneDNN works on threads of its OpenMP runtime, beside those of the pool; empty where it
// works on the pool's.
const std::string &onednn_own_threads();

} // namespace weft::backends::cpu
