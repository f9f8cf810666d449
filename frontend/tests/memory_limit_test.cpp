// Config::memory_limit: a program that would take more computes values again instead of keeping
// them, without a limit those that are nearly free to compute; or values wait in files
// (Config::memory_folder); with the same bits; plain, jitted and ahead of time; what cannot be
// reached is said.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include <sys/resource.h>

namespace weft {
namespace {

class MemoryLimit : public testing::Test {
protected:
  void SetUp() override {
    before_ = config();
  }
  void TearDown() override {
    set_config(before_);
  }
  void limit(int64_t bytes) {
    Config changed = before_;
    changed.memory_limit = bytes;
    set_config(changed);
  }

  static constexpr int64_t kEnough = std::numeric_limits<int64_t>::max(); // nothing runs again

  Config before_;
};

constexpr int64_t kRows = 16384; // so that values take more than kLeastFreeRecompute

// Layers whose outputs, much larger than their weights, are kept for the way back.
struct Deep : nn::Module {
  Deep() {
    for (int i = 0; i < 12; ++i) {
      layers.push_back(child("layer" + std::to_string(i), nn::Linear(64, 64)));
      norms.push_back(child("norm" + std::to_string(i), nn::LayerNorm(64)));
    }
  }
  Tensor operator()(const Tensor &x) const {
    Tensor y = x;
    for (size_t i = 0; i < layers.size(); ++i)
      y = y + dropout(gelu(layers[i](norms[i](y))));
    return y;
  }
  std::vector<nn::Linear> layers;
  std::vector<nn::LayerNorm> norms;
  nn::Dropout dropout = child("dropout", nn::Dropout(0.1));
};

// What it keeps of its arguments are handles.
template <typename Model, typename Optimizer>
auto step_of(Model model, Optimizer optimizer, Tensor target) {
  return [=](const Tensor &images) mutable {
    optimizer.zero_grad();
    Tensor loss = mse_loss(model(images), target);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  };
}

// The gradient of the model's squares by its input, in evaluation.
template <typename Model> Program input_gradient(Model model, const Tensor &x) {
  model.eval();
  auto gradient = [&](const Tensor &given) {
    Tensor input = given.detach().set_requires_grad();
    return grad({model(input).square().sum()}, {input})[0];
  };
  return trace(gradient, {x});
}

struct Figures {
  std::vector<float> losses, weights;
  int64_t peak = 0, recomputations = 0;
  std::vector<std::string> notes;
};

// Peak, recomputations and notes are of the evaluation that takes the most.
Figures train(bool jitted) {
  size_t known = recent_evaluations().empty() ? 0 : recent_evaluations().back().number;
  manual_seed(5);
  Deep model;
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  Tensor x = randn({kRows, 64}).eval(), target = randn({kRows, 64}).eval();
  auto step = step_of(model, optimizer, target);
  auto program = jit(step);
  Figures figures;
  for (int i = 0; i < 4; ++i)
    figures.losses.push_back((jitted ? program(x) : step(x)).item<float>());
  for (const Evaluation &evaluation : recent_evaluations())
    if (evaluation.number > known && evaluation.planned_peak_bytes > figures.peak) {
      figures.peak = evaluation.planned_peak_bytes;
      figures.recomputations = evaluation.recomputations;
      figures.notes = evaluation.notes;
    }
  for (const auto &[name, parameter] : model.named_parameters()) {
    std::vector<float> values = parameter.to_vector<float>();
    figures.weights.insert(figures.weights.end(), values.begin(), values.end());
  }
  return figures;
}

TEST_F(MemoryLimit, HalvesATrainingStepAndKeepsItsBits) {
  for (bool jitted : {false, true}) {
    limit(kEnough);
    Figures kept = train(jitted);
    EXPECT_EQ(kept.recomputations, 0);
    limit(0);
    Figures free = train(jitted);
    EXPECT_GT(free.recomputations, 0);
    EXPECT_LT(free.peak, kept.peak);
    EXPECT_EQ(free.losses, kept.losses);
    EXPECT_EQ(free.weights, kept.weights);
    limit(kept.peak / 2);
    Figures small = train(jitted);
    EXPECT_EQ(small.losses, kept.losses);
    EXPECT_EQ(small.weights, kept.weights);
    EXPECT_LE(small.peak, kept.peak / 2) << "jitted: " << jitted;
    EXPECT_GT(small.recomputations, free.recomputations);
    limit(0);
  }
}

TEST_F(MemoryLimit, ThatCannotBeReachedIsSaid) {
  limit(1000);
  Tensor x = randn({512, 512}), y = randn({512, 512});
  eval({x, y});
  Tensor z = (x.matmul(y).relu().matmul(x) + x).eval();
  std::string notes;
  for (const std::string &note : explain(z).notes)
    notes += note + "\n";
  EXPECT_NE(notes.find("memory limit of 1000 bytes"), std::string::npos) << notes;
  EXPECT_NE(notes.find("not reached"), std::string::npos) << notes;
  EXPECT_NE(explain(z).to_string().find("not reached"), std::string::npos);
  limit(0);
  EXPECT_EQ((x.matmul(y).relu().matmul(x) + x).to_vector<float>(), z.to_vector<float>());
}

// One that is out of reach takes no more than one that is not, or than none.
TEST_F(MemoryLimit, ThatIsSmallerTakesNoMore) {
  Deep model;
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  Tensor x = randn({kRows, 64}).eval(), target = randn({kRows, 64}).eval();
  Program program = trace(step_of(model, optimizer, target), {x}, {{"model", model}});
  auto taken = [&](int64_t bytes) {
    limit(bytes);
    MemoryEstimate estimate = program.memory();
    return estimate.outputs + estimate.arena;
  };
  // Little more than the least that it can take.
  int64_t whole = taken(kEnough), reachable = whole * 2 / 9, reached = taken(reachable);
  EXPECT_LE(reached, reachable);
  EXPECT_LE(reached, taken(0));
  for (int64_t part : {8, 32, 128}) {
    int64_t bytes = taken(whole / part);
    EXPECT_LE(bytes, std::max(whole / part, reached + reached / 10)) << part;
  }
}

TEST_F(MemoryLimit, ThatIsNegativeIsAnError) {
  EXPECT_THROW(limit(-1), Error);
  Program program = trace([](const Tensor &x) { return x + 1; }, {ones({2})});
  EXPECT_THROW(program.compile({.output = "x", .memory_limit = -1}), Error);
}

// Before a step is computed, what it takes is known; with a limit, less.
TEST_F(MemoryLimit, IsSeenInAnEstimate) {
  Deep model;
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  Tensor x = randn({kRows, 64}).eval(), target = randn({kRows, 64}).eval();
  auto step = step_of(model, optimizer, target);
  std::vector<float> before = model.parameters()[0].to_vector<float>();
  limit(kEnough);
  MemoryEstimate free = estimate_memory(step, {x}, {{"model", model}});
  EXPECT_EQ(model.parameters()[0].to_vector<float>(), before);
  constexpr int64_t kBatch = kRows * 64 * 4;
  EXPECT_EQ(free.inputs, kBatch);
  int64_t weights = 0;
  for (const auto &[name, parameter] : model.named_parameters())
    weights += parameter.numel() * 4;
  EXPECT_GE(free.state, 3 * weights + kBatch); // moments and the target, too
  EXPECT_LE(free.state, 3 * weights + kBatch + 4096);
  EXPECT_EQ(free.peak(), free.inputs + free.state + free.outputs + free.arena);
  EXPECT_GT(free.arena, 12 * kBatch); // at least one value a layer
  EXPECT_EQ(free.recomputations, 0);

  Program program = trace(step, {x}, {{"model", model}});
  program.run({x});
  synchronize();
  auto planned = static_cast<double>(recent_evaluations().back().planned_peak_bytes);
  EXPECT_NEAR(static_cast<double>(free.outputs + free.arena), planned, 0.02 * planned);

  limit((free.outputs + free.arena) / 2);
  MemoryEstimate small = program.memory(); // compiled again
  EXPECT_LE(small.outputs + small.arena, (free.outputs + free.arena) / 2);
  EXPECT_GT(small.recomputations, 0);
  EXPECT_NE(small.to_string().find("run again"), std::string::npos) << small.to_string();
}

// Of a program for a range of batches, what a run of the largest takes. The smallest may be too
// small for the library that a run of the largest calls.
TEST_F(MemoryLimit, AnEstimateOfARangeIsOfTheLargestBatch) {
  nn::ConvTranspose2d up(8, 8, 2, {.stride = 2});
  Program program = trace([&](const Tensor &x) { return up(x); }, {ones({2, 8, 6, 5})},
                          {{"up", up}}, BatchRange{1, 8});
  MemoryEstimate estimate = program.memory();
  EXPECT_EQ(estimate.inputs, 8 * 8 * 6 * 5 * 4);
  EXPECT_EQ(estimate.outputs, 8 * 8 * 12 * 10 * 4);
  EXPECT_EQ(program.run({ones({3, 8, 6, 5})})[0].shape(), (Shape{3, 8, 12, 10}));
}

// A network whose values cost much to compute again for their size.
struct Wide : nn::Module {
  Wide() {
    for (int i = 0; i < 6; ++i)
      layers.push_back(child("layer" + std::to_string(i), nn::Linear(512, 512)));
  }
  Tensor operator()(const Tensor &x) const {
    Tensor y = x;
    for (const nn::Linear &layer : layers)
      y = gelu(layer(y));
    return y;
  }
  std::vector<nn::Linear> layers;
};

class MemoryFolder : public MemoryLimit {
protected:
  void limit_with_files(int64_t bytes) {
    Config changed = before_;
    changed.memory_limit = bytes;
    changed.memory_folder = testing::TempDir();
    set_config(changed);
  }
  static constexpr int64_t kBytes = 1024 * 512 * 4; // of one value
  struct Run {
    std::vector<float> losses, weights;
    int64_t peak = 0, stored = 0;
    std::string notes, line;
  };
  Run train() {
    size_t known = recent_evaluations().empty() ? 0 : recent_evaluations().back().number;
    manual_seed(3);
    Wide model;
    optim::SGD optimizer(model.parameters(), {.lr = 1e-2});
    Tensor target = randn({1024, 512}).eval(), x = randn({1024, 512}).eval();
    auto step = jit(step_of(model, optimizer, target));
    Run run;
    for (int i = 0; i < 3; ++i)
      run.losses.push_back(step(x).item<float>());
    for (const Evaluation &evaluation : recent_evaluations())
      if (evaluation.number > known && evaluation.planned_peak_bytes >= run.peak) {
        run.peak = evaluation.planned_peak_bytes;
        run.stored = evaluation.stored_bytes;
        run.line = evaluation.to_string();
        run.notes.clear();
        for (const std::string &note : evaluation.notes)
          run.notes += note + "\n";
      }
    for (const Tensor &parameter : model.parameters())
      for (float value : parameter.to_vector<float>())
        run.weights.push_back(value);
    return run;
  }
};

TEST_F(MemoryFolder, KeepsWhatCostsMuchToComputeAgain) {
  limit(kEnough);
  Run kept = train();
  EXPECT_EQ(kept.stored, 0);
  limit(kept.peak / 2);
  Run again = train();
  EXPECT_EQ(again.stored, 0); // nobody allowed it
  limit_with_files(kept.peak / 2);
  Run stored = train();
  EXPECT_GE(stored.stored, kBytes);
  EXPECT_LE(stored.peak, kept.peak / 2);
  EXPECT_NE(stored.notes.find("wait in files"), std::string::npos) << stored.notes;
  EXPECT_NE(stored.line.find("B in files"), std::string::npos) << stored.line;
  for (const Run &run : {again, stored}) {
    EXPECT_EQ(run.losses, kept.losses);
    EXPECT_EQ(run.weights, kept.weights);
  }
}

TEST_F(MemoryFolder, ThatTakesNoFilesIsAnError) {
  Config changed = before_;
  changed.memory_folder = "/no/such/folder";
  try {
    set_config(changed);
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/folder"), std::string::npos);
    EXPECT_EQ(error.kind(), ErrorKind::kValue);
  }
  EXPECT_EQ(config().memory_folder, "");
}

// A path of a folder that is gone leads nowhere.
TEST_F(MemoryFolder, IsAskedForFromAFolderThatIsThere) {
  std::filesystem::path here = std::filesystem::current_path();
  std::string gone = testing::TempDir() + "/gone";
  std::filesystem::create_directory(gone);
  std::filesystem::current_path(gone);
  std::filesystem::remove(gone);
  Config changed = before_;
  changed.memory_folder = "values";
  EXPECT_THROW(set_config(changed), Error);
  std::filesystem::current_path(here);
  EXPECT_EQ(config().memory_folder, "");
}

// Room is taken before anything is computed: a step that finds none can be tried again.
TEST_F(MemoryFolder, ThatIsFullCostsNothing) {
  limit(kEnough);
  Run kept = train();
  limit_with_files(kept.peak / 2);
  manual_seed(3);
  Wide model;
  optim::SGD optimizer(model.parameters(), {.lr = 1e-2});
  Tensor target = randn({1024, 512}).eval(), x = randn({1024, 512}).eval();
  signal(SIGXFSZ, SIG_IGN);
  rlimit before, small;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = {.rlim_cur = 65536, .rlim_max = before.rlim_max};
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    Tensor loss = mse_loss(model(x), target);
    loss.backward();
    if (i == 0) {
      ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
      try {
        optimizer.step();
        loss.item<float>();
        ADD_FAILURE() << "there was room";
      } catch (const Error &error) {
        EXPECT_NE(std::string(error.what()).find("no room for a value"), std::string::npos)
            << error.what();
      }
      ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    } else {
      optimizer.step();
    }
    optimizer.zero_grad();
    losses.push_back(loss.item<float>());
  }
  EXPECT_EQ(losses, kept.losses);
}

TEST_F(MemoryFolder, OfAModelCompiledAheadOfTime) {
  Tensor x = randn({1024, 512}).eval();
  Wide model;
  Program program = input_gradient(model, x);
  std::string folder = testing::TempDir() + "/memory_folder";
  std::filesystem::create_directories(folder);
  CompileOptions options{.emit = Emit::plan,
                         .output = folder + "/model.mlir",
                         .memory_limit = 8 * kBytes,
                         .memory_files = true};
  program.compile(options);
  auto text_of = [](const std::string &path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::string plan = text_of(options.output);
  EXPECT_NE(plan.find("weft.file.store"), std::string::npos);
  EXPECT_NE(plan.find("weft.file.load"), std::string::npos);
  options.emit = Emit::object;
  options.output = folder + "/model.o";
  program.compile(options);
  EXPECT_NE(text_of(folder + "/model.h").find("libweft_file.a"), std::string::npos);
  options.memory_limit = 0;
  EXPECT_THROW(program.compile(options), Error);
  Program ranged = trace(model, {x}, {}, BatchRange{.min = 1, .max = 2000});
  EXPECT_THROW(ranged.compile({.output = folder + "/x", .memory_limit = 1, .memory_files = true}),
               Error);
}

// The values of the step are kept in the plan of an executable, too.
TEST_F(MemoryLimit, OfAModelCompiledAheadOfTime) {
  Tensor x = randn({256, 64}).eval();
  Deep model;
  Program program = input_gradient(model, x);
  std::string folder = testing::TempDir() + "/memory_limit";
  std::filesystem::create_directories(folder);
  std::vector<uintmax_t> sizes;
  for (int64_t bytes : {int64_t(0), int64_t(600'000)}) {
    std::string path = folder + "/model" + std::to_string(bytes) + ".mlir";
    program.compile({.emit = Emit::plan, .output = path, .memory_limit = bytes});
    sizes.push_back(std::filesystem::file_size(path));
  }
  EXPECT_GT(sizes[1], sizes[0]); // more instructions
}

} // namespace
} // namespace weft
