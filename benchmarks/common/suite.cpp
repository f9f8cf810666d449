#include "benchmarks/common/suite.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <sstream>

#include "benchmarks/common/contestant.h"
#include "benchmarks/common/report.h"

namespace weft::benchmarks {
namespace {

struct Options {
  std::string json, filter;
  int threads = 2;
  std::vector<std::string> contestants;
};

void run(const Suite &suite, const Options &options) {
  Report report(options.json);
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const std::string &command : options.contestants) {
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
  for (const std::string &name : suite.cases) {
    if (name.find(options.filter) == std::string::npos) continue;
    ++cases;
    std::vector<int64_t> runs;
    for (auto &contestant : contestants) {
      contestant->choose(name);
      double one = std::min(contestant->run(1), contestant->run(1));
      runs.push_back(std::clamp<int64_t>(static_cast<int64_t>(suite.seconds_per_turn / one), 1, 2000));
    }
    // The least of all turns: what disturbs a case only adds to its time.
    std::vector<double> best(contestants.size(), INFINITY);
    for (int round = 0; round < suite.rounds; ++round)
      for (size_t i = 0; i < contestants.size(); ++i)
        best[i] = std::min(best[i], contestants[i]->run(runs[i]) / static_cast<double>(runs[i]));
    std::ostringstream line;
    line << name << ":";
    for (size_t i = 0; i < contestants.size(); ++i) {
      report.add({suite.name, name, contestants[i]->impl(), "time", "ms", 1e3 * best[i], options.threads, suite.batch(name)});
      logs[i] += std::log(best[0] / best[i]);
      if (i > 0) line << "  " << contestants[i]->impl() << " " << std::round(100 * best[0] / best[i]) / 100;
    }
    table.push_back(line.str());
  }
  if (cases == 0) throw std::runtime_error("no case has '" + options.filter + "' in its name");
  std::fprintf(stderr, "\n  %s / others, %d thread%s:\n", contestants[0]->impl().c_str(), options.threads, options.threads == 1 ? "" : "s");
  for (const std::string &line : table) std::fprintf(stderr, "  %s\n", line.c_str());
  for (size_t i = 1; i < contestants.size(); ++i)
    std::fprintf(stderr, "  geometric mean of %d / %s: %.3f\n", cases, contestants[i]->impl().c_str(), std::exp(logs[i] / cases));
}

} // namespace

int run_suite(Suite suite, int argc, char **argv) {
  Options options;
  CLI::App app("Times the cases of a suite; the contestants take turns.");
  app.add_option("--json", options.json, "file to append the measurements to");
  app.add_option("--threads", options.threads, "that the contestants were told to use");
  app.add_option("--rounds", suite.rounds, "turns of each contestant a case")->check(CLI::PositiveNumber);
  app.add_option("--filter", options.filter, "only cases with this in their names");
  app.add_option("--contestant", options.contestants, "IMPL=COMMAND, as often as there are; the first is the one to judge")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    run(suite, options);
  } catch (const std::exception &error) {
    std::cerr << suite.name << ": " << error.what() << "\n";
    return 1;
  }
  return 0;
}

int serve_cases(const std::function<std::function<void()>(const std::string &)> &make) {
  constexpr int kWarmUps = 3;
  std::function<void()> work;
  std::cout << "ready 0" << std::endl;
  std::string word, argument;
  while (std::cin >> word >> argument) {
    double start = now();
    try {
      if (word == "case") {
        work = make(argument);
        for (int i = 0; i < kWarmUps; ++i) work();
        std::cout << "ready ";
      } else {
        for (int64_t i = 0, n = std::atoll(argument.c_str()); i < n; ++i) work();
      }
    } catch (const std::exception &error) {
      std::cerr << "worker: " << error.what() << "\n";
      return 1;
    }
    std::cout << now() - start << std::endl;
  }
  return 0;
}

} // namespace weft::benchmarks
