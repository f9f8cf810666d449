// One rank of a job, for tests: checks collectives, or does what a fault needs.
// Usage: rank_program [--plugin FILE] [--threads RANKS] [--init-mpi LEVEL] LAYER MODE
//   --threads RANKS      ranks are threads of this process
//   --init-mpi LEVEL     the program itself begins and ends MPI, with that support for threads
//   check                all collectives against loops
//   bits N               sums of several sizes, N times with random delays: a number of their bits,
//                        which are the same each time
//   steps N MILLISECONDS all_reduce N times, each after a pause; says what failed, and how long the
//                        wait for it was
//   differ               rank 1 calls something else
//   late MILLISECONDS    rank 1 comes later
//   time COUNT           all_reduce of so many float32: the shortest and the median of 50 times
//   exit                 rank 1 ends in the middle, with status 3
//   fork                 children of rank 0 drop their connection while calls are under way
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/collective/check_collectives.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/layers.h"

#include <dlfcn.h>
#include <sys/wait.h>
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

int check_bits(Group &group, int repeats) {
  uint64_t hash = 14695981039346656037u; // FNV-1a
  std::mt19937 random(std::random_device{}());
  for (int64_t count : {7, 901, 20011}) {
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.count = count;
    const std::vector<char> input = sample(call.dtype, 0, count, group.rank(), 7);
    std::vector<char> first;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      std::vector<char> data = input;
      call.input = call.output = data.data();
      // Now a rank is late, now it is not.
      if (random() % 2)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      if (absl::Status status = group.run(call); !status.ok())
        return fail(std::string(status.message()));
      if (repeat == 0)
        first = data;
      if (data != first)
        return fail("other bits of " + std::to_string(count) + " elements at repeat " +
                    std::to_string(repeat));
    }
    for (char byte : first)
      hash = (hash ^ static_cast<uint8_t>(byte)) * 1099511628211u;
  }
  std::printf("bits %016llx\n", static_cast<unsigned long long>(hash));
  return 0;
}

// What this rank does when it is connected.
int run_rank(Communicator &ranks, const std::vector<std::string> &args) {
  const std::string &mode = args[1];
  auto number = [&](size_t i) {
    return i < args.size() ? std::atoi(args[i].c_str()) : 0;
  };
  Group &group = *ranks.world();
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
  if (mode == "bits")
    return check_bits(group, number(2));
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
  if (mode == "fork") {
    for (int child = 0; child < 5; ++child) {
      auto call = group.start({});
      if (!call.ok())
        return fail(std::string(call.status().message()));
      pid_t forked = group.rank() == 0 ? fork() : -1;
      if (forked == 0) {
        alarm(30);
        Communicator(std::move(ranks));
        _exit(0);
      }
      int status = 0;
      if (forked > 0 && (waitpid(forked, &status, 0) != forked || status != 0))
        return fail("a child ended with " + std::to_string(status));
      if (absl::Status waited = (*call)->wait(); !waited.ok())
        return fail(std::string(waited.message()));
    }
    std::printf("all right\n");
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
      std::string cause(ranks.status().message());
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

// A program that uses MPI for itself.
struct OwnMpi {
  void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  explicit OwnMpi(int level) {
    if (auto *init = reinterpret_cast<int (*)(int *, char ***, int, int *)>(
            dlsym(library, "MPI_Init_thread")))
      init(nullptr, nullptr, level, &level);
  }
  ~OwnMpi() {
    if (auto *finalize = reinterpret_cast<int (*)()>(dlsym(library, "MPI_Finalize")))
      finalize();
  }
};

// Ranks are threads: the status of the first that fails.
int run_threads(int size, const std::vector<std::string> &args) {
  std::vector<std::unique_ptr<Store>> stores = local_stores(size);
  std::vector<std::thread> threads;
  std::atomic<int> status = 0;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      World world;
      world.rank = rank;
      world.size = size;
      auto ranks = Communicator::connect(world, args[0], std::move(stores[rank]));
      int own = ranks.ok() ? run_rank(*ranks, args) : fail(std::string(ranks.status().message()));
      int none = 0;
      status.compare_exchange_strong(none, own);
    });
  for (std::thread &thread : threads)
    thread.join();
  return status;
}

} // namespace

int main(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::vector<std::string> args(argv + 1, argv + argc);
  int threads = 0;
  std::unique_ptr<OwnMpi> mpi;
  while (args.size() > 1 && args[0].starts_with("--")) {
    if (args[0] == "--threads")
      threads = std::atoi(args[1].c_str());
    else if (args[0] == "--init-mpi")
      mpi = std::make_unique<OwnMpi>(std::atoi(args[1].c_str()));
    else if (absl::Status status = load_collective_plugin(args[1]); !status.ok())
      return fail(std::string(status.message()));
    args.erase(args.begin(), args.begin() + 2);
  }
  if (args.size() < 2)
    return fail("usage: rank_program [--plugin FILE] [--threads RANKS] LAYER MODE ...");
  if (threads > 0)
    return run_threads(threads, args);
  auto world = world_from_environment();
  if (!world.ok())
    return fail(std::string(world.status().message()));
  if (args[1] == "late" && world->rank == 1)
    pause_for(args.size() > 2 ? std::atoi(args[2].c_str()) : 0);
  auto ranks = Communicator::connect(*world, args[0]);
  if (!ranks.ok())
    return fail(std::string(ranks.status().message()));
  return run_rank(*ranks, args);
}
