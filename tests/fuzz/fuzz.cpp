// Random programs until the time or the number is over: `fuzz --minutes N [--seed S]`, `fuzz --seed
// S --programs N`. tools/fuzz.sh builds and runs it.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>

#include <CLI/CLI.hpp>

#include "tests/fuzz/check.h"
#include "tests/fuzz/machine.h"
#include "tests/fuzz/sizes.h"
#include "tests/fuzz/threads.h"

namespace {

// What is running, for the handler of crashes.
char current[1 << 16];

void on_crash(int signal) {
  // Only what may be called in a handler.
  const char *text = "crashed while it ran this program:\n";
  (void)!::write(2, text, std::strlen(text));
  (void)!::write(2, current, std::strlen(current));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

} // namespace

int main(int argc, char **argv) {
  double minutes = 0;
  uint64_t seed = std::chrono::system_clock::now().time_since_epoch().count() / 1000;
  uint64_t programs = UINT64_MAX;
  int failures_allowed = 1;
  bool print = false;
  CLI::App app("Runs random programs on the cpu, fused and unfused, on one thread and two, called, "
               "jitted and traced, and against reference evaluation.");
  app.add_option("--minutes", minutes, "how long to run");
  app.add_option("--seed", seed, "of the first program; the next ones count on");
  app.add_option("--programs", programs, "how many programs to run");
  app.add_option("--failures", failures_allowed,
                 "how many failing programs to report before it ends");
  app.add_flag("--print", print, "print each program before it runs");
  app.add_flag("--sizes", weft::fuzz::sizes_of_all,
               "run each program at many sizes, and in no other way");
  app.add_flag("--whole-kernels", weft::fuzz::whole_kernels,
               "a kernel that has to be split is a failure, too");
  CLI11_PARSE(app, argc, argv);
  if (minutes <= 0 && programs == UINT64_MAX)
    minutes = 1;
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS})
    std::signal(signal, on_crash);
  ::setenv("WEFT_CACHE_DIR", "off", 0);
  ::setenv("WEFT_CPU_DEVICES", "1", 0);

  constexpr size_t kOnTwoThreads = 32; // programs at a time
  std::vector<weft::fuzz::Program> together;
  std::cout << "seed " << seed << std::endl;
  auto start = std::chrono::steady_clock::now();
  uint64_t done = 0;
  int failures = 0;
  for (; done < programs && failures < failures_allowed; ++done) {
    if (minutes > 0 &&
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >
            minutes * 60)
      break;
    std::snprintf(current, sizeof current, "seed %llu, while it was made\n",
                  static_cast<unsigned long long>(seed + done));
    weft::fuzz::Program program = weft::fuzz::generate(seed + done);
    std::string text = weft::fuzz::to_cpp(program);
    std::snprintf(current, sizeof current, "seed %llu\n%s",
                  static_cast<unsigned long long>(seed + done), text.c_str());
    if (print)
      std::cout << current << std::endl;
    auto check = weft::fuzz::sizes_of_all ? weft::fuzz::check_sizes : weft::fuzz::check;
    if (std::string wrong = check(program); !wrong.empty()) {
      ++failures;
      std::cout << weft::fuzz::report(program, wrong) << std::endl;
      continue;
    }
    if (weft::fuzz::sizes_of_all)
      continue;
    together.push_back(std::move(program));
    if (together.size() < kOnTwoThreads)
      continue;
    std::snprintf(current, sizeof current, "seeds up to %llu, on two threads\n",
                  static_cast<unsigned long long>(seed + done));
    if (std::string wrong = weft::fuzz::check_threads(together, "cpu"); !wrong.empty()) {
      ++failures;
      std::cout << wrong << std::endl;
    }
    together.clear();
  }
  std::cout << done << " programs, " << failures << " failed" << std::endl;
  if (weft::fuzz::SizeCounts counts = weft::fuzz::size_counts(); counts.all > 0)
    std::cout << counts.symbolic << " of " << counts.all
              << " runs at other sizes by programs for many sizes" << std::endl;
  return failures ? 1 : 0;
}
