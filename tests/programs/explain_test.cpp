// What explain says of a miss: which part of the key differs, from which program, at which line.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "compiler/pipeline/PassHooks.h"
#include "compiler/schedule/Pins.h"
#include "mlir/Pass/Pass.h"

namespace weft {
namespace {

class Explain : public testing::Test {
protected:
  void SetUp() override {
    before_ = config();
  }
  void TearDown() override {
    set_config(before_);
    compiler::clearRegisteredPasses();
  }
  Config before_;
  DeviceScope host_{Device("cpu")}; // elsewhere types are shown with their device
};

// One program that the tests vary.
Evaluation run(const Tensor &x, const Tensor &y, bool keep_product = false) {
  Tensor product = tanh(x) * y;
  Tensor sum = exp(product + 1.0);
  if (!keep_product)
    product = Tensor();
  return explain(sum);
}

Tensor values(const Shape &shape, DType dtype = float32) {
  Tensor x = full(shape, 0.5, dtype);
  x.eval();
  return x;
}

#define EXPECT_SAYS(evaluation, text)                                                              \
  do {                                                                                             \
    Evaluation e = evaluation;                                                                     \
    EXPECT_EQ(e.outcome, CacheOutcome::kCompiled);                                                 \
    EXPECT_NE(e.difference.find(text), std::string::npos) << e.difference;                         \
  } while (false)

TEST_F(Explain, NamesThePartOfTheKeyThatDiffers) {
  Tensor x = values({3, 2}), y = values({3, 2});
  EXPECT_EQ(run(x, y).outcome, CacheOutcome::kCompiled);
  EXPECT_EQ(run(x, y).outcome, CacheOutcome::kMemoryHit);

  Tensor longer = values({5, 2});
  EXPECT_SAYS(run(longer, longer), "dataflow: op 1 weft.mul");
  Tensor other = values({5, 2});
  EXPECT_SAYS(run(longer, other),
              "dims: input 0 is float32 [5, 2] instead of float32 [3, 2], read by op 0 weft.tanh");
  Tensor flat = values({6}), flat_too = values({6});
  EXPECT_SAYS(run(flat, flat_too), "rank: input 0 is float32 [6] instead of float32 [");
  Tensor wide = values({3, 2}, float64), wide_too = values({3, 2}, float64);
  EXPECT_SAYS(run(wide, wide_too), "dtype: input 0 is float64 [3, 2] instead of float32 [3, 2]");
  Evaluation kept = run(x, y, true);
  EXPECT_EQ(kept.outcome, CacheOutcome::kCompiled);
  EXPECT_EQ(kept.difference.find("outputs: the result of op 1 weft.mul"), 0u) << kept.difference;
  EXPECT_NE(kept.difference.find("is alive now"), std::string::npos) << kept.difference;
}

TEST_F(Explain, AnOperandThatIsDonated) {
  Tensor x = values({7}), y = values({7}), z = values({7});
  EXPECT_EQ(run(x, y).outcome, CacheOutcome::kCompiled);
  // The product of an evaluated temporary: nobody else can read it.
  auto temporary = [&] {
    Tensor t = z + 0.5;
    t.eval();
    return t;
  };
  Tensor sum;
  {
    Tensor t = temporary();
    Tensor product = tanh(t) * y;
    sum = exp(product + 1.0);
  }
  Evaluation e = explain(sum);
  EXPECT_NE(e.difference.find("donation: input 0, read by op 0 weft.tanh"), std::string::npos)
      << e.difference;
  EXPECT_NE(e.difference.find("may be overwritten now"), std::string::npos) << e.difference;
}

TEST_F(Explain, OtherOpsAndTheirAttributes) {
  Tensor x = values({2, 3});
  explain(x.sum(0) * 2.0);
  EXPECT_SAYS(explain(x.sum(1) * 2.0), "attributes: op 0 weft.reduce_sum");
  EXPECT_SAYS(explain(x.mean(0) * 2.0), "ops: op 0 weft.reduce_mean");
  EXPECT_SAYS(explain(x.mean(0) * 2.0 + 1.0), "ops: ");
}

TEST_F(Explain, ADroppedProgram) {
  Config options = config();
  options.cache_entries = 1;
  set_config(options);
  Tensor x = values({9});
  explain(sigmoid(x));
  explain(tanh(x) + 1.0);
  EXPECT_SAYS(explain(sigmoid(x)), "ops: 1 instead of 3");
}

bool says(const Evaluation &evaluation, const std::string &text) {
  return std::ranges::any_of(evaluation.notes, [&](const std::string &note) {
    return note.find(text) != std::string::npos;
  });
}

class NoPass : public mlir::PassWrapper<NoPass, mlir::OperationPass<>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NoPass)
  void runOnOperation() override {
    ++runs;
  }
  static inline int runs = 0;
};

