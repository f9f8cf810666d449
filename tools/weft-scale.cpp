// Predicts time and memory of a program's step on 8 to 4,096 ranks, from what runs of it on 2 and 4
// ranks said of their plans (model.h). tools/scale.sh does all of it by one line.
//
//   weft-scale measure                  a rank, started by tools/launch.sh: times all_reduces
//   weft-scale predict --run N=SAMPLES,EXPLAIN --run N=SAMPLES,EXPLAIN [--gbit G --latency-us L]
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "runtime/collective/communicator.h"
#include "tools/FlagChecks.h"
#include "tools/scale/plan.h"

namespace {

using namespace weft::scale;
using weft::runtime::Communicator;

constexpr int64_t kSmallest = 256, kLargest = 32 << 20;
constexpr int kRepeats = 15;

// The median of repeats, which what else a machine does disturbs little.
int measure() {
  using Clock = std::chrono::steady_clock;
  auto world = weft::runtime::world_from_environment();
  auto job = world.ok() ? Communicator::connect(*world, "gloo") : world.status();
  if (!job.ok()) {
    std::cerr << "weft-scale: " << job.status().message() << "\n";
    return 1;
  }
  for (int64_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    std::vector<float> data(static_cast<size_t>(bytes / 4));
    weft::runtime::CollectiveCall call;
    call.kind = weft::runtime::Collective::kAllReduce;
    call.count = bytes / 4;
    call.input = call.output = data.data();
    call.place = "weft-scale.cpp";
    std::vector<double> seconds;
    for (int i = 0; i < kRepeats + 3; ++i) {
      auto start = Clock::now();
      if (absl::Status status = job->world()->run(call); !status.ok()) {
        std::cerr << "weft-scale: " << status.message() << "\n";
        return 1;
      }
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    std::nth_element(seconds.begin() + 3, seconds.begin() + 3 + kRepeats / 2, seconds.end());
    if (world->rank == 0)
      std::printf("sample %lld %.9f\n", static_cast<long long>(bytes), seconds[3 + kRepeats / 2]);
  }
  return 0;
}

struct Run {
  int ranks = 0;
  std::vector<Sample> samples;
  Network network; // fitted to them
  MeasuredStep step;
};

Run read_run(const std::string &text) {
  size_t equals = text.find('='), comma = text.find(',');
  if (equals == text.npos || comma == text.npos || comma < equals)
    throw std::runtime_error("--run takes RANKS=SAMPLES,EXPLAIN, not '" + text + "'");
  Run run;
  run.ranks = std::atoi(text.substr(0, equals).c_str());
  if (run.ranks < 2)
    throw std::runtime_error("--run " + text + ": at least 2 ranks exchange something");
  auto open = [](const std::string &path) {
    std::ifstream file(path);
    if (!file)
      throw std::runtime_error("cannot read " + path);
    return file;
  };
  std::ifstream samples = open(text.substr(equals + 1, comma - equals - 1));
  for (std::string line; std::getline(samples, line);) {
    std::istringstream words(line.substr(line.starts_with("[0] ") ? 4 : 0));
    std::string word;
    Sample sample{};
    if (words >> word >> sample.bytes >> sample.seconds && word == "sample")
      run.samples.push_back(sample);
  }
  run.network = fit(run.samples, run.ranks);
  std::ifstream explain = open(text.substr(comma + 1));
  run.step = read_step(explain);
  return run;
}

struct Options {
  double gbit = 0, latency_us = -1, bucket_mb = 0, layers = 4, moments = 2;
  int per_machine = 1, processors = 0, threads = 1;
  bool ring = false;
};

// Ranks of one machine share its processors: the ones that are too many wait.
double crowd(int ranks, const Options &options) {
  return options.processors > 0
             ? std::max(1.0, double(ranks) * options.threads / options.processors)
             : 1;
}

void print_fit(const Run &run) {
  double worst = 0, sum = 0;
  for (const Sample &sample : run.samples) {
    double off = seconds_of(Collective::kAllReduce, sample.bytes, run.ranks, run.network,
                            Algorithm::kDirect) /
                     sample.seconds -
                 1;
    worst = std::max(worst, std::abs(off));
    sum += std::abs(off);
  }
  std::printf(
      "%d ranks: all_reduce alpha %.1f us a message, beta %.3f ns a byte (%.1f Gbit/s); off "
      "by %.0f %% in the mean, %.0f %% at most, of %zu sizes\n",
      run.ranks, 1e6 * run.network.seconds_per_message, 1e9 * run.network.seconds_per_byte,
      8e-9 / run.network.seconds_per_byte, 100 * sum / double(run.samples.size()), 100 * worst,
      run.samples.size());
}

// What the run of `from` ranks says of that of `to` ranks on the same machine, beside that one.
void print_error(const Run &from, const Run &to, const Options &options) {
  double slowdown = crowd(to.ranks, options) / crowd(from.ranks, options);
  Network network = from.network;
  network.seconds_per_message *= slowdown; // of a machine's own, which processors carry
  network.seconds_per_byte *= slowdown;
  Timeline step = timeline_of(from.step.parts, {.ranks = to.ranks,
                                                .network = network,
                                                .slowdown = slowdown,
                                                .host_seconds = from.step.host() * slowdown});
  std::printf("step of %d ranks from that of %d: predicted %.2f ms, measured %.2f ms (%+.0f %%); "
              "exposed %.2f ms, measured %.2f ms\n",
              to.ranks, from.ranks, 1e3 * step.seconds, 1e3 * to.step.seconds,
              100 * (step.seconds / to.step.seconds - 1), 1e3 * step.exposed,
              1e3 * to.step.exposed);
}

Network network_of(const Run &run, int ranks, const Options &options) {
  Network network = run.network;
  if (options.latency_us >= 0)
    network.seconds_per_message = options.latency_us * 1e-6;
  if (options.gbit > 0) {
    // A machine's ranks share what leads out of it; those beside each other need none of it.
    double r = std::min(options.per_machine, ranks),
           out = ranks > r ? (ranks - r) / (ranks - 1) : 0;
    network.seconds_per_byte =
        std::max(8e-9 / options.gbit * r * out, ranks > r ? 0 : run.network.seconds_per_byte);
  }
  return network;
}

int predict(const std::vector<std::string> &texts, const Options &options) {
  std::vector<Run> runs;
  for (const std::string &text : texts)
    runs.push_back(read_run(text));
  const Run &base = runs[0];
  for (const Run &run : runs)
    print_fit(run);
  Model model{.moments = options.moments};
  double peak = 0;
  size_t exchanges = 0;
  for (const Part &part : base.step.parts) {
    model.parameter_bytes += part.is_exchange && part.of_gradients ? part.bytes : 0;
    peak = std::max(peak, part.peak_bytes);
    exchanges += part.is_exchange;
  }
  model.largest_layer_bytes = model.parameter_bytes / options.layers;
  std::printf("step of %d ranks, mean of %zu: %.2f ms, of which programs %.2f, waiting for "
              "exchanges %.2f, neither %.2f; %zu programs, %zu exchanges, %.2f MB of gradients, a "
              "program takes %.1f MB at most\n",
              base.ranks, base.step.steps, 1e3 * base.step.seconds, 1e3 * base.step.computed,
              1e3 * base.step.exposed, 1e3 * base.step.host(), base.step.parts.size() - exchanges,
              exchanges, 1e-6 * model.parameter_bytes, 1e-6 * peak);
  for (const Run &from : runs)
    for (const Run &to : runs)
      print_error(from, to, options);
  std::vector<Part> parts = base.step.parts;
  if (options.bucket_mb > 0)
    parts = with_buckets(std::move(parts), options.bucket_mb * (1 << 20));
  std::printf("\nranks     step ms  exposed  exchanges ms | a rank's MB: replicated  sharded "
              "optimizer  sharded parameters\n");
  for (int ranks = 8; ranks <= 4096; ranks *= 2) {
    double back = 1 / crowd(base.ranks, options); // each rank has its processors
    Timeline step =
        timeline_of(parts, {.ranks = ranks,
                            .network = network_of(base, ranks, options),
                            .algorithm = options.ring ? Algorithm::kRing : Algorithm::kDirect,
                            .slowdown = back,
                            .host_seconds = base.step.host() * back});
    auto total = [&](Form form) {
      return 1e-6 * (memory_of(model, form, ranks).most() + peak);
    };
    std::printf("%5d  %10.2f  %6.1f%%  %12.2f | %24.1f  %17.1f  %18.1f\n", ranks,
                1e3 * step.seconds, 100 * step.exposed / step.seconds, 1e3 * step.exchange,
                total(Form::kReplicated), total(Form::kShardedOptimizer),
                total(Form::kShardedParameters));
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Predicts the time and the memory of a step on many ranks.");
  app.require_subcommand(1);
  CLI::App *measuring = app.add_subcommand("measure", "times all_reduces: a rank of a job");
  CLI::App *predicting = app.add_subcommand("predict", "from runs on this machine");
  std::vector<std::string> runs;
  Options options;
  predicting->add_option("--run", runs, "RANKS=SAMPLES,EXPLAIN; the first is what is scaled")
      ->required();
  predicting->add_option("--gbit", options.gbit, "of a machine's network; else as measured here")
      ->check(weft::tools::positiveNumber());
  predicting->add_option("--latency-us", options.latency_us, "of a message; else as measured here")
      ->check(weft::tools::positiveNumber(/*orZero=*/true));
  predicting->add_option("--per-machine", options.per_machine, "ranks of a machine")
      ->check(weft::tools::wholeNumber<int>(1));
  predicting->add_option("--bucket-mb", options.bucket_mb, "of gradients; else as the program has")
      ->check(weft::tools::positiveNumber());
  predicting->add_option("--layers", options.layers, "that sharded parameters are gathered by")
      ->check(weft::tools::positiveNumber());
  predicting->add_option("--moments", options.moments, "of the optimizer: AdamW has 2");
  predicting->add_option("--processors", options.processors, "that the measured ranks shared");
  predicting->add_option("--threads", options.threads, "of each measured rank");
  predicting->add_flag("--ring", options.ring,
                       "rings, as NCCL has them, instead of Weft's messages");
  CLI11_PARSE(app, argc, argv);
  try {
    return measuring->parsed() ? measure() : predict(runs, options);
  } catch (const std::exception &error) {
    std::cerr << "weft-scale: " << error.what() << "\n";
    return 1;
  }
}
