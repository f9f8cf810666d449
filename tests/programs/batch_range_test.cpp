// Programs for a range of batch sizes, compiled ahead of time: what they compute at each size has
// the bits of a process that runs that size, and what stands in a range's way is named.
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/aot/weft_model.h"
#include "runtime/core/dtype.h"
#include "tests/programs/library.h"
#include "tests/programs/process.h"
#include "tests/support/errors.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

using Bytes = std::vector<std::byte>;
using testing_support::error_of;

Bytes bytes_of(const Tensor &tensor) {
  const auto *data = static_cast<const std::byte *>(tensor.data_bytes());
  return {data, data + tensor.numel() * byte_size(tensor.dtype())};
}

struct Mlp : nn::Module {
  nn::Linear up = child("up", nn::Linear(12, 16));
  nn::LayerNorm norm = child("norm", nn::LayerNorm(16));
  nn::Linear down = child("down", nn::Linear(16, 3));
  Tensor operator()(const Tensor &x) const {
    return down(norm(tanh(up(x))));
  }
};

struct Images : nn::Module {
  nn::Conv2d conv = child("conv", nn::Conv2d(3, 8, 3, {.padding = 1}));
  nn::BatchNorm2d norm = child("norm", nn::BatchNorm2d(8));
  nn::Linear head = child("head", nn::Linear(8, 4));
  Tensor operator()(const Tensor &x) {
    return head(max_pool2d(relu(norm(conv(x))), 2).mean({2, 3}));
  }
};

struct Characters : nn::Module {
  nn::Embedding tokens = child("tokens", nn::Embedding(11, 16));
  nn::TransformerBlock block = child("block", nn::TransformerBlock(16, 2, {.causal = true}));
  nn::Linear head = child("head", nn::Linear(16, 11));
  Tensor operator()(const Tensor &ids) const {
    return head(block(tokens(ids)));
  }
};

#define MODEL_FUNCTION(name) library.find<decltype(name)>(#name)

class BatchRanges : public testing::Test {
protected:
  std::string folder_ = scratch_folder();

  std::string save(const std::string &name, const Tensor &tensor) {
    std::string path = folder_ + "/" + name + ".npy";
    io::save_npy(path, tensor);
    return path;
  }
  ProcessResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), folder_ + "/model");
    return run_process(arguments);
  }
  // The executable and the process at each of the sizes.
  template <typename F, typename Input>
  void expect_same(F &function, const std::vector<int64_t> &sizes, Input input) {
    for (int64_t size : sizes) {
      Tensor x = input(size);
      ProcessResult result = run({save("x", x), "--output", folder_ + "/y.npy"});
      ASSERT_EQ(result.exit_code, 0) << size << ": " << result.err;
      NoGrad no_history; // like the model, which has none
      Tensor y = io::load_npy(folder_ + "/y.npy"), expected = function(x);
      EXPECT_EQ(y.shape(), expected.shape());
      EXPECT_TRUE(bytes_of(y) == bytes_of(expected)) << size;
    }
  }
};

TEST_F(BatchRanges, AnMlpAtEachSize) {
  Mlp model;
  Program program = trace(model, {zeros({5, 12})}, {}, BatchRange{.min = 1, .max = 64});
  EXPECT_EQ(program.batch().min, 1);
  EXPECT_EQ(program.batch().max, 64);
  EXPECT_EQ(program.batch().inputs, (std::vector<int64_t>{0}));
  EXPECT_EQ(program.input_shapes(), (std::vector<Shape>{{64, 12}}));
  EXPECT_NE(program.to_string().find("batch = array<i64: 1, 64>"), std::string::npos);
  program.compile({.output = folder_ + "/model"});
  expect_same(model, {1, 2, 3, 5, 16, 17, 33, 63, 64}, [](int64_t n) { return rand({n, 12}); });

  // As text and back.
  program.save(folder_ + "/program.mlir");
  Program loaded = Program::load(folder_ + "/program.mlir");
  EXPECT_EQ(loaded.batch().max, 64);
  for (int64_t size : {1, 7, 64}) {
    Tensor x = rand({size, 12});
    EXPECT_TRUE(bytes_of(loaded.run({x})[0]) == bytes_of(program.run({x})[0]));
    EXPECT_TRUE(bytes_of(program.run({x})[0]) == bytes_of(model(x))) << size;
  }
  EXPECT_NE(error_of([&] { program.run({zeros({65, 12})}); })
                .message()
                .find("a batch of 65 is out of range; it must be from 1 to 64"),
            std::string::npos);
}

