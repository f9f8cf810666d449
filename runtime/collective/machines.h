// Two machines for tests: network namespaces of this one, with a cable between them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/processes.h"

namespace weft::runtime {

using Words = std::vector<std::string>;

class TwoMachines {
public:
  // Empty, or why there are none here.
  std::string make();

  // The command as run on a machine, 0 or 1.
  Words on(int machine, const Words &words) const;
  // Empty, or what it says where it fails.
  std::string run(int machine, const Words &words) const;
  // Above those of the loopback: of two ranks the one with the higher address connects, with Gloo.
  static std::string address(int machine);
  static std::string ipv6_address(int machine);

  // Ranks 0 and 1 on the first machine, rank 2 on the second one. `named`: where the ranks of a
  // machine look for rank 0; none: they meet in a file.
  void add_ranks(Job &job, const Words &args, const std::vector<std::string> &named,
                 const std::string &timeout = "10") const;

private:
  std::unique_ptr<Process> machines_[2]; // a machine lives as long as a process in it does
};

} // namespace weft::runtime
