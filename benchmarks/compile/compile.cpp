// The suite `compile`: what the first call of a model costs beyond the next ones, with nothing on
// disk and with the programs of a process before. Each figure comes from a process of its own.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/common/child_process.h"
#include "benchmarks/common/report.h"
#include "benchmarks/models/model_case.h"

namespace {

using namespace weft::benchmarks;

struct Cost {
  double seconds; // of the first call, beyond those of the fastest one behind it
  int64_t ops;    // that it recorded; 0 of peers
};

// What a program prints: the seconds of both calls, and perhaps a number of ops; or "none" and a
// reason, which may be empty: that throws it.
Cost cost_of(const std::string &command) {
  std::string text = output_of(command);
  if (text.starts_with("none"))
    throw std::runtime_error(text.substr(4, text.find('\n') - 4));
  double first = 0, next = 0;
  int64_t ops = 0;
  std::istringstream(text) >> first >> next >> ops;
  return {first - next, ops};
}

void run(const std::string &worker, const std::vector<NamedCommand> &peers, const std::string &json,
         const std::string &filter, int threads) {
  Report report(json);
  std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                 ("weft-compile-" + std::to_string(static_cast<long>(now() * 1e6)));
  for (const std::string mode : {"infer", "train"})
    for (const std::string &name : mode == "infer" ? inference_cases() : training_cases()) {
      std::string label = mode + "/" + name;
      if (label.find(filter) == std::string::npos)
        continue;
      std::string line = label + ":";
      auto add = [&](const std::string &impl, double value) {
        report.add({"compile", label, impl, "time", "s", value, threads, ModelName(name).batch});
        char text[64];
        std::snprintf(text, sizeof text, "  %s %.2f s", impl.c_str(), value);
        line += text;
        return value;
      };
      std::string arguments = " " + mode + " " + name;
      std::string on_disk = "WEFT_CACHE_DIR='" + folder.string() + "' ";
      Cost first = cost_of("WEFT_CACHE_DIR=off " + worker + arguments);
      double cold = add("weft", first.seconds);
      report.add({"compile", label, "weft", "count", "ops", static_cast<double>(first.ops), threads,
                  ModelName(name).batch});
      cost_of(on_disk + worker + arguments);
      add("weft-disk", cost_of(on_disk + worker + arguments).seconds);
      std::filesystem::remove_all(folder);
      for (const NamedCommand &peer : peers)
        try {
          double theirs = add(peer.impl, cost_of(peer.command + arguments).seconds);
          char text[32];
          std::snprintf(text, sizeof text, " (%.3f)", cold / theirs);
          line += text;
        } catch (const std::exception &error) {
          if (*error.what())
            line += "  " + peer.impl + " is absent: " + error.what();
        }
      std::fprintf(stderr, "  %s\n", line.c_str());
    }
  if (!peers.empty())
    std::fprintf(stderr, "  in parentheses: Weft's seconds with nothing on disk / theirs\n");
}

} // namespace

int main(int argc, char **argv) {
  std::string worker, json, filter;
  std::vector<std::string> peers;
  int threads = 2;
  CLI::App app("What the first call of a model costs beyond the next ones.");
  app.add_option("--worker", worker, "Weft's program")->required();
  app.add_option("--peer", peers, "IMPL=COMMAND, as often as there are");
  app.add_option("--json", json, "file to append to");
  app.add_option("--filter", filter, "only cases with this in infer|train/CASE");
  app.add_option("--threads", threads);
  CLI11_PARSE(app, argc, argv);
  try {
    run(worker, named_commands(peers), json, filter, threads);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "compile: %s\n", error.what());
    return 1;
  }
}
