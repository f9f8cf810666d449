#include "weft/error.h"

#include <optional>

namespace weft {

const char *name(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::kShape:
    return "shape";
  case ErrorKind::kDType:
    return "dtype";
  case ErrorKind::kValue:
    return "value";
  case ErrorKind::kIndex:
    return "index";
  case ErrorKind::kState:
    return "state";
  case ErrorKind::kMemory:
    return "memory";
  case ErrorKind::kCompile:
    return "compile";
  case ErrorKind::kRun:
    return "run";
  case ErrorKind::kFile:
    return "file";
  }
  return "?";
}

Error::Error(ErrorKind kind, std::string message, std::string file, int line)
    : std::runtime_error(file + ":" + std::to_string(line) + ": " + message), kind_(kind),
      message_(std::move(message)), file_(std::move(file)), line_(line) {}

Error::Error(ErrorKind kind, std::string message, Location location)
    : Error(kind, std::move(message), location.file_name(), static_cast<int>(location.line())) {}

namespace {
thread_local std::optional<Location> outermost_caller;
}

CallerScope::CallerScope(Location caller) : outermost_(!outermost_caller) {
  if (outermost_)
    outermost_caller = caller;
}

CallerScope::~CallerScope() {
  if (outermost_)
    outermost_caller.reset();
}

Location CallerScope::resolve(Location fallback) {
  return outermost_caller.value_or(fallback);
}

} // namespace weft
