// A whole training step, traced and compiled ahead of time: the executable and the library compute
// what the process does, bit for bit, and keep what it keeps.
#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "runtime/aot/weft_model.h"
#include "runtime/core/dtype.h"
#include "tests/programs/library.h"
#include "tests/programs/process.h"
#include "tests/support/errors.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

using Floats = std::vector<float>;
using testing_support::error_of;

// A linear model with SGD and momentum.
struct Regression {
  nn::Linear model = nn::Linear(4, 3);
  optim::SGD optimizer = optim::SGD(model.parameters(), {.lr = 0.1, .momentum = 0.9});

  Tensor step(const Tensor &x, const Tensor &y) {
    optimizer.zero_grad();
    Tensor loss = square(model(x) - y).mean();
    loss.backward();
    optimizer.step();
    return loss;
  }
};

// All kinds of state: an embedding whose indices are checked, normalization with running
// statistics, dropout, which draws from the generator, moments and step counts.
struct Network : nn::Module {
  nn::Embedding tokens = child("tokens", nn::Embedding(10, 8));
  nn::Linear up = child("up", nn::Linear(8, 16));
  nn::BatchNorm1d norm = child("norm", nn::BatchNorm1d(16));
  nn::Dropout dropout = child("dropout", nn::Dropout(0.25));
  nn::Linear down = child("down", nn::Linear(16, 4));
  Tensor operator()(const Tensor &ids) const {
    return down(dropout(relu(norm(up(tokens(ids))))));
  }
};
struct Classifier {
  Network model;
  optim::AdamW optimizer = optim::AdamW(model.parameters(), {.lr = 0.05});

