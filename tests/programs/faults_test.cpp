// What must not be lost: numbers when memory runs out, files when the disk is full or a process is
// killed, the cache when several share it.
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "runtime/memory/allocator.h"
#include "runtime/memory/system_allocator.h"
#include "tests/programs/process.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;
constexpr const char *kWorker = "tests/programs/fault_worker";

// Fails the given allocation and all that follow, so that a further attempt finds no memory either.
class FailingAllocator : public runtime::Allocator {
public:
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    if (until_failure_ == 0)
      return absl::ResourceExhaustedError("this allocation was told to fail");
    if (until_failure_ > 0)
      --until_failure_;
    return system_.allocate(bytes, alignment);
  }
  void free(void *pointer, int64_t bytes) override {
    system_.free(pointer, bytes);
  }
  runtime::AllocatorStats stats() const override {
    return system_.stats();
  }
  void fail_from(int64_t allocation) {
    until_failure_ = allocation;
  }

private:
  runtime::SystemAllocator system_;
  std::atomic<int64_t> until_failure_{-1};
};

// A small network with all that a step has: dropout, a loss over classes, AdamW.
struct Training {
  nn::Sequential model{nn::Linear(5, 16), nn::GELU(), nn::Dropout(0.2), nn::Linear(16, 3)};
  optim::AdamW optimizer{model.parameters(), {.lr = 0.05}};
  Tensor x = Tensor::from(std::vector<float>(40, 0.25f), {8, 5}),
         y = Tensor::from(std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1});

  Tensor step() {
    Tensor loss = nn::cross_entropy(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  }
  std::vector<std::vector<float>> numbers(const Tensor &loss) {
    std::vector<std::vector<float>> all{loss.to_vector<float>()};
    for (Tensor &parameter : model.parameters())
      all.push_back(parameter.to_vector<float>());
    return all;
  }
};

TEST(Faults, EveryAllocationOfATrainingStepFailsInTurn) {
  auto second_step = [&](int64_t failing, bool &failed) {
    // Nothing is kept from the attempt before: the arena is taken again.
    auto allocator = std::make_shared<FailingAllocator>();
    set_allocator(allocator);
    manual_seed(3);
    Training training;
    training.step();
    synchronize();
    // A batch of another size: its program takes an arena of its own.
    training.x = Tensor::from(std::vector<float>(35, -0.5f), {7, 5});
    training.y = Tensor::from(std::vector<int64_t>{2, 1, 0, 2, 1, 0, 2});
    allocator->fail_from(failing);
    Tensor loss;
    bool stepped = false;
    try {
      loss = nn::cross_entropy(training.model(training.x), training.y);
      training.optimizer.zero_grad();
      loss.backward();
      training.optimizer.step();
      stepped = true;
      loss.eval();
    } catch (const Error &error) {
      failed = true;
      EXPECT_EQ(error.kind(), ErrorKind::kMemory) << error.what();
      for (const char *part :
           {"out of memory: ", " asked for ", "; in use ", ", by ", "told to fail"})
        EXPECT_NE(error.message().find(part), std::string::npos) << error.what();
    }
    allocator->fail_from(-1);
    // A step that failed was not made; what was recorded before it is still there.
    if (!stepped)
      training.optimizer.step();
    return training.numbers(loss);
  };
  bool failed = false;
  std::vector<std::vector<float>> expected = second_step(-1, failed);
  ASSERT_FALSE(failed);
  int64_t failures = 0;
  for (int64_t n = 0;; ++n, ++failures) {
    ASSERT_LT(n, 200);
    failed = false;
    EXPECT_EQ(second_step(n, failed), expected) << "allocation " << n;
    if (!failed)
      break;
  }
  EXPECT_GE(failures, 1) << "a step takes its arena; what is donated becomes its outputs";
  set_allocator(nullptr);
}

// While one lives, no file of this process grows past the limit, as if the disk were full.
class FullDisk {
public:
  explicit FullDisk(rlim_t bytes) : before_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    rlimit small = limit_;
    small.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    ::signal(SIGXFSZ, before_);
  }

private:
  void (*before_)(int);
  rlimit limit_;
};

