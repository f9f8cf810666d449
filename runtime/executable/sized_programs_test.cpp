#include "runtime/executable/sized_programs.h"

#include <cstring>

#include <gtest/gtest.h>

#include "runtime/executable/sample_program.h"

namespace weft::runtime {
namespace {

// y = k(x, the size) for rows of 4 floats.
Program rows(int64_t size) {
  Program program;
  program.symbols = {"k"};
  int64_t bytes = size * 16;
  program.inputs.push_back({"x", DType::kFloat32, {size, 4}, bytes, false, false});
  program.outputs.push_back({"y", DType::kFloat32, {size, 4}, bytes, -1, -1, -1});
  program.constants.resize(64);
  std::memcpy(program.constants.data(), &size, sizeof size);
  program.buffers = {{BufferKind::kInput, 0, 0, bytes},
                     {BufferKind::kConstant, -1, 0, 8},
                     {BufferKind::kOutput, 0, 0, bytes}};
  Launch launch;
  launch.kernel = 0;
  launch.operands = {0, 1, 2};
  launch.count = size;
  program.instructions.emplace_back(launch);
  return program;
}

SizeTable table(int64_t largest) {
  using Place = SizeTable::Place;
  SizeTable table;
  table.names = {"batch"};
  table.entries = {{Place::kInputDim, 0, 0, 0, {1, {0}}, largest},
                   {Place::kOutputDim, 0, 0, 0, {1, {0}}, largest},
                   {Place::kCount, 0, 0, 0, {1, {0}}, largest},
                   {Place::kConstant, 0, 0, 0, {1, {0}}, largest}};
  return table;
}

// 1 alone, up to 6 and up to 32.
SizedPrograms sample() {
  SizedPrograms programs;
  programs.name = "batch";
  programs.parts.push_back({1, 1, rows(1), {}});
  programs.parts.push_back({2, 6, rows(6), table(6)});
  programs.parts.push_back({7, 32, rows(32), table(32)});
  return programs;
}

std::span<const std::byte> bytes_of(const std::string &text) {
  return std::as_bytes(std::span(text));
}

TEST(SizedPrograms, EachSizeHasAProgram) {
  SizedPrograms programs = sample();
  EXPECT_EQ(programs.low(), 1);
  EXPECT_EQ(programs.high(), 32);
  for (int64_t size : {1, 2, 5, 6, 7, 31, 32}) {
    absl::StatusOr<Program> program = programs.at(size);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_TRUE(validate(*program).ok());
    EXPECT_EQ(program->inputs[0].dims, (std::vector<int64_t>{size, 4}));
    EXPECT_EQ(program->outputs[0].bytes, size * 16);
    EXPECT_EQ(std::get<Launch>(program->instructions[0]).count, size);
    int64_t constant = 0;
    std::memcpy(&constant, program->constants.data(), sizeof constant);
    EXPECT_EQ(constant, size);
  }
  for (int64_t size : {-1, 0, 33}) {
    EXPECT_EQ(programs.at(size).status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_NE(programs.at(size).status().message().find("must be from 1 to 32"),
              std::string_view::npos);
  }
}

TEST(SizedPrograms, SurviveTheWayThroughBytes) {
  std::string bytes = serialize(sample()).value();
  absl::StatusOr<SizedPrograms> read = deserialize_sized(bytes_of(bytes));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "batch");
  EXPECT_EQ(serialize(*read).value(), bytes);
  for (size_t i = 0; i < bytes.size(); ++i)
    EXPECT_FALSE(deserialize_sized(bytes_of(bytes.substr(0, i))).ok()) << "cut at " << i;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] ^= 0x41;
    if (auto other = deserialize_sized(bytes_of(changed)); other.ok())
      EXPECT_TRUE(serialize(*other).ok()) << i;
  }
}

TEST(SizedPrograms, OneProgramWithoutASizeIsThatProgram) {
  std::string bytes = serialize(testing::sample_program()).value();
  absl::StatusOr<SizedPrograms> read = deserialize_sized(bytes_of(bytes));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->varies());
  EXPECT_EQ(serialize(*read).value(), bytes);
  EXPECT_EQ(serialize(read->at(7).value()).value(), bytes);
}

TEST(SizedPrograms, PartsThatDoNotFitAreRefused) {
  auto changed = [](auto change) {
    SizedPrograms programs = sample();
    change(programs);
    return serialize(programs).ok();
  };
  EXPECT_TRUE(changed([](SizedPrograms &) {}));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts.clear(); }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.name.clear(); }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.name = "other"; }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[0].low = 0; }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[1].low = 3; }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[1].high = 1; }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[2].sizes = {}; }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[2].sizes = table(6); }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[1].program.inputs[0].name = "z"; }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[1].sizes.entries[3].index = 60; }));
}

TEST(SizedPrograms, RangesAsText) {
  EXPECT_EQ(range_text(DType::kFloat32, std::vector<int64_t>{1, 3}, std::vector<int64_t>{64, 3}),
            "float32[1..64, 3]");
  EXPECT_EQ(range_text(DType::kInt64, {}, {}), "int64[]");
}

} // namespace
} // namespace weft::runtime
