// What a trace says, as a table for people.
#pragma once

#include <cstdint>
#include <string>

#include "tools/profile/peaks.h"
#include "tools/profile/trace.h"

namespace weft::profile {

enum class By { kKernel, kLine, kModule, kOp, kPhase };
enum class Sort { kTime, kLost, kCalls };

struct TableOptions {
  By by = By::kKernel;
  Sort sort = Sort::kTime;
  int64_t top = 20; // rows; 0: all
};

// Where the time of instructions goes (or, by phase, all other time), a row a group, and beneath
// it what is outside of instructions. A peak of 0 is not known: nothing is said of the roofline.
std::string table(const Trace &trace, const Peaks &peaks, const TableOptions &options);

// Of one span: the least time that the machine needs for its operations and bytes, in nanoseconds;
// 0 where nothing is known of them.
double least_time(const SpanKind &kind, const Peaks &peaks);

} // namespace weft::profile
