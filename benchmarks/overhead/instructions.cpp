#include "benchmarks/overhead/instructions.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/common/report.h"
#include "runtime/executable/program_executable.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/profile/profile.h"

namespace weft::benchmarks {
namespace {

constexpr int kInstructions = 10000; // enough that what a run costs once does not count

int32_t add_one(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
                int64_t, int64_t) {
  *static_cast<float *>(buffers[1]) = *static_cast<const float *>(buffers[0]) + 1;
  return WEFT_KERNEL_OK;
}

void check(const absl::Status &status) {
  if (!status.ok())
    throw std::runtime_error(std::string(status.message()));
}

} // namespace

double seconds_per_instruction(int rounds, bool profiled) {
  runtime::Program program;
  program.inputs.push_back({.name = "x", .dtype = DType::kFloat32, .dims = {}, .bytes = 4});
  program.outputs.push_back({.name = "y", .dtype = DType::kFloat32, .dims = {}, .bytes = 4});
  program.buffers = {{.kind = runtime::BufferKind::kInput, .index = 0, .bytes = 4},
                     {.kind = runtime::BufferKind::kArena, .bytes = 4},
                     {.kind = runtime::BufferKind::kOutput, .index = 0, .bytes = 4}};
  program.arena_bytes = runtime::kBufferAlignment;
  program.symbols = {"add_one"};
  for (int i = 0; i < kInstructions; ++i) {
    runtime::Launch launch;
    launch.kernel = 0;
    launch.operands = {i == 0 ? 0 : 1, i == kInstructions - 1 ? 2 : 1};
    launch.serial = true;
    program.instructions.push_back(launch);
  }
  std::shared_ptr<runtime::Memory> memory =
      runtime::Memory::create(std::make_shared<runtime::SystemAllocator>());
  auto executable = runtime::ProgramExecutable::create(
      std::move(program), [](std::string_view) { return &add_one; },
      [](std::string_view) { return nullptr; }, memory);
  check(executable.status());
  auto input = memory->allocate(4, "input"), output = memory->allocate(4, "output");
  check(input.status());
  check(output.status());
  *static_cast<float *>((*input)->data()) = 0;
  runtime::RunContext context{memory, 1};
  auto resources = (*executable)->acquire(context);
  check(resources.status());
  runtime::Buffer *inputs[] = {input->get()}, *outputs[] = {output->get()};
  std::vector<double> times;
  std::string trace = std::filesystem::temp_directory_path() /
                      ("weft_instructions_" + std::to_string(getpid()) + ".json");
  if (profiled)
    check(runtime::profile::start(trace));
  for (int round = 0; round <= rounds; ++round) {
    double start = now();
    check((*executable)->run(context, **resources, inputs, outputs));
    if (round > 0)
      times.push_back((now() - start) / kInstructions);
    if (profiled) // what the writer does beside is no part of a run, but the buffer must not be
                  // full
      check(runtime::profile::flush());
  }
  if (profiled) {
    check(runtime::profile::stop());
    std::filesystem::remove(trace);
  }
  if (*static_cast<const float *>((*output)->data()) != kInstructions)
    throw std::runtime_error("the program computed something else");
  return median(times);
}

} // namespace weft::benchmarks
