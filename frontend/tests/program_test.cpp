// weft::Program: saved and loaded as text and as bytecode, differentiated, and what damaged files
// say.
#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/errors.h"
#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing_support::error_of;

using Floats = std::vector<float>;
namespace fs = std::filesystem;

std::string path_of(const std::string &name) {
  return testing::TempDir() + "/" + name;
}

std::string content_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write(const std::string &path, const std::string &content) {
  std::ofstream(path, std::ios::binary) << content;
}

// The options of before the test, once it ends.
class Restored {
public:
  ~Restored() {
    set_config(before_);
  }

private:
  Config before_ = config();
};

// Programs that were not in memory.
uint64_t compiled_or_loaded() {
  Statistics now = statistics();
  return now.compiles + now.disk_hits;
}

int64_t entries_of(const std::string &cache) {
  for (const CacheState &each : caches())
    if (each.name == cache)
      return each.entries;
  ADD_FAILURE() << "there is no cache '" << cache << "'";
  return -1;
}

// What is allocated and not freed, by malloc; next to nothing where a sanitizer has its own.
int64_t allocated_bytes() {
  struct mallinfo2 now = mallinfo2();
  return static_cast<int64_t>(now.uordblks + now.hblkhd);
}

// x of two numbers -> the sum of w * x^3
Program cube() {
  Tensor w = tensor({1.f, 2.f});
  return trace([&](const Tensor &x) { return sum(w * x * x * x); }, {zeros({2})});
}

// Layers take their caller's line as a last argument: it is that of the trace, or of the call of
// the jitted function.
TEST(Program, IsOfALayerAsOfAnyFunction) {
  nn::Sequential layer(nn::Linear(2, 3), nn::ReLU());
  Tensor x = randn({4, 2});
  Floats expected = layer(x).to_vector<float>();
  Program program = trace(layer, {x});
  EXPECT_EQ(program.input_shapes(), (std::vector<Shape>{{4, 2}}));
  EXPECT_EQ(program.run({x})[0].to_vector<float>(), expected);
  EXPECT_NE(program.to_string().find("program_test.cpp"), std::string::npos);
  auto jitted = jit(layer);
  EXPECT_EQ(jitted(x).to_vector<float>(), expected);
  std::string what = testing_support::what_of([&] { jitted(zeros({4, 3})); });
  EXPECT_NE(what.find("program_test.cpp"), std::string::npos) << what;
}

