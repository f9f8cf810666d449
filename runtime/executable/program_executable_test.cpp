#include "runtime/executable/program_executable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "runtime/executable/sample_program.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/memory/tracing_allocator.h"

namespace weft::runtime {
namespace {

// Rows of 8 floats.
int32_t add(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
            int64_t begin, int64_t end) {
  const float *a = static_cast<const float *>(buffers[0]),
              *b = static_cast<const float *>(buffers[1]);
  float *c = static_cast<float *>(buffers[2]);
  for (int64_t i = begin * 8; i < end * 8; ++i)
    c[i] = a[i] + b[i];
  return WEFT_KERNEL_OK;
}
// One partial sum a row, through the thread's scratch.
int32_t total_partials(const weft_kernel_env *env, void *const *buffers, const int64_t *,
                       const double *, int64_t begin, int64_t end) {
  float *scratch = static_cast<float *>(env->scratch);
  for (int64_t row = begin; row < end; ++row) {
    std::memcpy(scratch, static_cast<const float *>(buffers[0]) + row * 8, 32);
    static_cast<float *>(buffers[2])[row] = std::accumulate(scratch, scratch + 8, 0.0f);
  }
  return WEFT_KERNEL_OK;
}
int32_t total_finish(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
                     int64_t, int64_t) {
  const float *partials = static_cast<const float *>(buffers[2]);
  *static_cast<float *>(buffers[1]) = std::accumulate(partials, partials + 4, 0.0f);
  return WEFT_KERNEL_OK;
}
int32_t fail_from_two(const weft_kernel_env *, void *const *, const int64_t *, const double *,
                      int64_t, int64_t end) {
  return end > 2 ? WEFT_KERNEL_INDEX_OUT_OF_RANGE : WEFT_KERNEL_OK;
}
int32_t nothing(const weft_kernel_env *, void *const *, const int64_t *, const double *, int64_t,
                int64_t) {
  return WEFT_KERNEL_OK;
}

weft_kernel kernel(std::string_view symbol) {
  static const std::map<std::string_view, weft_kernel> kernels = {
      {"add", add},
      {"total_partials", total_partials},
      {"total_finish", total_finish},
      {"fail_from_two", fail_from_two},
      {"nothing", nothing}};
  auto found = kernels.find(symbol);
  return found == kernels.end() ? nullptr : found->second;
}

// operand 1 = operand 0 * by, with scratch.
class ScaleEntry : public LibraryEntry {
public:
  struct State : LibraryCallState {
    double by;
    bool fails;
    int64_t scratch;
    int64_t scratch_bytes() const override {
      return scratch;
    }
    absl::Status run(std::span<void *const> operands, void *scratch) override {
      if (fails)
        return absl::InternalError("scale broke");
      std::memset(scratch, 0xff, 1000);
      for (int i = 0; i < 32; ++i)
        static_cast<float *>(operands[1])[i] =
            static_cast<float>(by) * static_cast<const float *>(operands[0])[i];
      return absl::OkStatus();
    }
  };
  std::string_view name() const override {
    return "test.scale";
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int threads) const override {
    ++inits;
    if (gives_null)
      return nullptr;
    auto state = std::make_unique<State>();
    state->scratch = scratch;
    state->by = std::get<double>(*find_config(call.config, "by"));
    state->fails = config_int(call.config, "times").value() == 99;
    return state;
  }
  mutable int inits = 0;
  bool gives_null = false;
  int64_t scratch = 1000;
};

struct Fixture {
  ScaleEntry entry;
  std::shared_ptr<TracingAllocator> allocator =
      std::make_shared<TracingAllocator>(std::make_shared<SystemAllocator>());
  std::shared_ptr<Memory> memory = Memory::create(allocator);
  LibraryResolver libraries = [this](std::string_view name) {
    return name == entry.name() ? &entry : nullptr;
  };

