// What the IR, profiles and reports show names the module that it belongs to.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "weft/profile.h"

namespace weft {
namespace {

// A user's module: nothing in it says where it is.
struct Block : nn::Module {
  nn::Linear up = child("up", nn::Linear(4, 8));
  nn::Linear down = child("down", nn::Linear(8, 4));
  nn::Parameter scale = parameter("scale", ones({4}));
  Tensor operator()(const Tensor &x) const {
    auto activated = [&](const Tensor &y) {
      return tanh(y);
    };
    return x - abs(down(activated(up(x)))) * scale;
  }
};

struct Net : nn::Module {
  Block first = child("first", Block());
  nn::Sequential rest = child("rest", nn::Sequential(Block(), nn::LayerNorm(Shape{4}), Block()));
  nn::Linear head = child("head", nn::Linear(4, 2));
  Tensor operator()(const Tensor &x) const {
    return head(sqrt(square(rest(first(x))) + 1.0));
  }
};

// By module, the ops that a program's text says are its, in order; "" of no module. A location
// stands at the end of a line, "first.up"(train.cpp:3:4), or is a place alone.
std::map<std::string, std::string> ops_by_module(const std::string &text) {
  std::map<std::string, std::string> ops;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t op = line.find("= weft.");
    if (op == std::string::npos || line.find("weft.constant") != std::string::npos)
      continue;
    op += 7;
    std::string name = line.substr(op, line.find(' ', op) - op), module;
    size_t end = line.rfind("\"("), begin = line.rfind('"', end - 1);
    if (end != std::string::npos && line.find("modules_test.cpp", end) != std::string::npos)
      module = line.substr(begin + 1, end - begin - 1);
    ops[module] += (ops[module].empty() ? "" : " ") + name;
  }
  return ops;
}

TEST(Modules, OpsOfAProgramHaveThePathOfTheirModule) {
  Net net;
  std::string text = trace(net, {ones({3, 4})}).to_string();
  auto ops = ops_by_module(text);
  for (const char *block : {"first", "rest.0", "rest.2"}) {
    std::string path = block;
    EXPECT_EQ(ops[path + ".up"], "matmul broadcast add") << text;
    EXPECT_EQ(ops[path + ".down"], "matmul broadcast add") << text;
    // What its function does between its layers, in a lambda or not, and with its own parameter.
    EXPECT_EQ(ops[path], "tanh abs broadcast mul sub") << text;
  }
  EXPECT_EQ(ops["rest.1"], "layer_norm") << text;
  EXPECT_EQ(ops["head"], "matmul broadcast add") << text;
  EXPECT_EQ(ops[""], "mul broadcast add sqrt") << "the root's own\n" << text;
  EXPECT_EQ(ops.size(), 12u) << text;
}

TEST(Modules, ArgumentsAndConstantsHaveNamesOfParameters) {
  Net net;
  std::string text = trace(net, {ones({3, 4})}).to_string();
  EXPECT_NE(text.find("%rest.0.up.weight = weft.constant"), std::string::npos) << text;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  Program step = trace(
      [&](const Tensor &x) {
        optimizer.zero_grad();
        net(x).sum().backward();
        optimizer.step();
      },
      {ones({3, 4})});
  text = step.to_string();
  EXPECT_NE(text.find("%first.scale: tensor<4xf32>"), std::string::npos) << text;
  // Names are for readers: a program that is saved with them is read back.
  std::string path = testing::TempDir() + "/modules_test.mlir";
  step.save(path);
  EXPECT_EQ(Program::load(path).state().size(), step.state().size());
}

TEST(Modules, GradientsAndUpdatesAreThoseOfTheModule) {
  Net net;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.1});
  std::string text = trace(
                         [&](const Tensor &x) {
                           optimizer.zero_grad();
                           net(x).sum().backward();
                           optimizer.step();
                         },
                         {ones({3, 4})})
                         .to_string();
  auto ops = ops_by_module(text);
  // Two products of each layer's way back, and updates from moments alone.
  for (const char *path : {"first.up", "rest.0.down", "rest.2.up"}) {
    size_t products = 0;
    for (size_t at = 0; at = ops[path].find("matmul", at), at != std::string::npos; ++at)
      ++products;
    EXPECT_GE(products, 2u) << path << ": " << ops[path];
    EXPECT_NE(ops[path].find("sqrt"), std::string::npos) << path << ": " << ops[path];
  }
  EXPECT_EQ(ops[""].find("matmul"), std::string::npos) << ops[""];
}

