#include "tools/opgen/Emit.h"

namespace weft::opgen {

static std::string quoted(const std::string &text) {
  return nlohmann::json(text).dump();
}

static std::string operandDtypes(const OpRecord &op) {
  std::string text;
  for (const Argument &argument : op.arguments) {
    if (argument.isAttribute)
      continue;
    if (!text.empty())
      text += ' ';
    text += argument.dtypes;
    if (argument.isOptional)
      text += '?';
    if (argument.isVariadic)
      text += '*';
  }
  return text;
}

std::string emitTable(const std::vector<OpRecord> &ops) {
  std::string out = "// Generated from the op records by tools/opgen.\n";
  for (const OpRecord &op : ops) {
    if (!op.untested.empty())
      continue;
    const std::string &derivative = op.rule("derivative").kind;
    bool differentiable = derivative == "inline" || derivative == "file";
    out += "WEFT_OP(" + quoted(op.mnemonic) + ", " + op.className + ", " + op.kind + ", " +
           quoted(operandDtypes(op)) + ", " + (differentiable ? "true" : "false") + ", " +
           std::to_string(op.ulp);
    for (const Domain &domain : op.domains)
      out += ", {" + domain.lowest + ", " + domain.highest + "}";
    out += ")\n";
  }
  return out;
}

std::string emitFrontend(const std::vector<OpRecord> &ops) {
  std::string out = "// Generated from the op records by tools/opgen: WEFT_UNARY(function, record, "
                    "operands, doc) and WEFT_BINARY(...), "
                    "where operands is\n"
                    "// what the op takes: floating, numeric, ...\n";
  for (const OpRecord &op : ops) {
    if (op.frontend != "unary" && op.frontend != "binary")
      continue;
    std::string record = op.className.substr(0, op.className.size() - 2); // without "Op"
    out += (op.frontend == "unary" ? "WEFT_UNARY(" : "WEFT_BINARY(") + op.mnemonic + ", " + record +
           ", " + op.arguments.front().dtypes + ", " + quoted(op.summary) + ")\n";
  }
  return out;
}

} // namespace weft::opgen