std::set<std::string> names_in(const std::string &folder) {
  std::set<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

TEST(Faults, AFullDiskLeavesTheOldFiles) {
  std::string folder = scratch_folder();
  Tensor old = tensor({1.f, 2.f}), large = zeros({5000});
  large.eval();
  auto attempt = [&](const std::string &path, auto save, auto load) {
    save(path, old);
    {
      FullDisk disk(4096);
      try {
        save(path, large);
        ADD_FAILURE() << path << " was written to a full disk";
      } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::kFile) << error.what();
        EXPECT_NE(error.message().find(path), std::string::npos) << error.what();
      }
    }
    EXPECT_EQ(load(path).template to_vector<float>(), (std::vector<float>{1, 2}));
    save(path, large); // and now there is room
    EXPECT_EQ(load(path).size(), 5000);
  };
  attempt(
      folder + "/x.npy", [](const std::string &path, const Tensor &x) { io::save_npy(path, x); },
      [](const std::string &path) { return io::load_npy(path); });
  attempt(
      folder + "/x.safetensors",
      [](const std::string &path, const Tensor &x) {
        io::save_safetensors(path, {{"x", x}}, {{"step", "1"}});
      },
      [](const std::string &path) { return io::load_safetensors(path).tensors.at(0).second; });
  EXPECT_EQ(names_in(folder), (std::set<std::string>{"x.npy", "x.safetensors"}))
      << "nothing is left behind";
}

TEST(Faults, AFullDiskOnlyCostsTheCache) {
  Config before = config(), options = before;
  std::string folder = options.cache_dir = scratch_folder();
  set_config(options);
  {
    FullDisk disk(100);
    Tensor x = ones({41}) * 2 + 1;
    Evaluation evaluation = explain(x);
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(41, 3.f));
    EXPECT_NE(evaluation.disk_cache.find("cannot write"), std::string::npos)
        << evaluation.disk_cache;
  }
  EXPECT_EQ(names_in(folder), std::set<std::string>());
  set_config(before);
}

TEST(Faults, AKilledWriterLeavesAWholeFile) {
  for (std::string kind : {"npy", "safetensors"}) {
    std::string folder = scratch_folder(), path = folder + "/x." + kind;
    for (int round = 0; round < 8; ++round) {
      auto started = std::chrono::steady_clock::now();
      ProcessResult result = run_process({kWorker, "write", kind, path}, [&] {
        return fs::exists(path) && std::chrono::steady_clock::now() - started >
                                       std::chrono::milliseconds(40 + 7 * round);
      });
      ASSERT_EQ(result.signal, SIGKILL) << result.err;
      std::vector<float> values =
          kind == "npy" ? io::load_npy(path).to_vector<float>()
                        : io::load_safetensors(path).tensors.at(0).second.to_vector<float>();
      ASSERT_FALSE(values.empty());
      EXPECT_EQ(values, std::vector<float>(values.size(), values[0])) << "a mixture of two files";
    }
  }
}

