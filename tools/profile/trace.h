// A trace that WEFT_PROFILE wrote, read back.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft::profile {

// What spans of one name and arguments have in common.
struct SpanKind {
  std::string category, name;
  std::string line, module, types;
  std::vector<std::string> reads; // names of weights
  double flops = 0, bytes = 0;    // of one span
};

struct Span {
  int32_t kind = 0; // into Trace::kinds
  int32_t thread = 0;
  int64_t begin = 0, duration = 0; // nanoseconds
  int64_t self = 0;                // without what it contains on its thread
  int64_t order = 0;               // in the file: a span stands behind what it contains
  bool is_outermost = true;
};

struct Trace {
  std::vector<SpanKind> kinds;
  std::vector<Span> spans; // by thread, then by begin, the longer first
  std::map<int32_t, std::string> threads;
  std::map<std::string, int64_t> peaks; // the largest value of each counter
  std::string processor, host;
  int64_t processors = 0;
  int64_t program_threads = 0; // the most that a program ran on
  int64_t dropped = 0;
};

// InvalidArgument for what is no trace of Weft: what is wrong, and where.
absl::StatusOr<Trace> read_trace(std::istream &in);

} // namespace weft::profile
