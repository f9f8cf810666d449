// A trace of programs that run: each instruction stands in it, within its run, with what it does.
#include "weft/profile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "tests/programs/process.h"
#include "tests/programs/trace.h"
#include "weft/weft.h"

namespace weft {
namespace {

using tests::Json;
using tests::ProcessResult;
using tests::Span;
using tests::Trace;

std::string file_of(const std::string &name) {
  return tests::scratch_folder() + "/" + name;
}

std::string place(int line) {
  return std::string(__FILE__) + ":" + std::to_string(line);
}

struct Mlp : nn::Module {
  nn::Linear up = child("up", nn::Linear(20, 24));
  nn::Linear down = child("down", nn::Linear(24, 1));
  Tensor operator()(const Tensor &x) {
    return down(tanh(up(x)));
  }
};

void train(int steps) {
  Mlp model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  for (int i = 0; i < steps; ++i) {
    Tensor x = full({32, 20}, 0.1 * i), y = full({32, 1}, 0.5);
    Tensor loss = nn::mse(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  synchronize();
}

// What each trace has to keep to, whatever ran.
void check_nesting(const Trace &trace) {
  std::vector<Span> programs = trace.of("program");
  size_t instructions = 0;
  for (const Span &program : programs) {
    double sum = 0;
    size_t count = 0;
    for (const char *category : {"kernel", "library", "copy", "fill"})
      for (const Span &each : trace.within(program, category)) {
        sum += each.end - each.begin;
        ++count;
      }
    EXPECT_LE(sum, program.end - program.begin + 1e-3 * double(count));
    EXPECT_EQ(program.args["instructions"], count);
    instructions += count;
  }
  // None is outside of a program.
  EXPECT_EQ(instructions, trace.of("kernel").size() + trace.of("library").size() +
                              trace.of("copy").size() + trace.of("fill").size());
  for (const Span &evaluation : trace.of("evaluation"))
    EXPECT_GE(trace.within(evaluation, "program").size(), 1u) << evaluation.name;
}

TEST(Profile, ATrainingLoop) {
  std::string file = file_of("train.json");
  constexpr int kSteps = 5;
  train(1); // the first step compiles
  {
    Profile profile(file);
    EXPECT_EQ(profile.file(), file);
    train(kSteps);
    EXPECT_EQ(profile.dropped(), 0);
  }
  Trace trace(file);
  check_nesting(trace);
  // Each evaluation that explain knows, with all kernels and library calls that it says.
  std::map<int64_t, Span> evaluations;
  for (const Span &span : trace.of("evaluation"))
    evaluations.emplace(span.args["evaluation"].get<int64_t>(), span);
  int steps = 0;
  for (const Evaluation &evaluation : recent_evaluations()) {
    auto found = evaluations.find(static_cast<int64_t>(evaluation.number));
    if (found == evaluations.end())
      continue;
    const Span &span = found->second;
    steps += evaluation.reason == CutReason::kStep;
    EXPECT_EQ(span.name, std::string(name(evaluation.reason)) + " " + evaluation.file + ":" +
                             std::to_string(evaluation.line));
    std::set<std::string> kernels;
    for (const Span &kernel : trace.within(span, "kernel")) {
      kernels.insert(kernel.name);
      EXPECT_TRUE(kernel.args.contains("types")) << kernel.name;
      EXPECT_GT(kernel.args["bytes"], 0) << kernel.name;
    }
    EXPECT_EQ(kernels.size(), size_t(evaluation.kernels));
    EXPECT_EQ(trace.within(span, "library").size(), size_t(evaluation.library_calls));
  }
  EXPECT_EQ(steps, kSteps);
  EXPECT_GE(trace.of("submit").size(), size_t(kSteps));
  EXPECT_GE(trace.of("find").size(), size_t(kSteps));
  EXPECT_TRUE(trace.of("compile").empty()); // all was compiled before
  // Nothing is recorded once it has ended.
  train(1);
  EXPECT_EQ(Trace(file).spans.size(), trace.spans.size());
}

TEST(Profile, AProductSaysItsOperationsAndItsLine) {
  constexpr int kM = 64, kN = 48, kK = 80;
  Tensor a = full({kM, kK}, 0.5), b = full({kK, kN}, 0.25);
  eval({a, b});
  std::string file = file_of("product.json");
  int line = 0;
  {
    Profile profile(file);
    line = __LINE__ + 1;
    Tensor c = matmul(a, b);
    c.eval();
  }
  Trace trace(file);
  check_nesting(trace);
  std::vector<Span> calls = trace.of("library");
  if (calls.empty()) // a backend without the library has a kernel
    calls = trace.of("kernel");
  ASSERT_EQ(calls.size(), 1u);
  const Json &args = calls[0].args;
  EXPECT_EQ(args["flops"], 2.0 * kM * kN * kK);
  EXPECT_EQ(args["bytes"], 4.0 * (kM * kK + kK * kN + kM * kN));
  EXPECT_EQ(args["line"], place(line));
  EXPECT_EQ(args["types"], "float32[64,80] float32[80,48] -> float32[64,48]");
  double nanoseconds = (calls[0].end - calls[0].begin) * 1000;
  EXPECT_NEAR(args["GFLOP/s"].get<double>() * nanoseconds, 2.0 * kM * kN * kK,
              0.01 * 2 * kM * kN * kK);
}

TEST(Profile, AKernelOfSeveralLinesNamesThem) {
  Tensor x = full({1000}, 0.5);
  x.eval();
  std::string file = file_of("lines.json");
  int line = 0;
  {
    Profile profile(file);
    line = __LINE__ + 1;
    Tensor y = tanh(x);
    Tensor z = y + 1.0;
    z.eval();
  }
  std::vector<Span> kernels = Trace(file).of("kernel");
  ASSERT_GE(kernels.size(), 1u);
  const Span &kernel = kernels.back();
  EXPECT_EQ(kernel.args["lines"], Json({place(line), place(line + 1)}));
  EXPECT_NE(kernel.name.find("tanh"), std::string::npos) << kernel.name;
}

// A size that varies: operations and bytes are those of the size that ran.
TEST(Profile, SymbolicProgramsCountWhatRan) {
  std::string file = file_of("symbolic.json");
  Tensor w = full({32}, 0.5);
  w.eval();
  std::vector<Tensor> inputs;
  for (int rows : {100, 120, 90, 110, 64})
    inputs.push_back(full({rows, 32}, 0.5));
  eval(inputs);
  auto compute = [&](const Tensor &x) {
    Tensor y = exp(x) * w;
    y.eval();
  };
  for (const Tensor &x : inputs)
    compute(x);
  {
    Profile profile(file);
    compute(inputs[4]);
  }
  std::vector<Span> kernels = Trace(file).of("kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_NEAR(kernels[0].args["bytes"].get<double>(), 4.0 * (2 * 64 * 32 + 32), 1);
}

// Of a table that is looked up only what is read counts.
TEST(Profile, AnEmbeddingReadsItsRows) {
  Tensor table = full({5000, 16}, 0.5), rows = full({8}, 3, int64);
  eval({table, rows});
  std::string file = file_of("table.json");
  {
    Profile profile(file);
    Tensor y = tanh(table.index_select(0, rows));
    y.eval();
  }
  std::vector<Span> kernels = Trace(file).of("kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].args["bytes"], 4 * 8 * 16 + 8 * 8 + 4 * 8 * 16);
}

TEST(Profile, OneAtATime) {
  std::string file = file_of("one.json");
  Profile profile(file);
  int line = 0;
  try {
    line = __LINE__ + 1;
    Profile second(file_of("two.json"));
    FAIL() << "two profiles";
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::kState);
    EXPECT_EQ(error.line(), line);
    EXPECT_NE(error.message().find(file), std::string::npos) << error.message();
  }
}

TEST(Profile, AFileThatCannotBe) {
  try {
    Profile profile("/does/not/exist/trace.json");
    FAIL() << "no such folder";
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFile);
    EXPECT_NE(error.message().find("/does/not/exist/trace.json"), std::string::npos);
  }
}

// As a user starts it.
ProcessResult run_self(const std::string &file, const std::string &what) {
  setenv("WEFT_PROFILE", file.c_str(), 1);
  setenv("WEFT_PROFILE_TEST", what.c_str(), 1);
  ProcessResult result = tests::run_process({std::filesystem::read_symlink("/proc/self/exe")});
  unsetenv("WEFT_PROFILE");
  unsetenv("WEFT_PROFILE_TEST");
  return result;
}

TEST(Profile, TheVariableTracesAWholeProcess) {
  std::string file = file_of("process.json");
  ProcessResult result = run_self(file, "train");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  Trace trace(file);
  check_nesting(trace);
  // The compiler's work, in the order of its phases.
  EXPECT_GE(trace.of("compile").size(), 1u);
  EXPECT_FALSE(trace.of("codegen").empty());
  EXPECT_FALSE(trace.of("link").empty());
  for (const Span &compile : trace.of("compile")) {
    std::vector<Span> phases = trace.within(compile, "phase");
    ASSERT_GE(phases.size(), 6u);
    EXPECT_EQ(phases.front().name, "import");
    EXPECT_EQ(phases.back().name, "plan");
  }
  // What memory holds, at the end as well.
  ASSERT_FALSE(trace.counters.empty());
  for (const Json &counter : trace.counters)
    EXPECT_GE(counter["args"]["bytes"], 0);
}

TEST(Profile, AnErrorLeavesAWholeTrace) {
  std::string file = file_of("thrown.json");
  ProcessResult result = run_self(file, "throw");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_FALSE(Trace(file).of("kernel").empty());
}

// A program that writes traces of its own goes on.
TEST(Profile, TheVariableComesFirst) {
  std::string file = file_of("first.json");
  ProcessResult result = run_self(file, "own");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("Profile: no own.json, as WEFT_PROFILE writes a trace"),
            std::string::npos)
      << result.err;
  EXPECT_FALSE(std::filesystem::exists("own.json"));
  EXPECT_FALSE(Trace(file).of("program").empty());
}

TEST(Profile, AVariableThatCannotBeIsSaid) {
  ProcessResult result = run_self("/does/not/exist/trace.json", "train");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.err.find("weft: WEFT_PROFILE: no profile is written: "
                            "/does/not/exist/trace.json: No such file"),
            std::string::npos)
      << result.err;
}

} // namespace
} // namespace weft

int main(int argc, char **argv) {
  if (const char *what = std::getenv("WEFT_PROFILE_TEST")) {
    if (std::string(what) == "own") {
      weft::Profile own("own.json");
      weft::train(1);
    }
    weft::train(3);
    if (std::string(what) == "throw")
      throw std::runtime_error("as a program of a user may");
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
