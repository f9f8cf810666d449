#include "runtime/executable/sized_programs.h"

#include <cstring>

#include <gtest/gtest.h>

#include "runtime/executable/sample_program.h"
#include "runtime/executable/sample_sized_programs.h"

namespace weft::runtime {
namespace {

std::span<const std::byte> bytes_of(const std::string &text) {
  return std::as_bytes(std::span(text));
}

TEST(SizedPrograms, EachSizeHasAProgram) {
  SizedPrograms programs = testing::sample_sized_programs();
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
  std::string bytes = serialize(testing::sample_sized_programs()).value();
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
    SizedPrograms programs = testing::sample_sized_programs();
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
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[1].high = INT64_MAX; }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[2].sizes = {}; }));
  EXPECT_FALSE(changed([](SizedPrograms &p) { p.parts[2].sizes = testing::sample_sizes(6); }));
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
