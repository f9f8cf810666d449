// The suite `ops`: single operators, Weft, its peers and a memcpy of the same bytes taking turns on the same machine.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <sstream>

#include "benchmarks/common/contestant.h"
#include "benchmarks/common/report.h"
#include "benchmarks/ops/cases.h"

namespace {

using namespace weft::benchmarks;

constexpr double kSecondsPerTurn = 0.04; // many times what a case takes, little enough that a disturbance spoils one turn only

int run(const std::string &json, int threads, int rounds, const std::string &filter, const std::vector<std::string> &commands) {
  Report report(json);
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const std::string &command : commands) {
    // IMPL=program argument argument ...
    size_t equals = command.find('=');
    std::vector<std::string> words;
    std::istringstream stream(command.substr(equals + 1));
    for (std::string word; stream >> word;) words.push_back(word);
    contestants.push_back(std::make_unique<Contestant>(command.substr(0, equals), words));
    contestants.back()->wait_ready();
  }
  std::vector<double> logs(contestants.size());
  std::vector<std::string> table;
  int cases = 0;
  for (const std::string &name : op_case_names()) {
    if (name.find(filter) == std::string::npos) continue;
    ++cases;
    std::vector<int64_t> runs;
    for (auto &contestant : contestants) {
      contestant->choose(name);
      double one = std::min(contestant->run(2), contestant->run(2)) / 2;
      runs.push_back(std::clamp<int64_t>(static_cast<int64_t>(kSecondsPerTurn / one), 2, 2000));
    }
    // The least of all turns: what disturbs a kernel only adds to its time.
    std::vector<double> best(contestants.size(), INFINITY);
    for (int round = 0; round < rounds; ++round)
      for (size_t i = 0; i < contestants.size(); ++i)
        best[i] = std::min(best[i], contestants[i]->run(runs[i]) / static_cast<double>(runs[i]));
    std::ostringstream line;
    line << name << ":";
    for (size_t i = 0; i < contestants.size(); ++i) {
      report.add({"ops", name, contestants[i]->impl(), "time", "ms", 1e3 * best[i], threads, 1});
      logs[i] += std::log(best[0] / best[i]);
      if (i > 0) line << "  " << contestants[i]->impl() << " " << std::round(100 * best[0] / best[i]) / 100;
    }
    table.push_back(line.str());
  }
  if (cases == 0) throw std::runtime_error("no case has '" + filter + "' in its name");
  std::fprintf(stderr, "\n  %s / others, %d thread%s:\n", contestants[0]->impl().c_str(), threads, threads == 1 ? "" : "s");
  for (const std::string &line : table) std::fprintf(stderr, "  %s\n", line.c_str());
  for (size_t i = 1; i < contestants.size(); ++i)
    std::fprintf(stderr, "  geometric mean of %d / %s: %.3f\n", cases, contestants[i]->impl().c_str(), std::exp(logs[i] / cases));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string json, filter;
  int threads = 2, rounds = 7;
  std::vector<std::string> contestants;
  CLI::App app("Times single operators; the contestants take turns.");
  app.add_option("--json", json, "file to append the measurements to");
  app.add_option("--threads", threads, "that the contestants were told to use");
  app.add_option("--rounds", rounds, "turns of each contestant a case")->check(CLI::PositiveNumber);
  app.add_option("--filter", filter, "only cases with this in their names");
  app.add_option("--contestant", contestants, "IMPL=COMMAND, as often as there are; the first is the one to judge")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(json, threads, rounds, filter, contestants);
  } catch (const std::exception &error) {
    std::cerr << "ops: " << error.what() << "\n";
    return 1;
  }
}
