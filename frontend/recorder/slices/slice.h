// The ops that requested values need, in order, with what they read and what they leave: what one
// evaluation compiles.
#pragma once

#include <string>
#include <vector>

#include "frontend/recorder/record/state.h"
#include "frontend/recorder/slices/program_key.h"
#include "frontend/recorder/slices/request.h"
#include "llvm/ADT/BitVector.h"

namespace weft::recorder {

struct Slice {
  llvm::SmallVector<Node *, 16> nodes;   // in the order of recording
  llvm::SmallVector<Value *, 8> leaves;  // in the order of their first use
  llvm::SmallVector<Value *, 4> outputs; // in the order of recording
  bool checks = false;                   // whether one of its ops may end a run (Signature::checks)
  uint8_t device = 0;                    // its ops'
  bool is_exchange = false;              // it is a transfer or a collective, and nothing else
  bool is_mixed = false; // its ops lie on several devices, or some are exchanges: no program's
                         // (parts_of)
  llvm::SmallVector<Value *, 4> temporaries; // results with handles that are no outputs
                                             // (temporaries.cpp)
  llvm::SmallVector<Node *, 4> left;         // the ops that stay recorded for them
  bool has_stayed = false;                   // one of its ops had stayed before
  ProgramKey key;
  // By leaf: whether its program may prepare work on it (stability.h). Not in the key: a program
  // that counts on less serves the slice as well.
  llvm::BitVector stable;
  bool stable_at_once = false; // of a function that is replayed, which keeps its program

  // Whether it gives a storage its new value, in place.
  bool writes() const {
    return llvm::any_of(outputs, [](const Value *output) { return output->writers; });
  }
};

// Whether the op does.
inline bool writes_state(const Node *node) {
  return llvm::any_of(node->results, [](const Value *result) { return result && result->writers; });
}

// Collects the slice of the roots (which have handles). False when it meets ops that another thread
// has claimed, or that belong to another tracer: wait for them first.
bool collect(std::span<Value *const> roots, Slice &slice, uint32_t tracer = 0);

// Values that a cut for this reason computes beside the slice that was just collected, as further
// roots:
// - where the slice draws from a generator, the generator's next state: else the next slice would
//   begin with this one's advance;
// - `step` and `value`, which loops repeat: what is alive and reads a value of the slice (a loss, a
//   metric, the update of an iterate). It would otherwise be a program of its own, and hold what it
//   reads in memory;
// - `step`: what storages were given in place (an average of parameters; where one thread records, a
//   count of steps, too): each step would else add to a record that nobody asks for, and keep the
//   parameters that it reads;
// - `init`, where one thread records: all that is alive, so that a loop's first step does not
//   compute what the later ones find in memory.
std::vector<Value *> companions(const Slice &slice, CutReason reason);

// Takes what nobody is going to ask for (temporaries.cpp) out of the outputs of the slice that was
// just collected, to compute `roots` for the request.
void leave_temporaries(Slice &slice, std::span<Value *const> roots, const EvaluateRequest &request);

// What one submission computes: values of one device, or the result of one exchange.
using Part = std::vector<ValueRef>;

// Each part needs results of earlier ones only. Exchanges begin as early as they can: what they
// wait for is a program of its own, so that their bytes are on their way while the rest is
// computed. Small ones wait for each other, since a program's end costs fusion. Elementwise work
// that no exchange waits for goes to the program that reads it. Where a part may fail, what
// storages are given in place comes in the last parts, one a device. Linear in the slice, but for a
// sort of the parts.
std::vector<Part> parts_of(const Slice &slice);

// For each checkpoint whose ops are among the slice's a second time: how many are, and its line.
std::vector<std::string> checkpoint_notes(const Slice &slice);

// The slice as a module with one function @main, in bytecode, with locations.
std::string write_module(const Slice &slice);

} // namespace weft::recorder
