// Kernels of users behind weft::custom, and ops by name.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

#include "weft/weft.h"
#include "gtest/gtest.h"

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Floats = std::vector<float>;
const char *const kNotOne = "takes float32 tensors of one shape";

const char *same_as_first(const weft_custom_call *call, weft_custom_shape *outputs) {
  for (int i = 0; i < call->num_inputs; ++i)
    if (call->inputs[i].dtype != WEFT_FLOAT32 || call->inputs[i].rank != call->inputs[0].rank)
      return kNotOne;
  for (int i = 0; i < call->num_outputs; ++i) {
    outputs[i].dtype = WEFT_FLOAT32;
    outputs[i].rank = call->inputs[0].rank;
    for (int d = 0; d < outputs[i].rank; ++d)
      outputs[i].dims[d] = call->inputs[0].dims[d];
  }
  return nullptr;
}

int64_t elements(const weft_custom_call *call) {
  int64_t count = 1;
  for (int d = 0; d < call->inputs[0].rank; ++d)
    count *= call->inputs[0].dims[d];
  return count;
}

const float *in(const weft_custom_call *call, int i) {
  return static_cast<const float *>(call->inputs[i].data);
}
float *out(const weft_custom_call *call, int i) {
  return static_cast<float *>(call->outputs[i].data);
}

// x -> (x^ints[0] * scalars[0], number of the element); its derivative, and that one's.
void register_power() {
  static bool once = [] {
    weft_custom_kernel kernel = {};
    kernel.struct_size = sizeof kernel;
    kernel.version = WEFT_CUSTOM_ABI_VERSION;
    kernel.infer = same_as_first;
    kernel.count = elements;
    kernel.name = "test.power";
    kernel.num_outputs = 1;
    kernel.derivative = "test.power_grad";
    kernel.run = [](const weft_custom_call *call, int64_t begin, int64_t end) -> const char * {
      for (int64_t i = begin; i < end; ++i)
        out(call, 0)[i] = static_cast<float>(
            std::pow(in(call, 0)[i], static_cast<double>(call->ints[0])) * call->scalars[0]);
      return nullptr;
    };
    register_kernel(kernel);
    // (x, y, g) -> g * dy/dx
    kernel.name = "test.power_grad";
    kernel.derivative = nullptr;
    kernel.run = [](const weft_custom_call *call, int64_t begin, int64_t end) -> const char * {
      double n = static_cast<double>(call->ints[0]);
      for (int64_t i = begin; i < end; ++i)
        out(call, 0)[i] = static_cast<float>(in(call, 2)[i] * n * std::pow(in(call, 0)[i], n - 1) *
                                             call->scalars[0]);
      return nullptr;
    };
    register_kernel(kernel);
    kernel.name = "test.fails";
    kernel.run = [](const weft_custom_call *, int64_t, int64_t) -> const char * {
      return "out of luck";
    };
    register_kernel(kernel);
    kernel.name = "test.throws";
    kernel.run = [](const weft_custom_call *, int64_t, int64_t) -> const char * {
      throw std::runtime_error("out of luck");
    };
    register_kernel(kernel);
    // Its input, but a failure where an element is negative: by then it has written others.
    kernel.name = "test.no_negative";
    kernel.derivative = "test.no_negative_grad";
    kernel.run = [](const weft_custom_call *call, int64_t begin, int64_t end) -> const char * {
      for (int64_t i = begin; i < end; ++i) {
        out(call, 0)[i] = in(call, 0)[i];
        if (in(call, 0)[i] < 0)
          return "an element is negative";
      }
      return nullptr;
    };
    register_kernel(kernel);
    kernel.name = "test.no_negative_grad";
    kernel.derivative = nullptr;
    kernel.run = [](const weft_custom_call *call, int64_t begin, int64_t end) -> const char * {
      for (int64_t i = begin; i < end; ++i)
        out(call, 0)[i] = in(call, 2)[i];
      return nullptr;
    };
    register_kernel(kernel);
    kernel.name = "test.min_max";
    kernel.num_outputs = 2;
    kernel.count = nullptr;
    kernel.infer = [](const weft_custom_call *call, weft_custom_shape *outputs) -> const char * {
      if (call->inputs[0].dtype != WEFT_FLOAT32)
        return kNotOne;
      outputs[0].dtype = outputs[1].dtype = WEFT_FLOAT32;
      outputs[0].rank = outputs[1].rank = 0;
      return nullptr;
    };
    kernel.run = [](const weft_custom_call *call, int64_t, int64_t) -> const char * {
      float low = INFINITY, high = -INFINITY;
      for (int64_t i = 0, n = elements(call); i < n; ++i) {
        low = std::min(low, in(call, 0)[i]);
        high = std::max(high, in(call, 0)[i]);
      }
      out(call, 0)[0] = low;
      out(call, 1)[0] = high;
      return nullptr;
    };
    register_kernel(kernel);
    return true;
  }();
  (void)once;
}