// What a step only reads is a constant, the learning rate too; one that the step writes is state.
TEST(Program, HoldsItsLearningRateUnlessTheStepWritesIt) {
  Tensor x = ones({1}), w = tensor({1.f}).set_requires_grad();
  optim::SGD optimizer({w}, {.lr = 0.5});
  auto step = [&](const Tensor &given) {
    optimizer.zero_grad();
    Tensor loss = (w * given).sum();
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto scheduled = [&](const Tensor &given, const Tensor &rate) {
    for (auto &[name, tensor] : optimizer.state())
      if (name == "lr")
        tensor.copy_(rate);
    return step(given);
  };
  Program constant = trace(step, {x}), free = trace(scheduled, {x, scalar(0.5)});
  optimizer.set_lr(0.125);
  ASSERT_EQ(constant.state().size(), 1u);
  constant.run({x});
  EXPECT_EQ(constant.state()[0].second.item<float>(), 0.5f);
  ASSERT_EQ(free.state().size(), 2u);
  free.run({x, scalar(0.5)});
  free.run({x, scalar(0.25)});
  std::vector<float> kept;
  for (const auto &[name, tensor] : free.state())
    kept.push_back(tensor.item<float>());
  EXPECT_EQ(kept, (Floats{0.25f, 0.25f}));
  // A jitted step reads it at each call.
  auto jitted = jit(step);
  jitted(x);
  EXPECT_EQ(w.item<float>(), 1 - 0.125f);
  optimizer.set_lr(0.25);
  jitted(x);
  EXPECT_EQ(w.item<float>(), 1 - 0.125f - 0.25f);
}

// What it keeps has a name each, whatever names are given.
TEST(Program, NamesOfWhatItKeepsAreItsOwn) {
  Tensor x = ones({2}), unnamed = zeros({2}), given = zeros({2}), again = zeros({2});
  auto step = [&](const Tensor &by) {
    for (Tensor *each : {&unnamed, &again, &given})
      each->add_(by);
    return by * 2;
  };
  auto names_of = [&](const StateNames &names) {
    std::vector<std::string> found;
    for (const auto &[name, tensor] : trace(step, std::tuple(x), names).state())
      found.push_back(name);
    return found;
  };
  using Named = std::vector<std::pair<std::string, Tensor>>;
  EXPECT_EQ(names_of({"", Named{{"state_0", given}}}),
            (std::vector<std::string>{"state_1", "state_2", "state_0"}));
  EXPECT_EQ(names_of({"", Named{{"a", unnamed}, {"a", again}, {"a_1", given}}}),
            (std::vector<std::string>{"a", "a_2", "a_1"}));
}

// A program for a range of batch sizes runs at each of them, and comes back from its files with it.
// Slices of one tensor that share no element are written as tensors of their own are.
TEST(Program, TakesDisjointSlicesOfOneTensor) {
  auto f = [](Tensor a, Tensor b) {
    a += b;
    b *= 10.0;
    return a * 2.0;
  };
  Program program = trace(f, {zeros({4}), zeros({4})});
  using Slices = std::pair<Tensor, Tensor> (*)(const Tensor &);
  for (Slices slices :
       {Slices([](const Tensor &x) { return std::pair(x[0], x[1]); }),
        Slices([](const Tensor &x) { return std::pair(x.t().select(1, 1), x.t().select(1, 0)); }),
        Slices([](const Tensor &x) {
          Tensor flat = x.reshape({8});
          return std::pair(flat.slice(0, 1, 8, 2), flat.slice(0, 0, 8, 2));
        }),
        Slices([](const Tensor &x) {
          return std::pair(x.slice(1, 0, 2).reshape({4}), x.slice(1, 2, 4).reshape({4}));
        })}) {
    Tensor x = arange(8, float32).reshape({2, 4}).clone(), y = x.clone();
    auto [a, b] = slices(x);
    auto [c, d] = slices(y);
    EXPECT_EQ(program.run({a, b})[0].to_vector<float>(), f(c, d).to_vector<float>());
    EXPECT_EQ(x.to_vector<float>(), y.to_vector<float>());
  }
  // Of those that share some, only what is read.
  Tensor x = arange(8, float32).clone();
  for (const auto &[a, b] : std::vector<std::pair<Tensor, Tensor>>{
           {x.slice(0, 0, 4), x.slice(0, 3, 7)},
           {x.slice(0, 0, 8, 2), x.slice(0, 4, 8)},
           {x.slice(0, 0, 4), x.slice(0, 0, 4)}}) {
    EXPECT_NE(error_of([&] { program.run({a, b}); }).message().find("shares elements with"),
              std::string::npos);
    Program reads = trace([](const Tensor &p, const Tensor &q) { return p + q; }, {a, b});
    EXPECT_EQ(reads.run({a, b})[0].to_vector<float>(), (a + b).to_vector<float>());
  }
  EXPECT_EQ(x.to_vector<float>(), arange(8, float32).to_vector<float>());
}

// What a library takes as a bias it takes in both, whatever the bias is: captured tensors are
// constants of the program.
TEST(Program, BiasesAreThoseOfTheCall) {
  NoGrad no_history;
  auto waves = [](const Shape &shape, double step) {
    int64_t size = 1;
    for (int64_t dim : shape)
      size *= dim;
    return sin(arange(size, float32) * step).reshape(shape).eval();
  };
  Tensor image = waves({1, 32, 4, 4}, 0.7), y = waves({1, 32, 4, 4}, 1.3),
         rows = waves({4, 64}, 0.9);
  auto expect_same = [](const auto &fn, const std::vector<Tensor> &inputs, const char *what) {
    Tensor plain = fn(inputs), traced = trace(fn, inputs).run(inputs)[0];
    EXPECT_EQ(traced.to_vector<float>(), plain.to_vector<float>()) << what;
  };
  using Inputs = const std::vector<Tensor> &;
  for (int64_t channels : {32, 1})
    for (const Tensor &b : {waves({channels}, 2.1), full({channels}, 0.3).eval()}) {
      Tensor w = (waves({channels, 32, 3, 3}, 0.3) * 0.1).eval(),
             v = (waves({channels, 64}, 0.6) * 0.1).eval();
      expect_same([&](Inputs in) { return conv2d(in[0], w, b, {.padding = 1}) + in[1]; },
                  {image, y}, "conv2d");
      expect_same([&](Inputs in) { return relu(conv2d(in[0], w, b, {.padding = 1})); },
                  {cat({image, y}, 0).eval()}, "conv2d of two");
      expect_same([&](Inputs in) { return linear(in[0], v, b); }, {rows}, "linear");
      expect_same([&](Inputs in) { return matmul(in[0], v.t()) + b.reshape({1, -1}); }, {rows},
                  "matmul");
    }
}

TEST(Program, ItsBatchMayBeARange) {
  Tensor w = tensor({{1.f, 2.f}, {3.f, 4.f}}), total = zeros({2});
  auto step = [&](const Tensor &x, const Tensor &scale) {
    Tensor y = matmul(x, w) * scale;
    total += y.sum(0);
    return std::vector<Tensor>{y, y.mean()};
  };
  Program program =
      trace(step, {zeros({7, 2}), zeros({2})}, {}, BatchRange{.min = 1, .max = 5, .inputs = {0}});
  EXPECT_EQ(program.input_shapes(), (std::vector<Shape>{{5, 2}, {2}}));
  EXPECT_EQ(program.output_shapes(), (std::vector<Shape>{{5, 2}, {}}));
  EXPECT_EQ(total.to_vector<float>(), (Floats{0, 0}));
  program.save(path_of("range.mlir"));
  program.save(path_of("range.bin"), ProgramFormat::bytecode);
  for (Program each :
       {program, Program::load(path_of("range.mlir")), Program::load(path_of("range.bin"))}) {
    EXPECT_EQ(each.batch().min, 1);
    EXPECT_EQ(each.batch().max, 5);
    EXPECT_EQ(each.batch().inputs, (std::vector<int64_t>{0}));
    Floats sums(2);
    for (int64_t size : {5, 1, 3, 2, 4, 1}) {
      Tensor x = arange(2 * size).reshape({size, 2}).to(float32), scale = tensor({2.f, 1.f});
      std::vector<Tensor> results = each.run({x, scale});
      Tensor expected = matmul(x, w) * scale;
      EXPECT_EQ(results[0].shape(), (Shape{size, 2}));
      EXPECT_EQ(results[0].to_vector<float>(), expected.to_vector<float>());
      EXPECT_EQ(results[1].item<float>(), expected.mean().item<float>());
      for (size_t i = 0; i < 2; ++i)
        sums[i] += expected.sum(0).to_vector<float>()[i];
      EXPECT_EQ(each.state()[0].second.to_vector<float>(), sums);
    }
  }
  auto message = [&](const Shape &shape) {
    return error_of([&] { program.run({zeros(shape), zeros({2})}); }).message();
  };
  EXPECT_NE(message({6, 2}).find("a batch of 6 is out of range; it must be from 1 to 5"),
            std::string::npos);
  EXPECT_NE(message({3, 3}).find("input 0 is float32 [3, 3]; the program takes float32 [3, 2]"),
            std::string::npos)
      << message({3, 3});
  EXPECT_EQ(error_of([&] { program.run({zeros({3, 2}, float64), zeros({2})}); }).kind(),
            ErrorKind::kDType);
  EXPECT_NE(error_of([&] { program.run({zeros({3, 2}), Tensor()}); })
                .message()
                .find("input 1 is an undefined tensor"),
            std::string::npos);
  EXPECT_NE(message({3}).find("float32 [5, 2], or a smaller leading dim"), std::string::npos);
}

// What runs a size is kept: sizes in turn are made once each, up to the bound.
TEST(Program, SizesOfItsBatchAreMadeOnce) {
  Restored restored;
  const int64_t others = entries_of("sized programs");
  Tensor w = tensor({{1.f, 2.f}, {3.f, 4.f}}), total = zeros({2});
  auto step = [&](const Tensor &x) {
    Tensor y = matmul(x, w);
    total += y.sum(0);
    return y;
  };
  Program program = trace(step, {zeros({3, 2})}, {}, BatchRange{.min = 2, .max = 9});
  std::vector<Tensor> inputs;
  for (int64_t size = 2; size < 8; ++size)
    inputs.push_back(full({size, 2}, float(size)).eval());
  auto run = [&](const Tensor &x) {
    Floats expected;
    for (int64_t i = 0, size = x.size(0); i < size; ++i)
      expected.insert(expected.end(), {4.f * size, 6.f * size});
    EXPECT_EQ(program.run({x})[0].to_vector<float>(), expected);
  };
  uint64_t made = compiled_or_loaded(), replays = statistics().replays;
  for (int round = 0; round < 2; ++round)
    for (const Tensor &x : inputs)
      run(x);
  EXPECT_LE(compiled_or_loaded() - made, 6u);
  EXPECT_EQ(statistics().replays - replays, 6u);
  EXPECT_EQ(entries_of("sized programs"), others + 6);
  // All of them write what the program keeps: twice the sum of 4 n^2, and of 6 n^2.
  EXPECT_EQ(program.state()[0].second.to_vector<float>(), (Floats{2 * 4 * 139, 2 * 6 * 139}));
  // Each is compiled for the options that it is run with, and found again with them.
  Config options = config();
  options.math = Math::kExact;
  set_config(options);
  run(inputs[0]);
  EXPECT_EQ(entries_of("sized programs"), others + 7);
  options.math = Math::kStandard;
  options.jit_signatures = 2;
  set_config(options);
  replays = statistics().replays;
  run(inputs[0]);
  EXPECT_EQ(statistics().replays - replays, 1u);
  // The least recently used go at the next new size.
  run(full({8, 2}, 8.f).eval());
  EXPECT_EQ(entries_of("sized programs"), others + 2);
  run(inputs[0]);
  EXPECT_EQ(statistics().replays - replays, 2u);
  program = Program();
  EXPECT_EQ(entries_of("sized programs"), others);
}

// Also of sizes that hold much the last four stay.
TEST(Program, SizesOfItsBatchAreBoundedInBytes) {
  Restored restored;
  const int64_t others = entries_of("sized programs");
  Program program = trace([](const Tensor &x) { return x * 3; }, {zeros({3, 2})}, {},
                          BatchRange{.min = 2, .max = 9});
  Config options = config();
  options.cache_bytes = 1;
  set_config(options);
  for (int64_t size = 2; size < 9; ++size)
    EXPECT_EQ(program.run({full({size, 2}, 2.f)})[0].to_vector<float>(), Floats(2 * size, 6.f));
  EXPECT_EQ(entries_of("sized programs"), others + 4);
}

// Options that decide what a program is compiled into.
TEST(Program, IsCompiledAgainForOtherOptions) {
  Restored restored;
  Program program = cube();
  Tensor x = tensor({3.f, -1.f}).eval();
  auto made_by = [&](auto change) {
    Config options = config();
    change(options);
    set_config(options);
    uint64_t before = compiled_or_loaded();
    EXPECT_EQ(program.run({x})[0].item<float>(), 25.f);
    return compiled_or_loaded() - before;
  };
  made_by([](Config &) {});
  EXPECT_EQ(made_by([](Config &) {}), 0u);
  EXPECT_EQ(made_by([](Config &options) { options.prepare = !options.prepare; }), 1u);
  EXPECT_EQ(made_by([](Config &options) { options.memory_limit = int64_t(1) << 30; }), 1u);
  EXPECT_EQ(made_by([](Config &options) { options.cache_entries += 1; }), 0u);
  std::string folder = path_of("dump");
  fs::create_directories(folder);
  EXPECT_EQ(made_by([&](Config &options) { options.dump_dir = folder; }), 1u);
  EXPECT_EQ(made_by([](Config &) {}), 0u);
}

// A file has what the program keeps when it is saved, and the program keeps nothing of the file.
TEST(Program, IsSavedWithTheValuesOfTheMoment) {
  constexpr int64_t kElements = 1 << 18, kSaves = 16;
  Tensor w = arange(kElements, float32).eval();
  auto step = [&](const Tensor &x) {
    w += x;
    return w.slice(0, 0, 2).clone();
  };
  Program program = trace(step, {ones({1})});
  Tensor one = ones({1}).eval();
  std::string path = path_of("moment"), again = path_of("moment_again");
  int64_t before = 0;
  for (int64_t i = 1; i <= kSaves; ++i) {
    EXPECT_EQ(program.run({one})[0].to_vector<float>(), (Floats{0.f + i, 1.f + i}));
    program.save(path, ProgramFormat::bytecode);
    if (i == 2)
      before = allocated_bytes();
  }
  // In the program's own context each save would leave a copy.
  EXPECT_LT(allocated_bytes() - before, kSaves / 2 * kElements * int64_t(sizeof(float)));
  program.save(again, ProgramFormat::bytecode);
  EXPECT_EQ(content_of(again), content_of(path));
  program.save(again);
  for (const std::string &file : {path, again}) {
    Program loaded = Program::load(file);
    EXPECT_EQ(loaded.state()[0].first, program.state()[0].first);
    Floats values = loaded.state()[0].second.to_vector<float>();
    EXPECT_EQ(values.front(), float(kSaves));
    EXPECT_EQ(values.back(), float(kElements - 1 + kSaves));
    EXPECT_EQ(loaded.run({one})[0].to_vector<float>(), (Floats{kSaves + 1.f, kSaves + 2.f}));
  }
  // The loaded ones have state of their own.
  EXPECT_EQ(program.state()[0].second.to_vector<float>().front(), float(kSaves));
}

TEST(Program, IsSavedAsTextAndAsBytecode) {
  Tensor w = randn({64, 64});
  Program program = trace([&](const Tensor &x) { return relu(matmul(x, w)); }, {zeros({2, 64})});
  Tensor x = randn({2, 64});
  Floats expected = program.run({x})[0].to_vector<float>();
  std::string text = path_of("program.mlir"), bytecode = path_of("program.mlirbc");
  program.save(text);
  program.save(bytecode, ProgramFormat::bytecode);
  EXPECT_NE(content_of(text).find("weft.matmul"), std::string::npos);
  EXPECT_EQ(content_of(bytecode).substr(0, 4), "ML\xefR");
  EXPECT_LT(fs::file_size(bytecode),
            fs::file_size(text) * 3 / 4); // a byte is two hexadecimal digits in text
  for (const std::string &path : {text, bytecode}) {
    Program loaded = Program::load(path);
    EXPECT_EQ(loaded.input_shapes(), program.input_shapes());
    EXPECT_EQ(loaded.output_dtypes(), program.output_dtypes());
    EXPECT_EQ(loaded.run({x})[0].to_vector<float>(), expected);
    EXPECT_NE(loaded.to_string().find("program_test.cpp"), std::string::npos) << "locations stay";
    // From one format to the other and back.
    std::string again = path_of("again");
    loaded.save(again, path == text ? ProgramFormat::bytecode : ProgramFormat::text);
    EXPECT_EQ(Program::load(again).to_string(), program.to_string());
  }
}

TEST(Program, ItsTextIsParsed) {
  Program program = cube();
  for (bool locations : {true, false}) {
    Program again = Program::parse(program.to_string(locations));
    EXPECT_EQ(again.to_string(locations), program.to_string(locations));
    EXPECT_EQ(again.run({tensor({2.f, 3.f})})[0].item<float>(), 62.f);
  }
  EXPECT_NE(Program::parse(program.to_string()).to_string().find("program_test.cpp"),
            std::string::npos);
  // Zeros in place of weights would be a wrong result, and nothing would say so.
  Tensor w = arange(64, float32);
  Program large = trace([&](const Tensor &x) { return x * w; }, {zeros({64})});
  Error error = error_of([&] { Program::parse(large.to_string()); });
  EXPECT_EQ(error.kind(), ErrorKind::kFile);
  EXPECT_NE(error.message().find("Program::save() writes all"), std::string::npos) << error.what();
}

TEST(Program, AnErrorWhileSavingLeavesTheOldFile) {
  std::string path = path_of("folder");
  fs::create_directory(path);
  Error error = error_of([&] { cube().save(path); });
  EXPECT_EQ(error.kind(), ErrorKind::kFile);
  EXPECT_NE(error.message().find(path), std::string::npos) << error.message();
  EXPECT_TRUE(fs::is_directory(path));
  EXPECT_EQ(error_of([&] { cube().save(path_of("none") + "/program.mlir"); }).kind(),
            ErrorKind::kFile);
  EXPECT_EQ(error_of([] { Program().save(path_of("x")); }).kind(), ErrorKind::kState);
}

TEST(Program, IsDifferentiatedToAnyOrder) {
  Program program = cube(), first = program.differentiate();
  EXPECT_EQ(first.input_shapes(), program.input_shapes());
  EXPECT_EQ(first.output_shapes(), (std::vector<Shape>{{}, {2}}));
  Tensor x = tensor({3.f, -1.f});
  std::vector<Tensor> results = first.run({x});
  EXPECT_EQ(results[0].item<float>(), 27.f - 2.f);
  EXPECT_EQ(results[1].to_vector<float>(), (Floats{27, 6}));
  // The gradient has two elements: its cotangent is one more input. A Hessian times a vector.
  Program second = first.differentiate({.result = 1});
  ASSERT_EQ(second.input_shapes(), (std::vector<Shape>{{2}, {2}}));
  results = second.run({x, tensor({1.f, 10.f})});
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[2].to_vector<float>(), (Floats{18, -120}));
  // And once more, from a file; the program itself is what it was.
  second.save(path_of("second"), ProgramFormat::bytecode);
  Program third = Program::load(path_of("second")).differentiate({.arguments = {0}, .result = 2});
  EXPECT_EQ(third.run({x, tensor({1.f, 1.f}), tensor({1.f, 1.f})})[3].to_vector<float>(),
            (Floats{6, 12}));
  EXPECT_EQ(program.run({x}).size(), 1u);
}

