#include "compiler/schedule/Pins.h"

#include "compiler/codegen/Choices.h"
#include "compiler/codegen/FusionText.h"
#include "compiler/pipeline/PassHooks.h"

#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

std::string pinned(ir::FusionOp fusion) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (mlir::Attribute schedule = fusion->getAttr(kScheduleAttr))
    stream << schedule;
  return text;
}

std::string errorOf(const char *text) {
  return std::string(parsePins(text, "file").status().message());
}

struct PinsTest : testing::Test {
  std::unique_ptr<ParsedFusion> parsed = parseFusion("%x: tensor<8x32xf32>, %v: tensor<8xf32>", R"(
    %0 = weft.exp %x : tensor<8x32xf32>
    %1 = weft.reduce_sum %0, dims = [1] : tensor<8x32xf32>
    %2 = weft.add %1, %v : tensor<8xf32>)",
                                                     "%2: tensor<8xf32>");
};

TEST_F(PinsTest, NamesSayOpsAndTypes) {
  EXPECT_EQ(kernelText(parsed->fusion), "exp_reduce_sum_add(8x32xf32, 8xf32) -> 8xf32");
}

TEST_F(PinsTest, PatternsAreOfTheNameOrOfAllOfIt) {
  auto after = [&](const char *text) {
    parsed->fusion->removeAttr(kScheduleAttr);
    // Pins outlive the text that they were read from.
    auto pins = parsePins(std::string(text), "file");
    EXPECT_TRUE(pins.ok()) << pins.status().message();
    pinChoices(parsed->fusion, *pins);
    return pinned(parsed->fusion);
  };
  EXPECT_EQ(after("exp_reduce_sum_add: {vectors = 4}"), "{vectors = 4 : i64}");
  EXPECT_EQ(after("exp*: {vectors = 4} # why\n\n*_add*: {body = \"rows\"}"),
            "{body = \"rows\", vectors = 4 : i64}");
  EXPECT_EQ(after("*: {vectors = 4}\n*(8x32xf32, *: {vectors = 8}"), "{vectors = 8 : i64}");
  EXPECT_EQ(after("*(9x32xf32, *: {vectors = 8}\nexp: {vectors = 2}"), "");
}

TEST_F(PinsTest, WhatIsPinnedStays) {
  auto first = parsePins("*: {rows = 2, vectors = 2}", "file"),
       second = parsePins("*: {vectors = 4}", "file");
  ASSERT_TRUE(first.ok() && second.ok());
  pinChoices(parsed->fusion, *first);
  pinChoices(parsed->fusion, *second);
  EXPECT_EQ(pinned(parsed->fusion), "{rows = 2 : i64, vectors = 4 : i64}");
}

// One text may be pinned again, behind another one.
TEST_F(PinsTest, PinsAddUp) {
  for (const char *text : {"*: {rows = 2}", "*: {rows = 4}", "*: {rows = 2}"})
    EXPECT_TRUE(pinSchedules(text).ok());
  EXPECT_EQ(registeredPasses().size(), 3u);
  clearRegisteredPasses();
}

TEST_F(PinsTest, ErrorsNameTheLine) {
  EXPECT_EQ(errorOf("\nexp"), "file:2: 'exp' is no pin; write KERNELS: {CHOICE = VALUE, ...}");
  EXPECT_EQ(errorOf("exp: 4"), "file:1: '4' is no dictionary; write {rows = 4, body = \"rows\"}");
  EXPECT_EQ(errorOf("exp: {rows = 99999999999999999999}")
                .find("file:1: '{rows = 99999999999999999999}' is no dictionary: integer constant"),
            0u);
  EXPECT_EQ(errorOf("exp: {rws = 4}").find("file:1: there is no choice 'rws'; there are body, "),
            0u);
  EXPECT_EQ(errorOf("[: {rows = 4}").find("file:1: '[' is no pattern: "), 0u);
  EXPECT_EQ(readPins("no/such/file").status().code(), absl::StatusCode::kNotFound);
}

} // namespace
} // namespace weft::compiler
