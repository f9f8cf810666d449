// What a checkpoint keeps of its function: the values that its ops begin with, and the ops that its
// derivatives need, to be recorded again by each backward.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "frontend/recorder/record/values.h"

namespace weft::recorder {

// Of the ops that a function recorded those that saved values need, down to what came from outside.
// Values have the numbers that they had among all that it met. Ops are pure, draws included, whose
// generator's state is an operand: done again they give the same bits, and write nothing.
struct Checkpoint {
  struct Source {
    ValueRef value;                      // null where another checkpoint computes it again
    uint32_t number = 0;                 // here
    bool is_fenced = false;              // an input, or what is kept in its place
    std::shared_ptr<Checkpoint> outer{}; // that one, which is around this one
    uint32_t outer_number = 0;           // in it
  };
  struct Op {
    SignatureRef signature;
    LineRef line;
    absl::InlinedVector<uint32_t, 3> operands;
    uint32_t first; // of its results' numbers
    // A rank's parts have another type than the signature's.
    absl::InlinedVector<TypeRef, 1> results = {};
  };

  std::vector<Source> sources;
  std::vector<Op> ops;
  uint32_t values = 0; // how many numbers there are
  LineRef line;        // of the call
};

// What a thread records while a checkpoint's function runs.
class CheckpointRegion;
extern constinit thread_local CheckpointRegion *thread_checkpoint; // the innermost; mostly null
// Into the region and those around it.
void note_recorded(CheckpointRegion &region, const Node &node);

// What one backward has computed again.
class Replay {
public:
  // Puts back the saved values that the node gave up. Of its checkpoint all ops are recorded again
  // when the first of its nodes asks, behind a fence: they read nothing before `cotangent`, which
  // that node was reached with, is there. So they are not taken for the ops of the first time, nor
  // run beside them.
  void put_back(GradNode &node, const Var &cotangent);
  // The node gives them up again.
  static void give_up(GradNode &node);
  void clear() {
    done_.clear();
  }

private:
  void record(const std::shared_ptr<Checkpoint> &checkpoint, const Var &condition);
  std::unordered_map<std::shared_ptr<Checkpoint>, std::vector<ValueRef>> done_; // values by number
};

} // namespace weft::recorder
