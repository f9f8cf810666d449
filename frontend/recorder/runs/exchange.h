// Ops that no program holds, since they reach beyond one device: transfers and collectives. Each is
// a run of its own.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "frontend/recorder/runs/evaluation.h"
#include "frontend/recorder/slices/slice.h"
#include "runtime/collective/call.h"
#include "runtime/executor/executor.h"

namespace weft::recorder {

// Why the other ranks are told that a call does not come.
inline constexpr char kLostOperand[] =
    "what it takes was lost when a program of that rank failed; its own error says why";

// A collective as it was recorded.
struct RecordedCollective {
  runtime::CollectiveCall call; // of all elements of the input; no memory yet
  std::string group = {};
  int64_t bytes_in, bytes_out;
  bool may_overwrite = false; // nobody else reads the input
};

// What carries collectives out: frontend/distributed, where a program links it.
class CollectiveRunner {
public:
  virtual ~CollectiveRunner() = default;
  // Says what carries the call out, and whose work it is.
  virtual absl::Status prepare(const RecordedCollective &recorded, FoundProgram &found) = 0;
  // A call of this group that will not be made: the other ranks, who may wait for it, are told.
  virtual void abandon(const std::string &group, const std::string &call_and_why) = 0;
  // What the thread's rank exchanges on.
  virtual std::vector<std::shared_ptr<runtime::Executor>> executors() = 0;
};
// Stays for good.
void set_collective_runner(CollectiveRunner *runner);

// As find_program(), of a slice that is an exchange. Throws kRun where there is no group of the
// name any more.
FoundProgram find_exchange(const Slice &slice, const EvaluateRequest &request);

// Collectives that nobody has asked for yet, in the order of recording: other ranks wait for them,
// whoever reads their results here. They go with the rank's next evaluation, whatever it is for.
void add_pending(std::vector<Value *> &roots);
// Those that are under way are nobody's any more; nor are those that read what a failed run has
// lost, of which the other ranks are told.
void drop_pending();
// Whether the value is the result of a collective that was recorded and is not under way.
bool is_pending(const Value *value);
// The same; and then nobody waits for it any more.
bool forget_pending(const Value *value);
// An evaluation cannot start what the rank's collectives wait for: they end with it, and the other
// ranks are told why.
void abandon_pending(const std::string &why);
// Of the thread's rank.
std::vector<std::shared_ptr<runtime::Executor>> exchange_executors();
// The thread's rank ends: nobody waits for what it has recorded and not run. Takes the lock.
void end_rank();

} // namespace weft::recorder
