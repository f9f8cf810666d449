// Where time goes: a trace of kernels, library calls, waits and compilations, for Perfetto and
// weft-prof. WEFT_PROFILE=trace.json writes one of the whole process.
#pragma once

#include <string>

#include "weft/error.h"

namespace weft {

// Writes what happens while it lives into a file. Both ends wait for the runs that are under way,
// so that the trace has whole runs.
//
//   {
//     weft::Profile profile("step.json");
//     train_step();
//   }
class Profile {
public:
  // Where WEFT_PROFILE writes a trace of the whole process, nothing but a line on standard error.
  // Errors: a process writes one trace at a time; the file cannot be written.
  explicit Profile(const std::string &file, Location location = Location::current());
  ~Profile();
  Profile(const Profile &) = delete;
  Profile &operator=(const Profile &) = delete;

  // FILE, or FILE.PID where another process writes to FILE; WEFT_PROFILE's.
  const std::string &file() const {
    return file_;
  }
  // Events that were dropped by now, since they came faster than they could be written.
  long long dropped() const;

private:
  std::string file_;
  bool owns_trace_ = true;
};

} // namespace weft
