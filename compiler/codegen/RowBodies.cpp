// Which body a kernel over rows gets. Where several are legal the costs prefer one, and a pinned
// choice may name another; an element's operations and their order are the same in each.
#include "compiler/codegen/RowSchedule.h"

namespace weft::compiler {

using Shape = FusionDomain::Shape;

// By RowSchedule::Body.
static constexpr llvm::StringRef kBodies[] = {"run",        "row_blocks",    "tiles",  "totals",
                                              "columns",    "lanes",         "turned", "short_rows",
                                              "row_groups", "rows_together", "pairs",  "rows"};

// Vectors that a draw of random numbers fills, whose blocks they share.
static constexpr int64_t kDrawnVectors = 4;

void RowSchedule::chooseBody() {
  llvm::SmallVector<Body> legal;
  Body preferred = Body::Rows;
  auto add = [&](Body one, bool isPreferred) {
    legal.push_back(one);
    if (isPreferred)
      preferred = one;
  };
  if (domain.shape() == Shape::Total) {
    add(Body::Totals, true);
  } else if (domain.shape() == Shape::Elementwise && domain.outer().empty()) {
    add(Body::Run, true);
  } else if (domain.shape() == Shape::Elementwise) {
    bool isTransposed = transposedAtom(kernel) >= 0;
    if (isTransposed)
      add(Body::Tiles, true);
    if (!kernel.sizes)
      add(Body::RowBlocks, !isTransposed);
    else if (!isTransposed)
      add(Body::Rows, true);
  } else if (hasColumns && !hasRows) {
    add(Body::Columns, true);
  } else if (domain.lanes() >= 0) {
    add(Body::Lanes, true);
  } else {
    add(Body::Rows, true);
    if (!countsTogether().empty())
      add(Body::RowsTogether, rowsTogether() > 1);
    if (!pairedInputs().empty())
      add(Body::Pairs, paysToPair());
    if (canGroupRows())
      add(Body::RowGroups, paysToGroupRows());
    if (canTransposeRows())
      add(Body::ShortRows, hasManyGroups());
    if (turnedAtom() >= 0)
      add(Body::Turned, preferred != Body::ShortRows);
  }
  auto nameOf = [](Body one) {
    return kBodies[static_cast<size_t>(one)];
  };
  llvm::SmallVector<llvm::StringRef> names;
  for (Body one : legal)
    names.push_back(nameOf(one));
  std::string name = kernel.choices.word("body", nameOf(preferred), names);
  body = static_cast<Body>(llvm::find(kBodies, name) - std::begin(kBodies));

  if (body == Body::Lanes)
    chooseLanes();
  else if (random)
    unroll = kDrawnVectors;
  else if (body == Body::Run || body == Body::RowBlocks)
    unroll = kernel.choices.number("vectors", 1, {1, 2, 4, 8});
  else if (body != Body::Tiles && body != Body::Columns && body != Body::ShortRows &&
           body != Body::Pairs)
    unroll = kernel.choices.number("vectors", kSlots, {2, 4, 8});
}

mlir::LogicalResult RowSchedule::emitBody() {
  switch (body) {
  case Body::Run:
    return kernel.sizes ? emitSizedLinear() : emitLinear();
  case Body::RowBlocks:
    return emitRowBlocks();
  case Body::Tiles:
    return emitTiles(transposedAtom(kernel));
  case Body::Totals:
    return emitTotals();
  case Body::Columns:
    return emitColumns();
  case Body::Lanes:
    return emitLanes();
  case Body::Turned:
    return emitTurned();
  case Body::ShortRows:
  case Body::RowGroups:
    return emitGroups();
  case Body::RowsTogether: {
    llvm::SmallVector<int64_t> counts = countsTogether();
    return emitTogether(
        kernel.choices.number("rows", std::max(rowsTogether(), counts.front()), counts));
  }
  case Body::Pairs:
    return emitPairs();
  case Body::Rows:
    return emitRows();
  }
  llvm_unreachable("all bodies have loops");
}

} // namespace weft::compiler
