// A progress bar for loops that take minutes: one line rewritten in place on a terminal, plain
// lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace weft::io {

struct ProgressOptions {
  int64_t total = 0; // steps of the whole job
  int64_t start = 0; // steps done before this process; the ETA does not count them
  int64_t plain_every =
      0; // off a terminal: a line every so many steps; 0 takes a twentieth of the total
  std::FILE *stream = stdout;
  int width = 0; // columns; 0 asks the terminal, and without one plain lines are written
};

// One line on a terminal: the bar, a status, the time that is left. Plain lines elsewhere.
class ProgressBar {
public:
  explicit ProgressBar(ProgressOptions options);
  ~ProgressBar(); // ends an open line
  ProgressBar(const ProgressBar &) = delete;
  ProgressBar &operator=(const ProgressBar &) = delete;

  // `step` steps are done; `status` (loss, speed, ...) stands between the bar and the ETA. On a
  // terminal the line is redrawn at most ten times a second, and always at the last step.
  void update(int64_t step, std::string_view status);

  // Writes a line of its own, above the bar.
  void print(std::string_view line);

  // Seconds that the remaining steps will take at the pace so far; negative before there is a pace.
  double eta(int64_t step) const;

private:
  void clear_line();

  ProgressOptions options_;
  int width_ = 0; // 0: not a terminal
  bool open_ = false;
  std::chrono::steady_clock::time_point start_, drawn_;
};

// 75 as "1:15", 3675 as "1:01:15".
std::string format_duration(double seconds);

// 12345 as "12.3k", 4100000 as "4.1M".
std::string format_count(double count);

// 831 as "831 B", 3481600 as "3.3 MiB".
std::string format_bytes(double bytes);

} // namespace weft::io
