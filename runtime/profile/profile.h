// What happens when, on which thread: spans and counters, written as a trace that Perfetto reads.
//
// A thread records into a buffer of its own, without a lock; one other thread writes the file. Off,
// a span is one relaxed load. What does not fit into a bound (profile/limits.h) is dropped,
// counted, and said in the file and on stderr.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace weft::runtime::profile {

// What a span is of. The name of the kind is the event's category in the file.
enum class Kind : uint8_t {
  // Instructions of a program, and other work of a device.
  kKernel,
  kLibrary,
  kCopy,
  kFill,
  kTransfer,
  kCollective,
  // Around them.
  kProgram,    // a run of a program
  kEvaluation, // a run that was asked for, with its reason
  kPrepare,    // what a program computes ahead of its runs
  // Of callers.
  kSubmit, // from a cut to the start of its run
  kFind,   // which program it is
  kWait,
  // Of the compiler.
  kCompile,
  kPhase,
  kCodegen,
  kLink,
  kCache, // reads and writes of the disk cache
  kCounter,
};
const char *name(Kind kind);

// All that is the same for each occurrence of a span or counter.
struct Label {
  Kind kind = Kind::kKernel;
  std::string name = {};
  std::string args = {};  // members of a JSON object, or nothing: "\"line\":\"a.cpp:3\"" (Args)
  const char *value = ""; // what an occurrence's number is; empty: it has none
  double flops = 0;       // operations of one occurrence, 0 if not known
  double bytes = 0;       // read and written
};

// Builds Label::args.
class Args {
public:
  Args &add(std::string_view key, std::string_view text);
  Args &add(std::string_view key, int64_t number);
  Args &add(std::string_view key, const std::vector<std::string> &texts);
  std::string take() {
    return std::move(text_);
  }

private:
  void key(std::string_view key);
  std::string text_;
};

namespace detail {
inline constinit std::atomic<bool> active{false};
void record(uint32_t label, int64_t begin, int64_t end, int64_t value);
} // namespace detail

// Whether a trace is being written.
inline bool on() {
  return detail::active.load(std::memory_order_relaxed);
}

// Nanoseconds of the steady clock.
inline int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// The number of a label, for as long as the process lives; equal labels have one. Takes a lock: for
// what happens often, keep it. Never 0, which stands for "not recorded".
uint32_t number_of(const Label &label);

// The name of the calling thread in the file.
void name_thread(std::string name);

// From its construction to its end. 0: nothing.
class Span {
public:
  explicit Span(uint32_t label, int64_t value = 0)
      : label_(label), value_(value), begin_(label ? now() : 0) {}
  // Of a label that is only made when a trace is written.
  template <typename MakeLabel>
    requires requires(MakeLabel make) { Label(make()); }
  explicit Span(MakeLabel make, int64_t value = 0) : Span(on() ? number_of(make()) : 0, value) {}
  Span(Kind kind, const char *name) : Span([&] { return Label{kind, name}; }) {}
  Span(const Span &) = delete;
  Span &operator=(const Span &) = delete;
  ~Span() {
    end();
  }
  void end() {
    if (label_)
      detail::record(label_, begin_, now(), value_);
    label_ = 0;
  }
  void set_value(int64_t value) {
    value_ = value;
  }

private:
  uint32_t label_;
  int64_t value_;
  int64_t begin_;
};

// A counter's value from now on. `label` is one of Kind::kCounter.
void count(uint32_t label, int64_t value);

// Starts a trace: an existing file is written over; one that another process writes a trace to is
// left alone, and the trace goes to FILE.PID. AlreadyExists where this process writes one,
// InvalidArgument for a file that cannot be written. At any moment the file is a whole trace of
// what was recorded up to some 50 ms before, however the process ends.
absl::Status start(const std::string &file);
// Ends it: writes what is left. Without a trace, nothing.
absl::Status stop();
// Writes what has been recorded by now; the trace goes on.
absl::Status flush();
// Where the trace goes; empty for none.
std::string file();
// Events that were dropped since start().
int64_t dropped();

} // namespace weft::runtime::profile
