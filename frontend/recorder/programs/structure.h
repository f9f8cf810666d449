// Slices without their ints: programs that differ in ints only have one structure.
#pragma once

#include <string>
#include <vector>

#include "frontend/recorder/record/signature_text.h"
#include "frontend/recorder/slices/program_key.h"

namespace weft::recorder {

struct Slice;

// The slice's key with structures instead of signatures and ranks instead of types.
struct StructureKey {
  const Slice &slice;
  ProgramKey key;
  Ints ints;
};
StructureKey structure_key(const Slice &slice);
std::vector<IntPosition> int_positions(const Slice &slice);
// Whether a program for many sizes needs them as numbers: a mean divides by how many there are,
// normal samples are made of two streams, the second of which begins behind the first, and what is
// written to a part of a tensor ends where its size says.
bool computes_with_sizes(const Slice &slice);
// "dim 0 of operand 1 of weft.add (train.cpp:12)"
std::string describe(const Slice &slice, const IntPosition &position);

} // namespace weft::recorder
