#include <algorithm>
#include <stdexcept>

#include "tools/opgen/Emit.h"

namespace weft::opgen {
namespace {

bool isRecorded(const OpRecord &op) {
  return op.frontend == "unary" || op.frontend == "binary" || op.frontend == "handwritten";
}

std::string enumerator(const std::string &symbol) {
  return std::string("k") + static_cast<char>(std::toupper(symbol[0])) + symbol.substr(1);
}

// What a call gives for the attribute.
std::string attributeType(const OpRecord &op, const Argument &argument) {
  static const std::pair<const char *, const char *> types[] = {
      {"BoolAttr", "bool"},
      {"IntegerAttr", "int64_t"},
      {"FloatAttr", "double"},
      {"StringAttr", "std::string_view"},
      {"DenseI64ArrayAttr", "std::span<const int64_t>"}};
  std::string type = argument.enumeration.empty() ? "" : "attributes::" + argument.enumeration;
  for (const auto &[storage, name] : types)
    if (argument.storage == storage)
      type = name;
  if (type.empty())
    throw std::runtime_error("weft." + op.mnemonic + ": no C++ type stands for '" + argument.name +
                             "', an " + argument.storage +
                             "; give the record `frontend = Recorder` and write its function in "
                             "frontend/recorder/record/emit.cpp");
  return argument.isOptional ? "std::optional<" + type + ">" : type;
}

std::string parameter(const OpRecord &op, const Argument &argument) {
  std::string type = argument.isAttribute  ? attributeType(op, argument) + " "
                     : argument.isVariadic ? "std::span<const Var> "
                                           : "const Var &";
  return type + argument.name;
}

// "" for a parameter that each call gives.
std::string defaultOf(const Argument &argument) {
  if (!argument.isAttribute)
    return "";
  if (argument.isOptional)
    return "std::nullopt";
  return argument.defaultValue;
}

// In lines that leave room for one more character in 100 columns; all but the first begin with
// `indent`. They are cut at spaces behind `mark`.
std::string wrapped(const std::string &text, const std::string &indent, const std::string &mark) {
  std::string out, line;
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    size_t cut = text.find(mark + " ", begin);
    end = cut == std::string::npos ? text.size() : cut + mark.size() + 1;
    if (line.size() + end - begin > 99) {
      out += line.substr(0, line.size() - 1) + "\n";
      line = indent;
    }
    line += text.substr(begin, end - begin);
  }
  return out + line;
}

std::string comment(const std::string &text) {
  return wrapped("// " + text, "// ", "") + "\n";
}

std::string declaration(const OpRecord &op, bool withDefaults) {
  std::string given, last;
  auto add = [](std::string &list, const std::string &text) {
    list += (list.empty() ? "" : ", ") + text;
  };
  auto isOperand = [](const Argument &argument) {
    return !argument.isAttribute;
  };
  auto left = std::count_if(op.arguments.begin(), op.arguments.end(), isOperand);
  if (left == 0 && !op.infersResults)
    given = "const TypeInfo *type";
  for (const Argument &argument : op.arguments) {
    std::string value = defaultOf(argument);
    add(value.empty() ? given : last,
        parameter(op, argument) + (withDefaults && !value.empty() ? " = " + value : ""));
    if (isOperand(argument) && --left == 0 && !op.infersResults)
      add(given, "const TypeInfo *type");
  }
  if (!last.empty())
    add(given, last);
  size_t results = op.results.size();
  return wrapped((results == 1 ? "Var" : "std::array<Var, " + std::to_string(results) + ">") +
                     " emit_" + op.mnemonic + (op.infersResults ? "(" : "_as(") + given + ")",
                 "    ", ",");
}

std::string property(const Argument &argument) {
  std::string value = argument.name == "user" ? "caller(user)" : argument.name;
  value = argument.enumeration.empty() ? "attribute(" + value + ")"
                                       : "attribute<ir::" + argument.storage + ">(" + value + ")";
  return "  p." + argument.name + " = " + value + ";\n";
}

// The operands as a list of pointers, and as the numbers of each that are there.
std::pair<std::string, std::string> operandLists(const OpRecord &op) {
  std::string pointers, sizes, kind;
  for (const Argument &argument : op.arguments) {
    if (argument.isAttribute)
      continue;
    std::string comma = pointers.empty() ? "" : ", ";
    pointers += comma + (argument.isVariadic ? argument.name : "&" + argument.name);
    sizes += comma + (argument.isOptional ? argument.name + " ? 1 : 0" : std::string("1"));
    kind = argument.isVariadic ? "each" : argument.isOptional ? "given" : kind;
  }
  if (kind == "each")
    return {"pointers(" + pointers + ")", sizes};
  return {kind.empty() ? "{" + pointers + "}" : kind + "({" + pointers + "})", sizes};
}

std::string definition(const OpRecord &op) {
  auto [operands, sizes] = operandLists(op);
  std::string properties;
  for (const Argument &argument : op.arguments)
    if (argument.isAttribute)
      properties += property(argument);
  if (op.sizesSegments)
    properties += "  p.operandSegmentSizes = {" + sizes + "};\n";
  std::string name = "ir::" + op.className, results = std::to_string(op.results.size());
  return declaration(op, /*withDefaults=*/false) + " {\n" +
         (properties.empty() ? "" : "  " + name + "::Properties p;\n" + properties) +
         "  return emit<" + name + (results == "1" ? "" : ", " + results) + ">(" + operands + ", " +
         (op.infersResults ? "nullptr" : "type") + (properties.empty() ? "" : ", p") + ");\n}\n";
}

// The enumerations of attributes, each where an op first has it.
std::string enumerations(const std::vector<OpRecord> &ops) {
  std::string out;
  std::vector<std::string> known;
  for (const OpRecord &op : ops)
    for (const Argument &argument : op.arguments) {
      if (argument.enumeration.empty() ||
          std::find(known.begin(), known.end(), argument.enumeration) != known.end())
        continue;
      known.push_back(argument.enumeration);
      std::string cases;
      for (const std::string &symbol : argument.cases)
        cases += (cases.empty() ? "" : ", ") + enumerator(symbol);
      out += comment(argument.constraint) + "enum class " + argument.enumeration +
             " : uint32_t { " + cases + " };\n";
    }
  return out;
}

const char *const kGenerated = "// Generated from the op records by tools/opgen.\n";

} // namespace

