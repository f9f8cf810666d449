// The suite `train`: training steps, Weft and its peers taking turns on the same machine.
#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

#include "benchmarks/common/contestant.h"
#include "benchmarks/common/report.h"

namespace {

using namespace weft::benchmarks;

constexpr int kRounds = 9; // enough that the median does not care about a disturbed one
constexpr double kSecondsPerTurn = 0.8; // a turn this long hides the start of threads and clocks

int run(const std::string &json, int threads, int64_t batch, const std::string &network,
        const std::vector<std::string> &commands) {
  Report report(json);
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const std::string &command : commands) {
    contestants.push_back(start_contestant(command, {std::to_string(batch)}));
    double ready = contestants.back()->wait_ready(); // one after another, so that their
                                                     // preparations do not disturb each other
    report.add({"train", network + "_start", contestants.back()->impl(), "time", "s", ready, threads,
                batch});
  }
  std::vector<int64_t> steps;
  for (auto &contestant : contestants) {
    double one = contestant->run(4) / 4;
    steps.push_back(std::max<int64_t>(2, static_cast<int64_t>(kSecondsPerTurn / one)));
  }
  std::vector<std::vector<double>> times(contestants.size());
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < contestants.size(); ++i)
      times[i].push_back(contestants[i]->run(steps[i]) / static_cast<double>(steps[i]));
  for (size_t i = 0; i < contestants.size(); ++i)
    report.add({"train", network + "_step", contestants[i]->impl(), "time", "ms",
                1e3 * median(times[i]), threads, batch});
  for (size_t i = 1; i < contestants.size(); ++i) {
    // The ratio within each round, so that a change of the machine's pace between rounds cancels
    // out.
    std::vector<double> ratios;
    for (int round = 0; round < kRounds; ++round)
      ratios.push_back(times[0][round] / times[i][round]);
    std::fprintf(stderr, "  %s / %s: %.3f\n", contestants[0]->impl().c_str(),
                 contestants[i]->impl().c_str(), median(ratios));
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string json;
  int threads = 2;
  int64_t batch = 16;
  std::string network = "char_gpt";
  std::vector<std::string> contestants;
  CLI::App app("Times training steps; the contestants take turns.");
  app.add_option("--json", json, "file to append the measurements to");
  app.add_option("--threads", threads, "that the contestants were told to use");
  app.add_option("--batch", batch, "of each step");
  app.add_option("--network", network, "that is trained; names the cases");
  app.add_option("--contestant", contestants,
                 "IMPL=COMMAND, as often as there are; the first is the one to judge")
      ->required();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(json, threads, batch, network, contestants);
  } catch (const std::exception &error) {
    std::cerr << "train: " << error.what() << "\n";
    return 1;
  }
}
