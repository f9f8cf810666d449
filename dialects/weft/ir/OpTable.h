// The ops as rows for tests, from the records: what to feed each op with, and how exact it must be.
#pragma once

#include <vector>

#include "dialects/weft/rules/Rules.h"

namespace weft::ir {

struct OpRow {
  const char *mnemonic; // without "weft."
  Kind kind;
  // The dtypes of each operand, "?" after optional and "*" after variadic ones: "floating floating?
  // index". floating, integer, numeric, index (int32, int64), bool, logic (bool, integers), any,
  // state (of a random generator).
  const char *operands;
  bool differentiable;
  // The error budget of f32 results against reference evaluation in units in the last place; 0 is
  // bit-exact, -1 the bound of an n-term sum.
  int ulp;
  struct Domain {
    double lowest, highest;
  };
  // Where random operands are drawn from: one entry an operand, or one for all.
  std::vector<Domain> domains;
};

// Every op that has values of its own; not weft.fusion and its like.
const std::vector<OpRow> &opTable();

} // namespace weft::ir
