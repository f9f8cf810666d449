// The device half on the recording driver: every launch, copy and lifetime, and failures at each
// call.
#include "backends/cuda/device/cuda_executable.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "backends/cuda/device/cublaslt.h"
#include "backends/cuda/device/recording_driver.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/prepared_store.h"
#include "runtime/memory/system_allocator.h"
#include "gtest/gtest.h"

namespace weft::backends::cuda {
namespace {

using namespace runtime;

constexpr const char *kLibrary = "backends/cuda/device/libcuda.so.1";

struct Recording {
  Recording() {
    void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      ADD_FAILURE() << dlerror();
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    };
    find(log, "weft_recording_log");
    find(errors, "weft_recording_errors");
    find(live, "weft_recording_live");
    find(reset, "weft_recording_reset");
    find(fail, "weft_recording_fail");
    find(run, "weft_recording_run");
  }
  weft_recording_log_t log;
  weft_recording_errors_t errors;
  weft_recording_live_t live;
  weft_recording_reset_t reset;
  weft_recording_fail_t fail;
  weft_recording_run_t run;
};

Recording &recording() {
  static Recording instance;
  return instance;
}

// What the kernels of the program below compute, on 16 floats.
void compute(const char *name, void **pointers, int count) {
  auto floats = [&](int i) {
    return static_cast<float *>(pointers[i]);
  };
  if (!std::strcmp(name, "add")) {
    for (int i = 0; i < 16; ++i)
      floats(2)[i] = floats(0)[i] + floats(1)[i];
  } else if (!std::strcmp(name, "total")) { // two blocks, a partial result each
    for (int block = 0; block < 2; ++block)
      floats(2)[block] = std::accumulate(floats(0) + 8 * block, floats(0) + 8 * block + 8, 0.0f);
  } else if (!std::strcmp(name, "total_finish")) {
    floats(1)[0] = floats(2)[0] + floats(2)[1];
  } else if (!std::strcmp(name, "twice")) { // of as many floats as it is told
    for (intptr_t i = 0; i < reinterpret_cast<intptr_t>(pointers[count - 1]); ++i)
      floats(1)[i] = 2 * floats(0)[i];
  } else if (!std::strcmp(name, "out_of_range")) {
    *static_cast<int32_t *>(pointers[count - 1]) = 1;
  }
}

std::vector<KernelModule> modules() {
  auto entry = [](const std::string &name, int parameters) {
    std::string text = ".visible .entry " + name + "(";
    for (int i = 0; i < parameters; ++i)
      text +=
          (i ? ", " : "") + std::string(".param .u64 .ptr .global .align 1 p") + std::to_string(i);
    return text + ") { ret; }\n";
  };
  std::string sized = entry("twice", 4);
  sized.insert(sized.find(')'), ", .param .u64 count");
  return {
      {entry("add", 5), {{"add", 1, 32}}},
      {entry("total", 4) + entry("total_finish", 4), {{"total", 2, 128}, {"total_finish", 1, 128}}},
      {entry("out_of_range", 4), {{"out_of_range", 1, 32}}},
      {sized, {{"twice", 4, 32, 4}}}};
}

// sum = a + b, in a's buffer; total = the sum of that; b unchanged; a pattern; a constant.
Program program() {
  Program p;
  p.target = "cuda sm_90";
  p.inputs = {{"a", DType::kFloat32, {16}, 64, true, false},
              {"b", DType::kFloat32, {16}, 64, false, false}};
  p.outputs = {{"sum", DType::kFloat32, {16}, 64, 0, -1, -1},
               {"total", DType::kFloat32, {}, 4, -1, -1, -1},
               {"b", DType::kFloat32, {16}, 64, -1, 1, -1},
               {"pattern", DType::kInt64, {8}, 64, -1, -1, -1},
               {"constant", DType::kFloat32, {16}, 64, -1, -1, -1}};
  p.buffers = {{BufferKind::kInput, 0, 0, 64},  {BufferKind::kInput, 1, 0, 64},
               {BufferKind::kOutput, 0, 0, 64}, {BufferKind::kOutput, 1, 0, 4},
               {BufferKind::kArena, -1, 0, 8},  {BufferKind::kOutput, 3, 0, 64},
               {BufferKind::kOutput, 4, 0, 64}, {BufferKind::kConstant, -1, 0, 64}};
  p.symbols = {"add", "total", "total_finish"};
  p.locations = {"train.cpp:3", "train.cpp:4"};
  p.arena_bytes = 64;
  p.constants.resize(64);
  for (int i = 0; i < 16; ++i) {
    float value = static_cast<float>(100 + i);
    std::memcpy(p.constants.data() + 4 * i, &value, 4);
  }
  p.instructions = {Launch{0, -1, {0, 1, 2}, -1, 1, 1, false, 0, {}},
                    Launch{1, 2, {2, 3}, 4, 2, 1, false, 1, {}}, Fill{5, 0x100000002, 8, 64, -1},
                    Copy{7, 6, 64, -1}};
  return p;
}

class CudaExecutableTest : public testing::Test {
protected:
  void SetUp() override {
    recording().fail("", 0, 0);
    recording().run(compute);
    recording().reset();
    absl::StatusOr<Driver> driver = open_driver(kLibrary);
    ASSERT_TRUE(driver.ok()) << driver.status();
    auto made = CudaDevice::create(*driver);
    ASSERT_TRUE(made.ok()) << made.status();
    device = *made;
  }
  void TearDown() override {
    device.reset();
    EXPECT_STREQ(recording().errors(), "");
    EXPECT_EQ(recording().live(), 0) << "memory on the GPU that nobody freed";
  }