std::string emitRecorderHeader(const std::vector<OpRecord> &ops) {
  std::string out = std::string(kGenerated) + "#pragma once\n\n"
                    "#include <array>\n#include <optional>\n#include <span>\n"
                    "#include <string_view>\n\n#include \"frontend/recorder/record/recorder.h\"\n\n"
                    "namespace weft::recorder {\nnamespace attributes {\n" +
                    enumerations(ops) + "} // namespace attributes\n\n";
  for (const OpRecord &op : ops)
    if (isRecorded(op))
      out += comment("weft." + op.mnemonic + ": " + op.summary) + declaration(op, true) + ";\n";
  return out + "\n// The operands that the op's record marks `specialize`, a bit each.\n"
               "uint32_t specialized_operands(Var (*emit)(const Var &, const Var &));\n\n"
               "} // namespace weft::recorder\n";
}

std::string emitRecorder(const std::vector<OpRecord> &ops) {
  std::string out = kGenerated, specialized;
  for (const OpRecord &op : ops) {
    if (!isRecorded(op))
      continue;
    out += definition(op);
    uint32_t bits = 0;
    for (int64_t operand : op.specialize)
      bits |= uint32_t(1) << operand;
    if (bits != 0)
      specialized += "  if (emit == emit_" + op.mnemonic + ")\n    return " +
                     std::to_string(bits) + ";\n";
  }
  return out + "uint32_t specialized_operands(Var (*emit)(const Var &, const Var &)) {\n" +
         specialized + "  return 0;\n}\n";
}

} // namespace weft::opgen
