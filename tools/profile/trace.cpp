#include "tools/profile/trace.h"

#include <algorithm>
#include <cmath>
#include <istream>
#include <tuple>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace weft::profile {
namespace {

using Json = nlohmann::json;

// Events one by one, since a trace may have millions.
class Reader : public nlohmann::json_sax<Json> {
public:
  Trace trace;
  std::string wrong;
  bool has_events = false, is_ours = false;

  bool null() override {
    return true;
  }
  bool boolean(bool) override {
    return true;
  }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t &) override {
    return number(value);
  }
  bool binary(binary_t &) override {
    return true;
  }
  bool string(string_t &value) override {
    if (is_event_field()) {
      if (key_ == "name")
        event_.kind.name = std::move(value);
      else if (key_ == "cat")
        event_.kind.category = std::move(value);
      else if (key_ == "ph")
        event_.phase = std::move(value);
    } else if (is_argument()) {
      if (key_ == "line")
        event_.kind.line = std::move(value);
      else if (key_ == "module")
        event_.kind.module = std::move(value);
      else if (key_ == "types")
        event_.kind.types = std::move(value);
      else if (key_ == "name")
        event_.thread_name = std::move(value);
    } else if (is_read()) {
      event_.kind.reads.push_back(std::move(value));
    } else if (is_machine()) {
      if (key_ == "processor")
        trace.processor = std::move(value);
      else if (key_ == "host")
        trace.host = std::move(value);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    path_.push_back({key_, false});
    if (path_.size() == 2 && path_[1].key == "weft" && !path_[0].is_list)
      is_ours = true;
    if (path_.size() == 3 && in_events())
      event_ = Event();
    return true;
  }
  bool end_object() override {
    bool is_event = path_.size() == 3 && in_events();
    path_.pop_back();
    key_ = path_.empty() ? "" : path_.back().key;
    return !is_event || finish();
  }
  bool start_array(std::size_t) override {
    path_.push_back({key_, true});
    if (path_.size() == 2 && in_events())
      has_events = true;
    return true;
  }
  bool end_array() override {
    path_.pop_back();
    key_ = path_.empty() ? "" : path_.back().key;
    return true;
  }
  bool key(string_t &value) override {
    key_ = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    wrong = absl::StrCat("it is not JSON at byte ", position,
                         trace.spans.empty() ? "" : ", behind a part that is: it is damaged");
    return false;
  }

private:
  struct Level {
    std::string key;
    bool is_list;
  };
  struct Event {
    SpanKind kind;
    std::string phase, thread_name;
    double begin = NAN, duration = NAN, thread = NAN;
    double threads = 0, counter = NAN;
  };

  // path_: the whole, the list, the event, what is in it.
  bool in_events() const {
    return path_.size() >= 2 && path_[1].key == "traceEvents" && path_[1].is_list;
  }
  bool is_event_field() const {
    return path_.size() == 3 && in_events();
  }
  bool is_argument() const {
    return path_.size() == 4 && in_events() && path_[3].key == "args";
  }
  bool is_read() const {
    return path_.size() == 5 && in_events() && path_[3].key == "args" && path_[4].key == "reads";
  }
  bool is_machine() const {
    return path_.size() == 2 && path_[1].key == "weft";
  }

  bool number(double value) {
    if (is_event_field()) {
      if (key_ == "ts")
        event_.begin = value;
      else if (key_ == "dur")
        event_.duration = value;
      else if (key_ == "tid")
        event_.thread = value;
    } else if (is_argument()) {
      if (key_ == "flops")
        event_.kind.flops = value;
      else if (key_ == "bytes")
        event_.kind.bytes = event_.counter = value;
      else if (key_ == "threads")
        event_.threads = value;
    } else if (path_.size() == 1 && key_ == "dropped") {
      trace.dropped = static_cast<int64_t>(value);
    } else if (is_machine() && key_ == "processors") {
      trace.processors = static_cast<int64_t>(value);
    }
    return true;
  }

  bool finish() {
    ++events_;
    auto fits = [](double value) {
      return value >= 0 && value < 9e15;
    };
    if (event_.phase == "M") {
      if (event_.kind.name == "thread_name" && fits(event_.thread))
        trace.threads[static_cast<int32_t>(event_.thread)] = event_.thread_name;
      return true;
    }
    if (event_.phase == "C") {
      if (!std::isnan(event_.counter)) {
        int64_t &peak = trace.peaks[event_.kind.name];
        peak = std::max(peak, static_cast<int64_t>(std::clamp(event_.counter, 0.0, 9e18)));
      }
      return true;
    }
    if (event_.phase != "X" || event_.kind.name.empty() || !fits(event_.begin) ||
        !fits(event_.duration) || !fits(event_.thread) || !fits(event_.kind.flops * 1e-15) ||
        !fits(event_.kind.bytes * 1e-15)) {
      wrong = absl::StrCat("event ", events_, " ('", event_.kind.name,
                           "') is none that Weft writes: it needs ph X with name, ts, dur and tid");
      return false;
    }
    if (fits(event_.threads))
      trace.program_threads = std::max(trace.program_threads, static_cast<int64_t>(event_.threads));
    trace.spans.push_back({number_of(event_.kind), static_cast<int32_t>(event_.thread),
                           std::llround(event_.begin * 1000), std::llround(event_.duration * 1000),
                           0, events_});
    return true;
  }

  int32_t number_of(const SpanKind &kind) {
    std::string key =
        absl::StrCat(kind.category, "\n", kind.name, "\n", kind.line, "\n", kind.module, "\n",
                     kind.types, "\n", kind.flops, "\n", kind.bytes);
    for (const std::string &each : kind.reads)
      absl::StrAppend(&key, "\n", each);
    auto [it, fresh] = numbers_.try_emplace(std::move(key), static_cast<int32_t>(numbers_.size()));
    if (fresh)
      trace.kinds.push_back(kind);
    return it->second;
  }

  std::vector<Level> path_;
  std::string key_;
  Event event_;
  int64_t events_ = 0;
  std::unordered_map<std::string, int32_t> numbers_;
};

// What spans contain, on each thread: one that begins within another one ends within it.
void nest(std::vector<Span> &spans) {
  std::sort(spans.begin(), spans.end(), [](const Span &a, const Span &b) {
    return std::tuple(a.thread, a.begin, -a.duration, -a.order) <
           std::tuple(b.thread, b.begin, -b.duration, -b.order);
  });
  std::vector<Span *> open;
  for (Span &span : spans) {
    span.self = span.duration;
    while (!open.empty() && (open.back()->thread != span.thread ||
                             open.back()->begin + open.back()->duration <= span.begin))
      open.pop_back();
    if (!open.empty()) {
      span.is_outermost = false;
      open.back()->self -= std::min(span.duration, open.back()->self);
    }
    open.push_back(&span);
  }
}

} // namespace

absl::StatusOr<Trace> read_trace(std::istream &in) {
  Reader reader;
  bool read = Json::sax_parse(in, &reader);
  if (reader.wrong.empty() && !reader.has_events)
    reader.wrong = "it has no list \"traceEvents\"";
  if (reader.wrong.empty() && !reader.is_ours)
    reader.wrong = "another program wrote it";
  if (!read && reader.wrong.empty())
    reader.wrong = "it ends early";
  if (!reader.wrong.empty())
    return absl::InvalidArgumentError("is no trace of Weft: " + reader.wrong +
                                      "; WEFT_PROFILE=trace.json ./program writes one");
  nest(reader.trace.spans);
  return std::move(reader.trace);
}

} // namespace weft::profile
