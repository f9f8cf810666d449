#include "weft/io/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace weft::io {
namespace {

constexpr double kRedrawSeconds = 0.1; // the eye sees no more, and a slow terminal keeps up
constexpr int kBarColumns = 20;        // leaves a terminal of 80 columns room for the figures

int terminal_width(std::FILE *stream) {
  int file = fileno(stream);
  if (file < 0 || !isatty(file))
    return 0;
  const char *term = std::getenv("TERM");
  if (term && std::strcmp(term, "dumb") == 0)
    return 0;
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string formatted(const char *format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

} // namespace

ProgressBar::ProgressBar(ProgressOptions options)
    : options_(options), start_(std::chrono::steady_clock::now()) {
  width_ = options_.width > 0 ? options_.width : terminal_width(options_.stream);
  if (options_.plain_every <= 0)
    options_.plain_every = std::max<int64_t>(1, options_.total / 20);
}

ProgressBar::~ProgressBar() {
  if (open_)
    std::fputc('\n', options_.stream), std::fflush(options_.stream);
}

double ProgressBar::eta(int64_t step) const {
  int64_t done = step - options_.start;
  if (done <= 0)
    return -1;
  return seconds_since(start_) / static_cast<double>(done) *
         static_cast<double>(std::max<int64_t>(0, options_.total - step));
}

void ProgressBar::update(int64_t step, std::string_view status) {
  bool last = step >= options_.total;
  double remaining = eta(step);
  std::string tail = "step " + std::to_string(step) + "/" + std::to_string(options_.total) + "  " +
                     std::string(status) + "  ETA " +
                     (remaining < 0 ? "-" : format_duration(remaining));
  if (width_ == 0) {
    if (!last && step % options_.plain_every != 0)
      return;
    std::fprintf(options_.stream, "%s\n", tail.c_str());
    std::fflush(options_.stream);
    return;
  }
  if (open_ && !last && seconds_since(drawn_) < kRedrawSeconds)
    return;
  drawn_ = std::chrono::steady_clock::now();
  double share =
      options_.total > 0
          ? std::clamp(static_cast<double>(step) / static_cast<double>(options_.total), 0.0, 1.0)
          : 1.0;
  int filled = static_cast<int>(share * kBarColumns);
  std::string line =
      "[" + std::string(filled, '#') + std::string(kBarColumns - filled, '.') + "] " + tail;
  // A line that wraps cannot be rewritten by a carriage return; the last column would wrap on some
  // terminals.
  if (static_cast<int>(line.size()) >= width_)
    line.resize(std::max(1, width_ - 1));
  std::fprintf(options_.stream, "\r%s\x1b[K", line.c_str());
  std::fflush(options_.stream);
  open_ = true;
  if (last)
    std::fputc('\n', options_.stream), std::fflush(options_.stream), open_ = false;
}

void ProgressBar::print(std::string_view line) {
  clear_line();
  std::fprintf(options_.stream, "%.*s\n", static_cast<int>(line.size()), line.data());
  std::fflush(options_.stream);
}

void ProgressBar::clear_line() {
  if (open_)
    std::fprintf(options_.stream, "\r\x1b[K");
  open_ = false;
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0)
    return "-";
  long total = std::lround(seconds);
  char text[48];
  if (total >= 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", total / 3600, total / 60 % 60, total % 60);
  else
    std::snprintf(text, sizeof text, "%ld:%02ld", total / 60, total % 60);
  return text;
}

std::string format_count(double count) {
  if (count >= 1e9)
    return formatted("%.1fG", count / 1e9);
  if (count >= 1e6)
    return formatted("%.1fM", count / 1e6);
  if (count >= 1e3)
    return formatted("%.1fk", count / 1e3);
  return formatted("%.0f", count);
}

std::string format_bytes(double bytes) {
  if (bytes >= 0x1p30)
    return formatted("%.1f GiB", bytes / 0x1p30);
  if (bytes >= 0x1p20)
    return formatted("%.1f MiB", bytes / 0x1p20);
  if (bytes >= 0x1p10)
    return formatted("%.1f KiB", bytes / 0x1p10);
  return formatted("%.0f B", bytes);
}

} // namespace weft::io
