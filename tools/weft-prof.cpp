// Where the time of a trace goes (docs/profiling.md).
//
//   WEFT_PROFILE=trace.json ./program
//   weft-prof trace.json --by=line --top=10
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

#include "tools/FlagChecks.h"
#include "tools/profile/peaks.h"
#include "tools/profile/table.h"
#include "tools/profile/trace.h"

namespace {

using namespace weft::profile;

int fail(const std::string &file, const std::string &what) {
  std::cerr << "weft-prof: " << file << " " << what << "\n";
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  std::string file;
  TableOptions options;
  Peaks peaks;
  bool no_roof = false;
  CLI::App app("Prints where the time of a trace goes, which WEFT_PROFILE=trace.json or "
               "weft::Profile wrote: time, GFLOP/s, GB/s, and the distance from the roofline.");
  app.add_option("trace", file, "the trace")->required();
  std::map<std::string, By> by = {{"kernel", By::kKernel},
                                  {"line", By::kLine},
                                  {"module", By::kModule},
                                  {"op", By::kOp},
                                  {"phase", By::kPhase}};
  app.add_option("--by", options.by,
                 "what a row is: kernel (default), line, module (of the weights that instructions "
                 "read, where the program has names), op; or phase: all that is no instruction")
      ->transform(weft::tools::oneOf(by))
      ->type_name("NAME");
  std::map<std::string, Sort> sort = {
      {"time", Sort::kTime}, {"lost", Sort::kLost}, {"calls", Sort::kCalls}};
  app.add_option("--sort", options.sort,
                 "by time (default), by the time lost against the roofline, or by calls")
      ->transform(weft::tools::oneOf(sort))
      ->type_name("NAME");
  app.add_option("--top", options.top, "rows; 0 for all")
      ->check(weft::tools::wholeNumber(0))
      ->capture_default_str();
  app.add_option("--peak-gflops", peaks.gflops,
                 "what the machine computes at most; without it, it is measured here, on as many "
                 "threads as the program had")
      ->check(weft::tools::positiveNumber());
  app.add_option("--peak-gbs", peaks.gbs, "what its memory moves at most; likewise")
      ->check(weft::tools::positiveNumber());
  app.add_flag("--no-roofline", no_roof, "measures nothing and says nothing of the roofline");
  CLI11_PARSE(app, argc, argv);

  if (std::error_code ignored; std::filesystem::is_directory(file, ignored))
    return fail(file, "is a folder; a trace is a file: WEFT_PROFILE=trace.json ./program");
  std::ifstream in(file, std::ios::binary);
  if (!in)
    return fail(file, std::string("cannot be read: ") + std::strerror(errno));
  absl::StatusOr<Trace> trace = read_trace(in);
  if (!trace.ok())
    return fail(file, std::string(trace.status().message()));
  if (trace->spans.empty())
    return fail(file, "holds no events: nothing ran while it was written");

  std::cout << file << ": " << trace->processor << ", " << trace->processors << " processors";
  if (trace->program_threads > 0)
    std::cout << ", programs on up to " << trace->program_threads << " threads";
  std::cout << "\n";
  if (no_roof) {
    peaks = Peaks();
  } else if (options.by != By::kPhase) {
    // No more than there are here, whatever the file says.
    auto here_at_most = static_cast<double>(std::max(1u, std::thread::hardware_concurrency()));
    auto wanted = static_cast<double>(trace->program_threads);
    auto threads = static_cast<int>(wanted > 0 ? std::min(wanted, here_at_most) : here_at_most);
    Peaks given = peaks;
    if (given.gflops <= 0 || given.gbs <= 0) {
      Peaks measured = measure_peaks(threads);
      peaks = {given.gflops > 0 ? given.gflops : measured.gflops,
               given.gbs > 0 ? given.gbs : measured.gbs};
    }
    std::string here = "measured here on " + std::to_string(threads) + " threads";
    char line[256];
    std::snprintf(line, sizeof line, "roofline: %.1f GFLOP/s (%s), %.1f GB/s (%s)\n", peaks.gflops,
                  given.gflops > 0 ? "given" : here.c_str(), peaks.gbs,
                  given.gbs > 0 ? "given" : here.c_str());
    std::cout << line;
  }
  std::cout << "\n" << table(*trace, peaks, options);
  return 0;
}
