#include "tools/opgen/Records.h"

#include <algorithm>
#include <stdexcept>

namespace weft::opgen {

using nlohmann::json;

static const char *const kRules[] = {"derivative", "evaluation", "decomposition", "lowering",
                                     "statement"};

const std::vector<std::string> &kindNames() {
  static const std::vector<std::string> names{"Creation", "Elementwise", "Movement", "Reduction",
                                              "Scan",     "Contraction", "Gather",   "Scatter",
                                              "Random",   "Composite",   "Exchange", "Structure"};
  return names;
}

const Rule &OpRecord::rule(const std::string &name) const {
  auto found =
      std::find_if(rules.begin(), rules.end(), [&](const Rule &rule) { return rule.name == name; });
  if (found == rules.end())
    throw std::logic_error("no rule is called " + name);
  return *found;
}

namespace {

// Reads one record and collects what it lacks.
class Reader {
public:
  Reader(const json &dump, const std::string &record, std::vector<std::string> &errors)
      : dump_(dump), fields_(dump.at(record)), record_(record), errors_(errors) {}

  OpRecord read();

private:
  void error(const std::string &field, const std::string &what) {
    errors_.push_back(record_ + ": field '" + field + "' " + what);
  }
  // The definition that a field refers to, or null where the field is unset.
  const json *definition(const json &value) const {
    if (!value.is_object() || !value.contains("def"))
      return nullptr;
    return &dump_.at(value.at("def").get<std::string>());
  }
  const json *definitionField(const std::string &field) {
    const json *found = fields_.contains(field) ? definition(fields_.at(field)) : nullptr;
    if (!found)
      error(field, "is not set");
    return found;
  }
  static std::string text(const json &object, const std::string &field) {
    return object.contains(field) && object.at(field).is_string()
               ? object.at(field).get<std::string>()
               : std::string();
  }
  std::string required(const std::string &field) {
    std::string value = text(fields_, field);
    if (value.empty())
      error(field, "is not set");
    return value;
  }
  static bool isA(const json &definition, const std::string &superclass) {
    const json &all = definition.at("!superclasses");
    return std::find(all.begin(), all.end(), superclass) != all.end();
  }

  void readRules(OpRecord &op);
  void readTests(OpRecord &op);
  void readTraits(OpRecord &op);
  void readAttribute(const json &constraint, Argument &argument);
  std::vector<Argument> readArguments(const std::string &field);