  Tensor step(const Tensor &ids, const Tensor &target) {
    Tensor loss = nn::cross_entropy(model(ids), target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  }
};

std::map<std::string, Tensor> read_state(const std::string &path) {
  auto file = io::load_safetensors(path);
  return {file.tensors.begin(), file.tensors.end()};
}

std::vector<std::byte> bytes_of(const Tensor &tensor) {
  const auto *data = static_cast<const std::byte *>(tensor.data_bytes());
  return {data, data + tensor.numel() * byte_size(tensor.dtype())};
}

void expect_same_state(const std::map<std::string, Tensor> &state,
                       const std::vector<std::pair<std::string, Tensor>> &expected) {
  ASSERT_EQ(state.size(), expected.size());
  for (const auto &[name, tensor] : expected) {
    ASSERT_TRUE(state.count(name)) << name;
    EXPECT_EQ(state.at(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(bytes_of(state.at(name)), bytes_of(tensor)) << name;
  }
}

class ShippedTraining : public testing::Test {
protected:
  std::string folder_ = scratch_folder();

  ProcessResult run(std::vector<std::string> arguments, const std::string &program = "/trainer") {
    arguments.insert(arguments.begin(), folder_ + program);
    return run_process(arguments);
  }
  std::string save(const std::string &name, const Tensor &tensor) {
    std::string path = folder_ + "/" + name + ".npy";
    io::save_npy(path, tensor);
    return path;
  }
};

TEST_F(ShippedTraining, ALinearModelWithMomentum) {
  manual_seed(5);
  Regression trainer;
  Tensor xs = rand({3, 6, 4}), ys = rand({3, 6, 3});
  StateNames names = {{"", trainer.model}, {"optimizer", trainer.optimizer}};
  Program program = trace([&](const Tensor &x, const Tensor &y) { return trainer.step(x, y); },
                          {xs[0], ys[0]}, names);
  program.compile({.emit = Emit::executable, .output = folder_ + "/trainer"});

  Floats losses, traced;
  for (int64_t i = 0; i < 3; ++i) {
    traced.push_back(program.run({xs[i], ys[i]})[0].item<float>());
    losses.push_back(trainer.step(xs[i], ys[i]).item<float>());
  }
  EXPECT_EQ(losses, traced);
  std::string x = save("x", xs), y = save("y", ys), state = folder_ + "/state.safetensors",
              loss = folder_ + "/loss.npy";
  ProcessResult result = run({"--save", state, "--output", loss, x, y});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(io::load_npy(loss).to_vector<float>(), losses);
  expect_same_state(read_state(state), program.state());
  std::map<std::string, Tensor> saved = read_state(state);
  EXPECT_EQ(bytes_of(saved.at("weight")), bytes_of(trainer.model.weight));

  // Printed, with all digits. The batches begin again: five steps are three and two more.
  result = run({"--steps", "5", x, y});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  losses.push_back(trainer.step(xs[0], ys[0]).item<float>());
  losses.push_back(trainer.step(xs[1], ys[1]).item<float>());
  std::istringstream lines(result.out);
  size_t step = 0;
  for (std::string line; std::getline(lines, line); ++step) {
    ASSERT_LT(step, losses.size());
    EXPECT_EQ(line.rfind("step " + std::to_string(step + 1) + " ", 0), 0u) << line;
    EXPECT_EQ(std::strtof(line.c_str() + line.rfind(' '), nullptr), losses[step]) << line;
  }
  EXPECT_EQ(step, losses.size());

  // Two steps after those that were saved.
  result = run({"--load", state, "--steps", "2", "--output", loss, x, y});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(io::load_npy(loss).to_vector<float>(), (Floats{losses[3], losses[4]}));
}

TEST_F(ShippedTraining, TheModelBeginsWithWhatTheProgramKeeps) {
  Regression trainer;
  Tensor x = rand({6, 4}), y = rand({6, 3});
  Program program = trace([&](const Tensor &x, const Tensor &y) { return trainer.step(x, y); },
                          {x, y}, {{"", trainer.model}, {"optimizer", trainer.optimizer}});
  program.run({x, y});
  for (bool embed : {true, false}) {
    std::string name = embed ? "/embedded" : "/trainer";
    program.compile({.emit = Emit::executable, .output = folder_ + name, .embed_weights = embed});
    std::vector<std::string> arguments = {"--save", folder_ + name + "_after.safetensors",
                                          save("x", x), save("y", y)};
    if (!embed) {
      std::map<std::string, Tensor> beside = read_state(folder_ + "/trainer.safetensors");
      EXPECT_EQ(beside.erase("optimizer.lr"), 1u) << "a weight: no step writes it";
      expect_same_state(beside, program.state());
      ProcessResult without = run(arguments, name);
      EXPECT_EQ(without.exit_code, 2);
      EXPECT_NE(without.err.find("--weights"), std::string::npos) << without.err;
      arguments.insert(arguments.end(), {"--weights", folder_ + "/trainer.safetensors"});
    }
    ProcessResult result = run(arguments, name);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  // All that is not embedded is state.
  ProcessResult loaded = run({"--load", folder_ + "/trainer.safetensors", "--save",
                              folder_ + "/loaded_after.safetensors", save("x", x), save("y", y)});
  ASSERT_EQ(loaded.exit_code, 0) << loaded.err;
  program.run({x, y});
  for (const char *name : {"/embedded", "/trainer", "/loaded"})
    expect_same_state(read_state(folder_ + name + "_after.safetensors"), program.state());
}

TEST_F(ShippedTraining, ALibraryTrainsAndPredictsWithTheSameWeights) {
  manual_seed(6);
  Classifier trainer;
  Tensor ids = randint(0, 10, {8}), target = randint(0, 4, {8});
  StateNames names = {{"model", trainer.model}, {"optimizer", trainer.optimizer}};
  Program train = trace([&](const Tensor &x, const Tensor &y) { return trainer.step(x, y); },
                        {ids, target}, names);
  trainer.model.eval();
  Program predict = trace([&](const Tensor &x) { return trainer.model(x); }, {ids}, names);
  trainer.model.train();
  compile({{"train", train}, {"predict", predict}},
          {.emit = Emit::library, .output = folder_ + "/libnet.so", .name = "net"});
  std::string header = read_whole(folder_ + "/libnet.h");
  for (const char *wanted : {"#define NET_TRAIN_INPUTS 2", "#define NET_TRAIN_OUTPUTS 1",
                             "#define NET_PREDICT_OUTPUT_0_ELEMENTS 32", "// state 'generator'",
                             "// state 'model.up.weight': float32[16, 8]"})
    EXPECT_NE(header.find(wanted), std::string::npos) << wanted << " in " << header;

  Library library(folder_ + "/libnet.so");
  auto open = library.find<decltype(weft_model_open)>("weft_model_open");
  auto run = library.find<decltype(weft_model_run)>("weft_model_run");
  auto error = library.find<decltype(weft_model_error)>("weft_model_error");
  auto get = library.find<decltype(weft_model_get_state)>("weft_model_get_state");
  weft_model *model = nullptr;
  ASSERT_EQ(open(library.find<const weft_model_code>("weft_model_net"), nullptr, &model), 0)
      << error();
  weft_model *predictor =
      library.find<decltype(weft_model_entry)>("weft_model_entry")(model, "predict");
  ASSERT_NE(predictor, nullptr) << error();
  std::vector<int64_t> x = ids.to_vector<int64_t>(), y = target.to_vector<int64_t>();
  auto state = [&] {
    std::map<std::string, std::vector<std::byte>> all;
    for (int32_t i = 0;
         i < library.find<decltype(weft_model_state_count)>("weft_model_state_count")(model); ++i) {
      const weft_tensor_info *info =
          library.find<decltype(weft_model_state)>("weft_model_state")(model, i);
      std::vector<std::byte> &value = all[info->name];
      value.resize(static_cast<size_t>(info->bytes));
      EXPECT_EQ(get(model, info->name, value.data(), value.size()), 0) << error();
    }
    return all;
  };
  for (int i = 0; i < 4; ++i) {
    float loss = 0;
    const void *inputs[] = {x.data(), y.data()};
    void *outputs[] = {&loss};
    ASSERT_EQ(run(model, inputs, outputs), 0) << error();
    EXPECT_EQ(loss, train.run({ids, target})[0].item<float>()) << i;
    EXPECT_EQ(loss, trainer.step(ids, target).item<float>()) << i;
    auto mine = state();
    ASSERT_EQ(mine.size(), train.state().size());
    for (const auto &[name, tensor] : train.state())
      EXPECT_EQ(mine.at(name), bytes_of(tensor)) << name;

    Floats scores(32);
    const void *predict_inputs[] = {x.data()};
    void *predict_outputs[] = {scores.data()};
    ASSERT_EQ(run(predictor, predict_inputs, predict_outputs), 0) << error();
    trainer.model.eval();
    Floats expected = trainer.model(ids).to_vector<float>();
    trainer.model.train();
    for (size_t k = 0; k < scores.size(); ++k)
      EXPECT_EQ(scores[k], expected[k]) << k;
  }

  // A step whose index is out of range changes nothing.
  auto before = state();
  x[3] = 10;
  float loss = 0;
  const void *inputs[] = {x.data(), y.data()};
  void *outputs[] = {&loss};
  EXPECT_NE(run(model, inputs, outputs), 0);
  EXPECT_NE(std::string(error()).find("index 10 at position 3 is out of range"), std::string::npos)
      << error();
  EXPECT_EQ(state(), before);
  library.find<decltype(weft_model_close)>("weft_model_close")(model);
}

TEST_F(ShippedTraining, ExecutablesRunEachEntry) {
  Tensor weight = ones({4}), scale = full({4}, 3.0);
  std::vector<std::pair<std::string, Tensor>> named = {{"weight", weight}, {"scale", scale}};
  StateNames names = {{"", named}};
  Program train = trace(
      [&](const Tensor &x) {
        weight += x * scale;
        return weight.sum();
      },
      {zeros({4})}, names);
  Program predict = trace([&](const Tensor &x) { return x * weight + scale; }, {zeros({4})}, names);
  compile({{"train", train}, {"predict", predict}}, {.output = folder_ + "/trainer"});
  std::string x = save("x", ones({4})), state = folder_ + "/state.safetensors";
  ASSERT_EQ(run({"--save", state, x}).exit_code, 0);
  EXPECT_EQ(read_state(state).size(), 1u);
  ProcessResult result = run({"--entry", "predict", "--load", state, x});
  EXPECT_EQ(result.out, "output0 float32[4] 7 7 7 7\n") << result.err;
  result = run({"--entry=predict", x});
  EXPECT_EQ(result.out, "output0 float32[4] 4 4 4 4\n") << result.err;
  result = run({"--help"});
  for (const char *wanted : {"entry train (where none is named)", "entry predict", "--load FILE",
                             "0  weight                   float32[4]"})
    EXPECT_NE(result.out.find(wanted), std::string::npos) << wanted << " in " << result.out;
  for (const auto &[arguments, message] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--entry", "test", x}, "has no entry 'test'; it has train, predict"},
           {{"--load", "/nowhere.safetensors", x}, "/nowhere.safetensors"},
           {{"--save", "/nowhere/s.safetensors", x}, "cannot write '/nowhere/s.safetensors'"},
           {{"--steps", "0", x}, "--steps takes a number from 1"},
           {{save("none", zeros({0, 4}))}, "there is no batch in it"}}) {
    result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

// Numbers of two digits and long names leave the columns of --help where they are.
TEST_F(ShippedTraining, HelpListsStateInColumns) {
  std::vector<Tensor> counts;
  recorder::TensorNames names;
  for (int i = 0; i < 11; ++i) {
    counts.push_back(zeros({2}));
    names.emplace_back("blocks.of.a.long.name.count" + std::to_string(i), counts.back());
  }
  auto step = [&](const Tensor &x) {
    for (Tensor &count : counts)
      count += x;
    return counts[0].sum();
  };
  trace(step, {zeros({2})}, StateNames("", names)).compile({.output = folder_ + "/trainer"});
  ProcessResult result = run({"--help"});
  for (const char *line : {"   0  blocks.of.a.long.name.count0  float32[2]\n",
                           "  10  blocks.of.a.long.name.count10 float32[2]\n"})
    EXPECT_NE(result.out.find(line), std::string::npos) << line << " in " << result.out;
}

// The source of a plugin of kernels, compiled for the process and for the executable.
TEST_F(ShippedTraining, KernelsOfUsersAreLinkedIn) {
  std::string object = folder_ + "/sort.o", plugin = folder_ + "/sort.so";
  for (const auto &[option, output] : {std::pair("-c", object), {"-shared", plugin}}) {
    ProcessResult built = run_process({"/usr/bin/env", "clang-22", option, "-fPIC", "-O1", "-I.",
                                       "examples/extensions/kernel/sort.c", "-o", output});
    ASSERT_EQ(built.exit_code, 0) << built.err;
  }
  load_plugin(plugin);
  Tensor weight = tensor({{3.f, 1.f, 2.f}}).set_requires_grad(), scale = tensor({-1.f, 0.f, 2.f});
  auto step = [&](const Tensor &x) {
    Tensor loss = (custom("mine.sort", {x * weight})[0] * scale).sum();
    loss.backward();
    NoGrad no_grad;
    weight -= weight.grad() * 0.1;
    weight.zero_grad();
    return loss;
  };
  std::vector<std::pair<std::string, Tensor>> named = {{"weight", weight}};
  Tensor xs = rand({4, 2, 3});
  Program program = trace(step, {xs[0]}, {{"", named}});
  CompileOptions options{.emit = Emit::executable, .output = folder_ + "/trainer"};
  std::string message = error_of([&] { program.compile(options); }).message();
  EXPECT_NE(message.find("weft.custom calls the kernel 'mine.sort"), std::string::npos) << message;
  EXPECT_NE(message.find("name the objects that define weft_kernel_plugin in the option `link`"),
            std::string::npos)
      << message;
  // An object is linked by whoever uses it, who is told.
  options.emit = Emit::object;
  options.output = folder_ + "/net.o";
  program.compile(options);
  EXPECT_NE(read_whole(folder_ + "/net.h")
                .find("in this order: (an object that defines weft_kernel_plugin) "),
            std::string::npos);
  options.link = {object};
  program.compile(options);
  EXPECT_NE(read_whole(folder_ + "/net.h").find("in this order: " + object + " "),
            std::string::npos);
  options.emit = Emit::executable;
  options.output = folder_ + "/trainer";
  program.compile(options);
  Floats losses;
  for (int64_t i = 0; i < 4; ++i)
    losses.push_back(step(xs[i]).item<float>());
  ProcessResult result = run({save("x", xs), "--output", folder_ + "/loss.npy"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(io::load_npy(folder_ + "/loss.npy").to_vector<float>(), losses);
}

// What a program captured without its name stays as it was, which is said for each entry.
TEST_F(ShippedTraining, AnEntryThatDoesNotSeeWhatOthersWriteIsWarnedOf) {
  Regression trainer;
  nn::Linear head(3, 2);
  Tensor x = rand({6, 4}), y = rand({6, 3});
  Program train = trace([&](const Tensor &x, const Tensor &y) { return trainer.step(x, y); },
                        {x, y}, {{"model", trainer.model}, {"optimizer", trainer.optimizer}});
  auto predict = [&](const StateNames &names) {
    return trace([&](const Tensor &x) { return head(trainer.model(x)); }, {x}, names);
  };
  std::vector<std::string> said;
  auto warnings = [&](const std::vector<std::pair<std::string, Program>> &entries) {
    said.clear();
    // A new one hears of the same line and message once more.
    set_warning_handler([&](const Warning &warning) { said.push_back(warning.message); });
    compile(entries, {.emit = Emit::weft, .output = folder_ + "/model.mlir"});
    return said;
  };
  std::vector<std::pair<std::string, Tensor>> bias = {{"bias", trainer.model.bias}};
  const std::string constant = "' holds the value of 'model.weight', which the entry 'train' "
                               "writes, as a constant";
  EXPECT_TRUE(warnings({{"train", train}, {"seen", predict({{"model", trainer.model}})}}).empty());
  // Small tensors, and one shared name.
  for (const StateNames &names : {StateNames{}, StateNames{{"model", bias}}}) {
    std::vector<std::string> found = warnings({{"train", train},
                                               {"seen", predict({{"model", trainer.model}})},
                                               {"unseen", predict(names)}});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].find("compile: the entry 'unseen" + constant), std::string::npos)
        << found[0];
  }
  // After a step of the process the values are others.
  trainer.step(x, y);
  std::vector<std::string> found = warnings({{"train", train}, {"later", predict({})}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("the entry 'later' reads nothing of what other entries write"),
            std::string::npos)
      << found[0];
  set_warning_handler(nullptr);
}

TEST_F(ShippedTraining, EntriesThatDoNotFitAreRefused) {
  Tensor one = ones({2}), other = ones({3});
  using Named = std::vector<std::pair<std::string, Tensor>>;
  auto adds = [&](Tensor to, const char *name) {
    return trace([to](const Tensor &x) mutable { return (to += x.sum()) * 1; }, {zeros({2})},
                 {{"", name ? Named{{name, to}} : Named{}}});
  };
  auto message = [&](std::vector<std::pair<std::string, Program>> entries) {
    return error_of([&] { compile(entries, {.emit = Emit::object, .output = folder_ + "/a.o"}); })
        .message();
  };
  EXPECT_NE(message({{"a", adds(one, "w")}, {"b", adds(other, "w")}})
                .find("'w' is float32[2] in 'a', but float32[3] in 'b'"),
            std::string::npos);
  EXPECT_NE(message({{"a", adds(one, nullptr)}, {"b", adds(other, nullptr)}})
                .find("the entries 'a' and 'b' both write a tensor that has no name"),
            std::string::npos);
  EXPECT_NE(
      message({{"a", adds(one, "w")}, {"a", adds(one, "w")}}).find("two entries are named 'a'"),
      std::string::npos);
  EXPECT_NE(message({{"a b", adds(one, "w")}, {"c", adds(one, "w")}}).find("C identifier"),
            std::string::npos);
  EXPECT_NE(message({{"a b", adds(one, "w")}}).find("C identifier"), std::string::npos);
  EXPECT_NE(error_of([&] {
              compile({{"a", adds(one, "w")}},
                      {.emit = Emit::executable, .output = folder_ + "/none/a"});
            })
                .message()
                .find("there is no folder '" + folder_ + "/none'"),
            std::string::npos);
  std::string target =
      error_of([&] {
        compile({{"a", adds(one, "w")}}, {.output = folder_ + "/a", .target = "cpu:x86-64-v3"});
      }).message();
  EXPECT_NE(target.find("options.target is a backend alone, 'cpu', and options.cpu its processor, "
                        "'x86-64-v3'"),
            std::string::npos)
      << target;
  EXPECT_NE(message({}).find("no entry"), std::string::npos);
  EXPECT_NE(message({{"a", Program()}}).find("an empty program"), std::string::npos);
  auto reads = [&](const char *name) {
    return trace([&](const Tensor &x) { return x * one; }, {zeros({2})},
                 {{"", Named{{name, one}}}});
  };
  Program first = reads("r");
  one += 1;
  EXPECT_NE(message({{"a", first}, {"b", reads("r")}}).find("captured different values of 'r'"),
            std::string::npos);
  Program before = adds(one, "w");
  one += 1;
  EXPECT_NE(
      message({{"a", before}, {"b", adds(one, "w")}}).find("begin with different values of 'w'"),
      std::string::npos);
}

} // namespace
} // namespace weft::tests
