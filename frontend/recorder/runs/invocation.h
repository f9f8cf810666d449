// One run of a program: its inputs are bound, it is launched, its results become values.
#pragma once

#include <memory>
#include <vector>

#include "frontend/recorder/runs/evaluation.h"
#include "runtime/executor/executor.h"
#include "runtime/memory/asking.h"
#include "runtime/memory/buffer.h"

namespace weft::recorder {

enum class Attempt { kFirst, kLast };
// Who keeps others from what an invocation has bound until its results are published.
enum class Guard {
  kLock,  // the recorder's lock
  kClaim, // a claim of the ops: what they read has uses, so that nobody writes it
};

// Evaluation, weft::jit and weft::Program all run programs through this class, so that donation,
// aliases, accounts and what a failed run leaves are the same for each of them. Used under the
// recorder's lock.
class Invocation {
public:
  explicit Invocation(const FoundProgram &found);

  // The run begins when these have succeeded, and not at all if one of them fails; `end` is given
  // its own end. have_written: whether earlier parts of its step have written what that is for.
  void follow(std::vector<std::shared_ptr<const runtime::Event>> after,
              std::shared_ptr<const runtime::Event> &end, bool have_written);
  // The next input: a leaf whose error the caller has looked for (check_leaf).
  // Neither this nor donate() gives the recorder's lock up, so that nobody writes between what is
  // bound first and last.
  // copies: if the program writes the input, it writes a copy; the leaf is in memory then.
  void bind(Value *leaf, bool copies = false);
  // As bind(), for an input that the program writes. It writes a copy, unless `handles` is the
  // number of handles to the leaf that may lose what it held, and nobody else reads its memory.
  void donate(Value *leaf, uint32_t handles);
  // Whether donate() would copy what is not in memory yet: before the caller binds anything it
  // waits (wait_for), after which another thread may have written, and looks again.
  static bool must_wait(const Value &leaf, uint32_t handles);
  // Lets result i take the memory of a leaf whose one handle is about to go. False where somebody
  // else reads the memory, it has another size, or the result has memory or is tied to another's.
  bool reuse(size_t i, Value *leaf);
  // What the results come from, for who traces memory.
  void come_from(std::vector<runtime::Origin> origins) {
    origins_ = std::move(origins);
  }

  // Whether the run may end at a check, its own or that of a run whose results it reads.
  bool may_fail() const {
    return record_->may_fail;
  }
  const std::shared_ptr<EvaluationRecord> &record() const {
    return record_;
  }

  // Acquires all that the run needs, and starts it. Throws kMemory or kRun where it fails before
  // its first instruction: every tensor keeps its value then. False where memory ran out and some
  // may be had, which the caller waits for before it binds a new invocation (make_room). A later
  // failure poisons the results. Other threads may wait for the results from now on, so the caller
  // goes on to finish() without waiting for anything itself. Behind a claim it takes memory and
  // starts the run without the recorder's lock, if nothing may have to go back.
  // is_evaluation: it computes what was recorded, so that it counts and is remembered.
  bool launch(Attempt attempt, Location location, Guard guard, bool is_evaluation = true);
  // Gives `value`, which has no memory yet, that of result i, or of what the result is an alias of.
  // Results are published in order, and live as long as the invocation does.
  void publish(size_t i, Value *value);
  // The last step, which gives the recorder's lock up: a small program runs now, on this thread, as
  // does any one of the host's that the caller waits for at once, if nothing else is under way.
  void finish(bool waits = false);

private:
  struct ScalarInput {
    size_t input;
    uint64_t bits;
    int64_t bytes;
  };
  // Whether a result is this input, unchanged.
  bool is_a_result(size_t input) const;
  absl::Status bind_block();
  absl::Status start();
  void account(bool is_evaluation);

  std::shared_ptr<CompiledProgram> program_;
  runtime::Executable &executable_; // its
  std::shared_ptr<EvaluationRecord> record_;
  uint8_t source_, device_;                     // where its inputs lie, and its results
  std::shared_ptr<runtime::Executor> executor_; // whose work it is; null: the device's
  std::vector<ValueRef> leaves_;
  std::vector<ScalarInput> scalars_;
  std::vector<std::shared_ptr<runtime::Buffer>> inputs_; // which become the run's
  // Runs of the same step that must have succeeded before this one begins, and where its own end
  // goes (runtime/executor/executor.h).
  std::vector<std::shared_ptr<const runtime::Event>> after_;
  std::shared_ptr<const runtime::Event> *end_ = nullptr;
  bool have_written_ = false;
  // New buffers once the run was started, or those that outputs are tied to.
  std::vector<std::shared_ptr<runtime::Buffer>> outputs_;
  std::vector<runtime::Origin> origins_; // of them, where somebody wants to know
  runtime::Executor::Started started_;
  std::vector<Cell *> cells_; // of the results
};

} // namespace weft::recorder
