// One rank of a job, for tests: checks collectives, or does what a fault needs.
// Usage: rank_program [--plugin FILE] LAYER MODE
//   check                all collectives against loops
//   steps N MILLISECONDS all_reduce N times, each after a pause; says what failed, and how long the
//                        wait for it was
//   differ               rank 1 calls something else
//   late MILLISECONDS    rank 1 comes later
//   time COUNT           all_reduce of so many float32: the shortest and the median of 50 times
//   exit                 rank 1 ends in the middle, with status 3
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "runtime/collective/check_collectives.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/layers.h"

#include <unistd.h>

using namespace weft::runtime;

namespace {

int fail(const std::string &what) {
  std::printf("error: %s\n", what.c_str());
  return 1;
}

void pause_for(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

} // namespace

int main(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() > 1 && args[0] == "--plugin") {
    if (absl::Status status = load_collective_plugin(args[1]); !status.ok())
      return fail(std::string(status.message()));
    args.erase(args.begin(), args.begin() + 2);
  }
  if (args.size() < 2)
    return fail("usage: rank_program [--plugin FILE] LAYER MODE ...");
  const std::string layer = args[0], mode = args[1];
  auto number = [&](size_t i) {
    return i < args.size() ? std::atoi(args[i].c_str()) : 0;
  };
  auto world = world_from_environment();
  if (!world.ok())
    return fail(std::string(world.status().message()));
  if (mode == "late" && world->rank == 1)
    pause_for(number(2));
  auto ranks = Communicator::connect(*world, layer);
  if (!ranks.ok())
    return fail(std::string(ranks.status().message()));
  Group &group = *ranks->world();
  if (mode == "check") {
    if (std::string wrong = check_collectives(group); !wrong.empty())
      return fail(wrong);
    auto half = group.split(group.rank() % 2, 0, "half");
    if (!half.ok())
      return fail(std::string(half.status().message()));
    CollectiveCall call;
    call.kind = Collective::kAllGather;
    call.count = 3000;
    std::string wrong = check_call(**half, call, 1, false);
    if (!wrong.empty())
      return fail(wrong);
    std::printf("all right\n");
    return 0;
  }
  if (mode == "time") {
    std::vector<float> data(static_cast<size_t>(number(2)), 1);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.reduction = Reduction::kMean;
    call.count = static_cast<int64_t>(data.size());
    call.input = call.output = data.data();
    std::vector<double> seconds;
    for (int repeat = 0; repeat < 53; ++repeat) {
      auto begin = std::chrono::steady_clock::now();
      if (absl::Status status = group.run(call); !status.ok())
        return fail(std::string(status.message()));
      std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      if (repeat >= 3)
        seconds.push_back(time.count());
    }
    std::sort(seconds.begin(), seconds.end());
    std::printf("%.3f ms, median %.3f ms\n", seconds[0] * 1e3, seconds[25] * 1e3);
    return 0;
  }
  if (mode == "groups") {
    // Rank 0 is in two groups, in one with rank 1 and in one with all others, and waits for none.
    auto first = group.split(group.rank() < 2 ? 0 : -1, 0, "first"),
         second = group.split(group.rank() != 1 ? 0 : -1, 0, "second");
    if (!first.ok() || !second.ok())
      return fail("no groups");
    std::vector<float> a(50000, 0), b(50000, 0);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.count = static_cast<int64_t>(a.size());
    std::shared_ptr<const Event> started;
    for (int step = 0;; ++step) {
      absl::Status status;
      if (*first && (!started || started->done())) {
        status = started ? started->wait() : absl::OkStatus();
        call.input = call.output = a.data();
        if (auto next = (*first)->start(call); next.ok())
          started = *next;
        else
          status.Update(next.status());
        if (!*second && status.ok())
          status = started->wait();
      }
      call.input = call.output = b.data();
      if (*second && status.ok())
        status = (*second)->run(call);
      if (!status.ok())
        return fail(std::string(status.message()));
      if (step == 2)
        std::printf("step 2\n");
    }
  }
  const int steps = mode == "steps" ? number(2) : 3;
  for (int step = 0; step < steps; ++step) {
    if (mode == "steps")
      pause_for(number(3));
    if (mode == "exit" && group.rank() == 1 && step == 1)
      _exit(3);
    std::vector<float> data(50000, 1);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.count = static_cast<int64_t>(data.size());
    call.input = call.output = data.data();
    call.place = "train.cpp:" + std::to_string(step + 10);
    if (mode == "differ" && group.rank() == 1 && step == 1)
      call.reduction = Reduction::kMax;
    auto begin = std::chrono::steady_clock::now();
    absl::Status status = group.run(call);
    std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (!status.ok()) {
      std::printf("waited %.1f s\n", waited.count());
      // What comes after it says the same.
      absl::Status again = group.run(call);
      std::string cause(ranks->status().message());
      if (again.message().find(cause) != 0 || status.message().find(cause) != 0)
        return fail("later, another error: " + std::string(again.message()));
      return fail(std::string(status.message()));
    }
    if (data[49999] != static_cast<float>(group.size()))
      return fail("the sum is wrong");
    std::printf("step %d\n", step);
  }
  std::printf("done\n");
  return 0;
}
