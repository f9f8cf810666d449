// A rank that has nothing more to do ends, while the others go on; so does a child of a rank's.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "weft/distributed/distributed.h"
#include "weft/weft.h"

using namespace weft;

int main() {
  distributed::Group world = distributed::init();
  bool stays = world.rank() < world.size() - 1;
  distributed::Group rest = world.split(stays ? 0 : -1);
  Tensor large = distributed::broadcast(full({4 << 20}, world.rank() + 1), world.size() - 1);
  submit_step({{large}});
  if (world.rank() == 0) {
    pid_t child = fork();
    if (child == 0)
      std::exit(0); // it has the rank's connections, and is not the rank
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0)
      return 2;
  }
  if (!stays)
    return large.narrow(0, 0, 1).item<float>() == static_cast<float>(world.size()) ? 0 : 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(300)); // the last rank has gone
  float sum = distributed::all_reduce(ones({2}), distributed::Reduction::kSum, rest)
                  .narrow(0, 0, 1)
                  .item<float>();
  std::printf("%d ranks are left, value %g\n", static_cast<int>(sum),
              static_cast<double>(large.narrow(0, -1, 1).item<float>()));
  return sum == static_cast<float>(world.size() - 1) ? 0 : 1;
}