Tensor power(const Tensor &x, int64_t n, double scale) {
  return custom("test.power", {x}, {.ints = {n}, .scalars = {scale}})[0];
}

class Custom : public testing::Test {
protected:
  void SetUp() override {
    register_power();
  }
};

TEST_F(Custom, RunsBetweenOtherOps) {
  Tensor x = tensor({1.f, 2.f, -3.f});
  Tensor y = power(x + 1, 2, 0.5) - 1;
  EXPECT_EQ(y.to_vector<float>(), (Floats{1, 3.5f, 1}));
  EXPECT_EQ(power(zeros({0}), 2, 1).shape(), (Shape{0}));
  EXPECT_EQ(power(zeros({0}), 2, 1).to_vector<float>(), Floats());
  std::vector<Tensor> both = custom("test.min_max", {x.reshape({3, 1}) * 2});
  EXPECT_EQ(both[0].item<float>() + both[1].item<float>(), -2.f);
  // Large: several threads run pieces.
  Tensor large = power(full({300000}, 3.0), 3, 1);
  EXPECT_EQ(sum(cast(large == 27, DType::kInt64)).item<int64_t>(), 300000);
}

TEST_F(Custom, ParametersAreInTheKey) {
  Tensor x = tensor({2.f});
  EXPECT_EQ(power(x, 2, 1).item<float>(), 4);
  EXPECT_EQ(power(x, 3, 1).item<float>(), 8);
  EXPECT_EQ(power(x, 3, -1).item<float>(), -8);
  EXPECT_EQ(power(x, 2, 1).item<float>(), 4);
}

TEST_F(Custom, IsDifferentiatedThroughTheKernelThatItNames) {
  Tensor x = tensor({1.f, -2.f});
  x.set_requires_grad(true);
  sum(power(x, 3, 2) * 5).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{30, 120}));
  // The derivative names none.
  Tensor first = grad({sum(power(x, 3, 1))}, {x}, true)[0];
  std::string message = message_of([&] { sum(first).backward(); }, ErrorKind::kState);
  EXPECT_NE(message.find("the kernel 'test.power_grad' names no derivative"), std::string::npos)
      << message;
}

TEST_F(Custom, EagerJitAndPrograms) {
  Config before = config();
  Config eager = before;
  eager.eager = true;
  set_config(eager);
  EXPECT_EQ((power(tensor({3.f}), 2, 1) + 1).item<float>(), 10);
  set_config(before);
  auto replayed = jit([](const Tensor &x) { return power(x * 2, 2, 1); });
  EXPECT_EQ(replayed(tensor({1.f})).item<float>(), 4);
  EXPECT_EQ(replayed(tensor({2.f})).item<float>(), 16);
  Program program = trace([](const Tensor &x) { return sum(power(x, 3, 1)); }, {zeros({2})});
  EXPECT_NE(program.to_string().find("weft.custom \"test.power\""), std::string::npos)
      << program.to_string();
  std::string path = testing::TempDir() + "/custom.mlir";
  for (ProgramFormat format : {ProgramFormat::text, ProgramFormat::bytecode}) {
    program.save(path, format);
    EXPECT_EQ(Program::load(path).run({tensor({1.f, 2.f})})[0].item<float>(), 9);
  }
  EXPECT_EQ(program.differentiate().run({tensor({1.f, 2.f})})[1].to_vector<float>(),
            (Floats{3, 12}));
}

TEST_F(Custom, ProgramsThatCallOneHaveOneSize) {
  if (config().backend == "reference")
    GTEST_SKIP() << "the reference backend takes static shapes only";
  std::string why;
  for (int64_t n : {30, 31, 33}) {
    Tensor y = power(full({n}, 2.0) * 1, 2, 1) + 1;
    EXPECT_EQ(sum(y).item<float>(), static_cast<float>(5 * n));
    why = explain(y).not_symbolic;
  }
  EXPECT_NE(why.find("weft.custom"), std::string::npos) << why;
}

