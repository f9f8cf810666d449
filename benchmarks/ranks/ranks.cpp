// The suite `ranks`: exchanges and training steps of several processes, Weft and its peers taking
// turns on the same machine.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "benchmarks/common/contestant.h"
#include "benchmarks/common/report.h"

namespace {

using namespace weft::benchmarks;

constexpr int kRounds = 9; // enough that the median does not care about a disturbed one
constexpr double kSecondsPerTurn = 0.6;

struct Turns {
  Contestant *contestant;
  int64_t runs = 1;
  std::vector<double> times; // of a run, by round
};

// The median over rounds of a / b: a change of the machine's pace between rounds cancels out.
double ratio(const Turns &a, const Turns &b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.times.size(); ++i)
    ratios.push_back(a.times[i] / b.times[i]);
  return median(ratios);
}

int run(const std::string &json, const std::string &filter,
        const std::vector<std::string> &commands) {
  Report report(json);
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const std::string &command : commands) {
    contestants.push_back(start_contestant(command));
    contestants.back()->wait_ready();
  }
  std::map<std::string, double> medians;
  for (std::string name : {"all_reduce/64MB", "all_reduce/1KB", "char_gpt", "char_gpt/exposed"}) {
    if (name.find(filter) == std::string::npos)
      continue;
    std::vector<Turns> turns;
    for (auto &contestant : contestants)
      if (contestant->choose(name))
        turns.push_back({contestant.get(), 1, {}});
    const bool waits = name == "char_gpt/exposed"; // its seconds are not those of its turns
    for (Turns &each : turns) {
      each.contestant->run(2);
      each.runs = waits ? 16
                        : std::max<int64_t>(2, static_cast<int64_t>(kSecondsPerTurn * 4 /
                                                                    each.contestant->run(4)));
    }
    for (int round = 0; round < kRounds; ++round)
      for (Turns &each : turns)
        each.times.push_back(each.contestant->run(each.runs) / static_cast<double>(each.runs));
    for (const Turns &each : turns) {
      const std::string &impl = each.contestant->impl();
      medians[name + " " + impl] = median(each.times);
      report.add({"ranks", name, impl, "time", "ms", 1e3 * median(each.times)});
      for (const Turns &other : turns)
        if (&other != &each && impl.starts_with("weft") && !waits)
          std::fprintf(stderr, "  %s / %s: %.3f\n", impl.c_str(), other.contestant->impl().c_str(),
                       ratio(each, other));
      if (auto step = medians.find("char_gpt " + impl); waits && step != medians.end())
        report.add({"ranks", "char_gpt/exposed_share", impl, "ratio", "1",
                    medians[name + " " + impl] / step->second});
    }
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string json, filter;
  std::vector<std::string> contestants;
  CLI::App app("Times what ranks do; the contestants take turns.");
  app.add_option("--json", json, "file to append the measurements to");
  app.add_option("--filter", filter, "cases with this text in their names");
  app.add_option("--contestant", contestants, "IMPL=COMMAND, as often as there are")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(json, filter, contestants);
  } catch (const std::exception &error) {
    std::cerr << "ranks: " << error.what() << "\n";
    return 1;
  }
}
