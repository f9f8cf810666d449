// How the table of expected refusals is read. What the suite makes of it: refusals_suite_test.
#include "tests/conformance/Refusals.h"

#include "gtest/gtest.h"

namespace weft::tests {
namespace {

const std::vector<std::string> kOps = {"weft.add", "weft.exp", "weft.matmul"};

std::string error_of(const std::string &text) {
  absl::StatusOr<Refusals> table = Refusals::parse(text, kOps);
  return table.ok() ? "" : std::string(table.status().message());
}

TEST(Refusals, EachLineIsEveryCombination) {
  auto table = Refusals::parse("# a comment\n"
                               "\n"
                               "npu, npu unclaimed | add, exp | bfloat16, int8 | no narrow types\n"
                               "npu | matmul | * | no products | at all # yet\n",
                               kOps);
  ASSERT_TRUE(table.ok()) << table.status();
  for (const char *variant : {"npu", "npu unclaimed"})
    for (const char *op : {"add", "exp"})
      for (DType dtype : {DType::kBFloat16, DType::kInt8}) {
        const std::string *reason = table->find(variant, op, dtype);
        ASSERT_NE(reason, nullptr);
        EXPECT_EQ(*reason, "no narrow types");
      }
  for (const DTypeInfo &info : kDTypes) {
    ASSERT_NE(table->find("npu", "matmul", info.dtype), nullptr);
    EXPECT_EQ(*table->find("npu", "matmul", info.dtype), "no products | at all");
    EXPECT_EQ(table->find("npu unclaimed", "matmul", info.dtype), nullptr);
  }
  EXPECT_EQ(table->find("npu", "add", DType::kFloat32), nullptr);
  EXPECT_EQ(table->find("cpu", "add", DType::kInt8), nullptr);
}

TEST(Refusals, AllOpsButSome) {
  auto table = Refusals::parse("npu | * except exp, matmul | int8 | no bytes\n"
                               "tpu | * | bool | no bits\n",
                               kOps);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_NE(table->find("npu", "add", DType::kInt8), nullptr);
  EXPECT_EQ(table->find("npu", "exp", DType::kInt8), nullptr);
  EXPECT_EQ(table->find("npu", "matmul", DType::kInt8), nullptr);
  for (const char *op : {"add", "exp", "matmul"}) {
    EXPECT_NE(table->find("tpu", op, DType::kBool), nullptr);
    EXPECT_EQ(table->find("tpu", op, DType::kInt8), nullptr);
  }
}

TEST(Refusals, WhatCannotBeReadIsNamed) {
  EXPECT_EQ(error_of("npu | add | *"),
            "line 1: expected VARIANT, ... | OP, ... | DTYPE, ... | REASON");
  EXPECT_EQ(error_of("npu | add | * | "), "line 1: a refusal has a reason");
  EXPECT_EQ(error_of("\nnpu | ad | * | no"), "line 2: there is no op 'ad'");
  EXPECT_EQ(error_of("npu | * except ad | * | no"), "line 1: there is no op 'ad'");
  EXPECT_EQ(error_of("npu | add | f32 | no"), "line 1: there is no dtype 'f32'");
  EXPECT_EQ(error_of("npu | add | int8 | no\nnpu | exp, add | * | never"),
            "line 2: npu, add and int8 are there twice");
}

} // namespace
} // namespace weft::tests
