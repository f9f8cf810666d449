#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tools/profile/peaks.h"
#include "tools/profile/table.h"
#include "tools/profile/trace.h"

namespace weft::profile {
namespace {

constexpr const char *kFolder = "tools/profile/testdata/";

std::string text_of(const std::string &file) {
  std::ifstream in(kFolder + file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

absl::StatusOr<Trace> parse(const std::string &text) {
  std::istringstream in(text);
  return read_trace(in);
}

TEST(ReadTrace, SpansAndWhatTheyContain) {
  auto trace = parse(text_of("trace.json"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->processor, "A processor");
  EXPECT_EQ(trace->processors, 4);
  EXPECT_EQ(trace->program_threads, 2);
  EXPECT_EQ(trace->dropped, 3);
  EXPECT_EQ(trace->threads.at(2), "cpu:0");
  EXPECT_EQ(trace->peaks.at("cpu:0 bytes in use"), 1048576);
  ASSERT_EQ(trace->spans.size(), 12u);
  int64_t self = 0, outermost = 0;
  for (const Span &span : trace->spans) {
    self += span.self;
    outermost += span.is_outermost ? span.duration : 0;
  }
  EXPECT_EQ(self, outermost);
  EXPECT_EQ(outermost, 200'000 + 170'000 + 186'000);
  auto named = [&](const std::string &name) {
    for (const Span &span : trace->spans)
      if (trace->kinds[static_cast<size_t>(span.kind)].name == name)
        return span;
    return Span();
  };
  EXPECT_EQ(named("submit: step").self, 20'000);
  EXPECT_EQ(named("find program").self, 10'000);
  EXPECT_EQ(named("plan").self, 20'000);
  EXPECT_EQ(named("program").self, 186'000 - 182'250);
  EXPECT_EQ(named("weft_tanh_0123456789abcdef").duration, 20'250);
}

TEST(Table, IsWhatItWas) {
  auto trace = parse(text_of("trace.json"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::string all;
  for (auto [by, name] : {std::pair(By::kKernel, "kernel"),
                          {By::kLine, "line"},
                          {By::kModule, "module"},
                          {By::kOp, "op"},
                          {By::kPhase, "phase"}})
    all += std::string("== by ") + name + "\n" + table(*trace, {100, 10}, {by, Sort::kTime, 3});
  all += "== by kernel, without a roofline\n" + table(*trace, {}, {By::kKernel, Sort::kCalls, 0});
  EXPECT_EQ(all, text_of("tables.txt")) << all;
}

TEST(Table, AModuleIsTheInstructionsOwnElseThatOfItsWeight) {
  auto event = [](const char *name, const char *args) {
    return std::string(",{\"name\":\"") + name +
           "\",\"cat\":\"kernel\",\"ph\":\"X\",\"ts\":1,\"dur\":2,\"pid\":7,\"tid\":2,\"args\":{" +
           args + "}}";
  };
  std::string text = text_of("trace.json");
  size_t end = text.rfind(']');
  ASSERT_NE(end, std::string::npos);
  text.insert(end, event("a", R"("module":"blocks.0","reads":["blocks.0.up.weight"])") +
                       event("b", R"("module":"blocks.1","modules":["blocks.1","head"])") +
                       event("c", R"("reads":["tail.weight"])"));
  auto trace = parse(text);
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::string rows = table(*trace, {}, {By::kModule, Sort::kTime, 0});
  for (const char *module : {"blocks.0\n", "blocks.1\n", "tail\n"})
    EXPECT_NE(rows.find(module), std::string::npos) << module << rows;
  EXPECT_EQ(rows.find("blocks.0.up"), std::string::npos) << rows;
}

// A model's kernels have its name, and a number instead of a hash.
TEST(Table, AnOpOfAModelIsThatOfAProcess) {
  std::string text = text_of("trace.json");
  size_t end = text.rfind(']');
  ASSERT_NE(end, std::string::npos);
  std::string events;
  for (const char *name : {"weft_my_k2_net_k0_mul_erf", "weft_my_0_train_k12_mul_erf",
                           "weft_mul_erf_0123456789abcdef"})
    events += std::string(",{\"name\":\"") + name +
              "\",\"cat\":\"kernel\",\"ph\":\"X\",\"ts\":1,\"dur\":2,\"pid\":7,\"tid\":2,"
              "\"args\":{}}";
  text.insert(end, events);
  auto trace = parse(text);
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::string rows = table(*trace, {}, {By::kOp, Sort::kTime, 0});
  EXPECT_NE(rows.find(" mul_erf\n"), std::string::npos) << rows;
  EXPECT_EQ(rows.find("_mul_erf"), std::string::npos) << rows;
}

TEST(Table, TheRooflineIsTheLargerOfBothTimes) {
  SpanKind kind;
  kind.flops = 2e6;
  kind.bytes = 120e3;
  EXPECT_DOUBLE_EQ(least_time(kind, {100, 10}), 20e3);
  EXPECT_DOUBLE_EQ(least_time(kind, {100, 1}), 120e3);
  EXPECT_DOUBLE_EQ(least_time(kind, {0, 1}), 0);
}

TEST(ReadTrace, SaysWhatIsWrong) {
  std::string whole = text_of("trace.json");
  auto says = [](const std::string &text, const std::string &what) {
    auto trace = parse(text);
    ASSERT_FALSE(trace.ok()) << what;
    EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument);
    std::string message(trace.status().message());
    EXPECT_NE(message.find(what), std::string::npos) << message;
    EXPECT_NE(message.find("is no trace of Weft: "), std::string::npos) << message;
    EXPECT_NE(message.find("; WEFT_PROFILE=trace.json ./program writes one"), std::string::npos);
  };
  says("", "it is not JSON at byte");
  says("a,b\n1,2\n", "it is not JSON at byte 1");
  says("{}", "it has no list \"traceEvents\"");
  says("[1, 2]", "it has no list \"traceEvents\"");
  says("{\"traceEvents\":3}", "it has no list \"traceEvents\"");
  says("{\"traceEvents\":[]}", "another program wrote it");
  says("{\"traceEvents\":[{\"name\":\"a\",\"ph\":\"B\",\"ts\":1,\"tid\":1}]}",
       "event 1 ('a') is none that Weft writes");
  says(whole.substr(0, whole.size() / 2), "it is damaged");
  std::string negative = whole;
  negative.replace(negative.find("\"dur\":30"), 8, "\"dur\":-3");
  says(negative, "event 4 ('fuse') is none that Weft writes");
  // Cut off anywhere it is refused, and nothing crashes.
  for (size_t length = 0; length + 2 < whole.size(); length += 7)
    EXPECT_FALSE(parse(whole.substr(0, length)).ok()) << length;
  // Bytes that are turned around are refused or read as something else.
  for (size_t at = 0; at < whole.size(); at += 5) {
    std::string turned = whole;
    turned[at] = static_cast<char>(turned[at] ^ 0x15);
    auto trace = parse(turned);
    if (trace.ok())
      EXPECT_FALSE(table(*trace, {100, 10}, {}).empty());
  }
}

TEST(Peaks, AreMeasured) {
  Peaks peaks = measure_peaks(1);
  EXPECT_GT(peaks.gflops, 0);
  EXPECT_GT(peaks.gbs, 0);
}

} // namespace
} // namespace weft::profile