TEST(Program, DifferentiatesByTheInputsThatAreAskedFor) {
  Program program = trace([](const Tensor &x, const Tensor &n,
                             const Tensor &y) { return sum(x * y * n.to(DType::kFloat32)); },
                          {zeros({2}), zeros({2}, DType::kInt64), zeros({2})});
  std::vector<Tensor> inputs = {tensor({1.f, 2.f}), tensor({int64_t(3), int64_t(4)}),
                                tensor({5.f, 6.f})};
  std::vector<Tensor> all = program.differentiate().run(inputs);
  ASSERT_EQ(all.size(), 3u); // the integers have none
  EXPECT_EQ(all[1].to_vector<float>(), (Floats{15, 24}));
  EXPECT_EQ(all[2].to_vector<float>(), (Floats{3, 8}));
  EXPECT_EQ(program.differentiate({.arguments = {2}}).run(inputs)[1].to_vector<float>(),
            (Floats{3, 8}));
  auto message = [&](const DifferentiateOptions &options) {
    Error error = error_of([&] { program.differentiate(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kValue);
    return error.message();
  };
  EXPECT_NE(message({.arguments = {7}}).find("argument 7: there are 3"), std::string::npos);
  EXPECT_EQ(message({.arguments = {7}}).find('\n'), std::string::npos)
      << "the whole program is no part of a message";
  EXPECT_NE(message({.arguments = {1}}).find("only floating-point tensors have derivatives"),
            std::string::npos);
  EXPECT_NE(message({.result = 1}).find("result 1: there are 1"), std::string::npos);
  Program uniform = Program::parse(R"(func.func @main(%s: tensor<2xi64>) -> tensor<3xf32> {
    %0 = weft.random_uniform %s : tensor<3xf32>
    return %0 : tensor<3xf32>
  })");
  EXPECT_EQ(uniform.differentiate().output_shapes(),
            (std::vector<Shape>{{3}})); // nothing to differentiate by
}

TEST(Program, OpsWithoutADerivativeAreNamed) {
  Program program =
      Program::parse(R"(func.func @main(%x: tensor<3xf32>, %f: tensor<3xf32>) -> tensor<3xf32> {
    %0 = weft.fusion(%a = %x : tensor<3xf32>) -> (tensor<3xf32>) {
      %1 = weft.neg %a : tensor<3xf32>
      weft.yield %1 : tensor<3xf32>
    }
    return %0 : tensor<3xf32>
  })");
  Error error = error_of([&] { program.differentiate(); });
  EXPECT_NE(error.message().find("weft.fusion"), std::string::npos) << error.message();
}

