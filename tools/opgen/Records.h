// The op records of the dialect, read from the JSON that `llvm-tblgen --dump-json` makes of them.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace weft::opgen {

// How a record gives a rule: its kind ("inline", "file", "decomposition", "deferred" or "none")
// and, for the last two, why there is none.
struct Rule {
  std::string name, kind, text;
};

struct Argument {
  std::string name;
  std::string constraint;   // what it must be, in words
  std::string dtypes;       // of an operand: the constraint's name in the op table
  std::string defaultValue; // of an attribute; empty for none
  std::string storage;      // of an attribute: MLIR's class, without its namespace
  std::string enumeration;  // of an attribute that is a case of one: its name and its cases
  std::vector<std::string> cases;
  bool isAttribute = false, isOptional = false, isVariadic = false;
};

struct Domain {
  std::string lowest, highest;
};

struct OpRecord {
  std::string record;    // Weft_LogOp
  std::string className; // LogOp
  std::string mnemonic;  // log
  std::string kind;      // Elementwise
  std::string frontend;  // unary, binary, handwritten, recorder or internal
  std::string summary, description;
  std::vector<Argument> arguments, results; // operands and attributes in the order of the record
  std::vector<Rule> rules;
  std::vector<int64_t> savesOperands, savesResults, specialize;
  std::vector<Domain> domains; // one for each operand, or one for all
  std::string untested;        // why the op table leaves it out; else empty
  int64_t ulp = 0;
  bool infersResults = false; // their types follow from operands and attributes
  bool sizesSegments = false; // a property says which operands are there

  const Rule &rule(const std::string &name) const;
};

// The records, sorted by kind (in the order of kindNames()) and place in the files. Each thing that
// a record must have and lacks is one line in `errors`, which names the record and the field.
std::vector<OpRecord> readRecords(const nlohmann::json &dump, std::vector<std::string> &errors);

// The kinds of ops, in the order of the docs.
const std::vector<std::string> &kindNames();

} // namespace weft::opgen