TEST(Modules, EqualLayersAreOneProgram) {
  Net net;
  Tensor x = ones({3, 4});
  NoGrad no_grad;
  x.eval();
  net.first(x).eval();
  uint64_t compiles = statistics().compiles;
  net.rest.layers()[0](x).eval();
  net.rest.layers()[2](x).eval();
  EXPECT_EQ(statistics().compiles, compiles);
}

TEST(Modules, AModuleThatMovesHasItsNewName) {
  Block block;
  {
    struct Holder : nn::Module {
      explicit Holder(const Block &block) {
        child("old", block);
      }
    } holder(block);
    EXPECT_NE(trace(block, {ones({1, 4})}).to_string().find("\"old.up\""), std::string::npos);
  }
  auto text = [&] {
    return trace(block, {ones({1, 4})}).to_string();
  };
  EXPECT_EQ(text().find("\"old.up\""), std::string::npos);
  EXPECT_NE(text().find("\"up\""), std::string::npos);
  nn::Sequential now(block);
  EXPECT_NE(text().find("\"0.up\""), std::string::npos);
  // A copy has names of its own.
  nn::Sequential copy(nn::clone(now), Block());
  EXPECT_NE(trace(copy, {ones({1, 4})}).to_string().find("\"0.0.up\""), std::string::npos);
  EXPECT_EQ(text().find("\"0.0.up\""), std::string::npos);
}

TEST(Modules, AModuleThatSaysWhereItIsNeedsNoGuess) {
  // Without parameters, and with nothing before it, such a module leaves no trace.
  struct Plain : nn::Module {
    Tensor operator()(const Tensor &x) const {
      nn::ModuleScope scope(*this);
      return tanh(x);
    }
  };
  struct Outer : nn::Module {
    Plain a = child("a", Plain()), b = child("b", Plain());
    Tensor operator()(const Tensor &x) const {
      return b(exp(a(x)));
    }
  };
  nn::Sequential outer((Outer()));
  auto ops = ops_by_module(trace(outer, {ones({2})}).to_string());
  EXPECT_EQ(ops["0.a"], "tanh");
  EXPECT_EQ(ops["0"], "exp");
  EXPECT_EQ(ops["0.b"], "tanh");
}

std::string file_of(const std::filesystem::path &path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(Modules, ProfilesNameThem) {
  if (config().backend != "cpu")
    GTEST_SKIP() << "the interpreter's traces have no ops";
  Net net;
  NoGrad no_grad;
  Tensor x = ones({64, 4});
  std::string file = testing::TempDir() + "/weft_modules.json";
  {
    Profile profile(file);
    net(x).eval();
    synchronize();
  }
  std::string text = file_of(file);
  for (const char *module : {"first.up", "rest.2.down", "head"})
    EXPECT_NE(text.find("\"module\":\"" + std::string(module) + "\""), std::string::npos)
        << module << "\n"
        << text;
}

TEST(Modules, DumpsNameThem) {
  if (config().backend != "cpu")
    GTEST_SKIP() << "the interpreter has no phases";
  std::string folder = testing::TempDir() + "/weft_modules_dump";
  std::filesystem::remove_all(folder);
  Config before = config(), options = before;
  options.dump_dir = folder;
  set_config(options);
  Net net;
  NoGrad no_grad;
  net(ones({5, 4})).eval();
  synchronize();
  set_config(before);
  bool names_arguments = false, names_modules = false, names_buffers = false;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(".mlir"))
      continue;
    std::string text = file_of(entry.path());
    names_arguments =
        names_arguments || text.find("%first.up.weight: tensor<8x4xf32>") != std::string::npos;
    names_modules = names_modules || text.find("loc(\"rest.2.down\"(") != std::string::npos;
    names_buffers =
        names_buffers || (name.find("plan") != std::string::npos &&
                          text.find("%first.up.weight: !plan.buffer") != std::string::npos);
  }
  EXPECT_TRUE(names_arguments);
  EXPECT_TRUE(names_modules);
  EXPECT_TRUE(names_buffers);
}