TEST(Faults, ProcessesShareACacheAndAreKilled) {
  std::string folder = scratch_folder();
  ASSERT_EQ(::setenv("WEFT_CACHE_DIR", folder.c_str(), 1), 0);
  constexpr int kProcesses = 4, kPrograms = 12;
  auto sorted = [](const std::string &text) {
    std::istringstream stream(text);
    std::set<std::string> lines;
    for (std::string line; std::getline(stream, line);)
      lines.insert(line);
    return lines;
  };
  // All at once over an empty folder, each starting with another program; one more is killed in the
  // middle.
  std::vector<ProcessResult> results(kProcesses + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i <= kProcesses; ++i)
    threads.emplace_back([&, i] {
      std::vector<std::string> command = {kWorker, "compute", std::to_string(3 * i),
                                          std::to_string(kPrograms)};
      if (i < kProcesses)
        results[i] = run_process(command);
      else
        results[i] =
            run_process(command, [&] { return fs::exists(folder) && names_in(folder).size() > 4; });
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int i = 0; i < kProcesses; ++i) {
    EXPECT_EQ(results[i].exit_code, 0) << results[i].err;
    EXPECT_EQ(sorted(results[i].out), sorted(results[0].out));
    EXPECT_EQ(sorted(results[i].out).size(), size_t(kPrograms));
    EXPECT_NE(results[i].err.find("0 corrupt"), std::string::npos) << results[i].err;
  }
  ProcessResult last = run_process({kWorker, "compute", "0", std::to_string(kPrograms)});
  EXPECT_EQ(sorted(last.out), sorted(results[0].out));
  EXPECT_NE(last.err.find("0 corrupt, " + std::to_string(kPrograms) + " hits"), std::string::npos)
      << last.err;
  ::setenv("WEFT_CACHE_DIR", "off", 1);
}

// Nobody waits for the last steps of a loop that reads nothing: the process ends cleanly all the
// same.
TEST(Faults, AProcessEndsWithStepsUnderWay) {
  for (int i = 0; i < 12; ++i) {
    ProcessResult result = run_process({kWorker, "leave", std::to_string(3 * i)});
    ASSERT_EQ(result.exit_code, 0) << "signal " << result.signal << " " << result.err;
  }
}

// Threads that share parameters in memory, each with its own graphs, derivatives, writes and
// evaluations.
// What Weft and its libraries keep has gone then, in part.
TEST(Faults, ComputingAtTheEndOfAProcessIsAnError) {
  for (int round = 0; round < 3; ++round) {
    ProcessResult result = run_process({kWorker, "end"});
    EXPECT_EQ(result.exit_code, 0) << result.signal << result.err;
    for (const char *where : {"a thread's object", "atexit", "a static object"}) {
      EXPECT_NE(result.out.find(std::string(where) + ": "), std::string::npos) << result.out;
      EXPECT_EQ(result.out.find(std::string(where) + " computes"), std::string::npos) << result.out;
    }
    for (const char *said :
         {"a thread's object reads 5", "atexit reads 4", "a static object reads 3",
          "fault_worker.cpp:", "ones: the thread ends, and computes nothing any more"})
      EXPECT_NE(result.out.find(said), std::string::npos) << result.out;
  }
}

// The run that calls it never ends: nobody waits for it.
TEST(Faults, AKernelMayCallExit) {
  for (const char *pieces : {"1", "1000000"}) {
    ProcessResult result = run_process({kWorker, "exit", pieces});
    EXPECT_EQ(result.exit_code, 7) << pieces << " " << result.signal << result.err;
    EXPECT_NE(result.out.find("atexit reads 1"), std::string::npos) << result.out;
  }
}

TEST(Faults, AForkedChildEndsInOrderAndComputesNothing) {
  // What a thread of the parent's held has no owner in the child: LeakSanitizer takes it for lost.
  const char *options = getenv("ASAN_OPTIONS");
  ProcessResult result = run_process(
      {"/usr/bin/env", std::string("ASAN_OPTIONS=") + (options ? options : "") + ":detect_leaks=0",
       kWorker, "fork"});
  EXPECT_EQ(result.exit_code, 0) << result.signal << result.err;
  for (const char *said :
       {"the child reads 7", "the child: ", "fault_worker.cpp:",
        "this process is a child of fork(), which has none of the threads that compute",
        "the parent reads 7", "the parent computes 8", "1.08e+08"})
    EXPECT_NE(result.out.find(said), std::string::npos) << said << " is not in " << result.out;
  size_t first = result.out.find("a child has ended with 0\n");
  ASSERT_NE(first, std::string::npos) << result.out;
  EXPECT_NE(result.out.find("a child has ended with 0\n", first + 1), std::string::npos)
      << result.out;
}

TEST(Faults, EightThreadsRecordAndEvaluate) {
  Tensor shared = Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2});
  auto work = [&](int t) {
    std::vector<float> result;
    Tensor w = (shared * (1 + t)).detach().set_requires_grad();
    for (int i = 0; i < 12; ++i) {
      Tensor loss = sum(tanh(matmul(w, shared)) * 0.5);
      w.zero_grad();
      loss.backward();
      {
        NoGrad no_history;
        w -= w.grad() * 0.1;
        w.select(0, i % 2).mul_(0.99);
      }
      if (i % 3 == t % 3)
        result.push_back(loss.item<float>());
    }
    for (float x : w.to_vector<float>())
      result.push_back(x);
    return result;
  };
  std::vector<std::vector<float>> expected, found(8);
  for (int t = 0; t < 8; ++t)
    expected.push_back(work(t));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] { found[t] = work(t); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(found, expected);
}

} // namespace
} // namespace weft::tests
