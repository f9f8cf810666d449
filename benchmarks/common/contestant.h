// A process that is measured: it gets ready, then works when it is told to, so that several can
// take turns.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::benchmarks {

// The process speaks lines: it writes "ready SECONDS" (what its preparation took, compilation
// included) when it is warm; for each "run N" it reads, it works N times and writes the seconds
// that this took; it ends at the end of its input. One that has several cases gets ready for
// another one at "case NAME", and then writes "ready SECONDS" again, or "none" where it has no such
// case, with the reason behind it where that is not plain.
class Contestant {
public:
  // Throws std::runtime_error when it cannot be started.
  Contestant(std::string impl, const std::vector<std::string> &command);
  ~Contestant();
  Contestant(const Contestant &) = delete;
  Contestant &operator=(const Contestant &) = delete;

  const std::string &impl() const {
    return impl_;
  }
  // Waits until it is warm; seconds of its preparation. Throws std::runtime_error when it ends
  // instead.
  double wait_ready();
  // Has it get ready for a case, as wait_ready(); nullopt where it has no such case, for the
  // reason, which may be empty.
  std::optional<double> choose(const std::string &name);
  const std::string &reason() const {
    return reason_;
  }
  // Seconds for n runs.
  double run(int64_t n);

private:
  void write_line(const std::string &line);
  std::string read_line();

  std::string impl_, reason_;
  int process_ = -1, to_ = -1, from_ = -1;
  std::string buffer_;
};

// The threads of the contestant whose turn has ended go on spinning on the processors of the next
// one: libgomp's for some 15 ms, ONNX Runtime's for up to 40.
inline constexpr std::chrono::milliseconds kBetweenTurns{60};

// Starts what a suite's program is told to: "IMPL=PROGRAM ARGUMENT ..." (words without quotes),
// with `more` arguments behind these. Does not wait until it is warm. Throws std::runtime_error for
// another text, or when it cannot be started.
std::unique_ptr<Contestant> start_contestant(const std::string &command,
                                             const std::vector<std::string> &more = {});

} // namespace weft::benchmarks