TEST_F(BatchRanges, RowsOfAFileAsBatches) {
  Mlp model;
  trace(model, {zeros({1, 12})}, {}, BatchRange{1, 16}).compile({.output = folder_ + "/model"});
  Tensor x = rand({50, 12});
  ProcessResult result = run({"--batch", "16", save("x", x), "--output", folder_ + "/y.npy"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  Tensor y = io::load_npy(folder_ + "/y.npy");
  ASSERT_EQ(y.shape(), (Shape{50, 3}));
  Bytes expected;
  for (int64_t begin = 0; begin < 50; begin += 16) {
    Bytes part = bytes_of(model(x.slice(0, begin, std::min<int64_t>(begin + 16, 50))));
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(bytes_of(y) == expected);
  // A batch for each step, all of one size.
  result = run({save("x", x.slice(0, 0, 48).reshape({12, 4, 12})), "--output", folder_ + "/y.npy"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(io::load_npy(folder_ + "/y.npy").shape(), (Shape{12, 4, 3}));
  result = run({"--batch=16", folder_ + "/x.npy", "--steps", "1"});
  EXPECT_NE(result.err.find("are batches already; leave --batch out"), std::string::npos)
      << result.err;
  // Printed with the shapes of each step.
  save("x", x);
  result = run({"--batch=16", folder_ + "/x.npy"});
  EXPECT_NE(result.out.find("step 4 output0 float32[2, 3] "), std::string::npos) << result.out;
  result = run({"--help"});
  for (const char *wanted : {"float32[1..16, 12]", "float32[1..16, 3]", "[--batch ROWS]"})
    EXPECT_NE(result.out.find(wanted), std::string::npos) << wanted << " in " << result.out;
  for (const auto &[arguments, message] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{folder_ + "/x.npy"},
            "input 0 is float32[1..16, 12]; the file holds float32[50, 12]; --batch ROWS, at most "
            "16, cuts it into steps"},
           {{save("none", zeros({0, 12}))}, "the file holds float32[0, 12]"},
           {{save("wide", zeros({4, 13}))}, "the file holds float32[4, 13]"},
           {{"--batch", "17", folder_ + "/x.npy"}, "--batch is 17; input 0 is float32[1..16, 12]"},
           {{"--batch", "0", folder_ + "/x.npy"}, "--batch takes a number from 1"}}) {
    result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  }
}

// A program for each part of the range, once for each kind of processor; weights stand beside.
TEST_F(BatchRanges, SeveralProcessors) {
  Mlp model;
  trace(model, {zeros({1, 12})}, {}, BatchRange{1, 16})
      .compile(
          {.output = folder_ + "/model", .cpu = "x86-64-v4,x86-64-v3", .embed_weights = false});
  for (int64_t size : {1, 2, 16}) {
    Tensor x = rand({size, 12});
    ProcessResult result = run({save("x", x), "--weights", folder_ + "/model.safetensors",
                                "--output", folder_ + "/y.npy"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::vector<float> y = io::load_npy(folder_ + "/y.npy").to_vector<float>(),
                       expected = model(x).to_vector<float>();
    ASSERT_EQ(y.size(), expected.size());
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], expected[i], 1e-5) << size;
  }
}

TEST_F(BatchRanges, ALibraryTakesShapes) {
  manual_seed(3);
  Images model;
  for (int i = 0; i < 2; ++i)
    model(rand({8, 3, 10, 10}));
  model.eval();
  trace(model, {zeros({1, 3, 10, 10})}, {}, BatchRange{2, 24})
      .compile({.emit = Emit::library, .output = folder_ + "/libimages.so", .name = "images"});
  std::string header = read_whole(folder_ + "/libimages.h");
  for (const char *wanted :
       {"#define IMAGES_BATCH_MIN 2", "#define IMAGES_BATCH_MAX 24",
        "// input 0: float32[2..24, 3, 10, 10]", "#define IMAGES_OUTPUT_0_ELEMENTS 96"})
    EXPECT_NE(header.find(wanted), std::string::npos) << wanted << " in " << header;
  Library library(folder_ + "/libimages.so");
  auto error = MODEL_FUNCTION(weft_model_error);
  auto run = MODEL_FUNCTION(weft_model_run_sized);
  auto output_dims = MODEL_FUNCTION(weft_model_output_dims);
  weft_model *opened = nullptr;
  ASSERT_EQ(MODEL_FUNCTION(weft_model_open)(
                library.find<const weft_model_code>("weft_model_images"), nullptr, &opened),
            0)
      << error();
  const weft_tensor_info *info = MODEL_FUNCTION(weft_model_input)(opened, 0);
  EXPECT_EQ(info->min_dims[0], 2);
  EXPECT_EQ(info->dims[0], 24);
  EXPECT_EQ(info->min_dims[1], 3);
  for (int64_t size : {24, 2, 3, 17, 8, 9, 10, 11, 12, 13, 14, 2, 24}) {
    NoGrad no_history;
    Tensor x = rand({size, 3, 10, 10}), expected = model(x);
    const int64_t shape[] = {size, 3, 10, 10};
    const int64_t *dims[] = {shape};
    int64_t result[2] = {};
    ASSERT_EQ(output_dims(opened, dims, 0, result), 0) << error();
    EXPECT_EQ((Shape{result[0], result[1]}), expected.shape());
    Bytes y(bytes_of(expected).size());
    const void *inputs[] = {x.data_bytes()};
    void *outputs[] = {y.data()};
    ASSERT_EQ(run(opened, dims, inputs, outputs), 0) << error();
    EXPECT_TRUE(y == bytes_of(expected)) << size;
  }
  const int64_t large[] = {25, 3, 10, 10};
  const int64_t *dims[] = {large};
  float none = 0;
  const void *inputs[] = {&none};
  void *outputs[] = {&none};
  EXPECT_NE(run(opened, dims, inputs, outputs), 0);
  EXPECT_STREQ(error(), "input 0 is given as float32[25, 3, 10, 10]; the model takes "
                        "float32[2..24, 3, 10, 10]");
  EXPECT_NE(run(opened, nullptr, inputs, outputs), 0);
  EXPECT_STREQ(error(), "input 0 is float32[2..24, 3, 10, 10]: its dims are missing");
  EXPECT_NE(MODEL_FUNCTION(weft_model_run)(opened, inputs, outputs), 0);
  EXPECT_STREQ(error(), "the entry 'main' takes a batch from 2 to 24: run it with "
                        "weft_model_run_sized(), which is given the shapes");
  MODEL_FUNCTION(weft_model_close)(opened);
}

TEST_F(BatchRanges, ATransformer) {
  Characters model;
  trace(model, {zeros({1, 6}, int64)}, {}, BatchRange{1, 9})
      .compile({.output = folder_ + "/model"});
  expect_same(model, {1, 2, 5, 8, 9}, [](int64_t n) { return randint(0, 11, {n, 6}); });
  // Indices are checked at each size.
  ProcessResult result = run({save("x", full({3, 6}, 11, int64))});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("index 11 at position"), std::string::npos) << result.err;
}

// Numbers that are the same everywhere, in tensors of the batch's size and in others.
TEST_F(BatchRanges, ConstantsAreResults) {
  Tensor captured = rand({4});
  auto f = [&](const Tensor &x) {
    return std::vector<Tensor>{zeros_like(x), ones({x.size(0), 2}), x * 2.0, captured,
                               full({3}, 1.5)};
  };
  trace(f, {zeros({1, 6})}, {}, BatchRange{1, 40}).compile({.output = folder_ + "/model"});
  for (int64_t size : {1, 2, 17, 40}) {
    Tensor x = rand({size, 6});
    std::vector<std::string> arguments = {save("x", x)};
    std::vector<Tensor> expected = f(x);
    for (size_t i = 0; i < expected.size(); ++i)
      arguments.insert(arguments.end(), {"--output", folder_ + "/y" + std::to_string(i) + ".npy"});
    ProcessResult result = run(arguments);
    ASSERT_EQ(result.exit_code, 0) << size << ": " << result.err;
    for (size_t i = 0; i < expected.size(); ++i) {
      Tensor y = io::load_npy(folder_ + "/y" + std::to_string(i) + ".npy");
      EXPECT_EQ(y.shape(), expected[i].shape()) << i;
      EXPECT_TRUE(bytes_of(y) == bytes_of(expected[i])) << size << ", result " << i;
    }
  }
}

TEST_F(BatchRanges, ADerivativeHasTheRangeToo) {
  Mlp model;
  auto loss = [&](const Tensor &x, const Tensor &scale) {
    return (square(model(x)) * scale).mean();
  };
  Program derivative = trace(loss, {zeros({1, 12}), zeros({3})}, {}, BatchRange{2, 20, {0}})
                           .differentiate({.arguments = {0}});
  EXPECT_EQ(derivative.batch().max, 20);
  EXPECT_EQ(derivative.batch().inputs, (std::vector<int64_t>{0}));
  derivative.compile({.output = folder_ + "/model"});
  Tensor scale = rand({3});
  for (int64_t size : {2, 3, 11, 20}) {
    Tensor x = rand({size, 12});
    ProcessResult result = run({save("x", x), save("scale", scale), "--output",
                                folder_ + "/loss.npy", "--output", folder_ + "/grad.npy"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::vector<Tensor> expected = derivative.run({x, scale});
    EXPECT_EQ(expected[1].shape(), x.shape());
    EXPECT_TRUE(bytes_of(io::load_npy(folder_ + "/loss.npy")) == bytes_of(expected[0])) << size;
    EXPECT_TRUE(bytes_of(io::load_npy(folder_ + "/grad.npy")) == bytes_of(expected[1])) << size;
  }
}

// The steps' rows come to one product, whose number of rows is a multiple of the batch.
TEST_F(BatchRanges, AnUnrolledCellTrains) {
  Tensor w = ((rand({64, 64}) - 0.5) * 0.2).set_requires_grad();
  auto gradient = [&](const Tensor &x) {
    Tensor h = zeros({x.size(0), 64});
    for (int t = 0; t < 7; ++t)
      h = tanh(linear(h, w) + x.select(1, t));
    return grad({h.square().mean()}, {w})[0];
  };
  Program program = trace(gradient, {zeros({4, 7, 64})}, {}, BatchRange{2, 40});
  program.compile({.output = folder_ + "/model"});
  for (int64_t size : {2, 3, 17, 40}) {
    Tensor x = rand({size, 7, 64}), expected = gradient(x);
    EXPECT_TRUE(bytes_of(program.run({x})[0]) == bytes_of(expected)) << size;
    ProcessResult result = run({save("x", x), "--output", folder_ + "/y.npy"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(bytes_of(io::load_npy(folder_ + "/y.npy")) == bytes_of(expected)) << size;
  }
  // Beyond what a process joins the ops are the same at each size, too.
  Program wide = trace(gradient, {zeros({4, 7, 64})}, {}, BatchRange{2, 200});
  Tensor x = rand({200, 7, 64});
  EXPECT_TRUE(all_close(wide.run({x})[0], gradient(x), 1e-4, 1e-6));
}

// What stands in front of the batch only between a permute and slices, forward and backward.
TEST_F(BatchRanges, QueriesKeysAndValuesOfOneProduct) {
  Tensor w = (rand({48, 16}) - 0.5).set_requires_grad();
  auto gradient = [&](const Tensor &x) {
    Tensor p = linear(x, w).reshape({x.size(0), 6, 3, 2, 8}).permute({2, 0, 3, 1, 4});
    Tensor y = attention(p[0], p[1], p[2]).transpose(1, 2).reshape({x.size(0), 6, 16});
    return std::vector<Tensor>{y.detach(), grad({y.square().mean()}, {w})[0]};
  };
  Program program = trace(gradient, {zeros({4, 6, 16})}, {}, BatchRange{2, 20});
  for (int64_t size : {2, 3, 13, 20}) {
    Tensor x = rand({size, 6, 16});
    std::vector<Tensor> results = program.run({x}), expected = gradient(x);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(bytes_of(results[i]) == bytes_of(expected[i])) << size << ", result " << i;
  }
}

// What has room for so many rows takes as many as there are: a program for each size.
TEST_F(BatchRanges, RowsInATensorOfOneSize) {
  auto room = [](const Tensor &x) {
    Tensor rows = ones({40, 6});
    rows.narrow(0, 3, x.size(0)) = x;
    return (rows * 2).narrow(0, 1, 38) + pad(x, {0, 0, 0, 38 - x.size(0)});
  };
  Program program = trace(room, {zeros({5, 6})}, {}, BatchRange{.min = 2, .max = 16});
  program.compile({.output = folder_ + "/model"});
  expect_same(room, {2, 7, 11, 16}, [](int64_t n) { return rand({n, 6}); });
}

// Of more rows and elements than a chunk and a block have.
TEST_F(BatchRanges, LongSums) {
  Program program = trace(
      [](const Tensor &x) {
        return std::vector<Tensor>{(x * x).sum(), x.sum(0), x.reshape({x.size(0), 2, 4}).sum({0, 2})};
      },
      {zeros({4, 8})}, {}, BatchRange{2, 5000});
  for (int64_t size : {2, 1024, 2049, 5000}) {
    Tensor x = rand({size, 8}) - 0.5;
    std::vector<Tensor> results = program.run({x}),
                        expected = {(x * x).sum(), x.sum(0), x.reshape({size, 2, 4}).sum({0, 2})};
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_TRUE(bytes_of(results[i]) == bytes_of(expected[i])) << size << ", result " << i;
  }
}

struct Sequences : nn::Module {
  nn::GRU encoder = child("encoder", nn::GRU(12, 16, {.num_layers = 2, .batch_first = true}));
  nn::LSTM decoder =
      child("decoder", nn::LSTM(16, 16, {.batch_first = true, .bidirectional = true}));
  nn::Linear head = child("head", nn::Linear(64, 24));
  Tensor operator()(const Tensor &x) const {
    auto [steps, states] = encoder(x);
    auto [output, hidden, cell] = decoder(steps * states[-1].unsqueeze(1));
    return head(cat({output.mean(1), hidden[0], cell[1]}, 1));
  }
};

// Layers and directions stand in front of the batch in their last states.
TEST_F(BatchRanges, RecurrentLayers) {
  Sequences model;
  trace(model, {zeros({1, 5, 12})}, {}, BatchRange{1, 12}).compile({.output = folder_ + "/model"});
  expect_same(model, {1, 2, 5, 12}, [](int64_t n) { return rand({n, 5, 12}); });
  std::vector<Tensor> parameters = model.parameters();
  auto gradients = [&](const Tensor &x) {
    return grad({square(model(x)).sum(1).mean()}, parameters);
  };
  trace(gradients, {zeros({2, 5, 12})}, {}, BatchRange{2, 12})
      .compile({.output = folder_ + "/model"});
  for (int64_t size : {2, 3, 12}) {
    Tensor x = rand({size, 5, 12});
    std::vector<std::string> arguments = {save("x", x)};
    std::vector<Tensor> expected = gradients(x);
    for (size_t i = 0; i < expected.size(); ++i)
      arguments.insert(arguments.end(), {"--output", folder_ + "/g" + std::to_string(i) + ".npy"});
    ProcessResult result = run(arguments);
    ASSERT_EQ(result.exit_code, 0) << size << ": " << result.err;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(bytes_of(io::load_npy(folder_ + "/g" + std::to_string(i) + ".npy")) ==
                  bytes_of(expected[i]))
          << size << ", gradient " << i;
  }
}

// Time-major layers, whose rows are those of all steps one after another: results alone.
TEST_F(BatchRanges, StepsInFrontOfTheBatch) {
  nn::LSTM lstm(12, 16);
  auto last = [&](const Tensor &x) {
    return lstm(x.transpose(0, 1)).output.flip({0}).mean(0);
  };
  trace(last, {zeros({1, 5, 12})}, {}, BatchRange{1, 12}).compile({.output = folder_ + "/model"});
  expect_same(last, {1, 2, 5, 12}, [](int64_t n) { return rand({n, 5, 12}); });
}

// Dropout draws from the generator as many numbers as there are rows, the loss is a mean over them.
struct Classifier {
  Classifier(int64_t features, int64_t hidden)
      : up(features, hidden), down(hidden, 12), optimizer(parameters(), {.lr = 0.05}) {}
  std::vector<Tensor> parameters() const {
    return {up.weight, up.bias, down.weight, down.bias};
  }
  Tensor scores(const Tensor &x) const {
    return down(dropout(relu(up(x))));
  }
  Tensor step(const Tensor &x, const Tensor &target) {
    optimizer.zero_grad();
    Tensor scale = (x * x).sum() * (1e-3 / static_cast<double>(x.shape()[0]));
    Tensor loss = nn::cross_entropy(scores(x), target) * (scale + 1);
    loss.backward();
    optimizer.step();
    return loss;
  }
  StateNames names() const {
    return {{"up", up}, {"down", down}, {"optimizer", optimizer}};
  }
  nn::Linear up, down;
  nn::Dropout dropout = nn::Dropout(0.25);
  optim::AdamW optimizer;
};

class TrainingRanges : public BatchRanges, public testing::WithParamInterface<BatchRange> {};

TEST_F(BatchRanges, ImagesFromASingleOneOn) {
  Images model;
  model(rand({8, 3, 10, 10}));
  model.eval();
  trace(model, {zeros({1, 3, 10, 10})}, {}, BatchRange{1, 6})
      .compile({.output = folder_ + "/model"});
  expect_same(model, {1, 2, 5, 6}, [](int64_t n) { return rand({n, 3, 10, 10}); });
}

// A last batch that is smaller, in training.
TEST_P(TrainingRanges, ASmallerLastBatch) {
  manual_seed(4);
  // A library takes the products of the wider one, and one program serves all sizes; the narrower
  // one has a program for each.
  const auto [low, high, inputs] = GetParam();
  Classifier trainer(high > 16 ? 20 : 6, high > 16 ? 64 : 10);
  int64_t features = high > 16 ? 20 : 6, rows = 2 * high + low + 1;
  auto step = [&](const Tensor &x, const Tensor &target) {
    return trainer.step(x, target);
  };
  Program train = trace(step, {zeros({1, features}), zeros({1}, int64)}, trainer.names(),
                        BatchRange{low, high});
  trainer.dropout.eval();
  auto scores = [&](const Tensor &x) {
    return trainer.scores(x);
  };
  Program predict = trace(scores, {zeros({1, features})}, trainer.names(), BatchRange{1, high + 3});
  trainer.dropout.train();
  compile({{"train", train}, {"predict", predict}}, {.output = folder_ + "/model"});

  Tensor xs = rand({rows, features}), targets = randint(0, 12, {rows});
  default_generator().set_state(tensor({int64_t(77), int64_t(0)}));
  std::string x = save("x", xs), y = save("y", targets), state = folder_ + "/state.safetensors",
              loss = folder_ + "/loss.npy", batch = std::to_string(high);
  ProcessResult result = run({"--batch", batch, "--steps", "5", "--save", state, x, y});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const auto &[name, tensor] : train.state())
    if (name == "generator")
      default_generator().set_state(tensor);
  result = run({"--batch", batch, "--steps", "5", "--save", state, "--output", loss, x, y});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::vector<float> losses;
  for (int64_t i = 0; i < 5; ++i) {
    int64_t begin = i % 3 * high, end = std::min(begin + high, rows);
    losses.push_back(step(xs.slice(0, begin, end), targets.slice(0, begin, end)).item<float>());
  }
  EXPECT_EQ(io::load_npy(loss).to_vector<float>(), losses);
  size_t compared = 0;
  for (const auto &[name, tensor] : io::load_safetensors(state).tensors) {
    if (name == "up.weight" || name == "generator") {
      Tensor expected = name == "generator" ? default_generator().state() : trainer.up.weight;
      EXPECT_TRUE(bytes_of(tensor) == bytes_of(expected)) << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 2u);

  result = run({"--entry", "predict", "--load", state, "--batch", std::to_string(high + 3), x,
                "--output", folder_ + "/scores.npy"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  trainer.dropout.eval();
  Bytes expected;
  for (int64_t begin = 0; begin < rows; begin += high + 3) {
    Bytes part = bytes_of(scores(xs.slice(0, begin, std::min(begin + high + 3, rows))));
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(bytes_of(io::load_npy(folder_ + "/scores.npy")) == expected);
  // Inputs with another number of batches, and a last batch that is below the range.
  result = run({x, save("less", targets.slice(0, 0, high)), "--batch", batch});
  EXPECT_NE(result.err.find("it holds 1 batches; the input before it holds 3"), std::string::npos)
      << result.err;
  result = run({"--batch", batch, save("x", xs.slice(0, 0, high + 1)), y});
  EXPECT_NE(result.err.find("whose last batch of 1 is too small"), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(Sizes, TrainingRanges,
                         testing::Values(BatchRange{2, 8}, BatchRange{16, 40}),
                         [](const auto &info) { return "To" + std::to_string(info.param.max); });

TEST_F(BatchRanges, AFixedStepAndARangeShareWeights) {
  Mlp model;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  auto step = [&](const Tensor &x, const Tensor &y) {
    Tensor loss = square(model(x) - y).mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  StateNames names = {{"", model}, {"optimizer", optimizer}};
  Tensor x = rand({6, 12}), y = rand({6, 3});
  compile({{"train", trace(step, {x, y}, names)},
           {"predict", trace(model, {x}, names, BatchRange{1, 6})}},
          {.emit = Emit::library, .output = folder_ + "/libnet.so", .name = "net"});
  Library library(folder_ + "/libnet.so");
  auto error = MODEL_FUNCTION(weft_model_error);
  weft_model *train = nullptr;
  ASSERT_EQ(MODEL_FUNCTION(weft_model_open)(library.find<const weft_model_code>("weft_model_net"),
                                            nullptr, &train),
            0)
      << error();
  weft_model *predict = MODEL_FUNCTION(weft_model_entry)(train, "predict");
  for (int64_t size : {6, 1, 4, 1, 2}) {
    float loss = 0;
    const void *inputs[] = {x.data_bytes(), y.data_bytes()};
    void *outputs[] = {&loss};
    ASSERT_EQ(MODEL_FUNCTION(weft_model_run)(train, inputs, outputs), 0) << error();
    EXPECT_EQ(loss, step(x, y).item<float>());
    Tensor part = x.slice(0, 0, size), expected = model(part);
    Bytes scores(bytes_of(expected).size());
    const int64_t shape[] = {size, 12};
    const int64_t *dims[] = {shape};
    const void *predict_inputs[] = {part.data_bytes()};
    void *predict_outputs[] = {scores.data()};
    ASSERT_EQ(MODEL_FUNCTION(weft_model_run_sized)(predict, dims, predict_inputs, predict_outputs),
              0)
        << error();
    EXPECT_TRUE(scores == bytes_of(expected)) << size;
  }
  MODEL_FUNCTION(weft_model_close)(train);
}

// As they are mostly written: what has a leading size of 1 is repeated for each of the batch, and
// for a batch of one it is not.
struct Patches : nn::Module {
  nn::Linear up = child("up", nn::Linear(6, 16));
  nn::Parameter token = parameter("token", randn({1, 1, 16})),
                positions = parameter("positions", randn({1, 6, 16}));
  nn::TransformerBlock block = child("block", nn::TransformerBlock(16, 2));
  nn::Linear head = child("head", nn::Linear(16, 5));
  // How many of each one's five count.
  Tensor operator()(const Tensor &x, const Tensor &lengths) const {
    int64_t batch = x.size(0);
    Tensor y = cat({broadcast_to(token, {batch, 1, 16}), up(x)}, 1) + positions;
    Tensor mask = arange(6).reshape({1, 6}) <= lengths.reshape({batch, 1});
    mask = logical_and(mask.reshape({batch, 1, 1, 6}), tril(ones({1, 1, 6, 6})) > 0);
    return head(block(y, mask).mean(1));
  }
};

// Attention between the rows of a batch, in vectors of 8 and of 16 queries.
TEST_F(BatchRanges, AttentionUpToALengthOfHalfAVector) {
  manual_seed(9);
  for (DType dtype : {float64, float32})
    for (int64_t longest : {8, 20, 40}) {
      auto f = [&](const Tensor &x) {
        Tensor heads = x.reshape({1, x.size(0), 2, 8}).transpose(1, 2);
        Tensor seen = attention(heads, heads * 2, heads + 1, {}, {.causal = true, .scale = {}});
        return seen.transpose(1, 2).reshape({x.size(0), 16});
      };
      auto input = [&](int64_t n) {
        return randn({n, 16}).to(dtype).eval();
      };
      trace(f, {input(5)}, {}, BatchRange{2, longest}).compile({.output = folder_ + "/model"});
      expect_same(f, {2, 5, longest - 1, longest}, input);
    }
}

// The gradient of a weight sums over images as well, which ours does one by one where products are
// few, whatever the size, and a library's in an order of its own.
TEST_F(BatchRanges, GradientsOfWeightsOfConvolutions) {
  struct Case {
    Shape image, weight;
    Conv2dOptions options;
  };
  manual_seed(7);
  auto gradient = [](const Tensor &x, const Tensor &w, const Tensor &g, Conv2dOptions options) {
    Tensor weight = w.detach().set_requires_grad();
    return grad({(conv2d(x, weight, {}, options) * g).sum()}, {weight})[0];
  };
  for (const Case &c :
       {Case{{8, 5, 5}, {16, 8, 1, 1}, {}}, Case{{4, 6, 6}, {4, 4, 1, 1}, {.stride = 2}},
        Case{{8, 4, 4}, {6, 4, 1, 1}, {.groups = 2}},
        Case{{4, 1, 16}, {8, 2, 1, 3}, {.dilation = {1, 2}, .groups = 2}}}) {
    Tensor w = randn(c.weight).eval();
    auto inputs = [&](int64_t n) {
      Shape shape = c.image;
      shape.insert(shape.begin(), n);
      Tensor x = randn(shape).eval();
      return std::vector<Tensor>{x, w, randn(conv2d(x, w, {}, c.options).shape()).eval()};
    };
    auto f = [&](const Tensor &x, const Tensor &weight, const Tensor &g) {
      return gradient(x, weight, g, c.options);
    };
    trace(f, inputs(4), {}, BatchRange{2, 20, {0, 2}}).compile({.output = folder_ + "/model"});
    for (int64_t size : {2, 3, 5, 16, 20}) {
      std::vector<Tensor> x = inputs(size);
      ProcessResult result =
          run({save("x", x[0]), save("w", x[1]), save("g", x[2]), "--output", folder_ + "/y.npy"});
      ASSERT_EQ(result.exit_code, 0) << size << ": " << result.err;
      EXPECT_TRUE(bytes_of(io::load_npy(folder_ + "/y.npy")) == bytes_of(f(x[0], x[1], x[2])))
          << to_string(c.weight) << ", " << size;
    }
  }
}

TEST_F(BatchRanges, WhatABatchOfOneDoesNotRepeat) {
  manual_seed(5);
  Patches model;
  auto inputs = [](int64_t n) {
    return std::vector<Tensor>{rand({n, 5, 6}) - 0.5, randint(1, 6, {n})};
  };
  trace(model, inputs(4), {}, BatchRange{1, 12}).compile({.output = folder_ + "/model"});
  std::vector<Tensor> parameters = model.parameters();
  auto step = [&](const Tensor &x, const Tensor &lengths, const Tensor &target) {
    Tensor loss = nn::cross_entropy(model(x, lengths), target);
    std::vector<Tensor> results = grad({loss}, parameters);
    results.push_back(loss.detach());
    return results;
  };
  std::vector<Tensor> example = inputs(4);
  example.push_back(zeros({4}, int64));
  Program train = trace(step, example, {}, BatchRange{1, 12});
  train.save(folder_ + "/train.mlir");
  Program loaded = Program::load(folder_ + "/train.mlir");
  train.compile({.output = folder_ + "/train"});
  for (int64_t size : {1, 2, 7, 12}) {
    std::vector<Tensor> x = inputs(size);
    ProcessResult result =
        run({save("x", x[0]), save("lengths", x[1]), "--output", folder_ + "/y.npy"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    {
      NoGrad no_history;
      EXPECT_TRUE(bytes_of(io::load_npy(folder_ + "/y.npy")) == bytes_of(model(x[0], x[1])))
          << size;
    }
    x.push_back(randint(0, 5, {size}));
    std::vector<std::string> arguments = {folder_ + "/train", folder_ + "/x.npy",
                                          folder_ + "/lengths.npy", save("target", x[2])};
    std::vector<Tensor> expected = step(x[0], x[1], x[2]), run_here = train.run(x),
                        run_loaded = loaded.run(x);
    for (size_t i = 0; i < expected.size(); ++i)
      arguments.insert(arguments.end(), {"--output", folder_ + "/g" + std::to_string(i) + ".npy"});
    result = run_process(arguments);
    ASSERT_EQ(result.exit_code, 0) << size << ": " << result.err;
    for (size_t i = 0; i < expected.size(); ++i) {
      Bytes bits = bytes_of(expected[i]);
      EXPECT_TRUE(bytes_of(run_here[i]) == bits) << size << ", result " << i;
      EXPECT_TRUE(bytes_of(run_loaded[i]) == bits) << size << ", loaded, result " << i;
      EXPECT_TRUE(bytes_of(io::load_npy(folder_ + "/g" + std::to_string(i) + ".npy")) == bits)
          << size << ", compiled, result " << i;
    }
  }
}

// Products that a batch of one has without a batch, and sums that it has not: of -0 they make 0.
TEST_F(BatchRanges, GradientsOfABatchOfOne) {
  Tensor positions = randn({1, 5, 8}).set_requires_grad(),
         token = randn({1, 1, 8}).set_requires_grad(), w = randn({8, 8}).set_requires_grad();
  auto by = [](const Tensor &loss, const std::vector<Tensor> &of) {
    return grad({loss}, of);
  };
  Tensor minus_zero = full({1}, -0.0);
  const std::vector<std::function<std::vector<Tensor>(const Tensor &)>> functions = {
      [&](const Tensor &x) { return by(((x + positions) * minus_zero).sum(), {positions}); },
      [&](const Tensor &x) { return by(((x + token) * minus_zero).sum(), {token}); },
      [&](const Tensor &x) { return by(square(x + token).mean() * 2, {token}); },
      [&](const Tensor &x) {
        Tensor y = matmul(x, w);
        return by(square(matmul(softmax(matmul(y, x.transpose(1, 2)), -1), y)).mean(), {w});
      },
      // The function's own sums are sums at each size.
      [&](const Tensor &x) {
        Tensor zeros = x * minus_zero;
        return std::vector<Tensor>{zeros.sum(0), zeros.sum({0, 1}), square(x + token).mean(0)};
      },
      [&](const Tensor &x) {
        return std::vector<Tensor>{broadcast_to(positions.detach(), {x.size(0), 5, 8})};
      }};
  for (size_t f = 0; f < functions.size(); ++f) {
    auto function = [&](const Tensor &x) {
      return functions[f](x);
    };
    Program program = trace(function, {zeros({3, 5, 8})}, {}, BatchRange{1, 6});
    for (int64_t size : {1, 2, 6}) {
      Tensor x = rand({size, 5, 8}) - 0.5;
      std::vector<Tensor> results = program.run({x}), expected = function(x);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(results[i].shape(), expected[i].shape());
        EXPECT_TRUE(bytes_of(results[i]) == bytes_of(expected[i]))
            << "function " << f << " at " << size << ", result " << i;
      }
    }
  }
}

TEST_F(BatchRanges, WhatABatchOfOneDoesOtherwiseIsNamed) {
  Tensor a = randn({1, 8}).eval(), b = randn({1, 8}).eval(), state = zeros({8}).eval();
  auto message = [&](auto function) {
    return error_of([&] {
             trace(function, {zeros({4, 8}), zeros({4, 8})}, {}, BatchRange{1, 6});
           })
        .message();
  };
  auto is_one = [](const Tensor &x) {
    return x.size(0) == 1;
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {message([&](const Tensor &x, const Tensor &y) { return x * y + (is_one(x) ? a : b); }),
       "reads something else at a size of 1 than at 6 (a range from 2 on leaves 1 out)"},
      {message([&](const Tensor &x, const Tensor &y) { return x * y * (is_one(x) ? 2.0 : 3.0); }),
       "reads something else at a size of 1 than at 6"},
      {message([&](const Tensor &x, const Tensor &y) {
         return is_one(x) ? cat({y, x}, 1) : cat({x, y}, 1);
       }),
       "reads something else at a size of 1 than at 6"},
      {message([&](const Tensor &x, const Tensor &y) { return is_one(x) ? y : x; }),
       "result 0 of the function is another tensor at a size of 1 than at 6"},
      {message([&](const Tensor &x, const Tensor &y) {
         Tensor sum = x + y;
         return is_one(x) ? sum.reshape({8, 1}) : sum;
       }),
       "result 0 of the function is float32 [6, 8] at a size of 6, and float32 [8, 1] at 1"},
      {message([&](const Tensor &x, const Tensor &y) {
         Tensor sum = (x + y).sum(0);
         if (!is_one(x))
           state.copy_(sum);
         return sum;
       }),
       "the function reads or writes other tensors that it captured at a size of 1 than at 6"},
      {message([&](const Tensor &x, const Tensor &y) { return x * y + (x.size(0) < 3 ? a : b); }),
       "reads another tensor at a size of 2 than at 6"},
  };
  for (const auto &[text, part] : cases)
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NE(cases[i].first.find("batch_range_test.cpp:"), std::string::npos) << cases[i].first;
}

TEST_F(BatchRanges, WhatCannotVaryIsNamed) {
  BatchRange batch{2, 16};
  auto message = [&](auto function, const BatchRange &range) {
    return error_of([&] {
             trace(function, {zeros({4, 8})}, {}, range)
                 .compile({.emit = Emit::object, .output = folder_ + "/a.o"});
           })
        .message();
  };
  nn::BatchNorm1d norm(8);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {message([&](const Tensor &x) { return norm(x); }, batch),
       "a number that weft.broadcast (tests/programs/batch_range_test.cpp"},
      {message([&](const Tensor &x) { return norm(x); }, batch), "batch_norm in training"},
      {message([&](const Tensor &x) { return var(x, 0); }, batch),
       "of an unbiased variance over the batch"},
      {message(
           [&](const Tensor &x) {
             return scatter_reduce(x, 0, zeros({1, 8}, int64), ones({1, 8}), "amax");
           },
           BatchRange{2, 40}),
       "weft.scatter_reduce writes elements of what has a dimension whose size varies"},
      {message([&](const Tensor &x) { return x.slice(0, 0, x.shape()[0] - 1); }, batch),
       "is 15 where the batch is 16, and 14 where it is 15: no multiple of it"},
      {message([&](const Tensor &x) { return cumsum(x, 0); }, BatchRange{2, 40}),
       "weft.cumsum goes along a size that varies"},
      {message([&](const Tensor &x) { return x.shape()[0] < 5 ? exp(x) : sin(x); }, batch),
       "records weft.sin (tests/programs/batch_range_test.cpp:"},
      // One op, which only its types tell apart.
      {message([&](const Tensor &x) { return x.sum({x.shape()[0] % 2}, true); }, batch),
       "] at a size of 16, and float32 [15, "},
      {message([&](const Tensor &x) { return x * double(std::max<int64_t>(x.shape()[0], 5)); },
               batch),
       "follows the size from 15 to 16, but not down to 2"},
      {message([&](const Tensor &x) { return x * Scalar(std::sqrt(double(x.shape()[0]))); }, batch),
       "depends on the size in another way than as a multiple of it, or 1 over one"},
      {message(
           [&](const Tensor &x) {
             return x + Tensor::from(std::vector<float>(static_cast<size_t>(x.shape()[0])))
                            .reshape({-1, 1});
           },
           batch),
       "reads a tensor that is no input and has the batch's size"},
      {message([&](const Tensor &x) { return x.shape()[0] % 2 ? exp(x) : sin(x); }, batch),
       "it must record the same ops at every size"},
      {message([&](const Tensor &x) { return x.squeeze(); }, BatchRange{1, 4}),
       "result 0 of the function is float32 [4, 8] at a size of 4, and float32 [8] at 1 (a range "
       "from 2 on leaves 1 out)"},
      {message([&](const Tensor &x) { return x * 2; }, BatchRange{5, 4}), "is no range"},
      {message([&](const Tensor &x) { return cat({x, x}, 0); }, batch),
       "weft.concat: the size of dimension 0 of the result would be the sum of those of input 0"},
      {message([&](const Tensor &x) { return tanh(x.t()) * 2.0; }, batch),
       "weft.mul: a size that varies is not that of the leading dimension of [8, batch], which is "
       "a result of the program; keep it first"},
      {message(
           [&](const Tensor &x) {
             return conv1d(x.reshape({-1, 1, 8}).to(float64), ones({1, 1, 3}, float64));
           },
           BatchRange{2, 4000}),
       "weft.conv2d (conv1d is one of height 1) of float64 adds up in another order for some of "
       "its sizes; of float32 it does not"},
      // Of sizes that the caller has not written.
      {message([&](const Tensor &x) { return x + ones({4, 1}); }, BatchRange{2, 8}),
       "(weft::trace tries the function with a batch of 7)"},
      {message([&](const Tensor &x) { return x * 2; }, BatchRange{1, 4, {1}}),
       "BatchRange::inputs names input 1; the function takes 1 tensors"},
  };
  for (const auto &[text, part] : cases)
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  for (size_t i = 0; i < 12; ++i)
    EXPECT_NE(cases[i].first.find("batch_range_test.cpp:"), std::string::npos) << cases[i].first;
  for (const auto &[text, part] : cases)
    for (const char *ours : {"current operation", "op failed to infer"})
      EXPECT_EQ(text.find(ours), std::string::npos) << text;
}

// Rows as many as the batch out of twice as many: each size has a program of its own.
TEST_F(BatchRanges, TakesAPartOfTheRows) {
  auto half = [](const Tensor &x) {
    return x.reshape({-1, 4}).slice(0, 0, x.shape()[0]) * 2.0;
  };
  trace(half, {zeros({2, 8})}, {}, BatchRange{2, 9}).compile({.output = folder_ + "/model"});
  expect_same(half, {2, 5, 9}, [](int64_t size) { return rand({size, 8}); });
}

// An op without a form for a range has a program for each size, as far as the limit goes.
TEST_F(BatchRanges, TooManySizesWithProgramsOfTheirOwnAreALimit) {
  auto first_rows = [](const Tensor &x) {
    return x.index_select(0, tensor<int64_t>({0, 1}));
  };
  auto compile_for = [&](const BatchRange &range) {
    trace(first_rows, {zeros({2, 8})}, {}, range)
        .compile({.emit = Emit::object, .output = folder_ + "/a.o"});
  };
  compile_for({2, 17});
  std::string text = error_of([&] { compile_for({2, 18}); }).message();
  for (const char *wanted :
       {"batch_range_test.cpp:",
        "weft.index_select takes elements of a dimension whose size varies", "at most 16",
        "trace the function for 16 sizes at most"})
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << " in: " << text;
}

} // namespace
} // namespace weft::tests
