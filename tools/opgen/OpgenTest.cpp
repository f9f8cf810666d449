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

void expectIn(const std::string &text, std::initializer_list<const char *> parts) {
  for (const char *part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Emit, RecorderDeclaresAFunctionForEachOp) {
  std::string text = emitted(emitRecorderHeader);
  expectIn(text, {"// weft.log: the natural logarithm; NaN below 0, -inf at 0\n"
                  "Var emit_log(const Var &input);\n",
                  // Defaults come last, optional attributes among them.
                  "Var emit_check_index(const Var &input, int64_t size, std::string_view user,\n"
                  "    std::optional<int64_t> ignore_index = std::nullopt);\n",
                  // No rule says what its result is.
                  "Var emit_reshape_as(const Var &input, const TypeInfo *type);\n",
                  "Var emit_iota_as(const TypeInfo *type, int64_t dim);\n",
                  "Var emit_concat(std::span<const Var> inputs, int64_t dim);\n",
                  "std::array<Var, 3> emit_layer_norm(const Var &input, const Var &weight, ",
                  "enum class Combiner : uint32_t { kProd, kMax, kMin };\n",
                  "Var emit_scatter_reduce(attributes::Combiner combiner, const Var &base, "});
  // Their functions are written by hand; no call records the last.
  for (const char *name : {"emit_constant", "emit_transfer", "emit_custom", "emit_fusion"})
    EXPECT_EQ(text.find(name), std::string::npos) << name;
}

TEST(Emit, RecorderDefinesWhatItDeclares) {
  expectIn(emitted(emitRecorder),
           {"  return emit<ir::LogOp>({&input}, nullptr);\n",
            "  p.user = attribute(caller(user));\n",
            "  p.direction = attribute<ir::DirectionAttr>(direction);\n",
            "  return emit<ir::ReshapeOp>({&input}, type);\n",
            "  return emit<ir::ConcatOp>(pointers(inputs), nullptr, p);\n",
            "  p.operandSegmentSizes = {1, weight ? 1 : 0, bias ? 1 : 0};\n"
            "  return emit<ir::LayerNormOp, 3>(given({&input, &weight, &bias}), nullptr, p);\n",
            "  if (emit == emit_pow)\n    return 2;\n"});
}

TEST(Emit, AnAttributeOfAnUnknownTypeIsNamed) {
  nlohmann::json dump = records;
  dump["DenseI64ArrayAttr"]["storageType"] = "::mlir::AffineMapAttr";
  std::vector<std::string> errors;
  std::vector<OpRecord> ops = readRecords(dump, errors);
  try {
    emitRecorderHeader(ops);
    ADD_FAILURE() << "it is taken";
  } catch (const std::exception &error) {
    EXPECT_EQ(std::string(error.what()),
              "weft.transpose: no C++ type stands for 'permutation', an AffineMapAttr; give the "
              "record `frontend = Recorder` and write its function in "
              "frontend/recorder/record/emit.cpp");
  }
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
