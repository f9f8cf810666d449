// The suite `memory`: what training takes at most, of models of the library, beside PyTorch. Each
// figure comes from a process of its own.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/common/child_process.h"
#include "benchmarks/common/report.h"
#include "benchmarks/models/model_case.h"

namespace {

using namespace weft::benchmarks;

void run(const std::vector<NamedCommand> &contestants, const std::string &json,
         const std::string &filter, int threads) {
  Report report(json);
  for (const std::string &name : training_cases()) {
    if (name.find(filter) == std::string::npos)
      continue;
    int64_t batch = ModelName(name).batch;
    std::string line = name + ":";
    double first = 0;
    for (const NamedCommand &contestant : contestants) {
      double bytes = 0, estimate = 0, seconds = 0;
      std::istringstream output(output_of(contestant.command + " " + name));
      output >> bytes >> estimate >> seconds;
      Measurement over_a_step{"memory", name, contestant.impl, "over a step",
                              "B",      0,    threads,         batch};
      for (std::pair<double, int64_t> sample; output >> sample.first >> sample.second;) {
        over_a_step.series.push_back(sample);
        over_a_step.value = std::max(over_a_step.value, static_cast<double>(sample.second));
      }
      first = first == 0 ? bytes : first;
      report.add({"memory", name, contestant.impl, "peak", "B", bytes, threads, batch});
      report.add({"memory", name, contestant.impl, "time", "s", seconds, threads, batch});
      if (!over_a_step.series.empty())
        report.add(over_a_step);
      char text[128];
      std::snprintf(text, sizeof text, "  %s %.0f MB (%.2f)", contestant.impl.c_str(), bytes / 1e6,
                    first / bytes);
      line += text;
      if (estimate > 0) {
        report.add({"memory", name, contestant.impl, "estimate", "B", estimate, threads, batch});
        std::snprintf(text, sizeof text, " [estimate %.0f]", estimate / 1e6);
        line += text;
      }
    }
    std::fprintf(stderr, "  %s\n", line.c_str());
  }
  std::fprintf(stderr, "  in parentheses: the first contestant's bytes / theirs\n");
}

} // namespace

int main(int argc, char **argv) {
  std::string json, filter;
  int threads = 2;
  std::vector<std::string> contestants;
  CLI::App app("what training takes at most");
  app.add_option("--contestant", contestants,
                 "IMPL=COMMAND, which gets a case; the first one is judged")
      ->required();
  app.add_option("--json", json, "file to append to");
  app.add_option("--filter", filter, "cases whose name has this text");
  app.add_option("--threads", threads);
  CLI11_PARSE(app, argc, argv);
  try {
    run(named_commands(contestants), json, filter, threads);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "memory: %s\n", error.what());
    return 1;
  }
}
