// A scatter's places, and what becomes of an element that another one meets, said once for the
// schedules of every target.
#pragma once

#include "compiler/codegen/Schedule.h"

namespace weft::compiler {

struct Scatter {
  Scatter(KernelBuilder &kernel, mlir::Operation *op);

  mlir::Operation *op;
  mlir::Value base, indices, source;
  mlir::Type type; // of elements
  // Elements are put in place of what is there; indices say where slices go, not elements.
  bool puts, wholeSlices;
  int64_t dim, width; // of the source, so many dims stand in place of the scattered one
  // Shapes, and the dims before the scattered one, after it, and those of the source in its place.
  llvm::ArrayRef<int64_t> to, from, index, leadTo, leadFrom, trailTo, trailFrom, middle;
  // Elements of leadTo, of the scattered dim, of trailTo and of middle.
  int64_t lead, size, trail, steps;

  // Whether so many slices are added up in totals, in memory for as many elements as one place in
  // the leading dims has of the result: where elements get more terms than one accumulator takes if
  // all get as many, or are so few that it costs nothing. Totals of float32 are float64, and become
  // the result in the end; those of float64 have beside the result what it loses (addKeeping).
  bool hasTotals(int64_t slices) const;
  // From how many slices on, where it follows from their number.
  int64_t leastTotals() const;
  struct Totals {
    mlir::Value memory;         // null: there are none
    Index shift = Index::of(0); // from an element's place in the result to that of its total
  };

  // The place of an element of the result.
  Index element(IndexSpace &space, const Index &leading, const Index &at,
                const Index &column) const;
  // Where the element of the source at a position goes along the scattered dim.
  Index target(ElementEmitter &e, llvm::ArrayRef<Index> position, mlir::Value mask = nullptr) const;
  // Whether the source has these dims of the result, of which PyTorch's scatters may take a
  // part; null: it has all. `also`: what is to hold beside it.
  mlir::Value covers(ElementEmitter &e, llvm::ArrayRef<Index> position,
                     llvm::ArrayRef<int64_t> have, llvm::ArrayRef<int64_t> all,
                     mlir::Value also = nullptr) const;
  // At a place of the result: what is there first, the base's element; one that meets it; the end.
  // Of a scalar, or a vector. end() is where there are totals.
  void begin(KernelFunction &f, const Totals &totals, const Index &place, mlir::Value element,
             bool vector, mlir::Value mask = nullptr) const;
  void meet(KernelFunction &f, const Totals &totals, const Index &place, mlir::Value update,
            mlir::Value mask = nullptr) const;
  void end(KernelFunction &f, const Totals &totals, const Index &place, bool vector,
           mlir::Value mask = nullptr) const;
};

} // namespace weft::compiler
