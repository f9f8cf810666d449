#include "runtime/profile/profile.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "nlohmann/json.hpp"
#include "runtime/profile/limits.h"

namespace weft::runtime::profile {
namespace {

using Json = nlohmann::json;

std::string temporary(const std::string &name) {
  return ::testing::TempDir() + "/" + std::to_string(getpid()) + "." + name;
}

Json read(const std::string &file) {
  std::ifstream in(file);
  return Json::parse(in, nullptr, /*allow_exceptions=*/false);
}

std::vector<Json> events(const Json &trace, const std::string &phase) {
  std::vector<Json> found;
  for (const Json &event : trace.value("traceEvents", Json::array()))
    if (event.value("ph", "") == phase)
      found.push_back(event);
  return found;
}

uint32_t kernel(const std::string &name, double flops = 0, double bytes = 0) {
  return number_of({Kind::kKernel, name, "", "", flops, bytes});
}

TEST(Profile, OffNothingIsRecorded) {
  EXPECT_FALSE(on());
  bool asked = false;
  {
    Span none(0);
    Span lazy([&] {
      asked = true;
      return Label{Kind::kWait, "wait"};
    });
    Span made(kernel("before"));
  }
  EXPECT_FALSE(asked);
  EXPECT_TRUE(file().empty());
  EXPECT_FALSE(flush().ok());
  EXPECT_TRUE(stop().ok()); // of no trace
  // What came before a trace is no part of it.
  std::string name = temporary("off.json");
  ASSERT_TRUE(start(name).ok());
  EXPECT_TRUE(on());
  EXPECT_EQ(file(), name);
  ASSERT_TRUE(stop().ok());
  EXPECT_FALSE(on());
  Json trace = read(name);
  ASSERT_TRUE(trace.is_object());
  EXPECT_TRUE(events(trace, "X").empty());
  EXPECT_EQ(trace["weft"]["version"], 1);
  EXPECT_EQ(trace["dropped"], 0);
}

TEST(Profile, SpansNestAndSayWhatTheyAre) {
  std::string name = temporary("nest.json");
  ASSERT_TRUE(start(name).ok());
  uint32_t outer = number_of(
      {Kind::kProgram, "outer", Args().add("line", "a.cpp:3").add("ops", 7).take(), "run", 0, 0});
  uint32_t inner = kernel("with \"quotes\"\n\xff\xed\xa0\x80", 2e9, 4096);
  EXPECT_EQ(inner, kernel("with \"quotes\"\n\xff\xed\xa0\x80", 2e9, 4096));
  EXPECT_NE(inner, kernel("with \"quotes\"\n\xff\xed\xa0\x80", 2e9, 8192));
  {
    Span program(outer, 12);
    for (int i = 0; i < 3; ++i) {
      Span instruction(inner);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  count(number_of({Kind::kCounter, "memory", "", "bytes", 0, 0}), 512);
  ASSERT_TRUE(stop().ok());
  Json trace = read(name);
  std::vector<Json> spans = events(trace, "X");
  ASSERT_EQ(spans.size(), 4u);
  const Json &program = spans[3]; // ends last
  EXPECT_EQ(program["name"], "outer");
  EXPECT_EQ(program["cat"], "program");
  EXPECT_EQ(program["args"]["line"], "a.cpp:3");
  EXPECT_EQ(program["args"]["ops"], 7);
  EXPECT_EQ(program["args"]["run"], 12);
  double end = program["ts"].get<double>() + program["dur"].get<double>(), sum = 0;
  for (int i = 0; i < 3; ++i) {
    const Json &each = spans[i];
    EXPECT_EQ(each["name"], "with \"quotes\"\n????");
    EXPECT_EQ(each["tid"], program["tid"]);
    EXPECT_GE(each["ts"].get<double>(), program["ts"].get<double>());
    EXPECT_LE(each["ts"].get<double>() + each["dur"].get<double>(), end + 1e-6);
    double nanoseconds = each["dur"].get<double>() * 1000;
    EXPECT_NEAR(each["args"]["GFLOP/s"].get<double>() * nanoseconds, 2e9, 2e4);
    EXPECT_NEAR(each["args"]["GB/s"].get<double>() * nanoseconds, 4096, 1);
    sum += each["dur"].get<double>();
  }
  EXPECT_LE(sum, program["dur"].get<double>());
  std::vector<Json> counters = events(trace, "C");
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_EQ(counters[0]["args"]["bytes"], 512);
}

TEST(Profile, EachThreadHasItsOwnRow) {
  std::string name = temporary("threads.json");
  ASSERT_TRUE(start(name).ok());
  constexpr int kThreads = 8, kSpans = 5000;
  uint32_t label = kernel("work");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      name_thread("worker " + std::to_string(t));
      for (int i = 0; i < kSpans; ++i)
        Span span(label);
    });
  // Somebody asks for the file meanwhile.
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(flush().ok());
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_TRUE(stop().ok());
  EXPECT_EQ(dropped(), 0);
  Json trace = read(name);
  std::map<int, int> counts;
  for (const Json &each : events(trace, "X"))
    ++counts[each["tid"].get<int>()];
  EXPECT_EQ(counts.size(), size_t{kThreads});
  for (auto [thread, spans] : counts)
    EXPECT_EQ(spans, kSpans) << thread;
  std::set<std::string> names;
  for (const Json &each : events(trace, "M"))
    if (each["name"] == "thread_name") {
      EXPECT_TRUE(counts.contains(each["tid"].get<int>()));
      names.insert(each["args"]["name"].get<std::string>());
    }
  EXPECT_EQ(names.size(), size_t{kThreads});
  EXPECT_TRUE(names.contains("worker 3"));
}

TEST(Profile, WhatDoesNotFitIsCounted) {
  std::string name = temporary("bound.json");
  ASSERT_TRUE(start(name).ok());
  // The writer waits for each buffer at most once in kPeriod: some of these come too fast, unless
  // it is as fast as a loop of additions. All are accounted for.
  constexpr int64_t kEvents = 40 * int64_t{kEventsOfThread};
  uint32_t label = kernel("tiny");
  for (int64_t i = 0; i < kEvents; ++i)
    detail::record(label, now(), now(), 0);
  ASSERT_TRUE(stop().ok());
  Json trace = read(name);
  auto written = static_cast<int64_t>(events(trace, "X").size());
  EXPECT_EQ(trace["dropped"], dropped());
  EXPECT_EQ(written + dropped(), kEvents);
  EXPECT_GE(written, int64_t{kEventsOfThread});
}

TEST(Profile, OneTraceAtATime) {
  std::string name = temporary("one.json");
  ASSERT_TRUE(start(name).ok());
  absl::Status second = start(temporary("two.json"));
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(second.message().find(name), absl::string_view::npos) << second;
  ASSERT_TRUE(stop().ok());
  absl::Status nowhere = start("/does/not/exist.json");
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(nowhere.message().find("/does/not/exist.json: No such file"), absl::string_view::npos);
  EXPECT_FALSE(on());
  // The next one is written over the last one.
  uint32_t label = kernel("again");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(start(name).ok());
    { Span span(label); }
    ASSERT_TRUE(stop().ok());
    EXPECT_EQ(events(read(name), "X").size(), 1u);
  }
}

// In a process of its own, which ends as `end` says.
template <typename Body> int in_child(Body body) {
  pid_t child = fork();
  if (child == 0) {
    // What it says of its end is none of the test's.
    if (!std::freopen("/dev/null", "w", stderr))
      _exit(9);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(Profile, AnErrorLeavesAWholeFile) {
  std::string thrown = temporary("thrown.json"), killed = temporary("killed.json"),
              ended = temporary("ended.json");
  uint32_t label = kernel("last");
  int status = in_child([&] {
    EXPECT_TRUE(start(thrown).ok());
    { Span span(label); }
    std::terminate();
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(events(read(thrown), "X").size(), 1u);
  status = in_child([&] {
    EXPECT_TRUE(start(killed).ok());
    { Span span(label); }
    EXPECT_TRUE(flush().ok());
    { Span span(label); }
    kill(getpid(), SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  size_t written = events(read(killed), "X").size(); // the writer may have come by
  EXPECT_TRUE(written == 1 || written == 2) << written;
  status = in_child([&] {
    EXPECT_TRUE(start(ended).ok());
    { Span span(label); }
    std::exit(3);
  });
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_EQ(events(read(ended), "X").size(), 1u);
}

TEST(Profile, ProcessesDoNotShareAFile) {
  std::string name = temporary("shared.json");
  ASSERT_TRUE(start(name).ok());
  uint32_t label = kernel("mine");
  { Span span(label); }
  pid_t pid = 0;
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  int status = in_child([&] {
    // A child of a process that writes a trace writes none.
    bool was_on = on();
    pid_t own = getpid();
    bool sent = write(channel[1], &own, sizeof own) == sizeof own;
    _exit(was_on || !sent);
  });
  EXPECT_EQ(status, 0);
  ASSERT_EQ(::read(channel[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  close(channel[0]);
  close(channel[1]);
  ASSERT_TRUE(stop().ok());
  EXPECT_EQ(events(read(name), "X").size(), 1u);
  // One that somebody writes is left alone.
  std::filesystem::resize_file(name, 0);
  int held = open(name.c_str(), O_RDONLY);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  ASSERT_TRUE(start(name).ok());
  EXPECT_EQ(file(), name + "." + std::to_string(getpid()));
  ASSERT_TRUE(stop().ok());
  close(held);
  EXPECT_EQ(std::filesystem::file_size(name), 0u);
  EXPECT_TRUE(read(name + "." + std::to_string(getpid())).is_object());
}

} // namespace
} // namespace weft::runtime::profile
