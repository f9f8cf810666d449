// Schedules as data: each choice of each kind of kernel, with each value that it may have, gives
// the bits of the one that the costs prefer.
#include "compiler/codegen/Choices.h"
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"

#include <random>
#include <set>

#include "tests/support/Compare.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

struct Case {
  const char *name, *signature, *body, *results;
};

constexpr Case kCases[] = {
    {"Run", "%x: tensor<40007xf32>, %y: tensor<40007xf32>", R"(
      %0 = weft.mul %x, %y : tensor<40007xf32>
      %1 = weft.tanh %0 : tensor<40007xf32>)",
     "%1: tensor<40007xf32>"},
    {"RowBlocks", "%x: tensor<3x20003xf32>, %y: tensor<3x1xf32>", R"(
      %0 = weft.broadcast %y : tensor<3x1xf32> to tensor<3x20003xf32>
      %1 = weft.add %x, %0 : tensor<3x20003xf32>)",
     "%1: tensor<3x20003xf32>"},
    {"Slices", "%x: tensor<9x200xbf16>", R"(
      %0 = weft.slice %x[[0, 0] : [9, 194] : [1, 2]] : tensor<9x200xbf16>
      %1 = weft.neg %0 : tensor<9x97xbf16>)",
     "%1: tensor<9x97xbf16>"},
    {"Transposed", "%x: tensor<5x70x150xf32>, %y: tensor<5x150x70xf32>", R"(
      %0 = weft.transpose %x, [0, 2, 1] : tensor<5x70x150xf32>
      %1 = weft.add %0, %y : tensor<5x150x70xf32>)",
     "%1: tensor<5x150x70xf32>"},
    {"Totals", "%x: tensor<21x1033xf32>", R"(
      %0 = weft.reduce_sum %x, dims = [0, 1] : tensor<21x1033xf32>
      %1 = weft.reduce_max %x, dims = [0, 1] : tensor<21x1033xf32>)",
     "%0: tensor<f32>, %1: tensor<f32>"},
    {"Product", "%x: tensor<50x5003xf32>, %v: tensor<5003xf32>", R"(
      %0 = weft.broadcast %v : tensor<5003xf32> to tensor<50x5003xf32>
      %1 = weft.mul %x, %0 : tensor<50x5003xf32>
      %2 = weft.reduce_sum %1, dims = [1] : tensor<50x5003xf32>)",
     "%2: tensor<50xf32>"},
    {"Maxima", "%x: tensor<37x700xf64>", R"(
      %0 = weft.reduce_max %x, dims = [1] : tensor<37x700xf64>)",
     "%0: tensor<37xf64>"},
    {"Softmax", "%x: tensor<33x1605xf32>", R"(
      %0 = weft.reduce_max %x, dims = [1] : tensor<33x1605xf32>
      %1 = weft.reshape %0 : tensor<33xf32> to tensor<33x1xf32>
      %2 = weft.broadcast %1 : tensor<33x1xf32> to tensor<33x1605xf32>
      %3 = weft.sub %x, %2 : tensor<33x1605xf32>
      %4 = weft.exp %3 : tensor<33x1605xf32>
      %5 = weft.reduce_sum %4, dims = [1] : tensor<33x1605xf32>
      %6 = weft.reshape %5 : tensor<33xf32> to tensor<33x1xf32>
      %7 = weft.broadcast %6 : tensor<33x1xf32> to tensor<33x1605xf32>
      %8 = weft.div %4, %7 : tensor<33x1605xf32>)",
     "%8: tensor<33x1605xf32>"},
    {"RowGroups", "%x: tensor<83x40xf32>", R"(
      %e = weft.exp %x : tensor<83x40xf32>
      %0 = weft.reduce_sum %e, dims = [1] : tensor<83x40xf32>
      %1 = weft.reshape %0 : tensor<83xf32> to tensor<83x1xf32>
      %2 = weft.broadcast %1 : tensor<83x1xf32> to tensor<83x40xf32>
      %3 = weft.sub %e, %2 : tensor<83x40xf32>
      %4 = weft.mul %3, %3 : tensor<83x40xf32>
      %5 = weft.reduce_sum %4, dims = [1] : tensor<83x40xf32>)",
     "%3: tensor<83x40xf32>, %5: tensor<83xf32>"},
    {"ShortRows", "%x: tensor<75x9xf32>", R"(
      %0 = weft.reduce_sum %x, dims = [1] : tensor<75x9xf32>
      %1 = weft.reshape %0 : tensor<75xf32> to tensor<75x1xf32>
      %2 = weft.broadcast %1 : tensor<75x1xf32> to tensor<75x9xf32>
      %3 = weft.div %x, %2 : tensor<75x9xf32>)",
     "%3: tensor<75x9xf32>"},
    {"Pairs",
     "%x: tensor<70x1x83xf32>, %y: tensor<35x83xf32>, %w: tensor<83xf32>, %s: tensor<35x1xf32>", R"(
      %0 = weft.reshape %x : tensor<70x1x83xf32> to tensor<70x83xf32>
      %1 = weft.reshape %0 : tensor<70x83xf32> to tensor<70x1x83xf32>
      %2 = weft.broadcast %1 : tensor<70x1x83xf32> to tensor<70x35x83xf32>
      %3 = weft.broadcast %y : tensor<35x83xf32> to tensor<70x35x83xf32>
      %4 = weft.sub %2, %3 : tensor<70x35x83xf32>
      %5 = weft.broadcast %w : tensor<83xf32> to tensor<70x35x83xf32>
      %6 = weft.mul %4, %5 : tensor<70x35x83xf32>
      %s1 = weft.broadcast %s : tensor<35x1xf32> to tensor<70x35x83xf32>
      %s2 = weft.add %6, %s1 : tensor<70x35x83xf32>
      %7 = weft.abs %s2 : tensor<70x35x83xf32>
      %8 = weft.reduce_sum %7, dims = [2] : tensor<70x35x83xf32>
      %9 = weft.sqrt %8 : tensor<70x35xf32>)",
     "%9: tensor<70x35xf32>"},
    {"PairsOfBatches",
     "%x: tensor<3x18x300xbf16>, %y: tensor<3x21x300xbf16>, %r: tensor<3x18x21xf32>",
     R"(
      %0 = weft.reshape %x : tensor<3x18x300xbf16> to tensor<3x18x1x300xbf16>
      %1 = weft.broadcast %0 : tensor<3x18x1x300xbf16> to tensor<3x18x21x300xbf16>
      %2 = weft.reshape %y : tensor<3x21x300xbf16> to tensor<3x1x21x300xbf16>
      %3 = weft.broadcast %2 : tensor<3x1x21x300xbf16> to tensor<3x18x21x300xbf16>
      %4 = weft.maximum %1, %3 : tensor<3x18x21x300xbf16>
      %5 = weft.cast %4 : tensor<3x18x21x300xbf16> to tensor<3x18x21x300xf32>
      %6 = weft.reduce_sum %5, dims = [3] : tensor<3x18x21x300xf32>
      %7 = weft.add %6, %r : tensor<3x18x21xf32>
      %8 = weft.reduce_max %7, dims = [0, 1, 2] : tensor<3x18x21xf32>)",
     "%7: tensor<3x18x21xf32>, %8: tensor<f32>"},
    {"Columns", "%x: tensor<203x5001xf32>", R"(
      %0 = weft.abs %x : tensor<203x5001xf32>
      %1 = weft.reduce_sum %0, dims = [0] : tensor<203x5001xf32>)",
     "%1: tensor<5001xf32>"},
    {"RowsAndColumns", "%x: tensor<203x101xf32>", R"(
      %0 = weft.reduce_sum %x, dims = [1] : tensor<203x101xf32>
      %1 = weft.reshape %0 : tensor<203xf32> to tensor<203x1xf32>
      %2 = weft.broadcast %1 : tensor<203x1xf32> to tensor<203x101xf32>
      %3 = weft.mul %x, %2 : tensor<203x101xf32>
      %4 = weft.reduce_sum %3, dims = [0] : tensor<203x101xf32>)",
     "%3: tensor<203x101xf32>, %4: tensor<101xf32>"},
    {"Middle", "%x: tensor<6x45x203xf32>", R"(
      %0 = weft.exp %x : tensor<6x45x203xf32>
      %1 = weft.reduce_sum %0, dims = [1] : tensor<6x45x203xf32>)",
     "%1: tensor<6x203xf32>"},
    {"SideBySide", "%x: tensor<6x45x203xf32>", R"(
      %0 = weft.reduce_max %x, dims = [1] : tensor<6x45x203xf32>
      %1 = weft.reshape %0 : tensor<6x203xf32> to tensor<6x1x203xf32>
      %2 = weft.broadcast %1 : tensor<6x1x203xf32> to tensor<6x45x203xf32>
      %3 = weft.sub %x, %2 : tensor<6x45x203xf32>
      %4 = weft.exp %3 : tensor<6x45x203xf32>
      %5 = weft.reduce_sum %4, dims = [1] : tensor<6x45x203xf32>)",
     "%4: tensor<6x45x203xf32>, %5: tensor<6x203xf32>"},
    {"ScanOfColumns", "%x: tensor<3x45x303xf32>", R"(
      %0 = weft.cumsum %x, dim = 1 : tensor<3x45x303xf32>)",
     "%0: tensor<3x45x303xf32>"},
    {"RecurrenceOfColumns", "%x: tensor<3x45x303xf32>, %y: tensor<3x45x303xf32>", R"(
      %0 = weft.recurrence %x, %y, dim = 1 {reverse = true} : tensor<3x45x303xf32>)",
     "%0: tensor<3x45x303xf32>"},
    {"Matmul", "%x: tensor<2x37x300xf64>, %y: tensor<2x300x75xf64>", R"(
      %0 = weft.matmul %x, %y : tensor<2x37x300xf64>, tensor<2x300x75xf64>)",
     "%0: tensor<2x37x75xf64>"},
    {"MatmulTransposed", "%x: tensor<37x45xf32>, %y: tensor<75x45xf32>", R"(
      %0 = weft.matmul %x, %y {transpose_rhs = true} : tensor<37x45xf32>, tensor<75x45xf32>)",
     "%0: tensor<37x75xf32>"},
};

