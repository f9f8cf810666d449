// The recorder itself: one per process, touched under its lock.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <unordered_map>

#include "absl/status/status.h"
#include "frontend/recorder/record/ir_state.h"
#include "frontend/recorder/record/limits.h"

namespace weft::recorder {

// What is to be deleted, one after the other: each may be the last that keeps others.
template <typename T> struct Deaths {
  std::vector<T *> dead;
  bool at_work = false;

  template <typename Bury> void add(T *object, const Bury &bury) {
    dead.push_back(object);
    if (std::exchange(at_work, true))
      return;
    while (!dead.empty()) {
      T *next = dead.back();
      dead.pop_back();
      bury(next);
    }
    at_work = false;
  }
};

using PendingCollectives = std::map<uint64_t, ValueRef>; // by Node::number

struct Recorder {
  RecorderMutex mutex;
  std::unique_ptr<IrState> ir;
  Config config;
  std::atomic<uint8_t> default_device{0}; // Config::device; read without the lock, too

  // All live recorded ops, oldest first.
  Node *first = nullptr, *last = nullptr;
  int64_t live_ops = 0;
  int64_t live_bytes = 0; // of the results of live ops
  // Of them, what no cut could take when a budget last cut: what a function records, what is being
  // compiled, other ranks' ops. A budget is for the others, or each call would look again in vain.
  int64_t held_ops = 0, held_bytes = 0;
  // Memory that nobody but recorded ops keeps: of leaves whose last handle went before the ops that
  // read them were computed, until the last of these goes.
  int64_t input_bytes = 0;
  // Of it, what a budget has left where it was when it last looked, and how often it did since the
  // program last cut the record itself.
  int64_t held_input_bytes = 0;
  int input_looks = 0;
  // How many live ops there are before a budget looks again whether they repeat; 0 before it has.
  int64_t looked_ops = 0;
  // The recording number at that cut.
  uint64_t last_cut = 0;
  // A result of the last program that a look asked for.
  std::weak_ptr<runtime::Buffer> freed_inputs;
  uint32_t configured = 0; // how often set_config() has been called
  uint64_t next_number = 1;
  uint64_t next_grad_number = 1;
  uint64_t epoch = 0;
  uint64_t last_mark = 0; // recording number at the last step's or backward's end
  bool cutting = false;   // inside a budget's cut

  InternTable<TypeInfo, TypeKey, kLimits.recent_type_bits> types;
  InternTable<SourceLine, LineKey, kLimits.recent_line_bits> lines;
  bool crowded = false; // a table has reached its bound: the next call tidies up
  template <typename Table, typename T> T *add(Table &table, std::unique_ptr<T> object) {
    T *added = table.add(std::move(object));
    crowded = crowded || table.crowded(config.context_bound);
    return added;
  }
  int replacing = 0; // replacements of ops that run, whose callers refer to tables

  // Collectives that nobody has asked for, in the order of recording, by the rank of this process's
  // that recorded them (exchange.h).
  std::unordered_map<uint32_t, PendingCollectives> pending_collectives;

  std::deque<std::shared_ptr<EvaluationRecord>> evaluations; // the recent ones
  // In order of submission: runs whose writes may yet go back.
  std::deque<std::shared_ptr<EvaluationRecord>> unsettled_runs;

  Deaths<Value> dying;
  Deaths<GradNode> dying_grads;

  Statistics statistics;
};

// 0 selects all cores. Of cpu:0.
void use_threads(int threads);

extern std::atomic<Recorder *> the_recorder; // null until it is made
Recorder &make_recorder();
inline Recorder &recorder() {
  Recorder *made = the_recorder.load(std::memory_order_acquire);
  return made ? *made : make_recorder();
}

// Fails with what the status says, behind `what`, where it is an error.
void check(const absl::Status &status, ErrorKind kind, const std::string &what = "");
// "weft.add (train.cpp:12)"
std::string describe(const Node *node);
// A value whose last handle and last use went.
void bury(Value *value);
// Takes a node out of the record: its place in the list, its uses of operands, which go where these
// were the last. Its results must be gone or be leaves already.
void erase_node(Node *node);
void release_cell(Cell *cell);
// Where the cell has no owners left: its buffer goes unless a storage holds it, and all of it where
// it has no keepers either.
void drop_unkept(Cell *cell);
// Counts a leaf whose last handle went, or that a storage no longer goes back to.
void note_left(Value &value);
SourceLine *source_line(Location location, const ModuleName *module = nullptr);

// The signature of an op that was not met before; the properties go into a copy. result: its only
// result's type, or null to ask the op's own rule. Fails where the rule refuses the operands, or
// where the op does not verify. by_name: the caller knows the op by its name only, which messages
// then begin with; how many operands the op takes is looked at first.
Signature *make_signature(mlir::OperationName op, mlir::OpaqueProperties properties,
                          llvm::ArrayRef<const Var *> operands, const TypeInfo *result,
                          bool by_name);
inline llvm::SmallVector<const Var *, 8> pointers(std::span<const Var> operands) {
  return llvm::to_vector<8>(llvm::make_pointer_range(operands));
}
// Operands of an op lie on one device; those that go along (goes_along) are moved to the others'.
// Gives all of them where some are, else none. Fails with kDevice where two of the others differ.
std::vector<Var> align_devices(llvm::StringRef op, llvm::ArrayRef<const Var *> operands);
// Records the op. Adds its results, with history where one of the operands has some.
void record_op(Signature *signature, llvm::ArrayRef<const Var *> operands, SourceLine *line,
               llvm::SmallVectorImpl<Var> &results);

// Of a signature that is_indirect: by its replacement, in parts, or, inside of a replacement, as it
// is.
void record_indirectly(Signature *signature, llvm::ArrayRef<const Var *> operands, SourceLine *line,
                       llvm::SmallVectorImpl<Var> &results);
// What calls of the op record instead; null for most. From any thread.
std::shared_ptr<const OpReplacement> replacement_of(llvm::StringRef op);
// As it is, of whole tensors: without its history, and with it.
Node *enter(Signature *signature, llvm::ArrayRef<const Var *> operands, SourceLine *line);
void record_itself(Signature *signature, llvm::ArrayRef<const Var *> operands, SourceLine *line,
                   llvm::SmallVectorImpl<Var> &results);

// The same where ranks have parts of operands (frontend/sharding): each computes its parts of the
// results, with exchanges between them.
void record_parts(Signature *signature, llvm::ArrayRef<const Var *> operands, SourceLine *line,
                  llvm::SmallVectorImpl<Var> &results);
// What a call on the operands has for derivatives; null where no operand has a history, or none is
// kept.
GradRef history_of(Signature *signature, SourceLine *line, llvm::ArrayRef<const Var *> operands,
                   llvm::ArrayRef<Value *> results);
// Result `index` of the call has it, if it is differentiable at all.
void give_history(Var &result, GradRef history, uint32_t index);

} // namespace weft::recorder
