// Small services of the recorder that the tensor's implementation needs beside recorder.h.
#pragma once

#include <optional>

#include "frontend/recorder/record/values.h"

namespace weft::recorder {

// Where the ranks of a job are threads of this process, the thread's rank: its collectives are its
// own, since a rank that ran another's would wait for itself. 0 for all other threads.
extern constinit thread_local uint32_t thread_rank;

// The storage is about to be given the recorded or computed value in place: what it held is what it
// goes back to if the run fails.
void note_write(TensorImpl &storage, Value *value);
// It never goes back.
void forget_write(TensorImpl &storage);
// Whether a failed run has lost the value of the leaf, and somebody was told.
bool is_lost(const Value *leaf);
// How many results the call that the node stands for has.
uint32_t result_count(const GradNode &node);
// What a slice in steps of 1 takes of its operand: [start, limit) of one dim, all of the others.
// Nothing for any other call.
struct Band {
  int64_t dim, start, limit;
  const TypeInfo *from; // the operand's
};
std::optional<Band> band_of(const GradNode &node);
// Of a product of few rows, x [M, K] as it lies times y [K, N] (or, transposed, [N, K]), M at most
// `rows`: whether y is transposed. Nothing for any other call.
std::optional<bool> row_product_of(const GradNode &node, int64_t rows);

} // namespace weft::recorder