// The kernel with these choices pinned, which it must be able to have.
std::unique_ptr<TestKernel> build(ir::FusionOp fusion, llvm::ArrayRef<ScheduleChoice> pins) {
  fusion->setAttr(kScheduleAttr, scheduleAttr(fusion.getContext(), pins));
  std::string error;
  auto kernel = TestKernel::build(fusion, error);
  EXPECT_TRUE(kernel) << error;
  return kernel;
}

std::string textOf(llvm::ArrayRef<ScheduleChoice> choices) {
  std::string text;
  for (const ScheduleChoice &choice : choices)
    text += choice.name + " = " + choice.value + ", ";
  return text;
}

class ScheduleTest : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    parsed = parseFusion(GetParam().signature, GetParam().body, GetParam().results);
    ASSERT_TRUE(parsed->fusion);
    kernel = build(parsed->fusion, {});
    ASSERT_TRUE(kernel);
    for (mlir::Type type : parsed->fusion.getInputs().getTypes())
      inputs.push_back(sample(type, inputs.size() + 1));
    ASSERT_EQ(kernel->run(inputs, expected), WEFT_KERNEL_OK);
  }

  void expectSameBits(TestKernel &other) {
    for (int64_t parts : {1, 5}) {
      std::vector<HostTensor> results;
      ASSERT_EQ(other.run(inputs, results, parts), WEFT_KERNEL_OK);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(tests::compareExact(results[i], expected[i]), "")
            << "result " << i << " in " << parts << " ranges of pieces";
    }
    for (auto pair : other.info.inPlace) {
      std::vector<HostTensor> results;
      ASSERT_EQ(other.run(inputs, results, 3, pair), WEFT_KERNEL_OK);
      EXPECT_EQ(tests::compareExact(results[0], expected[0]), "") << "in place";
    }
  }

  std::unique_ptr<ParsedFusion> parsed;
  std::unique_ptr<TestKernel> kernel;
  llvm::SmallVector<HostTensor> inputs;
  std::vector<HostTensor> expected;
};

