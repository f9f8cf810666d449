// A trace of WEFT_PROFILE or weft::Profile, as tests look at it.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace weft::tests {

using Json = nlohmann::json;

struct Span {
  std::string name, category;
  double begin, end;
  int thread;
  Json args;
  bool holds(const Span &other) const {
    constexpr double kRounding = 1e-3; // a nanosecond
    return thread == other.thread && begin <= other.begin + kRounding &&
           other.end <= end + kRounding;
  }
};

struct Trace {
  std::vector<Span> spans;
  std::vector<Json> counters;
  explicit Trace(const std::string &file) {
    std::ifstream in(file);
    Json whole = Json::parse(in);
    EXPECT_EQ(whole["dropped"], 0);
    for (const Json &event : whole["traceEvents"]) {
      double begin = event.value("ts", 0.0);
      if (event["ph"] == "X")
        spans.push_back({event["name"], event["cat"], begin, begin + event["dur"].get<double>(),
                         event["tid"], event["args"]});
      else if (event["ph"] == "C")
        counters.push_back(event);
    }
  }
  std::vector<Span> of(const std::string &category) const {
    std::vector<Span> found;
    for (const Span &span : spans)
      if (span.category == category)
        found.push_back(span);
    return found;
  }
  std::vector<Span> within(const Span &outer, const std::string &category) const {
    std::vector<Span> found;
    for (const Span &span : of(category))
      if (outer.holds(span))
        found.push_back(span);
    return found;
  }
};

} // namespace weft::tests
