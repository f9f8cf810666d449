// What benchmarks print: one JSON object a line, and the same for people on stderr.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace weft::benchmarks {

struct Measurement {
  std::string suite, name,
      impl;           // name: the `case`; impl: "weft", "torch-eager", ..., "limit" for a bound
  std::string metric; // "time", "peak" (bytes), "size", "count" or "ratio"
  std::string unit;
  double value = 0;
  int threads = 1;
  int64_t batch = 1;
  // Of what changes over a step: seconds since its beginning, and the value then, of which `value`
  // is the most; else empty.
  std::vector<std::pair<double, int64_t>> series = {};
};

class Report {
public:
  // Appends to the file, or writes to stdout when `path` is empty. Throws std::runtime_error when
  // it cannot be opened.
  explicit Report(const std::string &path);
  ~Report();
  Report(const Report &) = delete;
  Report &operator=(const Report &) = delete;

  void add(const Measurement &measurement);

private:
  std::FILE *file_;
  bool owned_;
};

// The middle value; the mean of the two middle ones of an even number. 0 for none.
double median(std::vector<double> values);

// Wall-clock seconds, monotonic.
double now();

} // namespace weft::benchmarks