int64_t sum_of(const std::vector<MemoryHolder> &holders) {
  int64_t sum = 0;
  for (const MemoryHolder &holder : holders)
    sum += holder.bytes;
  return sum;
}

TEST(Modules, ThePeakOfMemoryIsTheSumOfItsHolders) {
  if (config().backend != "cpu")
    GTEST_SKIP() << "the interpreter plans no memory";
  nn::Sequential net(
      nn::Linear(256, 512), [](const Tensor &x) { return tanh(x); }, nn::LayerNorm(Shape{512}),
      nn::Linear(512, 256));
  optim::Adam optimizer(net.parameters(), {.lr = 0.1});
  Tensor x = rand({128, 256});
  auto step = [&](const Tensor &x) {
    optimizer.zero_grad();
    Tensor loss = nn::mse(net(x), x);
    loss.backward();
    optimizer.step();
    return loss;
  };
  for (int i = 0; i < 3; ++i)
    step(x).eval();
  synchronize();
  Evaluation evaluation = recent_evaluations().back();
  ASSERT_FALSE(evaluation.peak_holders.empty()) << evaluation.to_string();
  EXPECT_EQ(sum_of(evaluation.peak_holders), evaluation.planned_peak_bytes);
  int64_t in_modules = 0;
  for (const MemoryHolder &holder : evaluation.peak_holders)
    in_modules += holder.module.empty() ? 0 : holder.bytes;
  EXPECT_GT(in_modules, 0) << memory_table(evaluation.peak_holders);
  std::string table = memory_table(evaluation.peak_holders);
  for (const char *part : {"by module\n", "by line\n", "largest\n", "modules_test.cpp:"})
    EXPECT_NE(table.find(part), std::string::npos) << table;

  // All of the arena and all outputs are not live at one time, but the larger of the two is.
  ASSERT_GE(evaluation.live_bytes.size(), 8u) << evaluation.to_string();
  int64_t most = std::ranges::max(evaluation.live_bytes);
  EXPECT_LE(most, evaluation.planned_peak_bytes);
  EXPECT_GE(most, evaluation.planned_peak_bytes / 4) << memory_chart(evaluation.live_bytes);
  // In the line of a program that is new, but of none that was there.
  std::string chart = " B at first, " + std::to_string(most) + " B at most, ";
  evaluation.outcome = CacheOutcome::kMemoryHit;
  EXPECT_EQ(evaluation.to_string().find(chart), std::string::npos) << evaluation.to_string();
  for (CacheOutcome outcome : {CacheOutcome::kCompiled, CacheOutcome::kDiskHit}) {
    evaluation.outcome = outcome;
    EXPECT_NE(evaluation.to_string().find(chart), std::string::npos) << evaluation.to_string();
  }
  EXPECT_EQ(memory_chart({1, 8, 4}),
            "over the run: 1 B at first, 8 B at most, 4 B at the end\n▁█▄\n");
  EXPECT_EQ(memory_chart({8}), "");

  MemoryEstimate estimate = estimate_memory(step, {x});
  ASSERT_FALSE(estimate.holders.empty());
  EXPECT_EQ(sum_of(estimate.holders), estimate.arena + estimate.outputs);
  ASSERT_FALSE(estimate.live_bytes.empty());
  EXPECT_LE(std::ranges::max(estimate.live_bytes), estimate.arena + estimate.outputs);
}

} // namespace
} // namespace weft
