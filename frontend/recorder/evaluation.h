// The record of an evaluation, shared by the values that it computed. Private to this folder.
#pragma once

#include <memory>
#include <mutex>

#include "compiler/backend/CompileReport.h"
#include "runtime/executable/executable.h"
#include "weft/explain.h"

namespace weft::recorder {

// run_ms and failure are written by the thread that runs the program, everything else before it is launched.
class EvaluationRecord {
public:
  Evaluation data;
  bool print = false;
  std::shared_ptr<const compiler::CompileReport> report; // whose remarks become the notes

  void finish(double run_ms, std::string failure, const runtime::PreparedUse &prepared);
  // A copy, with what is known of the run by now.
  Evaluation snapshot() const;

private:
  mutable std::mutex mutex_;
};

// Keeps it among the recent ones.
void keep(std::shared_ptr<EvaluationRecord> record);

} // namespace weft::recorder
