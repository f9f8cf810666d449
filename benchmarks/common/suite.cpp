#include "benchmarks/common/suite.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <thread>

#include "benchmarks/common/contestant.h"
#include "benchmarks/common/report.h"

namespace weft::benchmarks {
namespace {

struct Options {
  std::string json, filter;
  int threads = 2, busy = 0;
  std::vector<std::string> contestants;
};

std::string rounded(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, ratio < 10 ? "%.2f" : "%.1f", ratio);
  return text;
}

// What is printed at the end: the judged contestant's time divided by each other's.
class Ratios {
public:
  Ratios(const Suite &suite, const std::vector<std::string> &impls)
      : suite_(suite), impls_(impls) {}

  // Times of all contestants; NaN for those that have no such case.
  void add(const std::string &name, const std::vector<double> &times) {
    std::string line = name + ":";
    bool lost = false;
    for (size_t i = 1; i < times.size(); ++i) {
      double ratio = times[0] / times[i];
      line += "  " + impls_[i] + (std::isnan(ratio) ? " -" : " " + rounded(ratio));
      if (std::isnan(ratio))
        continue;
      lost = lost || (impls_[i] == suite_.judge && ratio > 1.0);
      for (const std::string &group : {suite_.group(name), std::string("all")}) {
        Mean &mean = means_[{group, i}];
        mean.logs += std::log(ratio);
        ++mean.cases;
        if (suite_.group(name) == "all")
          break;
      }
    }
    lost_ += lost;
    lines_.push_back(line + (lost ? "  <- behind " + suite_.judge : ""));
  }

  void print(int threads) const {
    std::fprintf(stderr, "\n  %s / others, %d thread%s:\n", impls_[0].c_str(), threads,
                 threads == 1 ? "" : "s");
    for (const std::string &line : lines_)
      std::fprintf(stderr, "  %s\n", line.c_str());
    if (impls_.size() > 1)
      std::fprintf(stderr, "\n  geometric means:\n");
    std::map<std::string, std::string> groups;
    for (const auto &[key, mean] : means_) {
      std::string &line = groups[key.first];
      line += (line.empty() ? "  " + key.first + ":  " : "  ") + impls_[key.second] + " " +
              rounded(std::exp(mean.logs / mean.cases)) + " (" + std::to_string(mean.cases) + ")";
    }
    for (const auto &[group, line] : groups)
      std::fprintf(stderr, "%s\n", line.c_str());
    if (!suite_.judge.empty() &&
        std::find(impls_.begin(), impls_.end(), suite_.judge) != impls_.end())
      std::fprintf(stderr, "  behind %s: %d of %zu cases\n", suite_.judge.c_str(), lost_,
                   lines_.size());
  }

private:
  struct Mean {
    double logs = 0;
    int cases = 0;
  };
  const Suite &suite_;
  std::vector<std::string> impls_, lines_;
  std::map<std::pair<std::string, size_t>, Mean> means_; // by group and contestant
  int lost_ = 0;
};

// Processes that never rest, as long as this lives.
class BusyProcesses {
public:
  explicit BusyProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      pid_t process = fork();
      if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile uint64_t n = 0;; n = n + 1) {}
      }
      if (process > 0)
        processes_.push_back(process);
    }
  }
  ~BusyProcesses() {
    for (pid_t process : processes_) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
  }
  BusyProcesses(const BusyProcesses &) = delete;
  BusyProcesses &operator=(const BusyProcesses &) = delete;

private:
  std::vector<pid_t> processes_;
};

// Seconds of a run beside busy processes: the median of `rounds` turns, since here what disturbs is
// what is measured. Turns follow each other, so that a turn of one contestant ends in peace.
double beside_busy(const Suite &suite, Contestant &contestant, int processes) {
  BusyProcesses busy(processes);
  double one = contestant.run(1);
  auto runs = std::clamp<int64_t>(static_cast<int64_t>(suite.seconds_per_turn / one), 1, 2000);
  std::vector<double> turns;
  for (int round = 0; round < suite.rounds; ++round)
    turns.push_back(contestant.run(runs) / static_cast<double>(runs));
  return median(turns);
}

