// Weft's side of the suite `ranks`: a contestant (benchmarks/common/contestant.h) that is a job of
// its own. Usage: worker tensors|runtime RANKS THREADS: whether all_reduces are those of tensors or
// of the runtime's groups.
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/common/report.h"
#include "examples/char_gpt/model.h"
#include "runtime/collective/communicator.h"
#include "tools/scale/plan.h"
#include "weft/data/random.h"
#include "weft/distributed/distributed.h"
#include "weft/weft.h"

namespace {

using namespace weft;

constexpr int64_t kVocabulary = 86, kBatch = 16;

// Of the job, by rank.
struct Place {
  int rank = 0, ranks = 1;
  std::vector<std::FILE *> others; // rank 0 passes on to them what it reads
};

// As tools/launch.sh: each rank has its part of the processors, if they can be dealt out evenly.
void bind_rank(const Place &place) {
  cpu_set_t all, mine;
  if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) % place.ranks != 0)
    return;
  CPU_ZERO(&mine);
  const int part = CPU_COUNT(&all) / place.ranks;
  for (int cpu = 0, number = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all) && number++ / part == place.rank)
      CPU_SET(cpu, &mine);
  sched_setaffinity(0, sizeof(mine), &mine);
}

// The other ranks are processes of their own, forked before anything has threads.
Place start_ranks(int ranks) {
  Place place;
  place.ranks = ranks;
  for (int rank = 1; rank < ranks; ++rank) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw std::runtime_error("no pipe");
    if (fork() == 0) {
      dup2(ends[0], 0);
      dup2(open("/dev/null", O_WRONLY), 1);
      close(ends[1]); // else this rank would never read its end
      for (std::FILE *earlier : place.others)
        fclose(earlier);
      return {rank, ranks, {}};
    }
    close(ends[0]);
    place.others.push_back(fdopen(ends[1], "w"));
  }
  return place;
}

Tensor tokens(int64_t context, uint64_t seed) {
  data::SplitMix64 random(seed);
  std::vector<int64_t> ids(static_cast<size_t>(kBatch * context));
  for (int64_t &id : ids)
    id = static_cast<int64_t>(random.below(kVocabulary));
  return Tensor::from(ids, {kBatch, context});
}

// A step of the character GPT on this rank's part of the batch.
class Training {
public:
  explicit Training(const Place &place)
      : model_(char_gpt::ModelSizes{.vocabulary = kVocabulary}),
        optimizer_(model_.parameters(), {.lr = 1e-3, .beta2 = 0.99, .weight_decay = 0.1}) {
    int64_t rows = kBatch / place.ranks, context = model_.sizes().context;
    input_ = tokens(context, 1).narrow(0, place.rank * rows, rows);
    target_ = tokens(context, 2).narrow(0, place.rank * rows, rows);
    if (place.ranks > 1) {
      replicas_.emplace(model_.parameters());
      default_generator().set_part(place.rank, place.ranks);
    }
  }
  void run(int64_t steps) {
    Tensor loss;
    for (int64_t i = 0; i < steps; ++i) {
      loss = nn::cross_entropy(model_(input_), target_);
      optimizer_.zero_grad();
      loss.backward();
      if (replicas_)
        replicas_->reduce_gradients();
      optim::clip_grad_norm(optimizer_.parameters(), 1.0);
      optimizer_.step();
    }
    loss.item<float>();
    synchronize(); // all of the last step, not its loss alone
  }

private:
  char_gpt::CharGpt model_;
  optim::AdamW optimizer_;
  Tensor input_, target_;
  std::optional<distributed::DataParallel> replicas_;
};

// Seconds of n runs; empty where there is no such case.
using Work = std::function<double(int64_t)>;

Work timed(std::function<void(int64_t)> work) {
  return [work = std::move(work)](int64_t n) {
    double start = benchmarks::now();
    work(n);
    return benchmarks::now() - start;
  };
}

Work tensor_all_reduce(int64_t bytes) {
  auto x = std::make_shared<Tensor>(zeros({bytes / 4}).eval());
  return timed([x](int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      *x = distributed::all_reduce(*x);
      (void)x->data<float>(); // waits for it
    }
  });
}

