// Jobs of real processes, for tests.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::runtime {

using Variables = std::map<std::string, std::string>;

std::string rank_program(); // its path

// What every process gets: PATH, and what tools/test.sh sets for sanitizers.
Variables common_variables();

// A process with these variables and no others, whose output, errors included, is read to its end.
// It is killed when this goes, at the latest.
class Process {
public:
  Process(std::vector<std::string> words, Variables variables);
  ~Process();
  Process(const Process &) = delete;
  Process &operator=(const Process &) = delete;

  pid_t id() const {
    return pid_;
  }
  void signal(int number);
  // Until the output holds `text`, or ends, or a minute is over: the test must not hang.
  bool read_until(const std::string &text);
  // Everything that it says, and its status; -1 after a signal, -2 if it hangs.
  int finish();
  const std::string &text() const {
    return text_;
  }

private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
};

// Ranks of rank_program that meet in a file.
struct Job {
  std::vector<std::unique_ptr<Process>> ranks;
  std::string file;

  Job(int size, const std::vector<std::string> &args, const Variables &more = {});
  ~Job();
  // `before`: a command that runs the program.
  void add(int rank, int size, const std::vector<std::string> &args, const Variables &more,
           std::vector<std::string> before = {});
  Process &operator[](size_t rank) {
    return *ranks[rank];
  }
};

void expect_says(Process &process, const std::string &what, int status = 1);

// A name for a file of this test's, in its folder.
std::string temporary_file(const std::string &what);

} // namespace weft::runtime