// Linked in and run: tests/programs/shipped_training_test.cpp.
TEST_F(Custom, CompilesAheadOfTimeWithItsObject) {
  if (config().backend == "reference")
    GTEST_SKIP() << "the reference backend compiles nothing ahead of time";
  Program program = trace([](const Tensor &x) { return power(x, 3, 1); }, {zeros({2})});
  std::string message = message_of(
      [&] {
        program.compile({.emit = Emit::library, .output = testing::TempDir() + "/custom.so"});
      },
      ErrorKind::kCompile);
  EXPECT_NE(message.find("'test.power', which is registered in this process only"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("custom_test.cpp"), std::string::npos) << message;
  program.compile({.emit = Emit::object, .output = testing::TempDir() + "/custom.o"});
  std::ifstream header(testing::TempDir() + "/custom.h");
  EXPECT_NE(std::string(std::istreambuf_iterator<char>(header), {}).find("libweft_custom.a"),
            std::string::npos);
}

TEST_F(Custom, ErrorsNameTheKernelAndTheCall) {
  EXPECT_NE(message_of([] { custom("test.unknown", {zeros({1})}); }, ErrorKind::kValue)
                .find("no kernel named 'test.unknown'"),
            std::string::npos);
  std::string message = message_of(
      [] { custom("test.power", {zeros({1}, DType::kInt64)}, {.ints = {1}}); }, ErrorKind::kShape);
  EXPECT_NE(message.find("test.power: takes float32 tensors of one shape"), std::string::npos)
      << message;
  EXPECT_NE(message.find("int64 [1]"), std::string::npos) << message;
  message =
      message_of([] { custom("test.fails", {zeros({1})})[0].item<float>(); }, ErrorKind::kRun);
  EXPECT_NE(message.find("the kernel test.fails failed: out of luck"), std::string::npos)
      << message;
  for (int64_t size : {1, 1 << 18}) { // on the caller's thread and on the device's
    message = message_of([&] { custom("test.throws", {zeros({size})})[0].sum().item<float>(); },
                         ErrorKind::kRun);
    EXPECT_NE(message.find("the kernel test.throws failed: it threw an exception: out of luck"),
              std::string::npos)
        << message;
  }
  weft_custom_kernel again = {};
  EXPECT_NE(message_of([&] { register_kernel(again); }, ErrorKind::kValue)
                .find("the kernel has a struct_size of 0"),
            std::string::npos);
  again.struct_size = sizeof again;
  again.version = WEFT_VERSION(9, 0);
  EXPECT_NE(message_of([&] { register_kernel(again); }, ErrorKind::kValue)
                .find("the kernel was built for version 9.0"),
            std::string::npos);
  message = message_of(
      [] {
        Program::parse(R"(func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = weft.custom "test.nobody"(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        })");
      },
      ErrorKind::kFile);
  EXPECT_NE(message.find("no kernel named 'test.nobody'"), std::string::npos) << message;
}

Tensor checked(const Tensor &x) {
  return custom("test.no_negative", {x})[0];
}

// What the failing program would have written is what it was, also where it was recorded, and can
// be computed, before the kernel.
TEST_F(Custom, AKernelThatFailsCostsNothing) {
  Tensor weight = full({1000}, 2.0).eval(), count = zeros({2}).eval(), mean = zeros({1000}).eval();
  auto step = [&](float first) {
    Tensor x = ones({1000}).eval();
    x[0] = first;
    mean.copy_(mean * 0.5 + x * 0.5);
    count += x[1];
    Tensor y = checked(x * weight);
    weight.copy_(checked(y) * 0.5 + 1);
    return y.sum();
  };
  auto state = [&] {
    return std::vector<Floats>{weight.to_vector<float>(), count.to_vector<float>(),
                               mean.to_vector<float>()};
  };
  EXPECT_EQ(step(1).item<float>(), 2000);
  std::vector<Floats> before = state();
  Tensor lost = step(-1);
  for (int time = 0; time < 2; ++time) { // told again: the sum stays lost
    std::string message = message_of([&] { lost.item<float>(); }, ErrorKind::kRun);
    EXPECT_NE(message.find("the kernel test.no_negative failed: an element is negative"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("custom_test.cpp"), std::string::npos) << message;
  }
  EXPECT_EQ(state(), before);
  // Nobody reads the bad one's sum; the next program meets its failure.
  step(-1);
  synchronize();
  EXPECT_THROW(
      {
        step(1);
        state();
      },
      Error);
  EXPECT_EQ(state(), before);
  EXPECT_EQ(step(1).item<float>(), 2000);
  EXPECT_EQ(count.to_vector<float>(), (Floats{2, 2}));
}

TEST_F(Custom, ATrainingStepWhoseKernelFailsIsAsIfNever) {
  for (bool replayed : {false, true}) {
    SCOPED_TRACE(replayed ? "jit" : "recorded");
    auto train = [&](const std::vector<float> &firsts, std::vector<double> *losses) {
      manual_seed(3);
      nn::Linear layer(8, 8);
      std::vector<Tensor> parameters = layer.parameters();
      std::function<Tensor(const Tensor &)> step = [&](const Tensor &x) {
        Tensor loss = mean(square(layer(dropout(checked(x), 0.2))));
        std::vector<Tensor> gradients = grad({loss}, parameters);
        NoGrad no_grad;
        for (size_t i = 0; i < parameters.size(); ++i)
          parameters[i].sub_(gradients[i] * 0.1);
        return loss;
      };
      if (replayed)
        step = jit(step);
      for (float first : firsts) {
        Tensor x = ones({4, 8}).eval();
        x[0][0] = first;
        Tensor loss = step(x);
        try {
          losses->push_back(loss.item<double>());
        } catch (const Error &error) {
          EXPECT_NE(std::string(error.what()).find("an element is negative"), std::string::npos)
              << error.what();
        }
      }
      std::vector<std::vector<double>> all;
      for (const Tensor &parameter : parameters)
        all.push_back(parameter.to_vector<double>());
      return all;
    };
    std::vector<double> clean, disturbed;
    auto expected = train({1, 2, 3}, &clean), found = train({1, -1, 2, -5, 3}, &disturbed);
    EXPECT_EQ(disturbed, clean);
    EXPECT_EQ(found, expected);
  }
}

TEST(CallOp, RecordsOpsByName) {
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  EXPECT_EQ(call_op("weft.neg", {x})[0].to_vector<float>(), (Floats{-1, -2, -3, -4}));
  EXPECT_EQ(
      call_op("weft.reduce_sum", {x}, {{"dims", std::vector<int64_t>{1}}})[0].to_vector<float>(),
      (Floats{3, 7}));
  EXPECT_EQ(call_op("weft.gelu", {zeros({1})})[0].item<float>(), 0); // an attribute with a default
  x.set_requires_grad(true);
  sum(call_op("weft.mul", {x, x})[0]).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2, 4, 6, 8}));
}

