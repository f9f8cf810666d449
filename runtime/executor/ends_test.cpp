// Executors where computing ends: in threads whose objects go, and in children of fork().
#include "runtime/core/ends.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "runtime/executor/executor.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/system_allocator.h"

namespace weft::runtime {
namespace {

absl::Status nothing(const RunContext &) {
  return absl::OkStatus();
}

std::unique_ptr<Executor> executor(Waiters waiters) {
  auto allocator = std::make_shared<CachingAllocator>(std::make_shared<SystemAllocator>());
  return std::make_unique<Executor>(Memory::create(allocator), 2, "", waiters);
}

class Ends : public testing::TestWithParam<Waiters> {};

// Runs something when its thread's objects go.
struct AtEnd {
  std::function<void()> run;
  ~AtEnd() {
    run();
  }
};

TEST_P(Ends, AThreadWhoseObjectsGoComputesNothing) {
  std::unique_ptr<Executor> used = executor(GetParam());
  absl::Status before, after;
  std::thread([&] {
    thread_local AtEnd last;
    last.run = [&] {
      after = used->run(nothing);
      used->synchronize(); // what is under way is waited for all the same
    };
    thread_local EndOfThread first;
    [[maybe_unused]] EndOfThread *made = &first;
    before = used->run(nothing);
  }).join();
  EXPECT_TRUE(before.ok()) << before;
  EXPECT_EQ(after.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(after.message().find("the thread ends"), absl::string_view::npos) << after;
  EXPECT_TRUE(used->run(nothing).ok()); // other threads go on
}

// Status of a child that does this and ends as it says; -1 if it hangs or a signal ends it.
int in_child(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_P(Ends, AForkedChildIsToldThatItComputesNothing) {
  std::unique_ptr<Executor> used = executor(GetParam());
  ASSERT_TRUE(used->run(nothing).ok());
  std::promise<void> may_end;
  std::shared_ptr<const Event> under_way = used->submit([&](const RunContext &) {
    may_end.get_future().wait();
    return absl::OkStatus();
  });
  auto is_refused = [](const absl::Status &status) {
    return status.code() == absl::StatusCode::kFailedPrecondition &&
           status.message().find("a child of fork()") != absl::string_view::npos;
  };
  EXPECT_EQ(in_child([&] { return is_refused(used->run(nothing)) ? 0 : 1; }), 0);
  EXPECT_EQ(in_child([&] { return is_refused(used->submit(nothing)->wait()) ? 0 : 1; }), 0);
  EXPECT_EQ(in_child([&] { return is_refused(under_way->wait()) ? 0 : 1; }), 0);
  EXPECT_EQ(in_child([&] {
              used->synchronize();
              used.reset(); // whose threads are not there
              return 0;
            }),
            0);
  may_end.set_value();
  EXPECT_TRUE(under_way->wait().ok());
  EXPECT_TRUE(used->run(nothing).ok()); // the parent goes on
}

INSTANTIATE_TEST_SUITE_P(Waiting, Ends, testing::Values(Waiters::kSleep, Waiters::kRun));

} // namespace
} // namespace weft::runtime
