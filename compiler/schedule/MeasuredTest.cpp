#include "compiler/schedule/Measured.h"

#include <filesystem>
#include <fstream>

#include "compiler/codegen/Choices.h"
#include "compiler/codegen/FusionText.h"
#include "dialects/plan/ir/Plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kEnough = 100; // seconds

std::unique_ptr<ParsedFusion> fusion() {
  auto parsed = parseFusion("%x: tensor<4000xf32>", "%0 = weft.tanh %x : tensor<4000xf32>",
                            "%0: tensor<4000xf32>");
  parsed->context.loadDialect<plan::PlanDialect>(); // as compilations have it
  return parsed;
}

struct MeasuredTest : testing::Test {
  std::string file = testing::TempDir() + "/schedules/one.txt";

  void SetUp() override {
    std::filesystem::remove_all(testing::TempDir() + "/schedules");
  }
  std::string text() {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // What a process that reads the file now says, and pins.
  std::vector<std::string> apply(double seconds) {
    parsed = fusion();
    std::vector<std::string> remarks;
    MeasuredSchedules(file).apply(*parsed->module, seconds, remarks);
    return remarks;
  }
  std::string pinned() {
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (mlir::Attribute schedule = parsed->fusion->getAttr(kScheduleAttr))
      stream << schedule;
    return text;
  }
  std::unique_ptr<ParsedFusion> parsed;
};

TEST_F(MeasuredTest, WhatOneProcessMeasuresTheNextOneKnows) {
  EXPECT_THAT(apply(0), ElementsAre());
  EXPECT_FALSE(std::filesystem::exists(file)) << "nothing is asked for";
  // A line for each kernel, with what was tried.
  EXPECT_THAT(apply(kEnough),
              ElementsAre(AllOf(HasSubstr("schedule: tanh(4000xf32) -> 4000xf32: "),
                                HasSubstr(" us; "), HasSubstr("vectors = ")),
                          HasSubstr("schedule: measured 1 kernels in ")));
  std::string found = pinned(), line = text();
  EXPECT_THAT(line, HasSubstr(" tanh(4000xf32) -> 4000xf32: {"));
  EXPECT_THAT(apply(kEnough), ElementsAre(HasSubstr("; 1 were known, for 0 no time was left")));
  EXPECT_EQ(pinned(), found);
  EXPECT_EQ(text(), line);
  EXPECT_THAT(apply(0), ElementsAre());
  EXPECT_EQ(pinned(), found);
}

TEST_F(MeasuredTest, TheFileCanBeEdited) {
  std::string empty = MeasuredSchedules(file).key();
  apply(kEnough);
  std::string line = text();
  std::string hash = line.substr(0, line.find(' '));
  EXPECT_NE(MeasuredSchedules(file).key(), empty);
  std::ofstream(file) << "what is this\n" << hash << " of mine: {vectors = 2 : i64}\n";
  apply(0);
  EXPECT_EQ(pinned(), "{vectors = 2 : i64}");
  // Half a line, as a process leaves it that died.
  std::ofstream(file) << hash << " tanh: {vec";
  apply(0);
  EXPECT_EQ(pinned(), "");
}

TEST_F(MeasuredTest, UsersPinsStay) {
  parsed = fusion();
  mlir::Builder b(parsed->fusion->getContext());
  parsed->fusion->setAttr(kScheduleAttr,
                          b.getDictionaryAttr(b.getNamedAttr("vectors", b.getI64IntegerAttr(8))));
  std::vector<std::string> remarks;
  MeasuredSchedules(file).apply(*parsed->module, kEnough, remarks);
  EXPECT_THAT(remarks, ElementsAre(HasSubstr("measured 0 kernels")));
  EXPECT_EQ(pinned(), "{vectors = 8 : i64}");
}

TEST_F(MeasuredTest, SaysWhatItCannotDo) {
  EXPECT_THAT(apply(1e-9), ElementsAre(HasSubstr("for 1 no time was left")));
  EXPECT_FALSE(std::filesystem::exists(file));
  file = "/proc/no/such/folder/file";
  EXPECT_THAT(apply(kEnough),
              ElementsAre(HasSubstr("tanh(4000xf32)"),
                          HasSubstr("cannot keep what was measured in /proc/no/such/folder/file"),
                          HasSubstr("measured 1 kernels")));
}

} // namespace
} // namespace weft::compiler
