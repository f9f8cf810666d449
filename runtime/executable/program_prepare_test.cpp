// Programs with a prepare section, and library calls with packed operands.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/executable/program_executable.h"
#include "runtime/executor/executor.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/prepared_store.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/profile/profile.h"

namespace weft::runtime {
namespace {

constexpr int64_t kCount = 16, kBytes = kCount * 4;
std::atomic<int> squares{0}, packs{0};

int32_t square(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
               int64_t, int64_t) {
  ++squares;
  const float *a = static_cast<const float *>(buffers[0]);
  for (int i = 0; i < kCount; ++i)
    static_cast<float *>(buffers[1])[i] = a[i] * a[i];
  return WEFT_KERNEL_OK;
}
int32_t add(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *, int64_t,
            int64_t) {
  const float *a = static_cast<const float *>(buffers[0]),
              *b = static_cast<const float *>(buffers[1]);
  for (int i = 0; i < kCount; ++i)
    static_cast<float *>(buffers[2])[i] = a[i] + b[i];
  return WEFT_KERNEL_OK;
}

weft_kernel kernel(std::string_view symbol) {
  return symbol == "square" ? square : symbol == "add" ? add : nullptr;
}

// out = a + b; the packed form of b is b reversed.
class AddEntry : public LibraryEntry {
public:
  struct Plain : LibraryCallState {
    absl::Status run(std::span<void *const> operands, void *) override {
      add(nullptr, operands.data(), nullptr, nullptr, 0, 1);
      return absl::OkStatus();
    }
  };
  struct Reversed : PackedCallState {
    int operand() const override {
      return 1;
    }
    int64_t packed_bytes() const override {
      return kBytes;
    }
    std::string form() const override {
      return "reversed";
    }
    absl::Status pack(const void *plain, void *packed) override {
      ++packs;
      for (int i = 0; i < kCount; ++i)
        static_cast<float *>(packed)[i] = static_cast<const float *>(plain)[kCount - 1 - i];
      return absl::OkStatus();
    }
    absl::Status run(std::span<void *const> operands, void *) override {
      for (int i = 0; i < kCount; ++i)
        static_cast<float *>(operands[2])[i] = static_cast<float *>(operands[0])[i] +
                                               static_cast<float *>(operands[1])[kCount - 1 - i];
      return absl::OkStatus();
    }
  };
  std::string_view name() const override {
    return "test.add";
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &, int) const override {
    return std::make_unique<Plain>();
  }
  absl::StatusOr<std::unique_ptr<PackedCallState>>
  init_packed(const LibraryCall &, const std::vector<bool> &stable, int) const override {
    if (!stable[1])
      return nullptr;
    return std::make_unique<Reversed>();
  }
};

const LibraryEntry *library(std::string_view name) {
  static const AddEntry entry;
  return name == entry.name() ? &entry : nullptr;
}

InputSpec input(const char *name, bool stable) {
  return {name, DType::kFloat32, {kCount}, kBytes, false, stable};
}

// y = x + w^2, where w^2 is computed ahead.
Program with_values() {
  Program program;
  program.inputs = {input("x", false), input("w", true)};
  program.outputs = {{"y", DType::kFloat32, {kCount}, kBytes, -1, -1, -1}};
  program.buffers = {{BufferKind::kInput, 0, 0, kBytes},
                     {BufferKind::kInput, 1, 0, kBytes},
                     {BufferKind::kPrepared, 0, 0, kBytes},
                     {BufferKind::kOutput, 0, 0, kBytes}};
  program.symbols = {"add"};
  program.instructions = {Launch{0, -1, {0, 2, 3}, -1, 1, 1, true, -1}};
  Program prepare;
  prepare.inputs = {{"", DType::kFloat32, {kCount}, kBytes, false, false}};
  prepare.outputs = {{"", DType::kFloat32, {kCount}, kBytes, -1, -1, -1}};
  prepare.buffers = {{BufferKind::kInput, 0, 0, kBytes}, {BufferKind::kOutput, 0, 0, kBytes}};
  prepare.symbols = {"square"};
  prepare.instructions = {Launch{0, -1, {0, 1}, -1, 1, 1, true, -1}};
  program.prepare = {prepare};
  program.prepare_inputs = {1};
  return program;
}

// y = x + w by a library that packs w.
Program with_library() {
  Program program;
  program.inputs = {input("x", false), input("w", true)};
  program.outputs = {{"y", DType::kFloat32, {kCount}, kBytes, -1, -1, -1}};
  program.buffers = {{BufferKind::kInput, 0, 0, kBytes},
                     {BufferKind::kInput, 1, 0, kBytes},
                     {BufferKind::kOutput, 0, 0, kBytes}};
  LibraryCall call{"test.add", {}, {}, 2, -1, -1};
  for (int32_t row : {0, 1, 2})
    call.operands.push_back({row, 0, DType::kFloat32, {kCount}, {1}});
  program.instructions = {call};
  return program;
}

struct PrepareTest : ::testing::Test {
  std::shared_ptr<LimitAllocator> limit =
      std::make_shared<LimitAllocator>(std::make_shared<SystemAllocator>(), int64_t{1} << 20);
  std::shared_ptr<Memory> memory = Memory::create(limit);
  std::unique_ptr<Executor> executor = std::make_unique<Executor>(memory, 2);
  void SetUp() override {
    squares = packs = 0;
  }
  void TearDown() override {
    executor = nullptr;
    PreparedStore::instance().release(*memory, INT64_MAX);
  }

