#include <fstream>

#include <gtest/gtest.h>

#include "tools/opgen/Emit.h"

namespace weft::opgen {
namespace {

nlohmann::json records;

std::vector<std::string> errorsOf(const nlohmann::json &dump) {
  std::vector<std::string> errors;
  readRecords(dump, errors);
  return errors;
}

TEST(Records, OfTheDialectAreComplete) {
  EXPECT_EQ(errorsOf(records), std::vector<std::string>());
}

TEST(Records, EachFieldThatIsUnsetIsNamed) {
  for (const char *field : {"derivative", "evaluation", "decomposition", "lowering", "statement",
                            "summary", "frontend", "tests", "kind", "reference"}) {
    nlohmann::json dump = records;
    dump["Weft_LogOp"][field] = nullptr;
    EXPECT_EQ(errorsOf(dump), std::vector<std::string>{std::string("Weft_LogOp: field '") + field +
                                                       "' is not set"});
  }
}

TEST(Records, ARuleThatIsMissingNeedsAReason) {
  for (const char *kind : {"deferred", "none"}) {
    nlohmann::json dump = records;
    dump["NoReason"] = {{"kind", kind}, {"text", ""}};
    dump["Weft_LogOp"]["derivative"] = {{"def", "NoReason"}, {"kind", "def"}};
    EXPECT_EQ(errorsOf(dump),
              std::vector<std::string>{"Weft_LogOp: field 'derivative' says that there is no rule, "
                                       "but not why: give the reason"});
  }
}

TEST(Records, AnInlineRuleNeedsABody) {
  nlohmann::json dump = records;
  dump["Empty"] = {{"kind", "inline"}, {"text", ""}};
  dump["Weft_LogOp"]["lowering"] = {{"def", "Empty"}, {"kind", "def"}};
  EXPECT_EQ(errorsOf(dump),
            std::vector<std::string>{"Weft_LogOp: field 'lowering' is Inline without a body"});
}

std::string emitted(std::string (*emit)(const std::vector<OpRecord> &)) {
  std::vector<std::string> errors;
  return emit(readRecords(records, errors));
}

TEST(Emit, Frontend) {
  std::string text = emitted(emitFrontend);
  EXPECT_NE(
      text.find(
          "WEFT_UNARY(log, Log, floating, \"the natural logarithm; NaN below 0, -inf at 0\")\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("WEFT_BINARY(add, Add, numeric, "), std::string::npos) << text;
  // Handwritten functions stand in the frontend.
  EXPECT_EQ(text.find("gelu"), std::string::npos) << text;
}

TEST(Emit, Table) {
  std::string text = emitted(emitTable);
  EXPECT_NE(
      text.find("WEFT_OP(\"log\", LogOp, Elementwise, \"floating\", true, 1, {0.001, 1000})\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("WEFT_OP(\"layer_norm\", LayerNormOp, Composite, \"floating floating? "
                      "floating?\", true, -1, "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("WEFT_OP(\"concat\", ConcatOp, Movement, \"any*\", true, 0, "),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("\"fusion\""), std::string::npos) << text;
}

TEST(Emit, DocsNameEveryOp) {
  std::string text = emitted(emitDocs);
  for (const auto &name : records["!instanceof"]["Weft_Op"])
    EXPECT_NE(text.find("### `weft." +
                        records[name.get<std::string>()]["opName"].get<std::string>() + "`\n"),
              std::string::npos)
        << name;
  EXPECT_NE(text.find("| derivative | none: bool and integers have no derivative |"),
            std::string::npos);
}

} // namespace
} // namespace weft::opgen

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  std::ifstream file(argc > 1 ? argv[1] : "");
  weft::opgen::records = nlohmann::json::parse(file);
  return RUN_ALL_TESTS();
}
