#include "benchmarks/overhead/allocators.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/memory/tracing_allocator.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

constexpr int kBatches = 40;
constexpr int64_t kTexts = 8, kLongest = 256, kVocabulary = 4000, kWidth = 128;

struct Call {
  size_t block; // the number of its allocation
  int64_t bytes;
  bool frees;
};

// What it writes down, since the allocator lives as long as what it has given out.
struct Log {
  std::mutex mutex;
  std::vector<Call> calls;
  std::unordered_map<void *, size_t> numbers;
  size_t blocks = 0;
};

// The calls of an allocator while `program` runs.
template <typename Program> std::vector<Call> calls_of(Program program) {
  auto log = std::make_shared<Log>();
  set_allocator(std::make_shared<runtime::TracingAllocator>(
      default_allocator(), [log](const runtime::AllocationTrace &trace) {
        std::lock_guard lock(log->mutex);
        bool frees = trace.kind == runtime::AllocationTrace::Kind::kFree;
        if (!frees)
          log->numbers[trace.pointer] = log->blocks++;
        log->calls.push_back({log->numbers[trace.pointer], trace.bytes, frees});
      }));
  program();
  synchronize();
  set_allocator(nullptr);
  std::lock_guard lock(log->mutex);
  return log->calls;
}

struct Taken {
  double ratio; // reserved bytes at most, over live ones at most
  double seconds;
};
Taken replay(const std::vector<Call> &calls, int64_t split_bytes) {
  runtime::CachingAllocator cache(std::make_shared<runtime::SystemAllocator>(),
                                  {.split_bytes = split_bytes});
  std::vector<void *> blocks(calls.size());
  int64_t reserved = 0;
  double start = now();
  for (const Call &call : calls) {
    if (call.frees) {
      cache.free(blocks[call.block], call.bytes);
    } else {
      blocks[call.block] = cache.allocate(call.bytes, 64).value();
      reserved = std::max(reserved, cache.stats().reserved_bytes);
    }
  }
  double seconds = now() - start;
  std::vector<bool> is_freed(calls.size());
  for (const Call &call : calls)
    is_freed[call.block] = is_freed[call.block] || call.frees;
  for (const Call &call : calls) // of the cache every block is given back
    if (!is_freed[call.block])
      cache.free(blocks[call.block], call.bytes);
  return {static_cast<double>(reserved) / static_cast<double>(cache.stats().peak_bytes), seconds};
}

// Texts of any length; `trains` or is asked for its scores.
void texts(bool trains) {
  std::mt19937 random(7);
  nn::Embedding embedding(kVocabulary, kWidth);
  nn::Sequential body{nn::Linear(kWidth, 4 * kWidth), nn::ReLU(), nn::Linear(4 * kWidth, kWidth),
                      nn::ReLU(), nn::Linear(kWidth, kVocabulary)};
  std::vector<Tensor> parameters = body.parameters();
  for (const Tensor &parameter : embedding.parameters())
    parameters.push_back(parameter);
  optim::SGD optimizer(parameters, {.lr = 1e-3, .momentum = 0.9});
  Tensor kept;
  for (int i = 0; i < kBatches; ++i) {
    int64_t length = 8 + static_cast<int64_t>(random() % (kLongest - 7));
    Tensor ids = full({kTexts, length}, i, int64);
    if (!trains) {
      NoGrad no_history;
      kept = body(embedding(ids)).eval();
      continue;
    }
    optimizer.zero_grad();
    Tensor scores = body(embedding(ids)).reshape({-1, kVocabulary});
    Tensor loss = nn::cross_entropy(scores, ids.reshape({-1}));
    loss.backward();
    optimizer.step();
    loss.item<float>();
  }
}

// What a training loop takes at most. Its gradients take most of it.
int64_t peak_of_a_loop(bool reads) {
  nn::Sequential model{nn::Linear(1024, 1024), nn::ReLU(), nn::Linear(1024, 1024)};
  optim::SGD optimizer(model.parameters(), {.lr = 1e-3});
  Tensor x = ones({64, 1024}).eval();
  auto counting = std::make_shared<runtime::TracingAllocator>(default_allocator());
  set_allocator(counting);
  for (int i = 0; i < kBatches; ++i) {
    optimizer.zero_grad();
    Tensor loss = model(x).mean();
    loss.backward();
    optimizer.step();
    if (reads)
      loss.item<float>();
  }
  synchronize();
  set_allocator(nullptr);
  return counting->stats().peak_bytes;
}

} // namespace

void allocators(Report &report, int rounds, int threads) {
  auto add = [&](const std::string &name, const char *metric, const char *unit, double value) {
    report.add({"overhead", name, "weft", metric, unit, value, threads, 1});
  };
  for (bool trains : {false, true}) {
    std::vector<Call> calls = calls_of([&] { texts(trains); });
    for (bool cuts : {true, false}) {
      int64_t split_bytes = cuts ? runtime::CachingAllocatorOptions().split_bytes
                                 : std::numeric_limits<int64_t>::max();
      std::vector<double> times;
      double ratio = 0;
      for (int round = 0; round < rounds; ++round) {
        Taken taken = replay(calls, split_bytes);
        ratio = taken.ratio;
        times.push_back(taken.seconds / static_cast<double>(calls.size()));
      }
      std::string name = std::string("allocator_texts_") + (trains ? "training" : "serving") +
                         (cuts ? "" : "_one_block_a_request");
      add(name + "_reserved_over_live", "ratio", "1", ratio);
      add(name + "_call", "time", "ns", 1e9 * median(times));
    }
  }
  auto peak = static_cast<double>(peak_of_a_loop(/*reads=*/false));
  add("loop_that_runs_ahead_peak", "ratio", "1",
      peak / static_cast<double>(peak_of_a_loop(/*reads=*/true)));
}

} // namespace weft::benchmarks
