// The suite `overhead`: what Weft itself costs, beside the computing.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>

#include "benchmarks/common/child_process.h"
#include "benchmarks/common/report.h"
#include "benchmarks/models/char_gpt_step.h"
#include "benchmarks/overhead/allocators.h"
#include "benchmarks/overhead/contexts.h"
#include "benchmarks/overhead/executables.h"
#include "benchmarks/overhead/first_uses.h"
#include "benchmarks/overhead/inference.h"
#include "benchmarks/overhead/instructions.h"
#include "benchmarks/overhead/recurrent.h"
#include "benchmarks/overhead/small_programs.h"
#include "weft/weft.h"

namespace {

using namespace weft::benchmarks;
namespace fs = std::filesystem;

constexpr int kRounds = 15; // of each measurement; the median counts
constexpr int kChain =
    1000; // ops: a long slice, so that what an evaluation costs once does not count
constexpr int kReplays = 2000;  // of a two-op program a round
constexpr int64_t kBatch = 16;  // of the char GPT step
constexpr int kSteadySteps = 9; // after the first one, to know what a step takes without compiling

void add(Report &report, const char *name, const char *metric, const char *unit, double value,
         int threads, int64_t batch = 1) {
  report.add({"overhead", name, "weft", metric, unit, value, threads, batch});
}

// A chain of elementwise ops on a small tensor: recording, slicing, key and look-up. The running is
// measured too, and reported apart.
void record_and_hit(Report &report, int threads) {
  weft::Tensor x = weft::ones({8});
  x.eval();
  std::vector<double> overhead, whole;
  for (int round = 0; round <= kRounds; ++round) {
    double start = now();
    weft::Tensor y = x;
    for (int i = 0; i < kChain / 2; ++i)
      y = weft::relu(y * x);
    double recorded = now() - start;
    y.eval();
    double all = now() - start;
    if (round == 0)
      continue; // compiles
    overhead.push_back(recorded + weft::explain(y).record_ms * 1e-3);
    whole.push_back(all);
  }
  add(report, "record_and_hit_per_op", "time", "us", 1e6 * median(overhead) / kChain, threads);
  add(report, "record_hit_and_run_per_op", "time", "us", 1e6 * median(whole) / kChain, threads);
}

// The same chain, and its derivative recorded beside it.
void record_with_history(Report &report, int threads) {
  weft::Tensor x = weft::ones({8});
  x.eval();
  x.set_requires_grad();
  std::vector<double> times;
  for (int round = 0; round <= kRounds; ++round) {
    double start = now();
    weft::Tensor y = x;
    for (int i = 0; i < kChain / 2; ++i)
      y = weft::relu(y * x);
    y.sum().backward();
    if (round > 0)
      times.push_back(now() - start);
    x.grad().eval();
    x.zero_grad();
  }
  add(report, "record_with_backward_per_forward_op", "time", "us", 1e6 * median(times) / kChain,
      threads);
}

// weft::jit of two ops on eight numbers: from the call to the value in hand.
void jit_replay(Report &report, int threads) {
  auto f =
      weft::jit([](const weft::Tensor &a, const weft::Tensor &b) { return weft::tanh(a * b); });
  weft::Tensor a = weft::ones({8}), b = weft::ones({8});
  weft::eval({a, b});
  std::vector<double> times;
  volatile float sink = 0;
  for (int round = 0; round <= kRounds; ++round) {
    double start = now();
    for (int i = 0; i < kReplays; ++i)
      sink = *f(a, b).data<float>();
    if (round > 0)
      times.push_back((now() - start) / kReplays);
  }
  (void)sink;
  add(report, "jit_replay_two_ops", "time", "us", 1e6 * median(times), threads);
}

// In a process of its own: the first step's compile, with the disk cache in `cache` (or off).
// Prints one line of numbers.
int first_step(const std::string &cache) {
  weft::Config config = weft::config();
  config.cache_dir = cache;
  weft::set_config(config);
  CharGptStep step(kBatch);
  weft::synchronize();
  double start = now();
  step.run().item<float>();
  double first = now() - start;
  weft::Evaluation evaluation;
  for (const weft::Evaluation &e : weft::recent_evaluations())
    if (e.reason == weft::CutReason::kStep)
      evaluation = e;
  std::vector<double> steady, recorded;
  for (int i = 0; i < kSteadySteps; ++i) {
    start = now();
    step.run().item<float>();
    steady.push_back(now() - start);
  }
  std::cout << first - median(steady) << " " << evaluation.ops << " " << evaluation.kernels << " "
            << evaluation.library_calls << " " << evaluation.planned_peak_bytes << " "
            << evaluation.lower_bound_bytes << " "
            << (evaluation.outcome == weft::CacheOutcome::kDiskHit) << std::endl;
  return 0;
}

struct FirstStep {
  double seconds = 0;
  int64_t ops = 0, kernels = 0, library_calls = 0, peak = 0, bound = 0;
  bool from_disk = false;
};
FirstStep run_first_step(const std::string &program, const std::string &cache) {
  std::string command = "'" + program + "' --first-step '" + cache + "'";
  FirstStep result;
  std::istringstream stream(output_of(command));
  if (!(stream >> result.seconds >> result.ops >> result.kernels >> result.library_calls >>
        result.peak >> result.bound >> result.from_disk))
    throw std::runtime_error("the process that compiles the char GPT step failed");
  return result;
}

void compiling(Report &report, const std::string &program, int threads) {
  std::string cache =
      (fs::temp_directory_path() / ("weft-overhead-" + std::to_string(getpid()))).string();
  std::vector<double> cold, disk;
  FirstStep step;
  for (int round = 0; round < 3; ++round) {
    fs::remove_all(cache);
    step = run_first_step(program, cache);
    cold.push_back(step.seconds);
    FirstStep again = run_first_step(program, cache);
    if (!again.from_disk)
      throw std::runtime_error("the second process did not find the step in the disk cache");
    disk.push_back(again.seconds);
  }
  fs::remove_all(cache);
  add(report, "char_gpt_step_ops", "count", "ops", static_cast<double>(step.ops), threads, kBatch);
  add(report, "char_gpt_step_kernels", "count", "kernels", static_cast<double>(step.kernels),
      threads, kBatch);
  add(report, "char_gpt_step_library_calls", "count", "calls",
      static_cast<double>(step.library_calls), threads, kBatch);
  add(report, "char_gpt_step_cold_compile", "time", "s", median(cold), threads, kBatch);
  add(report, "char_gpt_step_from_disk", "time", "s", median(disk), threads, kBatch);
  add(report, "char_gpt_step_planned_peak", "peak", "bytes", static_cast<double>(step.peak),
      threads, kBatch);
  report.add({"overhead", "char_gpt_step_planned_peak", "limit", "peak", "bytes",
              static_cast<double>(step.bound), threads, kBatch});
  std::fprintf(stderr, "  planned peak / lower bound: %.4f\n",
               static_cast<double>(step.peak) / static_cast<double>(step.bound));
}

} // namespace

