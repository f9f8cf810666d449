// What compiling a slice gives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/backend/CompileReport.h"

namespace weft::runtime {
class Executable;
}

namespace weft::recorder {

struct CompiledProgram {
  std::shared_ptr<runtime::Executable> executable;
  // Apart from the program, so that a record of an evaluation does not keep the code.
  std::shared_ptr<compiler::CompileReport> report = std::make_shared<compiler::CompileReport>();
  std::string backend; // what made it
  int64_t bytes = 0;   // an estimate of what it holds
  // "train.cpp:12", of its ops that may end a run: its failures have these lines, which are those
  // of the slice that it was compiled for, maybe in another process.
  std::vector<std::string> check_places;
};

} // namespace weft::recorder