// A pass changes what is compiled: programs that were compiled without it are not its programs.
TEST_F(Explain, APassThatIsRegisteredLater) {
  Tensor x = values({11});
  auto evaluate = [&] {
    return explain(sqrt(x) * 3.0);
  };
  EXPECT_EQ(evaluate().outcome, CacheOutcome::kCompiled);
  auto make = [] {
    return std::make_unique<NoPass>();
  };
  int runs = NoPass::runs;
  auto place = [&](const char *version) {
    return compiler::registerPass(compiler::Phase::Graph, compiler::Position::After, make,
                                  "no-pass", version);
  };
  ASSERT_TRUE(place("1").ok());
  EXPECT_SAYS(evaluate(), "extensions: others are registered");
  EXPECT_EQ(NoPass::runs, config().backend == "cpu" ? runs + 1 : runs);
  EXPECT_EQ(evaluate().outcome, CacheOutcome::kMemoryHit);
  ASSERT_TRUE(place("").ok());
  Evaluation without_version = evaluate();
  EXPECT_EQ(without_version.outcome, CacheOutcome::kCompiled);
  compiler::clearRegisteredPasses();
  EXPECT_EQ(evaluate().outcome, CacheOutcome::kMemoryHit) << "compiled before there was a pass";
}

// It would wait for itself.
TEST_F(Explain, APassThatAsksForItsOwnProgramIsNamed) {
  if (config().backend != "cpu")
    GTEST_SKIP() << "the backend runs no passes";
  Tensor x = values({11});
  auto registered = compiler::registerPass(
      compiler::Phase::Graph, compiler::Position::After,
      [x]() -> std::unique_ptr<mlir::Pass> {
        (x * 13.0).eval();
        return std::make_unique<NoPass>();
      },
      "asks", "1");
  ASSERT_TRUE(registered.ok()) << registered;
  try {
    (x * 13.0).eval();
    ADD_FAILURE() << "the pass asked for what is compiled";
  } catch (const Error &error) {
    EXPECT_NE(error.message().find("'asks' has a factory that threw an exception"),
              std::string::npos)
        << error.what();
    EXPECT_NE(error.message().find("asks for what the same program computes"), std::string::npos)
        << error.what();
  }
  compiler::clearRegisteredPasses();
  EXPECT_EQ((x * 13.0).to_vector<float>().size(), 11u);
}

// Pinned choices of a kernel's schedule are part of what is compiled, and change no bit.
TEST_F(Explain, SchedulesThatArePinned) {
  Tensor x = values({5000});
  auto evaluate = [&] {
    return explain(tanh(x) * 7.0);
  };
  auto bits = [&] {
    return (tanh(x) * 7.0).to_vector<float>();
  };
  evaluate();
  std::vector<float> before = bits();
  ASSERT_TRUE(
      compiler::pinSchedules("tanh_mul: {vectors = 8}\n*: {rows = 9}\nnone_*: {rows = 2}").ok());
  Evaluation pinned = evaluate();
  EXPECT_EQ(pinned.outcome, CacheOutcome::kCompiled);
  if (config().backend == "cpu") {
    EXPECT_TRUE(says(pinned, "has pinned choices: {"));
    EXPECT_TRUE(says(pinned, "vectors = 8"));
    EXPECT_TRUE(says(pinned, "pin-not-taken: the kernel has no choice 'rows', but vectors"));
    EXPECT_TRUE(says(pinned, "1 of 3 pins match no kernel of this program: 'none_*'"));
    // The line that WEFT_EXPLAIN=1 prints has both.
    std::string line = pinned.to_string();
    EXPECT_NE(line.find("pin-not-taken: the kernel has no choice 'rows'"), std::string::npos)
        << line;
    EXPECT_NE(line.find("pin-without-kernel: 1 of 3 pins"), std::string::npos) << line;
  }
  EXPECT_EQ(bits(), before);
  compiler::clearRegisteredPasses();
  EXPECT_EQ(evaluate().outcome, CacheOutcome::kMemoryHit) << "compiled before there was a pin";
}