TEST(Program, DerivativesCompileAheadOfTime) {
  Program derivative = cube().differentiate();
  std::string path = path_of("derivative.o");
  if (config().backend == "reference") {
    EXPECT_EQ(error_of([&] {
                derivative.compile({.emit = Emit::object, .output = path, .target = "reference"});
              }).kind(),
              ErrorKind::kCompile);
    return;
  }
  derivative.compile({.emit = Emit::object, .output = path});
  EXPECT_GT(fs::file_size(path), 500u);
}

TEST(Program, NamesOfInputsAndOutputsAreChecked) {
  Tensor w = tensor({1.f, 2.f});
  std::vector<std::pair<std::string, Tensor>> named = {{"w", w}};
  Program program = trace(
      [&](const Tensor &x, const Tensor &y) {
        w += x * y;
        return w * 1.0;
      },
      {zeros({2}), zeros({2})}, {{"", named}});
  auto message = [&](const std::vector<std::string> &inputs,
                     const std::vector<std::string> &outputs = {}) {
    return error_of([&] { program.set_names(inputs, outputs); }).message();
  };
  EXPECT_NE(message({"x"}).find("inputs: the list of names has 1, the program has 2"),
            std::string::npos);
  EXPECT_NE(message({}, {"a", "b"}).find("outputs: the list of names has 2, the program has 1"),
            std::string::npos);
  EXPECT_NE(message({"x", "x"}).find("are called 'x'"), std::string::npos);
  EXPECT_NE(message({"x", "w"}).find("are called 'w'"), std::string::npos);
  EXPECT_NE(message({"x", "a=b"}).find("'a=b' is a name of inputs"), std::string::npos);
  EXPECT_EQ(program.to_string().find("weft.name"), std::string::npos);
  program.set_names({"x", "y"}, {"x"});
  EXPECT_NE(program.to_string().find("weft.name = \"y\""), std::string::npos);
  EXPECT_EQ(program.run({ones({2}), ones({2})})[0].to_vector<float>(), (Floats{2, 3}));
}