// Shape rules of these read it.
TEST(CallOp, AnAttributeThatIsMissingIsNamed) {
  Tensor x = zeros({2, 2});
  for (auto [op, attribute] :
       {std::pair("reduce_sum", "dims"), {"reduce_max", "dims"}, {"reduce_mean", "dims"},
        {"arg_max", "dim"}, {"concat", "dim"}, {"transpose", "permutation"}, {"cumsum", "dim"},
        {"softmax", "dim"}})
    EXPECT_NE(message_of([&] { call_op(std::string("weft.") + op, {x}); }, ErrorKind::kValue)
                  .find(std::string(op) + " requires the attribute '" + attribute + "'"),
              std::string::npos)
        << op;
  EXPECT_NE(message_of([&] { call_op("weft.gather", {x, zeros({2, 2}, int64)}); },
                       ErrorKind::kValue)
                .find("'dim'"),
            std::string::npos);
}

TEST(CallOp, ErrorsNameWhatIsWrong) {
  Tensor x = zeros({2, 2});
  auto value = [](auto f) {
    return message_of(f, ErrorKind::kValue);
  };
  EXPECT_NE(
      value([&] { call_op("mine.unknown", {x}); }).find("there is no op named 'mine.unknown'"),
      std::string::npos);
  EXPECT_NE(
      value([&] { call_op("func.return", {x}); }).find("does not implement weft's op interface"),
      std::string::npos);
  EXPECT_NE(value([&] {
              call_op("weft.reduce_sum", {x}, {{"dim", int64_t(1)}});
            }).find("no attribute 'dim'"),
            std::string::npos);
  EXPECT_NE(value([&] {
              call_op("weft.reduce_sum", {x}, {{"dims", std::string("1")}});
            }).find("weft.reduce_sum: the attribute 'dims' is a std::vector<int64_t>, but is given "
                    "as a std::string"),
            std::string::npos);
  std::string eps = value([&] {
    call_op("weft.layer_norm", {x}, {{"normalized_rank", int64_t(1)}, {"eps", int64_t(1)}});
  });
  EXPECT_NE(eps.find("weft.layer_norm: the attribute 'eps' is a double, but is given as an "
                     "int64_t"),
            std::string::npos)
      << eps;
  std::string rank = value([&] {
    call_op("weft.layer_norm", {x}, {{"normalized_rank", true}, {"eps", 1e-5}});
  });
  EXPECT_NE(rank.find("the attribute 'normalized_rank' is an int64_t, but is given as a bool"),
            std::string::npos)
      << rank;
  EXPECT_NE(value([&] { call_op("weft.reshape", {x}); }).find("does not say what its results are"),
            std::string::npos);
  auto shape = [](auto f) {
    return message_of(f, ErrorKind::kShape);
  };
  EXPECT_NE(shape([&] { call_op("weft.add", {x, zeros({3})}); }).find("float32 [3]"),
            std::string::npos);
  EXPECT_NE(shape([&] { call_op("weft.add", {x}); }).find("weft.add: it takes 2 operands (given"),
            std::string::npos);
  EXPECT_NE(shape([&] { call_op("weft.neg", {}); })
                .find("weft.neg: it takes 1 operand (given "
                      "nothing)"),
            std::string::npos);
  EXPECT_EQ((x + 1).sum().item<float>(), 4); // the record is as it was
}

