// Compiled plans, one or several for a range of sizes. Their checksums are made right before they
// are read: damage that these show is no test of what lies behind them.
#include <cstdlib>
#include <cstring>

#include "runtime/core/byte_stream.h"
#include "runtime/executable/sample_program.h"
#include "runtime/executable/sample_sized_programs.h"
#include "tests/fuzz/parsers/parser_fuzzer.h"

namespace weft::fuzz {
namespace {

constexpr size_t kHeaderBytes = 32, kSizeAt = 16, kChecksumAt = 24;
constexpr std::string_view kSized = "WEFTSIZE";

// With what the sample has not: state, notes, modules, checks, sizes, and values made ahead.
runtime::Program full_program() {
  runtime::Program program = runtime::testing::sample_program();
  program.state_bytes = 8;
  program.buffers.push_back({runtime::BufferKind::kState, -1, 0, 8});
  program.notes = {{"f32[4,8] -> f32[4,8]", 8, 96, 0}};
  program.modules = {"", "blocks.0"};
  auto &launch = std::get<runtime::Launch>(program.instructions[3]);
  launch.checks = {{"weft.gather", 0, DType::kInt64, 0, 8, true, -1, 1}};
  launch.lines = {0, 2};
  launch.sizes = {8, 4};
  runtime::Program &prepare = program.prepare.emplace_back();
  prepare.recipe = "copy";
  prepare.inputs = {{"b", DType::kFloat32, {4, 8}, 128, false, true}};
  prepare.outputs = {{"copy", DType::kFloat32, {4, 8}, 128, -1, -1, -1}};
  prepare.buffers = {{runtime::BufferKind::kInput, 0, 0, 128},
                     {runtime::BufferKind::kOutput, 0, 0, 128}};
  prepare.instructions = {runtime::Copy{0, 1, 128, -1}};
  program.prepare_inputs = {1};
  program.buffers.push_back({runtime::BufferKind::kPrepared, 0, 0, 128});
  return program;
}

std::string written(const auto &program) {
  auto bytes = runtime::serialize(program);
  if (!bytes.ok())
    std::abort();
  return *std::move(bytes);
}

void seal(std::span<std::byte> program) {
  if (program.size() < kHeaderBytes)
    return;
  uint64_t whole = program.size(), sum = runtime::checksum(program.subspan(kHeaderBytes));
  std::memcpy(program.data() + kSizeAt, &whole, sizeof whole);
  std::memcpy(program.data() + kChecksumAt, &sum, sizeof sum);
}

// Each part is its range, its table of sizes and a program.
void seal_parts(std::span<std::byte> parts) {
  runtime::ByteReader in(parts);
  in.scalar<uint32_t>();
  in.string();
  size_t count = in.count(1);
  for (size_t i = 0; i < count && in.ok(); ++i) {
    in.raw(2 * sizeof(int64_t));
    in.string();
    size_t size = in.count(1);
    seal(parts.subspan(in.position(), size));
    in.raw(size);
  }
}

} // namespace

std::vector<std::string> seeds() {
  runtime::Program inputs = runtime::testing::sample_program(), empty;
  inputs.instructions.clear();
  return {written(runtime::testing::sample_program()), written(inputs), written(empty),
          written(full_program()), written(runtime::testing::sample_sized_programs())};
}

bool parse(const uint8_t *data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0)
    std::memcpy(bytes.data(), data, size);
  if (size >= kSized.size() && std::memcmp(data, kSized.data(), kSized.size()) == 0)
    seal_parts(std::span(bytes).subspan(kSized.size()));
  else
    seal(bytes);
  auto programs = runtime::deserialize_sized(bytes);
  // What is accepted is a valid program, and comes back from its own bytes.
  if (!programs.ok())
    return false;
  std::string again = written(*programs);
  if (!runtime::deserialize_sized(std::as_bytes(std::span(again))).ok())
    std::abort();
  // So is what it gives for a size, if it serves that.
  int64_t low = programs->low(), high = programs->high();
  for (int64_t at : {low, low + (high - low) / 2, high})
    if (auto program = programs->at(at); program.ok() && !runtime::validate(*program).ok())
      std::abort();
  return true;
}

// A field of some bytes becomes a struct of some ten times as many; twice, as the program is
// written and read again.
int64_t allowed_bytes(size_t size) {
  return 64 * static_cast<int64_t>(size) + 8192;
}

} // namespace weft::fuzz