  std::shared_ptr<ProgramExecutable> create(Program program) {
    auto executable = ProgramExecutable::create(std::move(program), kernel, library, memory);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return *std::move(executable);
  }
  std::shared_ptr<Buffer> floats(float value) {
    std::shared_ptr<Buffer> buffer = memory->allocate(kBytes, "test").value();
    fill(*buffer, value);
    return buffer;
  }
  // value, value + 1, ...: an order that packing must keep.
  static void fill(Buffer &buffer, float value) {
    for (int i = 0; i < kCount; ++i)
      static_cast<float *>(buffer.data())[i] = value + static_cast<float>(i);
  }
  void expect(const std::shared_ptr<ProgramExecutable> &executable,
              const std::shared_ptr<Buffer> &x, const std::shared_ptr<Buffer> &w, bool squared) {
    std::vector<std::shared_ptr<Buffer>> outputs;
    ASSERT_TRUE(executor->submit(executable, {x, w}, outputs).ok());
    ASSERT_TRUE(outputs[0]->wait().ok());
    for (int i = 0; i < kCount; ++i) {
      float a = static_cast<float *>(x->data())[i], b = static_cast<float *>(w->data())[i];
      ASSERT_EQ(static_cast<float *>(outputs[0]->data())[i], a + (squared ? b * b : b)) << i;
    }
  }
};

TEST_F(PrepareTest, AProfileNamesTheWeightsBehindPreparedValues) {
  auto executable = create(with_values());
  std::string file = testing::TempDir() + "/prepare.json";
  ASSERT_TRUE(profile::start(file).ok());
  for (int run = 0; run < 2; ++run)
    expect(executable, floats(1), floats(2), true);
  ASSERT_TRUE(profile::stop().ok());
  std::ifstream in(file);
  int adds = 0, squares_seen = 0;
  for (std::string line; std::getline(in, line);) {
    adds += line.find("\"name\":\"add\"") != std::string::npos &&
            line.find("\"reads\":[\"x\",\"w\"]") != std::string::npos;
    squares_seen += line.find("\"name\":\"square\"") != std::string::npos;
  }
  EXPECT_EQ(adds, 2);
  EXPECT_EQ(squares_seen, squares);
}

TEST_F(PrepareTest, ValuesAreComputedOncePerVersionOfTheWeights) {
  auto executable = create(with_values());
  auto w = floats(1), other = floats(5);
  for (int i = 0; i < 3; ++i)
    expect(executable, floats(10.f * static_cast<float>(i)), w, true);
  EXPECT_EQ(squares, 1);
  expect(executable, floats(0), other, true);
  expect(executable, floats(0), w, true);
  EXPECT_EQ(squares, 2);
  w->changed();
  fill(*w, 3);
  expect(executable, floats(0), w, true);
  EXPECT_EQ(squares, 3);
  // Another executable has its own values.
  expect(create(with_values()), floats(0), w, true);
  EXPECT_EQ(squares, 4);
}

TEST_F(PrepareTest, ManyThreadsShareThem) {
  auto executable = create(with_values());
  auto w = floats(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i)
        expect(executable, floats(static_cast<float>(t * 20 + i)), w, true);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(squares, 1);
}

TEST_F(PrepareTest, OperandsArePackedOnceTheyHaveLasted) {
  auto executable = create(with_library());
  auto w = floats(1);
  for (int i = 0; i < 3; ++i)
    expect(executable, floats(static_cast<float>(i)), w, false);
  EXPECT_EQ(packs, 0);
  for (int i = 0; i < 3; ++i)
    expect(executable, floats(static_cast<float>(i)), w, false);
  EXPECT_EQ(packs, 1);
  // A program of the same recipe finds the packed operand.
  expect(create(with_library()), floats(7), w, false);
  EXPECT_EQ(packs, 1);
  w->changed();
  fill(*w, 40);
  expect(executable, floats(2), w, false);
  EXPECT_EQ(packs, 1);
}

TEST_F(PrepareTest, ALoadedProgramPacksAtOnce) {
  auto executable = create(with_library());
  auto x = floats(1), w = floats(2), y = floats(0);
  RunContext context{memory, 1};
  context.pack_at_once = true;
  auto resources = executable->acquire(context).value();
  Buffer *stable[] = {nullptr, w.get()}, *inputs[] = {x.get(), w.get()}, *outputs[] = {y.get()};
  ASSERT_TRUE(executable->prepare(context, *resources, stable).ok());
  ASSERT_TRUE(executable->compute_prepared(context, *resources).ok());
  EXPECT_EQ(packs, 1);
  EXPECT_EQ(resources->prepared.results, 1);
  EXPECT_EQ(resources->prepared.bytes, kBytes);
  EXPECT_EQ(resources->prepared.computed, 1);
  ASSERT_TRUE(executable->run(context, *resources, inputs, outputs).ok());
  ASSERT_TRUE(executable->run(context, *resources, inputs, outputs).ok());
  EXPECT_EQ(packs, 1);
  for (int i = 0; i < kCount; ++i)
    EXPECT_EQ(static_cast<float *>(y->data())[i], 3.f + 2.f * static_cast<float>(i));
}

TEST_F(PrepareTest, ConstantsArePackedAtOnce) {
  Program program = with_library();
  program.inputs.pop_back();
  program.constants.resize(kBytes);
  for (int i = 0; i < kCount; ++i)
    reinterpret_cast<float *>(program.constants.data())[i] = static_cast<float>(i);
  program.buffers[1] = {BufferKind::kConstant, -1, 0, kBytes};
  auto executable = create(program);
  auto x = floats(1);
  std::vector<std::shared_ptr<Buffer>> outputs;
  ASSERT_TRUE(executor->submit(executable, {x}, outputs).ok());
  ASSERT_TRUE(outputs[0]->wait().ok());
  EXPECT_EQ(packs, 1);
  for (int i = 0; i < kCount; ++i)
    EXPECT_EQ(static_cast<float *>(outputs[0]->data())[i], 1.f + 2.f * static_cast<float>(i));
}

TEST_F(PrepareTest, WithoutMemoryOperandsStayAsTheyAre) {
  auto executable = create(with_library());
  auto x = floats(1), w = floats(2), y = floats(0);
  RunContext context{memory, 1};
  context.pack_at_once = true;
  auto resources = executable->acquire(context).value();
  int64_t bound = PreparedStore::instance().max_bytes();
  PreparedStore::instance().set_max_bytes(8);
  Buffer *inputs[] = {x.get(), w.get()}, *outputs[] = {y.get()};
  ASSERT_TRUE(executable->prepare(context, *resources, inputs).ok());
  EXPECT_EQ(resources->prepared.refused, 1);
  ASSERT_TRUE(executable->run(context, *resources, inputs, outputs).ok());
  EXPECT_EQ(static_cast<float *>(y->data())[1], 5.f);
  // Values are needed: this run computes them for itself.
  auto values = create(with_values());
  auto own = values->acquire(context).value();
  for (int i = 1; i <= 2; ++i) {
    ASSERT_TRUE(values->prepare(context, *own, inputs).ok());
    ASSERT_TRUE(values->run(context, *own, inputs, outputs).ok());
    EXPECT_EQ(squares, i);
  }
  EXPECT_EQ(static_cast<float *>(y->data())[1], 2.f + 9.f);
  PreparedStore::instance().set_max_bytes(bound);
}

TEST_F(PrepareTest, MemoryOfTheUsersIsNotCountedOn) {
  auto executable = create(with_values());
  std::vector<float> memory_of_the_user(kCount, 2.f);
  auto w = Buffer::borrow(memory_of_the_user.data(), kBytes, nullptr);
  expect(executable, floats(0), w, true);
  memory_of_the_user[3] = 9; // unseen
  expect(executable, floats(0), w, true);
  EXPECT_EQ(squares, 2);
}

TEST_F(PrepareTest, PreparedResultsGiveWayToTensors) {
  auto executable = create(with_values());
  auto w = floats(1);
  expect(executable, floats(0), w, true);
  auto large = memory->allocate((int64_t{1} << 20) - limit->stats().live_bytes + kBytes, "tensor");
  ASSERT_TRUE(large.ok()) << large.status();
  *large = nullptr;
  expect(executable, floats(0), w, true);
  EXPECT_EQ(squares, 2);
}

TEST(Prepare, RoundTripsAndIsValidated) {
  Program program = with_values();
  program.prepare.front().constants.resize(64, std::byte{7});
  std::string bytes = serialize(program).value();
  absl::StatusOr<Program> read = deserialize(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->prepare.size(), 1u);
  EXPECT_EQ(read->prepare_inputs, program.prepare_inputs);
  EXPECT_EQ(read->prepare.front().constants, program.prepare.front().constants);
  EXPECT_EQ(read->prepare.front().symbols, program.prepare.front().symbols);
  EXPECT_EQ(serialize(*read).value(), bytes);

  auto broken = [](auto change) {
    Program program = with_values();
    change(program);
    return validate(program).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(broken([](Program &p) { p.prepare.clear(); }));
  EXPECT_TRUE(broken([](Program &p) { p.prepare.push_back(p.prepare.front()); }));
  EXPECT_TRUE(broken([](Program &p) { p.prepare.front().prepare = {p.prepare.front()}; }));
  EXPECT_TRUE(broken([](Program &p) { p.prepare_inputs = {}; }));
  EXPECT_TRUE(broken([](Program &p) { p.prepare_inputs = {9}; }));
  EXPECT_TRUE(broken([](Program &p) { p.prepare_inputs = {0}; })) << "x is not stable";
  EXPECT_TRUE(broken([](Program &p) { p.inputs[1].donatable = true; }));
  EXPECT_TRUE(broken([](Program &p) { p.buffers[2].index = 1; }));
  EXPECT_TRUE(broken([](Program &p) { p.buffers[2].bytes = 2 * kBytes; }));
  EXPECT_TRUE(broken([](Program &p) { p.prepare.front().inputs.front().donatable = true; }));
  EXPECT_TRUE(broken([](Program &p) { p.prepare.front().outputs.front().alias_input = 0; }));
  EXPECT_TRUE(broken([](Program &p) { p.instructions.push_back(Copy{0, 2, kBytes, -1}); }))
      << "prepared values are not written";
}

} // namespace
} // namespace weft::runtime