TEST(Plugins, FilesThatAreNoneAreRefused) {
  EXPECT_NE(message_of([] { load_plugin("/nowhere/plugin.so"); }, ErrorKind::kValue)
                .find("cannot load the plugin /nowhere/plugin.so"),
            std::string::npos);
  EXPECT_NE(message_of([] { load_plugin("libm.so.6"); }, ErrorKind::kValue).find("is no plugin"),
            std::string::npos);
}

// A step is submitted while the Program that makes its input is still running, and then fails: what
// the step writes goes back.
TEST_F(Custom, AProgramThatFailsUnderAStep) {
  static std::atomic<bool> go;
  static const std::thread::id caller = std::this_thread::get_id();
  weft_custom_kernel kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.version = WEFT_CUSTOM_ABI_VERSION;
  kernel.infer = same_as_first;
  kernel.count = [](const weft_custom_call *) -> int64_t {
    return 1;
  };
  kernel.name = "test.waits_and_fails";
  kernel.num_outputs = 1;
  kernel.run = [](const weft_custom_call *call, int64_t, int64_t) -> const char * {
    if (std::this_thread::get_id() != caller) // not every backend has another
      go.wait(false);
    std::copy_n(in(call, 0), elements(call), out(call, 0));
    return in(call, 0)[0] < 0 ? "the first element is negative" : nullptr;
  };
  register_kernel(kernel);
  constexpr int64_t kElements = 1 << 18; // too many for a run on the caller's thread
  Tensor good = ones({kElements}).eval(), bad = (-good).eval();
  Program program =
      trace([](const Tensor &x) { return custom("test.waits_and_fails", {x})[0]; }, {good});
  for (bool jitted : {false, true}) {
    SCOPED_TRACE(jitted ? "jit" : "recorded");
    Tensor w = zeros({kElements}).eval();
    std::function<Tensor(const Tensor &)> step = [&](const Tensor &y) {
      w.add_(y);
      return w * 2;
    };
    if (jitted)
      step = jit(step);
    auto run = [&](const Tensor &x) { // the last element of w
      go = false;
      step(program.run({x})[0]);
      submit_step({&w, 1});
      go = true;
      go.notify_all();
      return w.narrow(0, kElements - 1, 1).item<float>();
    };
    go = true;
    program.run({good})[0].eval(); // compiled
    EXPECT_EQ(run(good), 1);
    EXPECT_THROW(run(bad), Error);
    EXPECT_EQ(w.narrow(0, kElements - 1, 1).item<float>(), 1);
    EXPECT_EQ(run(good), 2);
  }
}

// While a mask is computed other threads go on, and what they write stays.
TEST_F(Custom, AWriteByAMaskBesideAWriter) {
  static std::atomic<int> began, go;
  weft_custom_kernel kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.version = WEFT_CUSTOM_ABI_VERSION;
  kernel.infer = same_as_first;
  kernel.name = "test.waits_for_a_writer";
  kernel.num_outputs = 1;
  kernel.run = [](const weft_custom_call *call, int64_t, int64_t) -> const char * {
    std::copy_n(in(call, 0), elements(call), out(call, 0));
    began = 1;
    began.notify_all();
    go.wait(0);
    return nullptr;
  };
  register_kernel(kernel);
  Tensor x = zeros({4}).eval(), here = tensor({1.f, 0.f, 1.f, 0.f}).eval();
  for (bool accumulate : {false, true}) {
    began = go = 0;
    std::thread other([&] {
      Tensor mask = custom("test.waits_for_a_writer", {here})[0] > 0;
      x.index_put_({mask}, tensor({1.f, 2.f}), accumulate);
    });
    began.wait(0);
    x += 4;
    go = 1;
    go.notify_all();
    other.join();
    EXPECT_EQ(x.to_vector<float>(), accumulate ? (Floats{6, 8, 8, 8}) : (Floats{1, 4, 2, 4}));
  }
}

} // namespace
} // namespace weft
