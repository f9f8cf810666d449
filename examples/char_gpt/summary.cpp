#include "examples/char_gpt/summary.h"

#include <cstdio>
#include <filesystem>

#include "weft/eval.h"
#include "weft/io/progress.h"

namespace char_gpt {
namespace {

namespace fs = std::filesystem;

int64_t files_below(const std::string &folder) {
  int64_t count = 0;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder, error))
    count += entry.is_regular_file(error);
  return count;
}

std::string size_of(const std::string &path) {
  std::error_code error;
  auto size = fs::file_size(path, error);
  return error ? "missing" : weft::io::format_bytes(static_cast<double>(size));
}

} // namespace

void Summary::note_step() {
  weft::synchronize();
  for (const weft::Evaluation &evaluation : weft::recent_evaluations())
    if (evaluation.reason == weft::CutReason::kStep)
      step_ = evaluation;
}

void Summary::print(const TrainingReport &training, const Shipped &shipped, bool same_output,
                    const ShippedTrainer &trainer) const {
  weft::Statistics statistics = weft::statistics();
  auto bytes = [](int64_t n) {
    return weft::io::format_bytes(static_cast<double>(n));
  };
  auto line = [](const char *name, const std::string &value) {
    std::printf("%-12s%s\n", name, value.c_str());
  };
  auto number = [](const char *format, double value) {
    char text[48];
    std::snprintf(text, sizeof text, format, value);
    return std::string(text);
  };
  std::printf("---------------------------------- summary ----------------------------------\n");
  line("validation", number("%.3f", training.first_validation) + " -> " +
                         number("%.3f", training.validation) + " nats per character");
  if (training.steps == 0) {
    line("steps", "none was left to do");
  } else {
    line("loss", number("%.3f", training.first_loss) + " -> " + number("%.3f", training.last_loss) +
                     " (training batches)");
    line("speed", number("%.1f", training.ms_per_step) + " ms per step (median of " +
                      std::to_string(training.steps) + " steps, " +
                      weft::io::format_duration(training.seconds) + " in all)");
    line("step", std::to_string(step_.ops) + " ops -> " + std::to_string(step_.kernels) +
                     " kernels and " + std::to_string(step_.library_calls) + " library calls, on " +
                     step_.backend);
    line("compiled", number("%.2f", step_.compile_ms / 1e3) + " s for the step; " +
                         std::to_string(statistics.compiles) + " programs in all");
    line("cache", std::to_string(statistics.memory_hits) + " hits in memory, " +
                      std::to_string(statistics.disk_hits) + " on disk, " +
                      std::to_string(statistics.replays) + " replays, of " +
                      std::to_string(statistics.evaluations) + " evaluations");
    double bound = static_cast<double>(step_.lower_bound_bytes);
    line("memory",
         bytes(step_.planned_peak_bytes) + " planned peak of a step, lower bound " +
             bytes(step_.lower_bound_bytes) +
             (bound > 0
                  ? " (ratio " +
                        number("%.3f", static_cast<double>(step_.planned_peak_bytes) / bound) + ")"
                  : ""));
  }
  line("checkpoint", folder_ + "/checkpoint.safetensors (" +
                         size_of(folder_ + "/checkpoint.safetensors") + "), curve in " + folder_ +
                         "/curve.csv");
  line("executable", shipped.executable + " (" + size_of(shipped.executable) + "; object " +
                         size_of(shipped.object) + ", header " + shipped.header + ")");
  line("output", same_output ? "the executable's greedy text equals the JIT's"
                             : "THE EXECUTABLE'S GREEDY TEXT DIFFERS FROM THE JIT'S");
  line("trainer",
       trainer.executable + " (" + size_of(trainer.executable) + "; state " + trainer.state + ", " +
           size_of(trainer.state) + "); its " + std::to_string(trainer.steps) + " steps " +
           (trainer.same ? "equal this process's, bit for bit" : "DIFFER FROM THIS PROCESS'S"));
  line("IR", folder_ + "/ir (" + std::to_string(files_below(folder_ + "/ir")) +
                 " files: each phase of the step and each kernel)");
}

std::string one_line(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '\n')
      result += "\\n";
    else if (c == '"' || c == '\\')
      result += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20)
      result +=
          "\\x" + std::string(1, "0123456789abcdef"[(c >> 4) & 15]) + "0123456789abcdef"[c & 15];
    else
      result += c;
  }
  return result + "\"";
}

} // namespace char_gpt
