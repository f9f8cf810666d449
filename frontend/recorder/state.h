// The recorder itself: one per process, touched under its lock. Private to this folder.
#pragma once

#include <deque>
#include <map>
#include <unordered_map>

#include "frontend/recorder/ir_state.h"

namespace weft::recorder {

class Families;
class ProgramCache;

struct SpecializedSite {
  uint64_t bits = 0;
  bool parameter = false; // a second value was seen
};

struct Recorder {
  RecorderMutex mutex;
  std::unique_ptr<IrState> ir;
  Config config;

  // All live recorded ops, oldest first.
  Node *first = nullptr, *last = nullptr;
  int64_t live_ops = 0;
  int64_t live_bytes = 0; // of the results of live ops
  uint64_t next_number = 1;
  uint64_t next_grad_number = 1;
  uint64_t epoch = 0;
  uint64_t last_mark = 0; // recording number at the last step's or backward's end
  bool cutting = false;   // inside a budget's cut

  std::map<std::pair<int, Shape>, std::unique_ptr<TypeInfo>> types;
  std::unordered_map<size_t, const TypeInfo *>
      known_types; // by a hash: the last that was asked for
  uint32_t next_type_id = 0;
  llvm::DenseMap<const void *, SourceLine *> lines;
  std::map<std::tuple<std::string, int, int>, std::unique_ptr<SourceLine>> lines_by_text;
  std::map<std::tuple<SourceLine *, int, int>, SpecializedSite> specialized;

  std::vector<Value *> dying;
  bool burying = false;
  std::vector<GradNode *> dying_grads;
  bool burying_grads = false;

  std::unique_ptr<ProgramCache> cache;
  std::unique_ptr<Families> families;
  // By the key of a slice without stable leaves: the sets of them that programs were made for.
  std::unordered_map<uint64_t, std::vector<std::vector<bool>>> stable_variants;
  Statistics statistics;
  std::deque<std::shared_ptr<EvaluationRecord>> evaluations;
  std::deque<std::shared_ptr<EvaluationRecord>>
      unsettled; // in order of submission: what can be undone (undo.h)
};

Recorder &recorder();

// A value whose last handle and last use went.
void bury(Value *value);
// Takes a node out of the record: its place in the list, its uses of operands. Its results must be
// gone or be leaves already.
void erase_node(Node *node);
void release_cell(Cell *cell);
SourceLine *source_line(Location location);

// The values of the node, with history where one of the operands has some.
void results_of(Node *node, llvm::ArrayRef<const Var *> operands,
                llvm::SmallVectorImpl<Var> &results);

} // namespace weft::recorder