  const json &dump_;
  const json &fields_;
  std::string record_;
  std::vector<std::string> &errors_;
};

OpRecord Reader::read() {
  OpRecord op;
  op.record = record_;
  op.className = record_.substr(record_.find('_') + 1);
  op.mnemonic = required("opName");
  op.summary = required("summary");
  op.description = text(fields_, "description");
  if (const json *kind = definitionField("kind"))
    op.kind = text(*kind, "name");
  if (const json *frontend = definitionField("frontend"))
    op.frontend = text(*frontend, "kind");
  for (const char *superclass : {"Weft_UnaryOp", "Weft_BinaryOp"})
    if (isA(fields_, superclass))
      required("reference"), required("scalar");
  readRules(op);
  readTests(op);
  readTraits(op);
  op.arguments = readArguments("arguments");
  op.results = readArguments("results");
  auto numbers = [&](const char *field) {
    return fields_.at(field).get<std::vector<int64_t>>();
  };
  op.savesOperands = numbers("savesOperands");
  op.savesResults = numbers("savesResults");
  op.specialize = numbers("specialize");
  return op;
}

void Reader::readRules(OpRecord &op) {
  for (const char *name : kRules) {
    const json *rule = definitionField(name);
    if (!rule)
      continue;
    op.rules.push_back({name, text(*rule, "kind"), text(*rule, "text")});
    const Rule &read = op.rules.back();
    if (read.kind.empty())
      error(name, "is no rule: use Inline, InFile, ByDecomposition, Deferred, NotApplicable or "
                  "NotDifferentiable");
    else if (read.kind == "inline" && read.text.empty())
      error(name, "is Inline without a body");
    else if ((read.kind == "deferred" || read.kind == "none") && read.text.empty())
      error(name, "says that there is no rule, but not why: give the reason");
  }
}

void Reader::readTests(OpRecord &op) {
  const json *tests = definitionField("tests");
  if (!tests)
    return;
  op.ulp = tests->at("ulp").get<int64_t>();
  op.untested = text(*tests, "untested");
  for (const json &domain : tests->at("domains")) {
    const json *row = definition(domain);
    op.domains.push_back({text(*row, "lowest"), text(*row, "highest")});
  }
  if (op.untested.empty() && op.domains.empty())
    error("tests", "has neither a domain nor a reason why the op is not tested");
}

void Reader::readTraits(OpRecord &op) {
  for (const json &entry : fields_.at("traits")) {
    std::string name = entry.at("def").get<std::string>();
    op.sizesSegments |= name == "AttrSizedOperandSegments";
    op.infersResults |= name == "InferTypeOpAdaptor" || name == "SameOperandsAndResultType";
    if (const json &trait = *definition(entry); isA(trait, "AllTypesMatch")) {
      const json &values = trait.at("values");
      op.infersResults |= std::find(values.begin(), values.end(), "result") != values.end();
    }
  }
}

void Reader::readAttribute(const json &constraint, Argument &argument) {
  std::string storage = text(constraint, "storageType");
  argument.storage = storage.substr(storage.rfind(':') + 1);
  argument.storage.erase(argument.storage.find_last_not_of(' ') + 1);
  if (!isA(constraint, "EnumAttrInfo"))
    return;
  argument.enumeration = text(constraint, "className");
  for (const json &entry : constraint.at("enumerants"))
    argument.cases.push_back(text(*definition(entry), "symbol"));
}

std::vector<Argument> Reader::readArguments(const std::string &field) {
  std::vector<Argument> arguments;
  for (const json &entry : fields_.at(field).at("args")) {
    const json *constraint = definition(entry.at(0));
    Argument argument;
    argument.name = entry.at(1).is_string() ? entry.at(1).get<std::string>() : std::string();
    if (argument.name.empty())
      error(field, "has an entry without a name");
    if (isA(*constraint, "DefaultValuedAttr"))
      argument.defaultValue = text(*constraint, "defaultValue");
    argument.isOptional = isA(*constraint, "Optional") || isA(*constraint, "OptionalAttr");
    argument.isVariadic = isA(*constraint, "Variadic");
    argument.isAttribute = isA(*constraint, "AttrConstraint") || isA(*constraint, "Property");
    argument.constraint = text(*constraint, "summary");
    if (argument.isAttribute) {
      readAttribute(*constraint, argument);
    } else {
      if (argument.isOptional || argument.isVariadic)
        constraint = definition(constraint->at("baseType"));
      argument.dtypes = text(*constraint, "dtypes");
      if (argument.dtypes.empty())
        error(field, "has '" + argument.name +
                         "', which is no tensor of the dialect (use a Weft_TensorOf)");
    }
    arguments.push_back(argument);
  }
  return arguments;
}

} // namespace

std::vector<OpRecord> readRecords(const json &dump, std::vector<std::string> &errors) {
  std::vector<OpRecord> ops;
  std::vector<std::string> names =
      dump.at("!instanceof").at("Weft_Op").get<std::vector<std::string>>();
  if (names.empty())
    errors.push_back("there are no records of the class Weft_Op");
  for (const std::string &name : names)
    ops.push_back(Reader(dump, name, errors).read());
  // By kind, and within it by place: the files' order reads better than the alphabet. Locations are
  // FILE:LINE.
  const std::vector<std::string> &kinds = kindNames();
  auto place = [&](const OpRecord &op) {
    std::string location = dump.at(op.record).at("!locs").at(0).get<std::string>();
    size_t colon = location.rfind(':');
    return std::make_tuple(std::find(kinds.begin(), kinds.end(), op.kind),
                           location.substr(0, colon), std::stol(location.substr(colon + 1)));
  };
  std::sort(ops.begin(), ops.end(),
            [&](const OpRecord &a, const OpRecord &b) { return place(a) < place(b); });
  return ops;
}

} // namespace weft::opgen