  absl::StatusOr<std::shared_ptr<ProgramExecutable>> create(Program program) {
    return ProgramExecutable::create(std::move(program), kernel, libraries, memory);
  }
  std::shared_ptr<Buffer> floats(int count, float start) {
    std::shared_ptr<Buffer> buffer = memory->allocate(count * 4, "test").value();
    for (int i = 0; i < count; ++i)
      static_cast<float *>(buffer->data())[i] = start + i;
    return buffer;
  }
};

TEST(ProgramExecutable, RunsEveryInstructionOnOneAndTwoThreads) {
  for (int threads : {1, 2, 3}) {
    Fixture run;
    auto executable = run.create(testing::sample_program());
    ASSERT_TRUE(executable.ok()) << executable.status();
    std::shared_ptr<Buffer> a = run.floats(32, 0), b = run.floats(32, 100),
                            total = run.floats(1, -1);
    Buffer *inputs[] = {a.get(), b.get()};
    Buffer *outputs[] = {a.get(), total.get(), b.get()};
    RunContext context{run.memory, threads};
    absl::Status status = (*executable)->acquire_and_run(context, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status;
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(static_cast<float *>(a->data())[i], 100 + 2 * i);
    EXPECT_EQ(*static_cast<float *>(total->data()), 32 * 100 + 2 * 31 * 32 / 2);
    EXPECT_EQ(run.entry.inits, 1);
    ASSERT_TRUE((*executable)->acquire_and_run(context, inputs, outputs).ok());
    EXPECT_EQ(run.entry.inits, 1); // once a process and thread count
  }
}

TEST(ProgramExecutable, UnresolvedNamesAreErrors) {
  Fixture run;
  Program program = testing::sample_program();
  program.symbols[0] = "missing";
  EXPECT_EQ(run.create(program).status().message(), "no kernel 'missing' beside the program");
  program = testing::sample_program();
  std::get<LibraryCall>(program.instructions[1]).entry = "vendor.gone";
  EXPECT_EQ(run.create(program).status().message(), "no library entry 'vendor.gone' in this build");
}

TEST(ProgramExecutable, WrongBindingsAreRefusedBeforeAnythingIsWritten) {
  Fixture run;
  auto executable = run.create(testing::sample_program()).value();
  RunContext context{run.memory, 1};
  std::shared_ptr<Buffer> a = run.floats(32, 0), b = run.floats(32, 1), small = run.floats(31, 2),
                          total = run.floats(1, 0);
  auto status = [&](std::vector<Buffer *> inputs, std::vector<Buffer *> outputs) {
    return executable->acquire_and_run(context, inputs, outputs);
  };
  EXPECT_EQ(status({a.get()}, {a.get(), total.get(), b.get()}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status({a.get(), small.get()}, {a.get(), total.get(), small.get()}).message(),
            "input 1 'b' takes 128 bytes; its buffer has 124");
  EXPECT_EQ(status({a.get(), b.get()}, {b.get(), total.get(), b.get()}).message(),
            "output 0 'sum' is not bound to the buffer that it is tied to");
  EXPECT_EQ(static_cast<float *>(a->data())[5], 5);
}

TEST(ProgramExecutable, FailuresNameTheLocation) {
  Fixture run;
  Program program = testing::sample_program();
  program.symbols[0] = "fail_from_two";
  std::shared_ptr<Buffer> a = run.floats(32, 0), b = run.floats(32, 1), total = run.floats(1, 0);
  Buffer *inputs[] = {a.get(), b.get()};
  Buffer *outputs[] = {a.get(), total.get(), b.get()};
  for (int threads : {1, 2}) {
    absl::Status status =
        run.create(program).value()->acquire_and_run({run.memory, threads}, inputs, outputs);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(status.message().substr(0, 13), "train.cpp:3: ");
  }
  program = testing::sample_program();
  std::get<LibraryCall>(program.instructions[1]).config[3].second = int64_t{99};
  absl::Status status =
      run.create(program).value()->acquire_and_run({run.memory, 1}, inputs, outputs);
  EXPECT_EQ(status.message(), "train.cpp:5: test.scale: scale broke");
}

TEST(ProgramExecutable, StatesThatCannotBeAreRefused) {
  Fixture run;
  std::shared_ptr<Buffer> a = run.floats(32, 0), b = run.floats(32, 1), total = run.floats(1, 0);
  Buffer *inputs[] = {a.get(), b.get()};
  Buffer *outputs[] = {a.get(), total.get(), b.get()};
  auto failure = [&] {
    auto executable = run.create(testing::sample_program()).value();
    return std::string(executable->acquire_and_run({run.memory, 1}, inputs, outputs).message());
  };
  run.entry.gives_null = true;
  EXPECT_EQ(failure(), "train.cpp:5: test.scale: init() gave a null state; it must give a state or "
                       "an error");
  run.entry.gives_null = false;
  run.entry.scratch = -5;
  EXPECT_EQ(failure(), "train.cpp:5: test.scale: scratch_bytes() gave -5; it must not be negative");
}

TEST(ProgramExecutable, EveryByteComesFromTheAllocator) {
  Fixture run;
  auto executable = run.create(testing::sample_program()).value();
  EXPECT_EQ(run.allocator->stats().live_bytes, 128); // constants
  int64_t before = run.allocator->stats().allocations;
  auto resources = executable->acquire({run.memory, 4}).value();
  EXPECT_EQ(run.allocator->stats().allocations, before + 1);
  // The arena, then the larger of 4 threads' scratch and the library's.
  EXPECT_EQ(run.allocator->stats().live_bytes, 128 + 192 + 1024);
  resources.reset();
  EXPECT_EQ(run.allocator->stats().live_bytes, 128);
  executable.reset();
  EXPECT_EQ(run.allocator->stats().live_bytes, 0);
}

TEST(ProgramExecutable, ConstantsThatFindNoMemoryAreAMatterOfMemory) {
  class GivesNull : public SystemAllocator {
  public:
    absl::StatusOr<void *> allocate(int64_t, int64_t) override {
      return nullptr;
    }
  };
  Program program;
  program.constants.resize(64);
  absl::Status status = ProgramExecutable::create(program, nullptr, nullptr,
                                                  Memory::create(std::make_shared<GivesNull>()))
                            .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST(ProgramExecutable, SerializesWhatItWasMadeFrom) {
  Fixture run;
  Program program = testing::sample_program();
  program.constants[7] = std::byte{9};
  EXPECT_EQ(*run.create(program).value()->serialize(), *serialize(program));
}

TEST(ProgramExecutable, FillsWithEveryWidth) {
  Fixture run;
  for (int width : {1, 2, 4, 8}) {
    Program program;
    program.outputs = {{"x", DType::kUInt8, {1000}, 1000, -1, -1, -1}};
    program.buffers = {{BufferKind::kOutput, 0, 0, 1000}};
    program.instructions = {Fill{0, 0x0807060504030201, width, 1000, -1}};
    std::shared_ptr<Buffer> out = run.floats(250, 0);
    Buffer *outputs[] = {out.get()};
    ASSERT_TRUE(run.create(program).value()->acquire_and_run({run.memory, 1}, {}, outputs).ok());
    for (int i = 0; i < 1000; ++i)
      ASSERT_EQ(static_cast<uint8_t *>(out->data())[i], i % width + 1) << width << " " << i;
  }
}

// What an instruction costs is the benchmark's to say (benchmarks/overhead).
TEST(ProgramExecutable, RunsAllocateNothing) {
  Fixture run;
  Program program;
  program.inputs = {{"x", DType::kFloat32, {}, 4, false, false}};
  program.buffers = {{BufferKind::kInput, 0, 0, 4}, {BufferKind::kArena, -1, 0, 64}};
  program.arena_bytes = 64;
  program.symbols = {"nothing"};
  program.instructions.assign(100000, Launch{0, -1, {0, 1, 0, 1}, -1, 1, 1, true, -1});
  auto executable = run.create(program).value();
  RunContext context{run.memory, 1};
  auto resources = executable->acquire(context).value();
  std::shared_ptr<Buffer> x = run.floats(1, 0);
  Buffer *inputs[] = {x.get()};
  int64_t allocations = run.allocator->stats().allocations;
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(executable->run(context, *resources, inputs, {}).ok());
  EXPECT_EQ(run.allocator->stats().allocations, allocations);
}

} // namespace
} // namespace weft::runtime
