// Suites of cases: contestants take turns at each case, on the same machine, in one run.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weft::benchmarks {

struct Suite {
  std::string name;
  std::vector<std::string> cases;
  double seconds_per_turn; // many times what a case takes, little enough that a disturbance spoils
                           // one turn only
  int rounds;              // turns of each contestant a case
  int64_t (*batch)(const std::string &) // of a case
      = [](const std::string &) -> int64_t {
    return 1;
  };
  std::string (*group)(const std::string &) // of a case; each has a mean of its own
      = [](const std::string &) -> std::string {
    return "all";
  };
  std::string judge = ""; // the contestant behind whom a case counts as lost; none
};

// The main function of a suite's program: --contestant IMPL=COMMAND as often as there are, the
// first is the one to judge; --json FILE, --threads N, --rounds N, --filter TEXT (of GROUP/CASE),
// --busy N: each case also beside N processes that never rest, and how much slower it is there.
// Prints the first one's time divided by the others', a line a case, and geometric means, a line a
// group; a ratio above 1 to the judge is marked.
int run_suite(Suite suite, int argc, char **argv);

// The loop of a contestant that has cases (contestant.h): make(name) gets one ready and gives what
// is measured, or nothing where the contestant has no such case. An exception ends it, with its
// message on stderr; returns the exit status.
int serve_cases(const std::function<std::function<void()>(const std::string &)> &make);

} // namespace weft::benchmarks
