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

double seconds(const std::string &command) {
  double first = 0, next = 0;
  std::istringstream(output_of(command)) >> first >> next;
  return first - next;
}

void run(const std::string &worker, const std::string &peer, const std::string &json,
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
      double cold = add("weft", seconds("WEFT_CACHE_DIR=off " + worker + arguments));
      seconds(on_disk + worker + arguments);
      add("weft-disk", seconds(on_disk + worker + arguments));
      std::filesystem::remove_all(folder);
      if (!peer.empty()) {
        std::string nothing_kept = "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 ";
        try {
          double theirs = add("torch-compile", seconds(nothing_kept + peer + arguments));
          char text[32];
          std::snprintf(text, sizeof text, " (%.3f)", cold / theirs);
          line += text;
        } catch (const std::exception &error) {
          line += std::string("  torch-compile fails: ") + error.what();
        }
      }
      std::fprintf(stderr, "  %s\n", line.c_str());
    }
  if (!peer.empty())
    std::fprintf(stderr, "  in parentheses: Weft's seconds with nothing on disk / theirs\n");
}

} // namespace

int main(int argc, char **argv) {
  std::string worker, peer, json, filter;
  int threads = 2;
  CLI::App app("What the first call of a model costs beyond the next ones.");
  app.add_option("--worker", worker, "Weft's program")->required();
  app.add_option("--peer", peer, "torch.compile's");
  app.add_option("--json", json, "file to append to");
  app.add_option("--filter", filter, "only cases with this in infer|train/CASE");
  app.add_option("--threads", threads);
  CLI11_PARSE(app, argc, argv);
  try {
    run(worker, peer, json, filter, threads);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "compile: %s\n", error.what());
    return 1;
  }
}