int main(int argc, char **argv) {
  std::string json, cache, network;
  std::vector<std::string> contestants;
  int threads = 2;
  CLI::App app("Measures what Weft itself costs.");
  app.add_option("--json", json, "file to append the measurements to");
  app.add_option("--threads", threads, "that Weft was told to use");
  app.add_option("--contestant", contestants,
                 "IMPL=COMMAND of a peer that has the LSTM's step, as often as there are");
  bool only_small = false;
  app.add_flag("--small-programs", only_small, "measures small programs of many threads alone");
  app.add_option("--first-step", cache, "for this program's own use");
  app.add_option("--first-uses", network, "for this program's own use");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!cache.empty())
      return first_step(cache);
    if (!network.empty())
      return first_uses_of(network);
    Report report(json);
    if (only_small) {
      small_programs(report, kRounds, threads);
      return 0;
    }
    record_and_hit(report, threads);
    record_with_history(report, threads);
    jit_replay(report, threads);
    recurrent(report, kRounds, threads, contestants);
    add(report, "plan_instruction", "time", "ns", 1e9 * seconds_per_instruction(kRounds), threads);
    add(report, "plan_instruction_profiled", "time", "ns",
        1e9 * seconds_per_instruction(kRounds, /*profiled=*/true), threads);
    add(report, "compile_context", "time", "us", 1e6 * seconds_per_context(kRounds), threads);
    inference(report, kRounds, threads);
    executables(report, threads);
    small_programs(report, kRounds, threads);
    allocators(report, kRounds, threads);
    std::string program = fs::canonical("/proc/self/exe").string();
    compiling(report, program, threads);
    first_uses(report, program, threads);
    return 0;
  } catch (const std::exception &error) {
    std::cerr << "overhead: " << error.what() << "\n";
    return 1;
  }
}