  // How often the log has the text.
  static size_t count(const std::string &line) {
    std::string log = recording().log();
    size_t found = 0;
    for (size_t at = 0; (at = log.find(line, at)) != log.npos; ++at)
      ++found;
    return found;
  }

  struct Host {
    float a[16], b[16], total = -1, constant[16] = {};
    int64_t pattern[8] = {};
  };
  absl::Status run(CudaExecutable &executable, Host &host) {
    for (int i = 0; i < 16; ++i)
      host.a[i] = static_cast<float>(i), host.b[i] = 1;
    auto borrow = [](void *data, int64_t bytes) {
      return Buffer::borrow(data, bytes, nullptr);
    };
    auto a = borrow(host.a, 64), b = borrow(host.b, 64), total = borrow(&host.total, 4),
         pattern = borrow(host.pattern, 64), constant = borrow(host.constant, 64);
    Buffer *inputs[] = {a.get(), b.get()},
           *outputs[] = {a.get(), total.get(), b.get(), pattern.get(), constant.get()};
    return executable.acquire_and_run({}, inputs, outputs);
  }
  static void expect(const Host &host) {
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(host.a[i], static_cast<float>(i + 1));
      EXPECT_EQ(host.b[i], 1);
      EXPECT_EQ(host.constant[i], static_cast<float>(100 + i));
    }
    EXPECT_EQ(host.total, 136);
    for (int64_t value : host.pattern)
      EXPECT_EQ(value, 0x100000002);
  }

  std::shared_ptr<CudaDevice> device;
};

