// opgen: checks the op records and writes what is made from them. Usage: opgen RECORDS.json
// docs|table|frontend|recorder-header|recorder > OUTPUT Exit code 1, with a line for each record
// and field, when a record lacks something; 2 for wrong usage or an unreadable dump.
#include <fstream>
#include <iostream>

#include "tools/opgen/Emit.h"

int main(int argc, char **argv) try {
  using namespace weft::opgen;
  std::string what = argc == 3 ? argv[2] : "";
  auto *emit = what == "docs"              ? emitDocs
               : what == "table"           ? emitTable
               : what == "frontend"        ? emitFrontend
               : what == "recorder-header" ? emitRecorderHeader
               : what == "recorder"        ? emitRecorder
                                           : nullptr;
  if (!emit) {
    std::cerr << "usage: opgen RECORDS.json docs|table|frontend|recorder-header|recorder\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  if (!file) {
    std::cerr << "opgen: cannot read " << argv[1] << "\n";
    return 2;
  }
  std::vector<std::string> errors;
  std::vector<OpRecord> ops = readRecords(nlohmann::json::parse(file), errors);
  for (const std::string &error : errors)
    std::cerr << "op record " << error << "\n";
  if (!errors.empty())
    return 1;
  std::cout << emit(ops);
  return 0;
} catch (const std::exception &error) {
  std::cerr << "opgen: " << error.what() << "\n";
  return 2;
}
