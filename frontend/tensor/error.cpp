#include "weft/error.h"

#include <optional>
#include <string_view>
#include <utility>

#include "frontend/recorder/record/recorder.h"

namespace weft {

const char *name(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::kShape:
    return "shape";
  case ErrorKind::kDType:
    return "dtype";
  case ErrorKind::kDevice:
    return "device";
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
    : std::runtime_error(file + ":" + std::to_string(line) + ": " + message + callers(file, line)),
      kind_(kind), message_(std::move(message)), file_(std::move(file)), line_(line) {}

Error::Error(ErrorKind kind, std::string message, Location location)
    : Error(kind, std::move(message), location.file_name(), static_cast<int>(location.line())) {}

namespace {
thread_local std::optional<Location> outermost_caller;
thread_local const CalledFrom *innermost_call = nullptr;
// Of a chain of calls: a recursion is not to bury the message.
constexpr int kMostCallers = 8;
} // namespace

void fail_at(Location location, ErrorKind kind, const std::string &message) {
  throw Error(kind, message, CallerScope::resolve(location));
}

void recorder::refuse_moved(std::string_view call, std::string_view what, Location location) {
  fail_at(location, ErrorKind::kState,
          std::string(call) + ": the " + std::string(what) +
              " was moved from; use the one that it was moved to, or assign one to it");
}

bool recorder::is_of_library(const Location &line) {
  // Most calls stand in the file of the call before, whose name is one pointer.
  thread_local const char *users = nullptr;
  if (line.file_name() == users)
    return false;
  bool found = std::string_view(line.file_name()).find("/c++/") != std::string_view::npos;
  if (!found)
    users = line.file_name();
  return found;
}

CalledFrom::CalledFrom(Location caller)
    : caller_(CallerScope::resolve(caller)), library_(std::exchange(outermost_caller, {})),
      outer_(std::exchange(innermost_call, this)) {}

CalledFrom::~CalledFrom() {
  innermost_call = outer_;
  outermost_caller = library_;
}

std::string Error::callers(const std::string &file, int line) {
  std::string text, before = file + ":" + std::to_string(line);
  int count = 0;
  for (const CalledFrom *call = innermost_call; call && count < kMostCallers; call = call->outer_) {
    std::string place =
        std::string(call->caller_.file_name()) + ":" + std::to_string(call->caller_.line());
    if (place == before)
      continue;
    text += (count++ ? ", " : " (called from ") + place;
    before = std::move(place);
  }
  return count ? text + ")" : text;
}

CallerScope::CallerScope(Location caller) : outermost_(!outermost_caller) {
  if (outermost_)
    outermost_caller = resolve(caller);
}

CallerScope::~CallerScope() {
  if (outermost_)
    outermost_caller.reset();
}

Location CallerScope::resolve(Location fallback) {
  if (outermost_caller)
    return *outermost_caller;
  const recorder::Trace *trace = recorder::thread_trace;
  if ((!innermost_call && !trace) || !recorder::is_of_library(fallback))
    return fallback;
  return innermost_call ? innermost_call->caller_ : trace->line;
}

} // namespace weft