// A program that comes from the disk says what was said when it was compiled.
TEST_F(Explain, PinsThatWereNotTakenBefore) {
  if (config().backend != "cpu")
    GTEST_SKIP() << "schedules are the cpu backend's";
  std::string folder =
      testing::TempDir() + "/weft-explain-test-" + std::to_string(std::random_device()());
  auto use = [](auto change) {
    Config options = config();
    change(options);
    set_config(options);
  };
  use([&](Config &options) { options.cache_dir = folder, options.symbolic = false; });
  Tensor x = values({5003});
  ASSERT_TRUE(compiler::pinSchedules("*: {rows = 9}").ok());
  EXPECT_EQ(explain(tanh(x) * 13.0).outcome, CacheOutcome::kCompiled);
  // Another program pushes it out of memory.
  use([](Config &options) { options.cache_dir = "off"; });
  (x + 13.0).eval();
  use([](Config &options) { options.cache_entries = 1; });
  use([&](Config &options) { options.cache_dir = folder, options.cache_entries = 100; });
  Evaluation found = explain(tanh(x) * 13.0);
  EXPECT_EQ(found.outcome, CacheOutcome::kDiskHit) << found.to_string();
  EXPECT_TRUE(says(found, "pin-not-taken: the kernel has no choice 'rows'"));
  EXPECT_NE(found.to_string().find("pin-not-taken: "), std::string::npos);
  std::filesystem::remove_all(folder);
}

// What was measured is found by programs that are compiled later, and changes no bit.
TEST_F(Explain, SchedulesThatAreMeasured) {
  Tensor x = values({5001});
  auto evaluate = [&] {
    return explain(tanh(x) * 11.0);
  };
  auto bits = [&] {
    return (tanh(x) * 11.0).to_vector<float>();
  };
  evaluate();
  std::vector<float> before = bits();
  std::string folder = testing::TempDir() + "/measured";
  std::filesystem::remove_all(folder);
  Config options = before_;
  options.tune = true;
  options.cache_dir = folder;
  set_config(options);
  Evaluation measured = evaluate();
  EXPECT_EQ(measured.outcome, CacheOutcome::kCompiled);
  EXPECT_NE(measured.difference.find("options: tune is on now"), std::string::npos)
      << measured.difference;
  EXPECT_EQ(bits(), before);
  if (options.backend == "cpu") {
    EXPECT_TRUE(says(measured, "schedule: measured 1 kernels in "));
    int64_t files = 0;
    for (const auto &file : std::filesystem::directory_iterator(folder))
      files += file.path().filename().string().starts_with("schedules-");
    EXPECT_EQ(files, 1);
  }
  set_config(before_);
  EXPECT_EQ(evaluate().outcome, CacheOutcome::kMemoryHit) << "compiled before anything was tuned";
  options.tune_seconds = -1;
  EXPECT_THROW(set_config(options), Error);
}

TEST_F(Explain, AnotherBackend) {
  Tensor x = values({13});
  auto evaluate = [&] {
    return explain(tanh(x) * 3.0);
  };
  evaluate();
  Config options = config();
  options.backend = options.backend == "cpu" ? "reference" : "cpu";
  set_config(options);
  EXPECT_SAYS(evaluate(), "backend: " + options.backend + " instead of");
}

} // namespace
} // namespace weft
