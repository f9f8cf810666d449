#include <algorithm>

#include "tools/opgen/Emit.h"

namespace weft::opgen {

static std::string names(const std::vector<Argument> &arguments,
                         const std::vector<int64_t> &indices) {
  std::string text;
  for (int64_t i : indices) {
    // The last one may stand for any number of them.
    bool more = i >= static_cast<int64_t>(arguments.size()) && !arguments.empty() &&
                arguments.back().isVariadic;
    if (!more)
      text += (text.empty() ? "`" : ", `") + arguments.at(i).name + "`";
  }
  return text;
}

static std::vector<Argument> operandsOf(const OpRecord &op) {
  std::vector<Argument> operands;
  std::copy_if(op.arguments.begin(), op.arguments.end(), std::back_inserter(operands),
               [](const Argument &a) { return !a.isAttribute; });
  return operands;
}

// The description without the indentation that it has in the record.
static std::string unindented(const std::string &text) {
  std::string out;
  bool lineStart = true;
  for (char c : text) {
    if (lineStart && c == ' ')
      continue;
    lineStart = c == '\n';
    out += c;
  }
  size_t first = out.find_first_not_of('\n'), last = out.find_last_not_of('\n');
  return first == std::string::npos ? "" : out.substr(first, last - first + 1);
}

static std::string ruleText(const Rule &rule) {
  if (rule.kind == "inline" || rule.kind == "file")
    return "yes";
  if (rule.kind == "decomposition")
    return rule.text;
  return (rule.kind == "deferred" ? "not yet: " : "none: ") + rule.text;
}

static void emitOp(const OpRecord &op, std::string &out) {
  out += "### `weft." + op.mnemonic + "`\n\n";
  std::string summary = op.summary;
  if (summary.back() != '.')
    summary += '.';
  summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
  out += summary + "\n\n";
  if (std::string description = unindented(op.description); !description.empty())
    out += description + "\n\n";

  out += "| | name | what |\n|---|---|---|\n";
  for (const Argument &argument : op.arguments) {
    std::string role = argument.isAttribute  ? "attribute"
                       : argument.isVariadic ? "operands"
                       : argument.isOptional ? "optional operand"
                                             : "operand";
    out += "| " + role + " | `" + argument.name + "` | " + argument.constraint;
    if (!argument.defaultValue.empty())
      out += "; default `" + argument.defaultValue + "`";
    out += " |\n";
  }
  for (const Argument &result : op.results)
    out += std::string("| ") + (result.isVariadic ? "results" : "result") + " | `" + result.name +
           "` | " + result.constraint + " |\n";
  out += "\n";

  out += "| rule | |\n|---|---|\n";
  for (const Rule &rule : op.rules) {
    out += "| " + rule.name + " | " + ruleText(rule);
    if (rule.name == "derivative" && (!op.savesOperands.empty() || !op.savesResults.empty())) {
      std::string saved = names(operandsOf(op), op.savesOperands),
                  results = names(op.results, op.savesResults);
      out += "; saves " + saved + (saved.empty() || results.empty() ? "" : ", ") + results;
    }
    out += " |\n";
  }
  if (!op.specialize.empty())
    out += "| constant until a second value is seen | " + names(operandsOf(op), op.specialize) +
           " |\n";
  out += "\n";
}

std::string emitDocs(const std::vector<OpRecord> &ops) {
  std::string out = "# Ops of the `weft` dialect\n\n"
                    "Generated from the op records in `dialects/weft/ir/*.td` by `tools/opgen`; "
                    "`bazel run //tools/opgen:update_docs` writes it anew.\n\n"
                    "Ops are pure functions of ranked tensors. Broadcasting and dtype conversion "
                    "are ops of their own (`weft.broadcast`, `weft.cast`);\n"
                    "a dynamic dim has a name, `tensor<?x128xf32, #weft.dims<n, _>>`, and equal "
                    "names are equal sizes.\n";
  for (const std::string &kind : kindNames()) {
    out += "\n## " + kind + "\n\n";
    for (const OpRecord &op : ops)
      if (op.kind == kind)
        emitOp(op, out);
    out.pop_back(); // one blank line between sections
  }
  return out;
}

} // namespace weft::opgen
