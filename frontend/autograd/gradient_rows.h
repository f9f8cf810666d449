// Gradients that ranks add up, of whole parameters or of parts of them: each waits for others of
// its kind, and they are exchanged as one row. A small exchange takes as long as its messages need
// to arrive, whatever is in it.
//
// Which ones share a row, and when, follows from what backward records, so that it is the same on
// all ranks: one that waits is not exchanged by itself, though a hook of one rank reads something
// meanwhile, which starts all else that this rank has recorded.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "frontend/recorder/record/recorder.h"

namespace weft::recorder {

// The bytes of a row, of those of all gradients. Less is not worth a program's end
// (RecorderLimits::exchanged_bytes); more hides no more of the traffic.
constexpr int64_t gradient_row_bytes(int64_t all) {
  constexpr int64_t kLeast = int64_t(1) << 20, kLargest = int64_t(8) << 20;
  return std::clamp(all / 4, kLeast, kLargest);
}

class GradientRows {
public:
  using Give = std::function<void(GradNode &leaf, const Var &gradient)>;
  // What a leaf is given, once its row is on its way.
  explicit GradientRows(Give give) : give_(std::move(give)) {}

  // The bytes of all gradients that may come.
  void expect(int64_t bytes) {
    bound_ = gradient_row_bytes(bytes);
  }
  // Whether the leaf's gradient, which is all of it, waits for others: it is given later. Not where
  // it is none that ranks add up, somebody else reads it, or it is a row by itself.
  bool take(const GradRef &leaf, Var &gradient);
  // Gives all that wait.
  void finish();

private:
  struct Row {
    RankSum sum;
    int64_t bytes = 0;
    std::vector<GradRef> leaves;
    std::vector<Var> gradients; // before ranks add them up
  };
  void give(Row &row);

  Give give_;
  int64_t bound_ = 0;
  std::vector<Row> rows_; // one of a kind, in the order in which ranks met the first of each
};

} // namespace weft::recorder