TEST(Program, BadFilesSayWhatIsWrong) {
  struct Case {
    const char *content, *says;
  };
  for (const Case &c : std::vector<Case>{
           {"", "is empty"},
           {" \n\t", "is empty"},
           {"not a program", "is not a program of weft ops"},
           {"\x7f"
            "ELF\x02\x01",
            "is not a program of weft ops"},
           {"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n",
            ":1: expected operation name"},
           {"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = weft.nonsense %x : "
            "tensor<2xf32>\n",
            "weft.nonsense"},
           {"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = arith.negf %x : "
            "tensor<2xf32>\n  return %0 : tensor<2xf32>\n}",
            "arith"},
           {"func.func @other(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }",
            "no function @main"},
           {"func.func private @main(tensor<2xf32>) -> tensor<2xf32>",
            "no function @main with one block"},
           {"func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }",
            "argument 0 of @main is tensor<?xf32>"},
           {"func.func @main(%x: tensor<2xi3>) -> tensor<2xi3> { return %x : tensor<2xi3> }",
            "argument 0 of @main is tensor<2xi3>"},
           {"func.func @main(%x: i64) -> i64 { return %x : i64 }", "argument 0 of @main is i64"},
           {"func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {\n  %0 = "
            "\"weft.add\"(%x, %y) : (tensor<2xf32>, "
            "tensor<3xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}",
            ":2: 'weft.add' op"}}) {
    std::string path = path_of("bad.mlir");
    write(path, c.content);
    Error error = error_of([&] { Program::load(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kFile) << c.content;
    EXPECT_NE(error.message().find(c.says), std::string::npos)
        << c.content << "\n gave " << error.message();
    EXPECT_NE(error.message().find("bad.mlir"), std::string::npos) << error.message();
    EXPECT_EQ(fs::path(error.file()).filename(), "program_test.cpp");
  }
  EXPECT_NE(error_of([] { Program::load(path_of("missing.mlir")); }).message().find("missing.mlir"),
            std::string::npos);
  EXPECT_EQ(error_of([] { Program::load(testing::TempDir()); }).kind(), ErrorKind::kFile);
}

TEST(Program, BytecodeThatIsCutOffIsRefused) {
  std::string path = path_of("whole");
  cube().save(path, ProgramFormat::bytecode);
  std::string whole = content_of(path);
  ASSERT_GT(whole.size(), 100u);
  for (size_t size = 1; size < whole.size(); size += size < 64 ? 1 : 17) {
    write(path, whole.substr(0, size));
    Error error = error_of([&] { Program::load(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kFile)
        << size << " of " << whole.size() << " bytes: " << error.message();
  }
}

TEST(Program, BytecodeThatIsDamagedIsRefused) {
  std::string path = path_of("damaged");
  cube().save(path, ProgramFormat::bytecode);
  const std::string whole = content_of(path);
  // Behind the checksum, which is as good as at the start.
  for (size_t at = 64; at < whole.size(); at += 7) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1 << at % 8);
    write(path, changed);
    EXPECT_MESSAGE(Program::load(path),
                   "damaged is damaged: its checksum is not that of its bytes");
  }
}

} // namespace
} // namespace weft