Work runtime_all_reduce(runtime::Group &group, int64_t bytes) {
  auto x = std::make_shared<std::vector<float>>(static_cast<size_t>(bytes / 4));
  return timed([&group, x](int64_t n) {
    runtime::CollectiveCall call;
    call.kind = runtime::Collective::kAllReduce;
    call.count = static_cast<int64_t>(x->size());
    call.input = call.output = x->data();
    for (int64_t i = 0; i < n; ++i)
      if (absl::Status status = group.run(call); !status.ok())
        throw std::runtime_error(std::string(status.message()));
  });
}

// What the device waited for exchanges in so many steps, instead of their time.
Work exposed(std::shared_ptr<Training> training) {
  return [training](int64_t n) {
    training->run(n);
    std::stringstream lines;
    for (const Evaluation &each : recent_evaluations())
      lines << each.to_string() << "\n";
    return scale::read_step(lines).exposed * static_cast<double>(n);
  };
}

Work find(const std::string &name, const std::string &mode, const Place &place,
          runtime::Group *group) {
  std::map<std::string, int64_t> sizes = {{"all_reduce/64MB", 64 << 20}, {"all_reduce/1KB", 1024}};
  if (auto size = sizes.find(name); size != sizes.end())
    return place.ranks == 1 ? Work()
           : group          ? runtime_all_reduce(*group, size->second)
                            : tensor_all_reduce(size->second);
  bool waits = name == "char_gpt/exposed";
  if (mode == "runtime" || (!waits && name != "char_gpt") || (waits && place.ranks == 1))
    return Work();
  auto training = std::make_shared<Training>(place);
  training->run(20);
  return waits ? exposed(training) : timed([training](int64_t n) { training->run(n); });
}

void work(const Place &place, const std::string &mode) {
  std::unique_ptr<runtime::Communicator> job;
  if (mode == "runtime") {
    auto world = runtime::world_from_environment();
    auto made = world.ok() ? runtime::Communicator::connect(*world, "gloo") : world.status();
    if (!made.ok())
      throw std::runtime_error(std::string(made.status().message()));
    job = std::make_unique<runtime::Communicator>(*std::move(made));
  } else if (place.ranks > 1) {
    distributed::init();
  }
  double start = benchmarks::now();
  auto ready = [&] {
    std::cout << "ready " << benchmarks::now() - start << std::endl;
  };
  ready();
  Work chosen;
  for (std::string line; std::getline(std::cin, line);) {
    for (std::FILE *other : place.others) {
      fputs((line + "\n").c_str(), other);
      fflush(other);
    }
    std::istringstream words(line);
    std::string word, name;
    words >> word >> name;
    if (word == "case") {
      start = benchmarks::now();
      chosen = Work(); // its memory goes first
      chosen = find(name, mode, place, job ? job->world().get() : nullptr);
      if (chosen)
        ready();
      else
        std::cout << "none" << std::endl;
    } else if (chosen) {
      std::cout << chosen(std::stoll(name)) << std::endl;
    }
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::cerr << "usage: worker tensors|runtime RANKS THREADS\n";
    return 2;
  }
  int ranks = std::atoi(argv[2]);
  char folder[] = "/tmp/weft_ranks_XXXXXX";
  if (!mkdtemp(folder))
    return 1;
  setenv("WEFT_NUM_THREADS", argv[3], 1);
  Place place = start_ranks(ranks);
  bind_rank(place);
  setenv("RANK", std::to_string(place.rank).c_str(), 1);
  setenv("WORLD_SIZE", argv[2], 1);
  setenv("LOCAL_WORLD_SIZE", argv[2], 1);
  setenv("WEFT_RENDEZVOUS", (std::string(folder) + "/meet").c_str(), 1);
  int status = 0;
  try {
    work(place, argv[1]);
  } catch (const std::exception &error) {
    std::cerr << "rank " << place.rank << ": " << error.what() << "\n";
    status = 1;
  }
  for (std::FILE *other : place.others)
    fclose(other);
  if (place.rank == 0) {
    while (wait(nullptr) > 0) {}
    unlink((std::string(folder) + "/meet").c_str());
    rmdir(folder);
  }
  return status;
}