TEST_F(CudaExecutableTest, RunsEveryInstruction) {
  auto executable = CudaExecutable::create(program(), modules(), device, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_STREQ(recording().log(),
               "load add\nload total\nload total_finish\nload "
               "out_of_range\nload twice\nallocate 64\nto device 64\nsynchronize\n");
  recording().reset();
  Host host;
  ASSERT_TRUE(run(**executable, host).ok());
  expect(host);
  EXPECT_STREQ(
      recording().log(),
      "allocate 1792\n"
      "to device 64\nto device 64\n"
      "launch add <<<1, 32>>>\nlaunch total <<<2, 128>>>\nlaunch total_finish <<<1, 128>>>\n"
      "fill 4 x 8\nfill 4 x 8\non device 64\n"
      "to host 64\nto host 4\nto host 64\nto host 64\nsynchronize\n");
  // The block of the first run serves the second.
  recording().reset();
  ASSERT_TRUE(run(**executable, host).ok());
  expect(host);
  EXPECT_EQ(std::string(recording().log()).find("allocate"), std::string::npos);
  recording().reset();
  executable->reset();
  EXPECT_STREQ(
      recording().log(),
      "unload add\nunload total\nunload total_finish\nunload out_of_range\nunload twice\n");
}

// y = x + (w + w), where w + w is computed ahead.
Program preparing() {
  auto input = [](const char *name, bool stable) {
    return InputSpec{name, DType::kFloat32, {16}, 64, false, stable};
  };
  Program p;
  p.target = "cuda sm_90";
  p.inputs = {input("x", false), input("w", true)};
  p.outputs = {{"y", DType::kFloat32, {16}, 64, -1, -1, -1}};
  p.buffers = {{BufferKind::kInput, 0, 0, 64},
               {BufferKind::kInput, 1, 0, 64},
               {BufferKind::kPrepared, 0, 0, 64},
               {BufferKind::kOutput, 0, 0, 64}};
  p.symbols = {"add"};
  p.instructions = {Launch{0, -1, {0, 2, 3}, -1, 1, 1, false, -1, {}}};
  Program inner;
  inner.target = p.target;
  inner.inputs = {input("", false)};
  inner.outputs = {{"", DType::kFloat32, {16}, 64, -1, -1, -1}};
  inner.buffers = {{BufferKind::kInput, 0, 0, 64}, {BufferKind::kOutput, 0, 0, 64}};
  inner.symbols = {"add"};
  inner.instructions = {Launch{0, -1, {0, 0, 1}, -1, 1, 1, false, -1, {}}};
  p.prepare = {inner};
  p.prepare_inputs = {1};
  return p;
}

// Of weights on the GPU, and of the host's, of which there are copies: once for each version of
// them, and for every run where they may be written unseen.
TEST_F(CudaExecutableTest, PreparesOnceForEachVersionOfTheWeights) {
  for (bool on_gpu : {true, false}) {
    auto memory = on_gpu ? device->memory() : Memory::create(std::make_shared<SystemAllocator>());
    auto made = CudaExecutable::create(preparing(), modules(), device, nullptr);
    ASSERT_TRUE(made.ok()) << made.status();
    CudaExecutable::Devices devices;
    devices.number_of = [&](const Memory &other) {
      return &other == device->memory().get() ? 0 : -1;
    };
    (*made)->serve(devices);
    auto write = [&](Buffer &buffer, float value) {
      std::vector<float> values(16, value);
      if (on_gpu)
        ASSERT_TRUE(device->write(buffer.data(), values.data(), 64).ok());
      else
        std::memcpy(buffer.data(), values.data(), 64);
    };
    auto buffer = [&](float value) {
      std::shared_ptr<Buffer> made = memory->allocate(64, "test").value();
      write(*made, value);
      return made;
    };
    RunContext context;
    context.memory = memory;
    // Want of memory is another attempt's matter as long as nothing was done.
    auto takes_memory_first = [&] {
      std::string log = recording().log();
      size_t last = log.rfind("allocate"),
             work = std::min(log.find("to device"), log.find("launch"));
      EXPECT_TRUE(last == std::string::npos || last < work) << log;
      return log;
    };
    // How many launches a run made.
    auto launches = [&](const std::shared_ptr<Buffer> &x, const std::shared_ptr<Buffer> &w,
                        float expected) {
      auto y = buffer(-1);
      Buffer *inputs[] = {x.get(), w.get()}, *outputs[] = {y.get()};
      recording().reset();
      absl::Status status = (*made)->acquire_and_run(context, inputs, outputs);
      EXPECT_TRUE(status.ok()) << status;
      std::string log = takes_memory_first();
      std::vector<float> values(16);
      if (on_gpu)
        EXPECT_TRUE(device->read(values.data(), y->data(), 64).ok());
      else
        std::memcpy(values.data(), y->data(), 64);
      for (float value : values)
        EXPECT_EQ(value, expected);
      int count = 0;
      for (size_t at = 0; (at = log.find("launch add", at)) != std::string::npos; ++at)
        ++count;
      return count;
    };
    auto x = buffer(1), w = buffer(10), other = buffer(20);
    // The first time does not work out: the next one tries again.
    {
      auto y = buffer(0);
      Buffer *inputs[] = {x.get(), w.get()}, *outputs[] = {y.get()};
      device->trim();
      recording().reset();
      recording().fail("cuLaunchKernel", 0, 1);
      EXPECT_FALSE((*made)->acquire_and_run(context, inputs, outputs).ok());
      takes_memory_first();
      recording().fail("", 0, 0);
    }
    EXPECT_EQ(launches(x, w, 21), 2);
    EXPECT_EQ(launches(x, w, 21), 1);
    EXPECT_EQ(launches(buffer(2), w, 22), 1);
    EXPECT_EQ(launches(x, other, 41), 2);
    EXPECT_EQ(launches(x, w, 21), 1);
    w->changed();
    write(*w, 11);
    EXPECT_EQ(launches(x, w, 23), 2);
    EXPECT_EQ(launches(x, w, 23), 1);
    // What nobody owns may change unseen.
    auto borrowed = Buffer::borrow(w->data(), 64, nullptr);
    EXPECT_EQ(launches(x, borrowed, 23), 2);
    EXPECT_EQ(launches(x, borrowed, 23), 2);
    // The weights' results go with them.
    PreparedStats before = PreparedStore::instance().stats();
    w = other = borrowed = nullptr;
    EXPECT_EQ(PreparedStore::instance().stats().results, before.results - 2);
  }
}

// Code is loaded once, and goes with the last program that has it.
TEST_F(CudaExecutableTest, ProgramsShareTheirKernels) {
  auto first = CudaExecutable::create(program(), modules(), device, nullptr);
  ASSERT_TRUE(first.ok()) << first.status();
  recording().reset();
  auto second = CudaExecutable::create(program(), modules(), device, nullptr);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(std::string(recording().log()).find("load "), std::string::npos);
  first->reset();
  EXPECT_EQ(std::string(recording().log()).find("load "), std::string::npos);
  Host host;
  ASSERT_TRUE(run(**second, host).ok());
  expect(host);
  second->reset();
  EXPECT_NE(std::string(recording().log()).find("unload add\n"), std::string::npos);
  recording().reset();
  ASSERT_TRUE(CudaExecutable::create(program(), modules(), device, nullptr).ok());
  EXPECT_NE(std::string(recording().log()).find("load add\n"), std::string::npos);
}

// Nothing crosses the bus, on whichever GPU the buffers lie.
TEST_F(CudaExecutableTest, TakesTheBuffersOfTheGpuAsTheyAre) {
  auto second = CudaDevice::create(*open_driver(kLibrary), 1);
  ASSERT_TRUE(second.ok()) << second.status();
  auto executable = CudaExecutable::create(program(), modules(), device, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::vector<CudaDevice *> gpus = {device.get(), second->get()};
  CudaExecutable::Devices devices;
  devices.number_of = [&](const Memory &memory) {
    return &memory == gpus[0]->memory().get() ? 0 : &memory == gpus[1]->memory().get() ? 1 : -1;
  };
  devices.make = [&](const CudaExecutable &first, int number) {
    EXPECT_EQ(number, 1);
    return CudaExecutable::create(first.program(), first.modules(), *second, nullptr);
  };
  (*executable)->serve(devices);
  for (CudaDevice *gpu : gpus) {
    Host host;
    for (int i = 0; i < 16; ++i)
      host.a[i] = static_cast<float>(i), host.b[i] = 1;
    auto make = [&](int64_t bytes, const void *value) {
      std::shared_ptr<Buffer> buffer = *gpu->memory()->allocate(bytes, "test");
      EXPECT_TRUE(gpu->write(buffer->data(), value, bytes).ok());
      return buffer;
    };
    auto a = make(64, host.a), b = make(64, host.b), total = make(4, &host.total),
         pattern = make(64, host.pattern), constant = make(64, host.constant);
    Buffer *inputs[] = {a.get(), b.get()},
           *outputs[] = {a.get(), total.get(), b.get(), pattern.get(), constant.get()};
    RunContext context;
    context.memory = gpu->memory();
    ASSERT_TRUE((*executable)->acquire_and_run(context, inputs, outputs).ok());
    recording().reset();
    ASSERT_TRUE(gpu->write(a->data(), host.a, 64).ok());
    ASSERT_TRUE((*executable)->acquire_and_run(context, inputs, outputs).ok());
    EXPECT_STREQ(
        recording().log(),
        "to device 64\nsynchronize\n"
        "launch add <<<1, 32>>>\nlaunch total <<<2, 128>>>\nlaunch total_finish <<<1, 128>>>\n"
        "fill 4 x 8\nfill 4 x 8\non device 64\nsynchronize\n");
    for (auto [buffer, bytes, value] : {std::tuple<Buffer *, int64_t, void *>{a.get(), 64, host.a},
                                        {b.get(), 64, host.b},
                                        {total.get(), 4, &host.total},
                                        {pattern.get(), 64, host.pattern},
                                        {constant.get(), 64, host.constant}})
      ASSERT_TRUE(gpu->read(value, buffer->data(), bytes).ok());
    expect(host);
  }
}

// The program above with as many instructions as are worth a graph.
Program long_program() {
  Program p = program();
  while (p.instructions.size() < kLeastGraphInstructions)
    p.instructions.push_back(p.instructions[2]);
  return p;
}

// What a run puts on the stream is a graph when the same addresses come again. Of more addresses
// than there are graphs, the one that was not used for longest takes over the new.
TEST_F(CudaExecutableTest, ManyInstructionsAreOneLaunch) {
  auto executable = CudaExecutable::create(long_program(), modules(), device, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  auto holds = [&](size_t direct, size_t recorded, size_t made, size_t updated, size_t launched) {
    EXPECT_EQ(count("launch add <<<"), direct + recorded);
    EXPECT_EQ(count("record\n"), recorded);
    EXPECT_EQ(count("graph of 10\n"), made);
    EXPECT_EQ(count("update a graph\n"), updated);
    EXPECT_EQ(count("launch a graph\n"), launched);
    recording().reset();
  };
  CudaExecutable::Devices devices;
  devices.number_of = [](const Memory &) {
    return 0;
  };
  (*executable)->serve(devices);
  RunContext context;
  context.memory = device->memory();
  std::vector<std::shared_ptr<Buffer>> sums;
  auto make = [&](int64_t bytes) {
    return *device->memory()->allocate(bytes, "test");
  };
  auto a = make(64), b = make(64), total = make(4), pattern = make(64), constant = make(64);
  auto run_on = [&](const std::shared_ptr<Buffer> &sum) {
    float values[16], ones[16];
    std::iota(values, values + 16, 0.0f);
    std::fill(ones, ones + 16, 1.0f);
    ASSERT_TRUE(device->write(sum->data(), values, 64).ok());
    ASSERT_TRUE(device->write(b->data(), ones, 64).ok());
    recording().reset();
    Buffer *inputs[] = {sum.get(), b.get()},
           *outputs[] = {sum.get(), total.get(), b.get(), pattern.get(), constant.get()};
    ASSERT_TRUE((*executable)->acquire_and_run(context, inputs, outputs).ok());
    float result = 0;
    ASSERT_TRUE(device->read(&result, total->data(), 4).ok());
    EXPECT_EQ(result, 136);
    ASSERT_TRUE(device->read(values, sum->data(), 64).ok());
    EXPECT_EQ(values[15], 16);
  };
  run_on(a);
  holds(1, 0, 0, 0, 0);
  run_on(a);
  holds(0, 1, 1, 0, 1);
  run_on(a);
  holds(0, 0, 0, 0, 1);
  for (size_t i = 1; i <= kMostGraphs; ++i) {
    sums.push_back(make(64));
    run_on(sums.back());
    holds(1, 0, 0, 0, 0);
    run_on(sums.back());
    holds(0, 1, i < kMostGraphs, i == kMostGraphs, 1);
  }
  run_on(sums.front()); // still there; a's is not
  holds(0, 0, 0, 0, 1);
  run_on(a);
  holds(1, 0, 0, 0, 0);
  run_on(a);
  holds(0, 1, 0, 1, 1);
}

// y = 2 x, as often as makes a graph, and a constant; x and y have up to 16 floats.
Program sized_program(SizeTable &sizes) {
  using Place = SizeTable::Place;
  Program p = program();
  p.inputs = {{"x", DType::kFloat32, {16}, 64, false, false}};
  p.outputs = {{"y", DType::kFloat32, {16}, 64, -1, -1, -1},
               {"constant", DType::kFloat32, {16}, 64, -1, -1, -1}};
  p.buffers = {{BufferKind::kInput, 0, 0, 64},
               {BufferKind::kOutput, 0, 0, 64},
               {BufferKind::kConstant, -1, 0, 64},
               {BufferKind::kOutput, 1, 0, 64}};
  p.symbols = {"twice"};
  p.arena_bytes = 0;
  p.instructions = {Copy{2, 3, 64, -1}};
  sizes.names = {"n"};
  sizes.entries = {{Place::kInputDim, 0, 0, 0, {1, {0}}, 16},
                   {Place::kOutputDim, 0, 0, 0, {1, {0}}, 16}};
  while (p.instructions.size() < kLeastGraphInstructions) {
    sizes.entries.push_back(
        {Place::kCount, static_cast<int32_t>(p.instructions.size()), 0, 0, {1, {0}}, 16});
    p.instructions.push_back(Launch{0, -1, {0, 1}, -1, 16, 1, false, 0, {}});
  }
  return p;
}

// The code and the constants of the largest size serve all, on each GPU; grids are those of the
// size, and a graph is launched for the size that it was recorded for alone, at equal addresses.
TEST_F(CudaExecutableTest, SizesShareAllButTheirGraphs) {
  auto second = CudaDevice::create(*open_driver(kLibrary), 1);
  ASSERT_TRUE(second.ok()) << second.status();
  SizeTable sizes;
  Program largest = sized_program(sizes);
  auto executable = CudaExecutable::create(largest, modules(), device, nullptr, sizes);
  ASSERT_TRUE(executable.ok()) << executable.status();
  CudaExecutable::Devices devices;
  devices.number_of = [&](const Memory &memory) {
    return &memory == (*second)->memory().get() ? 1 : 0;
  };
  devices.make = [&](const CudaExecutable &first, int) {
    return CudaExecutable::create(first.program(), first.modules(), *second, nullptr);
  };
  (*executable)->serve(devices);
  EXPECT_EQ((*executable)->at_sizes({{"n", 17}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (const std::shared_ptr<CudaDevice> &gpu : {device, *second}) {
    recording().reset();
    std::map<int64_t, std::shared_ptr<Executable>> all;
    for (int64_t n : {5, 12, 8}) {
      auto sized = (*executable)->at_sizes({{"n", n}});
      ASSERT_TRUE(sized.ok()) << sized.status();
      EXPECT_EQ((*sized)->output_specs()[0].bytes, 4 * n);
      all[n] = *sized;
    }
    RunContext context;
    context.memory = gpu->memory();
    std::set<void *> addresses;
    for (int round = 0; round < 4; ++round)
      for (const auto &[n, sized] : all) {
        auto bytes = static_cast<int64_t>(sizeof(float)) * n;
        auto x = *gpu->memory()->allocate(bytes, "x"), y = *gpu->memory()->allocate(bytes, "y"),
             constant = *gpu->memory()->allocate(64, "constant");
        addresses.insert(y->data());
        std::vector<float> values(static_cast<size_t>(n));
        std::iota(values.begin(), values.end(), static_cast<float>(round));
        ASSERT_TRUE(gpu->write(x->data(), values.data(), bytes).ok());
        Buffer *inputs[] = {x.get()}, *outputs[] = {y.get(), constant.get()};
        absl::Status status = sized->acquire_and_run(context, inputs, outputs);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(gpu->read(values.data(), y->data(), bytes).ok());
        for (int64_t i = 0; i < n; ++i)
          EXPECT_EQ(values[static_cast<size_t>(i)], static_cast<float>(2 * (round + i)));
        float last = 0;
        ASSERT_TRUE(gpu->read(&last, static_cast<char *>(constant->data()) + 60, 4).ok());
        EXPECT_EQ(last, 115);
      }
    EXPECT_EQ(addresses.size(), 1u);
    EXPECT_EQ(count("load twice"), gpu == device ? 0u : 1u);
    EXPECT_EQ(count("to device 64\n"), gpu == device ? 0u : 1u); // constants
    EXPECT_EQ(count("graph of"), 3u);
    EXPECT_EQ(count("launch a graph\n"), 9u);
    EXPECT_EQ(count("launch twice <<<3, 32>>>"), 2 * (kLeastGraphInstructions - 1)); // of 12
  }
  executable->reset();
  second->reset();
}

// Runs of several threads take turns on the stream, also while one of them records, and while
// another program is loaded.
TEST_F(CudaExecutableTest, ThreadsShareTheStream) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        auto executable = CudaExecutable::create(long_program(), modules(), device, nullptr);
        ASSERT_TRUE(executable.ok()) << executable.status();
        for (int run_number = 0; run_number < 4; ++run_number) {
          Host host;
          ASSERT_TRUE(run(**executable, host).ok());
          expect(host);
        }
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

// Where no graph is made, each launch goes by itself.
TEST_F(CudaExecutableTest, GoesOnWithoutGraphs) {
  for (const char *function :
       {"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"}) {
    auto executable = CudaExecutable::create(long_program(), modules(), device, nullptr);
    ASSERT_TRUE(executable.ok()) << executable.status();
    for (int i = 0; i < 3; ++i) {
      recording().fail(function, 0, 801); // CUDA_ERROR_NOT_SUPPORTED
      recording().reset();
      Host host;
      ASSERT_TRUE(run(**executable, host).ok());
      expect(host);
      EXPECT_EQ(std::string(recording().log()).find("launch a graph"), std::string::npos);
      recording().fail("", 0, 0);
    }
  }
}

TEST_F(CudaExecutableTest, AnyCallMayFail) {
  int failed = 0;
  for (const char *function :
       {"cuMemAlloc", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel",
        "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemsetD32Async",
        "cuMemsetD2D32Async", "cuStreamSynchronize"})
    for (int n = 0; n < 5; ++n) {
      recording().fail(function, n, function == std::string("cuMemAlloc") ? 2 : 700);
      auto executable = CudaExecutable::create(program(), modules(), device, nullptr);
      absl::Status status = executable.status();
      Host host;
      if (status.ok())
        status = run(**executable, host);
      recording().fail("", 0, 0);
      if (status.ok()) {
        expect(host);
        continue;
      }
      ++failed;
      bool memory = function == std::string("cuMemAlloc");
      EXPECT_EQ(status.code(),
                memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal)
          << function << " " << n << ": " << status;
      // A retry works.
      auto again = CudaExecutable::create(program(), modules(), device, nullptr);
      ASSERT_TRUE(again.ok()) << again.status();
      ASSERT_TRUE(run(**again, host).ok());
      expect(host);
    }
  EXPECT_GT(failed, 15);
}

TEST_F(CudaExecutableTest, NamesWhatFailed) {
  Program bad = program();
  bad.symbols.push_back("out_of_range");
  Launch launch{3, -1, {2, 1}, -1, 1, 1, false, 1, {}};
  launch.checks.push_back({"weft.index_select", -1, DType::kInt64, 0, 5});
  bad.instructions.push_back(launch);
  auto executable = CudaExecutable::create(bad, modules(), device, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  Host host;
  absl::Status status = run(**executable, host);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(status.message().find("train.cpp:4: weft.index_select: an index is out of range"),
            std::string::npos)
      << status;

  bad = program();
  bad.symbols[0] = "subtract";
  EXPECT_EQ(CudaExecutable::create(bad, modules(), device, nullptr).status().message(),
            "no kernel 'subtract' beside the program");
  bad = program();
  bad.buffers[1] = {BufferKind::kInput, 1, 4, 60};
  status = CudaExecutable::create(bad, modules(), device, nullptr).status();
  EXPECT_NE(
      status.message().find("train.cpp:3: an operand of a kernel lies 4 bytes into its buffer"),
      std::string::npos)
      << status;
}

// What the recording driver objects to, as a GPU's would.
TEST_F(CudaExecutableTest, CallsThatNoGraphTakes) {
  const Driver &driver = device->driver();
  DevicePointer pointer = 0;
  Graph graph = nullptr;
  Module module = nullptr;
  float host = 0;
  ASSERT_EQ(driver.memory_allocate(&pointer, 64), 0);
  ASSERT_EQ(driver.stream_begin_capture(device->stream(), 1), 0);
  EXPECT_EQ(driver.memory_allocate(&pointer, 64), 900);
  EXPECT_EQ(driver.memory_free(pointer), 900);
  EXPECT_EQ(driver.module_load(&module, "", 0, nullptr, nullptr), 900);
  EXPECT_EQ(driver.copy_to_device(pointer, &host, sizeof(host), device->stream()), 0);
  EXPECT_EQ(driver.fill_32(pointer + 2, 0, 1, device->stream()), 1);
  // Other threads may do what they like.
  std::thread([&] {
    EXPECT_TRUE(device->enter().ok());
    EXPECT_EQ(driver.memory_free(pointer), 0);
  }).join();
  EXPECT_EQ(driver.stream_end_capture(device->stream(), &graph), 0);
  EXPECT_EQ(driver.graph_destroy(graph), 0);
  EXPECT_STREQ(recording().errors(), "cuMemAlloc while launches are recorded\n"
                                     "cuMemFree while launches are recorded\n"
                                     "cuModuleLoadDataEx while launches are recorded\n"
                                     "copy to device: the host's memory in a graph\n");
  recording().reset();
}

TEST_F(CudaExecutableTest, SaysWhatToDoAboutErrors) {
  auto advice = [&](int error) {
    std::string message(device->driver().check(error, "a call").message());
    size_t found = message.find("; ");
    return found == std::string::npos ? "" : message.substr(found + 2);
  };
  EXPECT_EQ(advice(1), "");
  EXPECT_EQ(advice(3), "a process that was forked cannot use the GPUs of its parent: start it "
                       "anew, or use none before the fork");
  for (int error : {214, 700, 716, 719})
    EXPECT_EQ(advice(error),
              "the GPU takes no more work of this process, which must be started again");
  EXPECT_NE(advice(221).find("libnvidia-ptxjitcompiler.so"), std::string::npos);
}

TEST_F(CudaExecutableTest, SaysWhenTheGpuIsLost) {
  auto executable = CudaExecutable::create(program(), modules(), device, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  recording().fail("cuStreamSynchronize", 0, 700);
  Host host;
  absl::Status status = run(**executable, host);
  EXPECT_NE(status.message().find("waiting for the GPU (a kernel or a copy failed)"),
            std::string::npos)
      << status;
  EXPECT_NE(status.message().find("must be started again"), std::string::npos) << status;
  // Nothing goes any more, and what is freed now is the driver's no longer.
  status = run(**executable, host);
  EXPECT_NE(status.message().find("must be started again"), std::string::npos) << status;
  recording().fail("", 0, 0);
}

TEST(CudaDriver, SaysWhatIsMissing) {
  absl::Status status = open_driver("libnowhere.so").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("NVIDIA's driver was not found (libnowhere.so"),
            std::string::npos)
      << status;
  EXPECT_NE(open_driver("libc.so.6").status().message().find("libc.so.6 lacks cuInit"),
            std::string::npos);
  EXPECT_NE(open_cublaslt("libnowhere.so").status().message().find("cuBLASLt was not found"),
            std::string::npos);
}

TEST(CudaCode, ReadsWhatWasWrittenAndNothingElse) {
  std::string bytes = write_modules(modules());
  auto span = [](const std::string &text) {
    return std::span(reinterpret_cast<const std::byte *>(text.data()), text.size());
  };
  auto read = read_modules(span(bytes));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 4u);
  EXPECT_EQ((*read)[1].entries[1].symbol, "total_finish");
  EXPECT_EQ((*read)[1].entries[0].blocks, 2);
  EXPECT_EQ((*read)[1].entries[0].per_block, 0);
  EXPECT_EQ((*read)[3].entries[0].per_block, 4);
  for (size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_FALSE(read_modules(span(bytes.substr(0, size))).ok());
  for (size_t i = 0; i < bytes.size(); i += 5) {
    std::string changed = bytes;
    changed[i] ^= 0x40;
    EXPECT_FALSE(read_modules(span(changed)).ok()) << i;
  }
}

} // namespace
} // namespace weft::backends::cuda