TEST_P(ScheduleTest, EachValueOfEachChoiceGivesTheSameBits) {
  EXPECT_FALSE(kernel->info.schedule.empty());
  for (const ScheduleChoice &choice : kernel->info.schedule)
    for (const std::string &value : choice.legal) {
      if (value == choice.value)
        continue;
      ScheduleChoice pin{choice.name, value, {}};
      SCOPED_TRACE(textOf(pin));
      auto other = build(parsed->fusion, pin);
      ASSERT_TRUE(other);
      EXPECT_TRUE(other->info.refusedPins.empty()) << other->info.refusedPins[0];
      EXPECT_TRUE(llvm::any_of(other->info.schedule, [&](const ScheduleChoice &made) {
        return made.name == choice.name && made.value == value;
      }));
      expectSameBits(*other);
    }
}

TEST_P(ScheduleTest, SoDoSeveralTogether) {
  std::mt19937 random(7);
  for (int i = 0; i < 6; ++i) {
    // From what the last one could have: another body has other choices.
    std::vector<ScheduleChoice> pins = kernel->info.schedule;
    for (ScheduleChoice &pin : pins)
      pin.value = pin.legal[random() % pin.legal.size()];
    SCOPED_TRACE(textOf(pins));
    auto other = build(parsed->fusion, pins);
    ASSERT_TRUE(other);
    expectSameBits(*other);
    kernel = std::move(other);
  }
}