void run(const Suite &suite, const Options &options) {
  Report report(options.json);
  std::vector<std::unique_ptr<Contestant>> contestants;
  std::vector<std::string> impls;
  for (const std::string &command : options.contestants) {
    contestants.push_back(start_contestant(command));
    contestants.back()->wait_ready();
    impls.push_back(contestants.back()->impl());
  }
  Ratios ratios(suite, impls);
  std::string metric = "time beside " + std::to_string(options.busy) + " busy processes";
  std::vector<std::string> slowdowns, absences;
  int cases = 0;
  for (const std::string &name : suite.cases) {
    if ((suite.group(name) + "/" + name).find(options.filter) == std::string::npos)
      continue;
    ++cases;
    std::vector<int64_t> runs; // 0: has no such case
    for (auto &contestant : contestants) {
      runs.push_back(0);
      if (!contestant->choose(name)) {
        if (!contestant->reason().empty())
          absences.push_back(name + ": " + contestant->impl() + ": " + contestant->reason());
        continue;
      }
      // A first guess from single runs, which are cold; then from as many as that.
      double one = std::min(contestant->run(1), contestant->run(1));
      for (int guess = 0; guess < 2; ++guess) {
        runs.back() =
            std::clamp<int64_t>(static_cast<int64_t>(suite.seconds_per_turn / one), 1, 2000);
        if (guess == 0)
          one = contestant->run(runs.back()) / static_cast<double>(runs.back());
      }
    }
    if (runs[0] == 0)
      throw std::runtime_error(impls[0] + " has no case '" + name + "'");
    // The least of all turns: what disturbs a case only adds to its time.
    std::vector<double> best(contestants.size(), std::numeric_limits<double>::quiet_NaN());
    for (int round = 0; round < suite.rounds; ++round)
      for (size_t i = 0; i < contestants.size(); ++i) {
        if (runs[i] == 0)
          continue;
        std::this_thread::sleep_for(kBetweenTurns);
        best[i] = std::fmin(best[i], contestants[i]->run(runs[i]) / static_cast<double>(runs[i]));
      }
    for (size_t i = 0; i < contestants.size(); ++i)
      if (runs[i] > 0)
        report.add({suite.name, name, impls[i], "time", "ms", 1e3 * best[i], options.threads,
                    suite.batch(name)});
    ratios.add(name, best);
    if (options.busy == 0)
      continue;
    slowdowns.push_back(name + ":");
    for (size_t i = 0; i < contestants.size(); ++i) {
      if (runs[i] == 0)
        continue;
      std::this_thread::sleep_for(kBetweenTurns);
      double beside = beside_busy(suite, *contestants[i], options.busy);
      report.add({suite.name, name, impls[i], metric, "ms", 1e3 * beside, options.threads,
                  suite.batch(name)});
      slowdowns.back() += "  " + impls[i] + " " + rounded(beside / best[i]);
    }
  }
  if (cases == 0)
    throw std::runtime_error("no GROUP/CASE has '" + options.filter + "' in its name");
  ratios.print(options.threads);
  if (!absences.empty())
    std::fprintf(stderr, "\n  absent:\n");
  for (const std::string &line : absences)
    std::fprintf(stderr, "  %s\n", line.c_str());
  if (options.busy > 0)
    std::fprintf(stderr, "\n  %s / time alone:\n", metric.c_str());
  for (const std::string &line : slowdowns)
    std::fprintf(stderr, "  %s\n", line.c_str());
}

} // namespace

int run_suite(Suite suite, int argc, char **argv) {
  Options options;
  CLI::App app("Times the cases of a suite; the contestants take turns.");
  app.add_option("--json", options.json, "file to append the measurements to");
  app.add_option("--threads", options.threads, "that the contestants were told to use");
  app.add_option("--rounds", suite.rounds, "turns of each contestant a case")
      ->check(CLI::PositiveNumber);
  app.add_option("--busy", options.busy, "time each case also beside this many busy processes")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--filter", options.filter, "only cases with this in GROUP/CASE");
  app.add_option("--contestant", options.contestants,
                 "IMPL=COMMAND, as often as there are; the first is the one to judge")
      ->required();
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
        if (!work) {
          std::cout << "none" << std::endl;
          continue;
        }
        for (int i = 0; i < kWarmUps; ++i)
          work();
        std::cout << "ready ";
      } else if (work) {
        for (int64_t i = 0, n = std::atoll(argument.c_str()); i < n; ++i)
          work();
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
