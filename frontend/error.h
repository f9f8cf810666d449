// What goes wrong, as an exception that knows the caller's line.
#pragma once

#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

// Where a call stands in the user's source. Functions take it as their last, defaulted argument.
using Location = std::source_location;

// What kind of thing went wrong.
enum class ErrorKind {
  kShape,   // shapes do not fit
  kDType,   // dtypes do not fit
  kDevice,  // there is no such device, or tensors lie on several
  kValue,   // an argument's value is out of its range
  kIndex,   // an index lies outside its dimension
  kState,   // the call is not legal now: an undefined tensor, a released graph, an assignment while
            // tracing, ...
  kMemory,  // an allocation failed; nothing is lost, and the call may be made again
  kCompile, // a program did not compile: an error of Weft or of a registered pass
  kRun,     // a program failed while it ran; what it would have written is poisoned
  kFile,    // a file is missing, unreadable, damaged or of another format
};

// "shape", "dtype", ...: as messages name the kind.
const char *name(ErrorKind kind);

// what() is "FILE:LINE: message", and where modules of users were called (CalledFrom), " (called
// from FILE:LINE, ...)"; the message names the op, the argument, the shapes and dtypes, and what to
// do.
class Error : public std::runtime_error {
public:
  Error(ErrorKind kind, std::string message, Location location = Location::current());

  // What a program may branch on; the text is for people.
  ErrorKind kind() const {
    return kind_;
  }
  // Without the location.
  const std::string &message() const {
    return message_;
  }
  // The line whose call is at fault: for an error of a run, where the op was recorded.
  const std::string &file() const {
    return file_;
  }
  // The number of that line.
  int line() const {
    return line_;
  }

  // For locations that are not of this process's source (files, recorded ops).
  Error(ErrorKind kind, std::string message, std::string file, int line);

private:
  static std::string callers(const std::string &file, int line);

  ErrorKind kind_;
  std::string message_;
  std::string file_;
  int line_;
};

// For modules and functions of users that take their caller's line: while one lives, calls on this
// thread stand at their own lines, and errors say from where they were called.
//
//   Tensor operator()(const Tensor &x, Location location = Location::current()) const {
//     CalledFrom scope(location);
//     return down(weft::relu(up(x)));
//   }
//
// nn::Sequential opens one for each function and each module that takes no line.
class CalledFrom {
public:
  explicit CalledFrom(Location caller);
  ~CalledFrom();
  CalledFrom(const CalledFrom &) = delete;
  CalledFrom &operator=(const CalledFrom &) = delete;

private:
  friend class Error;
  friend class CallerScope;
  Location caller_;
  std::optional<Location> library_; // the CallerScope that this one interrupts
  const CalledFrom *outer_;
};

// While one lives, calls on this thread are recorded at `caller`, the line of the user who called a
// module or another library function. The outermost scope wins, so that an error deep inside a
// library points to the user.
class CallerScope {
public:
  explicit CallerScope(Location caller);
  ~CallerScope();
  CallerScope(const CallerScope &) = delete;
  CallerScope &operator=(const CallerScope &) = delete;

  // The location to record at: the outermost scope's, else `fallback`. A line of the standard
  // library, where a std::function calls a module, says nothing to the user: in its place stands the
  // line of the innermost CalledFrom, else that of the recording that the call is in, if there is
  // one.
  static Location resolve(Location fallback);

private:
  bool outermost_;
};

// Throws an Error at the location that CallerScope::resolve finds for `location`.
[[noreturn]] void fail_at(Location location, ErrorKind kind, const std::string &message);

namespace recorder {
// Fails with kState: "step: the optimizer was moved from; use the one that it was moved to".
[[noreturn]] void refuse_moved(std::string_view call, std::string_view what, Location location);
// What a handle refers to, for a call on it. Fails so where the handle was moved from.
template <typename Pointer>
auto &held(const Pointer &pointer, std::string_view call, std::string_view what,
           Location location) {
  if (!pointer) [[unlikely]]
    refuse_moved(call, what, location);
  return *pointer;
}
} // namespace recorder

} // namespace weft