TEST_P(ScheduleTest, WhatWasChosenCanBePinned) {
  auto again = build(parsed->fusion, kernel->info.schedule);
  ASSERT_TRUE(again);
  EXPECT_EQ(textOf(again->info.schedule), textOf(kernel->info.schedule));
  EXPECT_TRUE(again->info.refusedPins.empty());
}

INSTANTIATE_TEST_SUITE_P(Kernels, ScheduleTest, testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

// What differs from row to row is turned once for many others.
TEST(Schedule, PairsOfRowsAreOneBody) {
  for (const Case &one : kCases) {
    auto parsed = parseFusion(one.signature, one.body, one.results);
    auto kernel = build(parsed->fusion, {});
    ASSERT_TRUE(kernel);
    auto choice = llvm::find_if(kernel->info.schedule, [](const ScheduleChoice &each) {
      return each.name == "body" && llvm::is_contained(each.legal, "pairs");
    });
    EXPECT_EQ(choice != kernel->info.schedule.end(), llvm::StringRef(one.name).starts_with("Pairs"))
        << one.name;
  }
}

// A choice that no kernel has would be a name without a meaning.
TEST(Schedule, AllChoicesAreMade) {
  std::set<std::string> seen;
  for (const Case &one : kCases) {
    auto parsed = parseFusion(one.signature, one.body, one.results);
    auto kernel = build(parsed->fusion, {});
    ASSERT_TRUE(kernel);
    for (const ScheduleChoice &choice : kernel->info.schedule) {
      seen.insert(choice.name);
      if (choice.name != "body")
        continue;
      for (const std::string &body : choice.legal) {
        auto other = build(parsed->fusion, ScheduleChoice{"body", body, {}});
        ASSERT_TRUE(other);
        for (const ScheduleChoice &made : other->info.schedule)
          seen.insert(made.name);
      }
    }
  }
  for (const ChoiceName &choice : choiceNames())
    EXPECT_TRUE(seen.contains(choice.name.str())) << choice.name.str();
  EXPECT_EQ(seen.size(), choiceNames().size());
}

TEST(Schedule, PinsThatAKernelCannotHaveAreNotTaken) {
  auto parsed = parseFusion("%x: tensor<40x30xf32>", "%0 = weft.exp %x : tensor<40x30xf32>",
                            "%0: tensor<40x30xf32>");
  auto plain = build(parsed->fusion, {});
  auto kernel = build(parsed->fusion, {{"vectors", "3", {}}, {"rows", "4", {}}, {"rws", "4", {}}});
  ASSERT_TRUE(plain && kernel);
  EXPECT_EQ(textOf(kernel->info.schedule), textOf(plain->info.schedule));
  ASSERT_EQ(kernel->info.refusedPins.size(), 3u);
  EXPECT_EQ(kernel->info.refusedPins[0], "vectors = 3 is none of 1, 2, 4, 8");
  EXPECT_EQ(kernel->info.refusedPins[1].find("the kernel has no choice 'rows', but vectors"), 0u);
  EXPECT_EQ(kernel->info.refusedPins[2].find("there is no choice 'rws'; there are body, "), 0u);
}

} // namespace
} // namespace weft::compiler
