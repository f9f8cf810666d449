// A process that is measured: it gets ready, then works when it is told to, so that several can take turns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::benchmarks {

// The process speaks lines: it writes "ready SECONDS" (what its preparation took, compilation included) when it is warm; for each
// "run N" it reads, it works N times and writes the seconds that this took; it ends at the end of its input. One that has several cases gets
// ready for another one at "case NAME", and then writes "ready SECONDS" again.
class Contestant {
public:
  // Throws std::runtime_error when it cannot be started.
  Contestant(std::string impl, const std::vector<std::string> &command);
  ~Contestant();
  Contestant(const Contestant &) = delete;
  Contestant &operator=(const Contestant &) = delete;

  const std::string &impl() const { return impl_; }
  // Waits until it is warm; seconds of its preparation. Throws std::runtime_error when it ends instead.
  double wait_ready();
  // Has it get ready for a case, as wait_ready().
  double choose(const std::string &name);
  // Seconds for n runs.
  double run(int64_t n);

private:
  void write_line(const std::string &line);
  std::string read_line();

  std::string impl_;
  int process_ = -1, to_ = -1, from_ = -1;
  std::string buffer_;
};

} // namespace weft::benchmarks
