// A file in Chrome's trace-event format that is whole after each write.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "runtime/profile/profile.h"
#include "runtime/profile/ring.h"

namespace weft::runtime::profile {

class TraceFile {
public:
  TraceFile() = default;
  TraceFile(const TraceFile &) = delete;
  TraceFile &operator=(const TraceFile &) = delete;
  ~TraceFile() {
    close();
  }

  // `origin` is the file's time 0, of the steady clock.
  absl::Status open(const std::string &file, int64_t origin);
  bool is_open() const {
    return descriptor_ != -1;
  }
  const std::string &name() const {
    return name_;
  }

  void add_thread(int thread, const std::string &name);
  // False where the file has reached its bound.
  bool add(int thread, const Event &event, const Label &label);
  // Writes what was added; the file is whole then.
  void write(int64_t dropped);
  void close();

private:
  void next();

  int descriptor_ = -1;
  std::string name_;
  int64_t origin_ = 0;
  int64_t offset_ = 0; // where the next event goes
  int64_t said_dropped_ = -1;
  bool is_empty_ = true;
  bool failed_ = false;
  std::string pending_;
};

} // namespace weft::runtime::profile
