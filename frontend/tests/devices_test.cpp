// Tensors on several devices: where things lie, what moves them, what is refused, and that it all
// computes what one device does.
#include "weft/weft.h"

#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/system_allocator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <latch>
#include <memory>
#include <thread>

namespace weft {
namespace {

// The test runs with WEFT_CPU_DEVICES=2.
const Device host, one("cpu:1"), two("cpu:2");

// What the last run of test.fails_if_told on this thread was told.
thread_local float told = 0;

std::vector<float> values(const Tensor &x) {
  return x.to_vector<float>();
}

ErrorKind kind_of(const std::function<void()> &call, std::string &message) {
  try {
    call();
  } catch (const Error &error) {
    message = error.what();
    return error.kind();
  }
  message = "nothing was thrown";
  return ErrorKind::kFile;
}

TEST(Devices, HaveNames) {
  std::vector<std::string> names;
  for (Device device : devices())
    names.push_back(device.name());
  names.resize(3);
  EXPECT_EQ(names, (std::vector<std::string>{"cpu:0", "cpu:1", "cpu:2"}));
  EXPECT_EQ(Device("cpu"), host);
  EXPECT_EQ(one.kind(), "cpu");
  EXPECT_EQ(two.number(), 2);
  EXPECT_EQ(device_at(1), one);
  std::string message;
  EXPECT_EQ(kind_of([] { Device("cpu:7"); }, message), ErrorKind::kDevice);
  EXPECT_NE(message.find("there is no device 'cpu:7'; there are cpu:0, cpu:1, cpu:2"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("devices_test.cpp"), std::string::npos) << message;
}

TEST(Devices, TensorsLieWhereTheyAreMade) {
  EXPECT_EQ(zeros({2}).device(), host);
  {
    DeviceScope scope(one);
    EXPECT_EQ(current_device(), one);
    for (const Tensor &x : {zeros({2}), ones({2}), full({2}, 3), scalar(2.5f), tensor({1.f, 2.f}),
                            arange(4), linspace(0, 1, 3), eye(2), rand({2}), randn({3}),
                            randint(0, 5, {2}), bernoulli({2}, 0.5)})
      EXPECT_EQ(x.device(), one);
    {
      DeviceScope inner(two);
      EXPECT_EQ(zeros({2}).device(), two);
    }
    EXPECT_EQ(zeros({2}).device(), one);
    // Another thread has a device of its own.
    std::thread([] { EXPECT_EQ(zeros({2}).device(), Device()); }).join();
  }
  EXPECT_EQ(zeros({2}).device(), host);
  Tensor x = tensor({1.f, 2.f}).to(one);
  for (const Tensor &y : {zeros_like(x),
                          ones_like(x),
                          full_like(x, 2),
                          rand_like(x),
                          randn_like(x),
                          x.new_zeros({3}),
                          x.new_ones({3}, int64),
                          x.new_full({3}, 4),
                          bernoulli(x - 1),
                          nn::init::constant_(x.clone(), 3),
                          nn::init::orthogonal_(x.reshape({1, 2}).clone()),
                          x.unfold(0, 1, 1),
                          nn::init::uniform_(x.clone()),
                          x + 1,
                          2.0 / x,
                          x.reshape({1, 2}),
                          x.sum(),
                          x > 1,
                          x.to(float64),
                          x.clone(),
                          x.detach(),
                          softmax(x, 0),
                          where(x > 1, x, 0.0),
                          cat({x, x}, 0),
                          x.max(),
                          pow(2.0, x),
                          pow(x, 2),
                          one_hot(arange(2).to(one), 3),
                          dropout(x, 0.5),
                          x.std(),
                          x.norm(),
                          clamp(x, 0, 1),
                          topk(x, 1, 0).first,
                          cumsum(x, 0),
                          x[0]})
    EXPECT_EQ(y.device(), one);
}

TEST(Devices, MoveAndCompute) {
  Tensor x = tensor({1.f, 2.f, 3.f});
  Tensor y = x.to("cpu:1");
  EXPECT_EQ(y.device(), one);
  EXPECT_TRUE(y.to(one).is_same(y));
  Tensor z = (y * 2 + 1).to(two);
  EXPECT_EQ(values(z), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(values(y), (std::vector<float>{1, 2, 3}));
  // There and back, with ops on each, in one record.
  Tensor sum = x;
  for (int i = 0; i < 6; ++i)
    sum = (sum + 1).to(i % 2 ? host : one);
  EXPECT_EQ(values(sum), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(sum.device(), host);
  // Values of several devices are asked for at once.
  Tensor a = x * 3, b = y * 4, c = (b + a.to(one)).to(two) * 2;
  eval({a, b, c});
  EXPECT_EQ(values(a), (std::vector<float>{3, 6, 9}));
  EXPECT_EQ(values(b), (std::vector<float>{4, 8, 12}));
  EXPECT_EQ(values(c), (std::vector<float>{14, 28, 42}));
  EXPECT_EQ(zeros({0, 3}).to(one).shape(), (Shape{0, 3}));
  EXPECT_EQ(values(zeros({0, 3}).to(one) + 1).size(), 0u);
}

TEST(Devices, NumbersAndTensorsWithoutDimsGoAlong) {
  Tensor x = tensor({1.f, 2.f}).to(one), s = scalar(3.f);
  for (const Tensor &y : {x * s, s * x, s + x, where(x > 1, s, x), maximum(s, x)})
    EXPECT_EQ(y.device(), one);
  EXPECT_EQ(values(x * s), (std::vector<float>{3, 6}));
  EXPECT_EQ(values(s - x), (std::vector<float>{2, 1}));
  // One that was computed, and one with a history.
  Tensor computed = (s * 2).sum();
  EXPECT_EQ(values(x + computed), (std::vector<float>{7, 8}));
  Tensor w = scalar(2.f).set_requires_grad();
  (x * w).sum().backward();
  EXPECT_EQ(w.grad().device(), host);
  EXPECT_EQ(w.grad().item<float>(), 3);
  {
    // A number does not move what it is used with.
    DeviceScope scope(one);
    EXPECT_EQ((s + 1).device(), host);
    EXPECT_EQ((1 - s).device(), host);
  }
}

// A gradient's parts are summed at each copy first, wherever the copy is.
TEST(Devices, GradientsThroughMovesHaveTheBitsOfGradientsThroughCopies) {
  auto gradient = [](auto copy) {
    Tensor x = tensor({0.062210083f, -1.7f, 0.3f, 2.9f}).set_requires_grad();
    Tensor y = copy(x);
    Tensor square = y * y;
    mse_loss(x, square.to(host), Reduction::kSum).backward();
    return x.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient([](const Tensor &x) { return x.to(one); }),
            gradient([](const Tensor &x) { return x.clone(); }));
}

TEST(Devices, OpsOnTwoDevicesAreRefused) {
  Tensor x = ones({2, 3}), y = ones({2, 3}).to(one);
  std::string message;
  EXPECT_EQ(kind_of([&] { (void)(x + y); }, message), ErrorKind::kDevice);
  for (const char *part :
       {"add: x is", "float32 [2, 3]", "cpu:0", "cpu:1", "to(device)", "devices_test.cpp"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(kind_of([&] { (void)(x + y.sum()); }, message), ErrorKind::kDevice);
  EXPECT_NE(message.find("x is float32 [2, 3] on cpu:0, y is float32 [] on cpu:1"),
            std::string::npos)
      << message;
  EXPECT_EQ(kind_of([&] { (void)matmul(x, y.t()); }, message), ErrorKind::kDevice) << message;
  EXPECT_EQ(kind_of([&] { (void)cat({x, y}, 0); }, message), ErrorKind::kDevice) << message;
  EXPECT_EQ(kind_of([&] { x += y; }, message), ErrorKind::kDevice) << message;
  EXPECT_EQ(kind_of([&] { (void)index_select(x, 0, arange(2).to(one)); }, message),
            ErrorKind::kDevice)
      << message;
  // Nothing is lost.
  EXPECT_EQ(x.sum().item<float>(), 6);
  EXPECT_EQ((x.to(one) + y).sum().item<float>(), 12);
}

TEST(Devices, IndicesOfAnotherDeviceAreRefused) {
  Tensor x = ones({2, 3}).to(one), mask = ones({2, 3}, boolean).to(two),
         at = tensor<int64_t>({0}).to(two);
  std::string message;
  EXPECT_EQ(kind_of([&] { (void)x.index({mask}); }, message), ErrorKind::kDevice);
  EXPECT_NE(
      message.find("devices_test.cpp:" + std::to_string(__LINE__ - 2) +
                   ": index: self is float32 [2, 3] on cpu:1, a mask is bool [2, 3] on cpu:2; "
                   "move one of them with to(device)"),
      std::string::npos)
      << message;
  EXPECT_EQ(kind_of([&] { x.index_put_({mask}, 1); }, message), ErrorKind::kDevice);
  EXPECT_NE(message.find("index_put_: self is"), std::string::npos) << message;
  EXPECT_EQ(kind_of([&] { (void)x.index({at}); }, message), ErrorKind::kDevice);
  EXPECT_NE(message.find("an index is int64 [1] on cpu:2"), std::string::npos) << message;
  EXPECT_EQ(kind_of([&] { (void)x.index({Slice(), at}); }, message), ErrorKind::kDevice);
  EXPECT_EQ(values(x.index({at[0].to(host)})), (std::vector<float>{1, 1, 1})) << "numbers go along";
}

TEST(Devices, CopyMoves) {
  Tensor x = tensor({1.f, 2.f}), y = zeros({2}).to(one);
  y.copy_(x);
  EXPECT_EQ(y.device(), one);
  EXPECT_EQ(values(y), (std::vector<float>{1, 2}));
  x[0] = y[1];
  EXPECT_EQ(x.device(), host);
  EXPECT_EQ(values(x), (std::vector<float>{2, 2}));
  y += 1;
  y.narrow(0, 0, 1).copy_(scalar(9.f));
  EXPECT_EQ(values(y), (std::vector<float>{9, 3}));
  *y.mutable_data<float>() = 5;
  EXPECT_EQ(values(y), (std::vector<float>{5, 3}));
}

TEST(Devices, DerivativesCrossThem) {
  Tensor w = tensor({1.f, 2.f}).set_requires_grad(),
         v = tensor({3.f, 4.f}).to(one).set_requires_grad();
  Tensor loss = (((w * w).to(one) * v).to(two) * 2).sum();
  EXPECT_EQ(loss.device(), two);
  loss.backward({}, false, true);
  EXPECT_EQ(w.grad().device(), host);
  EXPECT_EQ(v.grad().device(), one);
  EXPECT_EQ(values(w.grad()), (std::vector<float>{12, 32}));
  EXPECT_EQ(values(v.grad()), (std::vector<float>{2, 8}));
  // Second derivatives, too: d/dw of 4 w v.
  std::vector<Tensor> second = grad({w.grad().sum()}, {w});
  EXPECT_EQ(values(second[0]), (std::vector<float>{12, 16}));
  // A gradient with a history holds its parameter, which holds it.
  w.zero_grad();
  v.zero_grad();
  // A gradient of another device does not fit.
  std::string message;
  EXPECT_EQ(kind_of([&] { w.set_grad(zeros({2}).to(one)); }, message), ErrorKind::kDevice)
      << message;
}

// A network, an optimizer and random numbers on a device of its own: the bits of cpu:0.
std::vector<float> train(Device device) {
  DeviceScope scope(device);
  manual_seed(7);
  nn::Sequential model(nn::Linear(6, 16), nn::GELU(), nn::Dropout(0.25), nn::Linear(16, 3));
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  Tensor x = randn({12, 6}), t = randint(0, 3, {12});
  std::vector<float> losses;
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(model(x), t);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<float>());
  }
  for (const Tensor &parameter : model.parameters())
    EXPECT_EQ(parameter.device(), device);
  return losses;
}

TEST(Devices, TrainTheSameBits) {
  std::vector<float> expected = train(host);
  EXPECT_EQ(train(one), expected);
  EXPECT_EQ(train(two), expected);
  EXPECT_LT(expected.back(), expected.front());
}

TEST(Devices, ThreadsTrainAtOnce) {
  std::vector<float> expected = train(host), first, second;
  // Seeds and models are the process's: each device has streams of its own.
  nn::Linear a(8, 8), b(8, 8);
  auto run = [](Device device, std::vector<float> &result) {
    DeviceScope scope(device);
    Generator generator(3);
    Tensor w = randn({32, 32}, generator), x = randn({32, 32}, generator);
    for (int i = 0; i < 50; ++i)
      w = tanh(matmul(w, x)) + 0.1 * w;
    result = values(w);
  };
  std::thread left([&] { run(one, first); }), right([&] { run(two, second); });
  left.join();
  right.join();
  EXPECT_EQ(first, second);
  std::vector<float> alone;
  run(host, alone);
  EXPECT_EQ(first, alone);
}

// A thread finds an op of its part that another one has left recorded since.
TEST(Devices, ThreadsAskForWhatOneLineMade) {
  constexpr int kThreads = 3;
  Tensor x = ones({100}).to(one).eval(), y, z;
  // clang-format off
  auto ask = [&](bool old) { return old ? z.item<float>() : (y = x.to(host) * 2, z = y.sum(), 0); };
  // clang-format on
  for (int round = 0; round < 500; ++round) {
    ask(false);
    std::vector<std::thread> threads;
    std::latch start(kThreads);
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        EXPECT_EQ(ask(true), 200);
      });
    for (std::thread &thread : threads)
      thread.join();
    ASSERT_EQ(y.sum().item<float>(), 200);
  }
}

TEST(Devices, ModelsInTwoHalves) {
  nn::Linear front(4, 8), back(8, 2);
  nn::Linear whole_front(4, 8), whole_back(8, 2);
  whole_front.load_state(front.state());
  whole_back.load_state(back.state());
  back = nn::to(back, one);
  EXPECT_EQ(back.parameters()[0].device(), one);
  Tensor x = randn({5, 4});
  Tensor split = back(relu(front(x)).to(one)), whole = whole_back(relu(whole_front(x)));
  EXPECT_EQ(split.device(), one);
  EXPECT_EQ(values(split), values(whole));
  split.pow(2).sum().backward();
  whole.pow(2).sum().backward();
  EXPECT_EQ(values(front.parameters()[0].grad()), values(whole_front.parameters()[0].grad()));
  EXPECT_EQ(values(back.parameters()[1].grad()), values(whole_back.parameters()[1].grad()));
  EXPECT_EQ(back.parameters()[1].grad().device(), one);
}

TEST(Devices, AModuleMovesAtTheUsersLine) {
  nn::Linear here(3, 2);
  eval(here.parameters()); // in memory, so that there is something to move
  uint64_t before = statistics().evaluations;
  nn::Linear there = nn::to(here, one);
  const int line = __LINE__ - 1;
  int moves = 0;
  for (const Evaluation &each : recent_evaluations())
    if (each.number > before && each.reason == CutReason::kInit) {
      ++moves;
      EXPECT_NE(each.file.find("devices_test.cpp"), std::string::npos) << each.to_string();
      EXPECT_EQ(each.line, line) << each.to_string();
    }
  EXPECT_EQ(moves, 2);
  EXPECT_EQ(values(there.parameters()[0]), values(here.parameters()[0]));
}

TEST(Devices, LoadersBringBatches) {
  Tensor inputs = arange(12).to(float32).reshape({6, 2}), targets = arange(6);
  for (int64_t prefetch : {0, 2}) {
    data::DataLoader loader(data::TensorDataset(inputs, targets),
                            {.batch_size = 3, .prefetch = prefetch, .device = one});
    std::vector<float> seen;
    for (auto [input, target] : loader) {
      EXPECT_EQ(input.device(), one);
      EXPECT_EQ(target.device(), one);
      for (float x : values(input * 2))
        seen.push_back(x);
    }
    EXPECT_EQ(seen, values(inputs * 2));
  }
  // Those that name none lie where the thread that asks makes its tensors.
  data::DataLoader loader(data::TensorDataset(inputs, targets), {.batch_size = 3});
  DeviceScope scope(two);
  EXPECT_EQ(loader.next().input.device(), two);
}

TEST(Devices, CheckpointsLoadWhereTheTensorsLie) {
  nn::Linear there = nn::to(nn::Linear(3, 2), one);
  std::string path = testing::TempDir() + "/devices.safetensors";
  io::save_safetensors(path, there.state());
  nn::Linear here(3, 2);
  here.load_state(io::load_safetensors(path).tensors);
  EXPECT_EQ(here.parameters()[0].device(), host);
  EXPECT_EQ(values(here.parameters()[0]), values(there.parameters()[0]));
  nn::Linear back = nn::to(nn::Linear(3, 2), two);
  back.load_state(io::load_safetensors(path).tensors);
  EXPECT_EQ(back.parameters()[0].device(), two);
  EXPECT_EQ(values(back.parameters()[1]), values(there.parameters()[1]));
}

// A device whose memory is over says who holds it; the others, and the program, go on.
TEST(Devices, MemoryThatIsOverIsTheDevicesOwn) {
  set_allocator(std::make_shared<runtime::LimitAllocator>(
                    std::make_shared<runtime::SystemAllocator>(), 3 << 19),
                two);
  Tensor x = ones({1 << 17}), held = x.to(two).eval();
  std::string message;
  EXPECT_EQ(kind_of([&] { (void)(cat({held, held, held}, 0) + 1).eval(); }, message),
            ErrorKind::kMemory)
      << message;
  EXPECT_NE(message.find("nothing was computed on cpu:2"), std::string::npos) << message;
  EXPECT_EQ(values((held + 1).sum()), (std::vector<float>{2 << 17}));
  EXPECT_EQ(values((cat({x, x, x}, 0).to(one) + 1).sum()), (std::vector<float>{6 << 17}));
  held = Tensor();
  set_allocator(nullptr, two);
  EXPECT_EQ(values((cat({x, x, x}, 0).to(two) + 1).sum()), (std::vector<float>{6 << 17}));
}

TEST(Devices, FunctionsAreOfOneDevice) {
  auto f = jit([](const Tensor &x) { return (x * 2 + 1).sum(); });
  Tensor x = ones({4}), y = ones({4}).to(one);
  EXPECT_EQ(f(x).item<float>(), 12);
  Tensor there = f(y);
  EXPECT_EQ(there.device(), one);
  EXPECT_EQ(there.item<float>(), 12);
  Program program = trace([](const Tensor &x) { return x * 3; }, {y});
  EXPECT_EQ(values(program.run({y})[0]), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(program.run({y})[0].device(), one);
  std::string message;
  EXPECT_EQ(kind_of([&] { program.run({x}); }, message), ErrorKind::kDevice) << message;
  EXPECT_NE(message.find("is float32 [4] on cpu:0; the program takes float32 [4] on cpu:1"),
            std::string::npos)
      << message;
  // A text has no device: it is read for the current one.
  Program on_host = Program::parse(program.to_string(false));
  EXPECT_EQ(values(on_host.run({x})[0]), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(kind_of([&] { on_host.run({y}); }, message), ErrorKind::kDevice) << message;
  EXPECT_NE(message.find("the program takes float32 [4] on cpu:0"), std::string::npos) << message;
  {
    DeviceScope scope(one);
    EXPECT_EQ(Program::parse(program.to_string(false)).run({y})[0].device(), one);
  }
  // Its derivative is for its device.
  EXPECT_EQ(values(program.differentiate().run({y, ones({4}).to(one)})[0]),
            (std::vector<float>{3, 3, 3, 3}));
  // One that moves tensors is called itself, and is no program.
  auto moves = jit([](const Tensor &x) { return (x * 2).to("cpu:1") + 1; });
  uint64_t direct = statistics().direct_calls;
  EXPECT_EQ(values(moves(x)), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(values(moves(x * 2)), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_EQ(statistics().direct_calls, direct + 2);
  EXPECT_EQ(
      kind_of([&] { trace([](const Tensor &x) { return x.to("cpu:1") * 2; }, {x}); }, message),
      ErrorKind::kDevice);
  EXPECT_NE(message.find("from cpu:0 to cpu:1"), std::string::npos) << message;
  // One that goes along would cross in each run.
  Tensor s = tensor({2.f, 3.f}).sum().eval();
  EXPECT_EQ(kind_of([&] { trace([&](const Tensor &a) { return a * s; }, {y}); }, message),
            ErrorKind::kDevice);
  EXPECT_NE(message.find("the function uses float32 [] on cpu:0 with tensors on cpu:1 at "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("with to(\"cpu:1\")"), std::string::npos) << message;
  s = s.to("cpu:1");
  EXPECT_EQ(values(trace([&](const Tensor &a) { return a * s; }, {y}).run({y})[0]),
            (std::vector<float>{5, 5, 5, 5}));
}

TEST(Devices, ExplainSaysWhere) {
  Tensor x = ones({1000}).eval();
  Tensor y = x.to(one) * 2;
  Evaluation evaluation = explain(y);
  EXPECT_EQ(evaluation.device, "cpu:1");
  EXPECT_NE(evaluation.to_string().find("on cpu:1"), std::string::npos) << evaluation.to_string();
  bool found = false;
  for (const Evaluation &each : recent_evaluations())
    if (each.exchange == "transfer from cpu:0 to cpu:1" && each.output_bytes == 4000) {
      found = true;
      EXPECT_NE(each.to_string().find("transfer from cpu:0 to cpu:1 | 4000 B"), std::string::npos)
          << each.to_string();
    }
  EXPECT_TRUE(found);
  // The second time the program is a hit, on each device.
  uint64_t compiles = statistics().compiles + statistics().disk_hits;
  Tensor z = x.to(one) * 2;
  z.eval();
  EXPECT_EQ(statistics().compiles + statistics().disk_hits, compiles);
}

TEST(Devices, AnErrorPoisonsWhatDependsOnIt) {
  Tensor table = ones({4, 2}).to(one).eval(), other = ones({3}).to(two).eval();
  Tensor bad = index_select(table, 0, tensor<int64_t>({9}).to(one));
  Tensor far = bad.to(two) * 2, fine = other + 1;
  std::string message;
  EXPECT_EQ(kind_of([&] { (void)far.to_vector<float>(); }, message), ErrorKind::kRun);
  EXPECT_NE(message.find("9"), std::string::npos) << message;
  EXPECT_EQ(values(fine), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(table.sum().item<float>(), 8);
  EXPECT_EQ(values(table.to(two).sum()), (std::vector<float>{8}));
}

TEST(Devices, MemoryIsEachOnesOwn) {
  int64_t before_one = memory_statistics(one).live_bytes,
          before_two = memory_statistics(two).live_bytes;
  Tensor x = zeros({1 << 16});
  Tensor there = (x.to(one) + 1).eval();
  EXPECT_GE(memory_statistics(one).live_bytes - before_one, 4 << 16);
  EXPECT_EQ(memory_statistics(two).live_bytes, before_two);
}

TEST(Devices, AFailedFirstDrawLeavesTheGenerator) {
  Generator generator(3);
  set_allocator(
      std::make_shared<runtime::LimitAllocator>(std::make_shared<runtime::SystemAllocator>(), 0),
      two);
  std::string message;
  {
    DeviceScope scope(two);
    EXPECT_EQ(kind_of([&] { (void)rand({4}, generator).eval(); }, message), ErrorKind::kMemory);
    set_allocator(nullptr, two);
    EXPECT_EQ(values(rand({4}, generator)), values(rand({4}, *std::make_unique<Generator>(3))));
    generator.manual_seed(4);
    (void)generator.state();
  }
}

TEST(Devices, AnAllocatorIsTheCurrentDevices) {
  DeviceScope scope(one);
  int64_t before = memory_statistics().live_bytes;
  Tensor x = ones({1000}).eval();
  synchronize();
  EXPECT_GE(memory_statistics().live_bytes, before + 4000);
  EXPECT_EQ(memory_statistics().live_bytes, memory_statistics(one).live_bytes);
}

// A step of two devices is done or not: w goes back though its own program did not fail.
TEST(Devices, AFailedStepGoesBackOnAllOfThem) {
  for (bool joined : {false, true}) {
    Tensor e = ones({4}), w = full({3}, 2.f).to(one);
    e.set_requires_grad();
    w.set_requires_grad();
    optim::SGD optimizer({e, w}, {.lr = 0.1, .momentum = 0.9});
    auto step = [&](int64_t index) {
      optimizer.zero_grad();
      Tensor i = Tensor::from(std::vector<int64_t>{index}, {1});
      Tensor a = e.index_select(0, i).sum(), b = (w * w).sum();
      if (joined) {
        (a.to(one) + b).backward();
      } else {
        a.backward();
        b.backward();
      }
      optimizer.step();
    };
    auto now = [&] {
      std::vector<std::vector<float>> all{values(e), values(w)};
      for (const auto &[name, tensor] : optimizer.state())
        all.push_back(values(tensor.to(float32)));
      return all;
    };
    step(1);
    std::vector<std::vector<float>> before = now();
    std::string message;
    auto fail = [&] {
      step(99);
      (void)values(w);
    };
    EXPECT_EQ(kind_of(fail, message), ErrorKind::kRun) << message;
    EXPECT_NE(message.find("out of range"), std::string::npos) << message;
    EXPECT_EQ(now(), before) << joined;
    step(2);
    EXPECT_NE(now(), before);
  }
}

// What a step fails of while another thread's goes back: each goes back once, and for good.
TEST(Devices, AFailureIsTakenBackBesideAnothers) {
  // Where a run has ended, but those who wait for it do not know yet: it gives back its memory.
  struct Held : runtime::SystemAllocator {
    std::atomic<int> holds = 0, is_held = 0;
    void free(void *pointer, int64_t bytes) override {
      if (holds == 1 && told == 2) {
        is_held = 1;
        is_held.notify_all();
        holds.wait(1);
      }
      SystemAllocator::free(pointer, bytes);
    }
  };
  static std::atomic<int> is_busy, go;
  weft_custom_kernel kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.version = WEFT_CUSTOM_ABI_VERSION;
  kernel.num_outputs = 1;
  kernel.infer = [](const weft_custom_call *call, weft_custom_shape *output) -> const char * {
    *output = {call->inputs[0].dtype, 0, {}};
    return nullptr;
  };
  kernel.name = "test.keeps_a_device_busy";
  kernel.run = [](const weft_custom_call *call, int64_t, int64_t) -> const char * {
    *static_cast<float *>(call->outputs[0].data) = 0;
    is_busy = 1;
    is_busy.notify_all();
    go.wait(0);
    return nullptr;
  };
  register_kernel(kernel);
  kernel.name = "test.fails_if_told";
  kernel.run = [](const weft_custom_call *call, int64_t, int64_t) -> const char * {
    *static_cast<float *>(call->outputs[0].data) = 0;
    told = *static_cast<const float *>(call->inputs[0].data);
    return told != 0 ? "told to" : nullptr;
  };
  register_kernel(kernel);
  auto step = [](Tensor x, float fails) {
    x += custom("test.fails_if_told", {scalar(fails)})[0] + 1;
    x.eval();
  };
  auto allocator = std::make_shared<Held>();
  set_allocator(allocator, host);
  Tensor x = zeros({2}).eval(), y = zeros({2}).eval();
  step(x, 0);
  step(y, 0);
  is_busy = go = 0;
  Tensor other = custom("test.keeps_a_device_busy", {zeros({}).to(one)})[0];
  auto busy = std::async(std::launch::async, [&] { other.eval(); });
  is_busy.wait(0);
  auto first = std::async(std::launch::async, [&] { EXPECT_THROW(step(y, 1), Error); });
  while (recent_evaluations().back().failure.empty())
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20)); // it waits for all devices now
  allocator->holds = 1;
  std::thread second([&] { EXPECT_THROW(step(x, 2), Error); });
  allocator->is_held.wait(0);
  go = 1;
  go.notify_all();
  first.wait_for(std::chrono::seconds(1)); // longer only if it was late
  allocator->holds = 0;
  allocator->holds.notify_all();
  first.wait();
  second.join();
  busy.wait();
  EXPECT_EQ(values(x), (std::vector<float>{1, 1}));
  step(x, 0);
  EXPECT_EQ(values(x), (std::vector<float>{2, 2}));
  EXPECT_EQ(values(y), (std::vector<float>{1, 1}));
  set_allocator(nullptr, host);
}

// Where memory runs out when some devices have their new weights, the step is none to make again.
TEST(Devices, AStepThatIsDoneInPartSaysSo) {
  struct Few : runtime::SystemAllocator {
    explicit Few(int calls) : left(calls) {}
    std::atomic<int> left;
    absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
      if (left-- <= 0)
        return absl::ResourceExhaustedError("no more calls");
      return SystemAllocator::allocate(bytes, alignment);
    }
  };
  int whole = 0, in_part = 0;
  for (int calls = 0; calls < 12; ++calls) {
    Tensor x = ones({4, 100}), w = ones({100}).set_requires_grad();
    Tensor v = ones({4}).to(one).set_requires_grad();
    optim::SGD optimizer({w, v}, {.lr = 0.125});
    Tensor loss = (matmul(x, w).to(one) * v).sum(); // what v's part needs memory for
    loss.backward();
    eval({x, w, v});
    ErrorKind kind = ErrorKind::kFile;
    std::string message;
    set_allocator(std::make_shared<Few>(calls), one);
    try {
      optimizer.step();
    } catch (const Error &error) {
      kind = error.kind();
      message = error.what();
    }
    set_allocator(nullptr, one);
    if (kind == ErrorKind::kRun) {
      ++in_part;
      EXPECT_EQ(values(w), std::vector<float>(100, 0.5f));
      EXPECT_EQ(values(v), std::vector<float>(4, 1));
      EXPECT_NE(message.find("cannot be taken back"), std::string::npos) << message;
      EXPECT_EQ(message.find("may be made again"), std::string::npos) << message;
      continue;
    }
    if (kind == ErrorKind::kMemory) {
      ++whole;
      EXPECT_EQ(values(w), std::vector<float>(100, 1));
      optimizer.step();
    }
    EXPECT_EQ(values(w), std::vector<float>(100, 0.5f));
    EXPECT_EQ(values(v), std::vector<float>(4, 1 - 100 * 0.125f));
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(in_part, 0);
}

TEST(Devices, GradientsOfAnotherDeviceAreRefused) {
  Tensor x = ones({3}).to(one).set_requires_grad(), elsewhere = ones({3});
  std::string message;
  EXPECT_EQ(kind_of([&] { x.set_grad(elsewhere); }, message), ErrorKind::kDevice) << message;
  EXPECT_EQ(kind_of([&] { (x * 2).backward(elsewhere); }, message), ErrorKind::kDevice) << message;
  EXPECT_EQ(kind_of(
                [&] {
                  (void)trace([](const Tensor &y) { return y + 1; }, {x.detach()}).run({elsewhere});
                },
                message),
            ErrorKind::kDevice)
      << message;
  EXPECT_EQ(kind_of([&] { (void)(x + elsewhere); }, message), ErrorKind::kDevice);
  EXPECT_NE(message.find("x is float32 [3] on cpu:1, y is float32 [3] on cpu:0"),
            std::string::npos)
      << message;
}

TEST(Devices, AJittedFunctionIsThatOfTheCurrentDevice) {
  auto f = jit([] { return ones({2}); });
  EXPECT_EQ(f().device(), host);
  DeviceScope scope(one);
  EXPECT_EQ(f().device(), one);
}

TEST(Devices, AJittedFunctionDrawsThePartThatIsSet) {
  Generator generator(7), plain(7);
  auto f = jit([&](const Tensor &x) { return x + rand({2, 64}, generator); });
  Tensor x = zeros({2, 64});
  EXPECT_EQ(values(f(x)), values(rand({2, 64}, plain)));
  generator.set_part(1, 2);
  plain.set_part(1, 2);
  EXPECT_EQ(values(f(x)), values(rand({2, 64}, plain)));
}

// Also where several parts have samples of one block.
TEST(Devices, PartsOfADrawAreThoseOfTheWhole) {
  constexpr int64_t kParts = 3;
  std::vector<std::function<Tensor(Generator &, const Tensor &)>> draws = {
      [](Generator &g, const Tensor &x) { return dropout(x, 0.7, true, g); },
      [](Generator &g, const Tensor &x) { return dropout(x.to(bfloat16), 1, true, g); },
      [](Generator &g, const Tensor &x) { return rand(x.shape(), g, float64); },
      [](Generator &g, const Tensor &x) { return randint(0, 9, x.shape(), g); },
      [](Generator &g, const Tensor &x) { return bernoulli(x.abs(), g); },
  };
  for (int64_t rows : {1, 3, 8})
    for (int64_t columns : {1, 7, 64}) {
      Generator whole(7);
      Tensor x = randint(-8, 9, {kParts * rows, columns}, whole) / 8.0f;
      for (int part = 0; part < kParts; ++part) {
        Generator all(5), own(5);
        own.set_part(part, kParts);
        for (const auto &draw : draws) {
          auto of = [&](Generator &generator, const Tensor &input) {
            Tensor leaf = input.clone().set_requires_grad(), y = draw(generator, leaf);
            if (y.requires_grad())
              y.sum().backward();
            Tensor gradient = leaf.grad().defined() ? leaf.grad() : zeros_like(input);
            return std::pair(y.detach(), gradient);
          };
          auto [y, gradient] = of(all, x);
          auto [own_y, own_gradient] = of(own, x.narrow(0, part * rows, rows));
          auto is_part = [&](const Tensor &of_part, const Tensor &of_all) { // zeros exactly
            return all_close(of_part, of_all.narrow(0, part * rows, rows), 1e-6, 0);
          };
          EXPECT_TRUE(is_part(own_y, y)) << rows << " x " << columns << ", part " << part;
          EXPECT_TRUE(is_part(own_gradient, gradient));
        }
        EXPECT_EQ(own.state().to_vector<int64_t>(), all.state().to_vector<int64_t>());
      }
    }
}

} // namespace
} // namespace weft
