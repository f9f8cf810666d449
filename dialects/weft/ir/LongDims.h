// Dims as far as they say where elements lie.
#pragma once

#include "dialects/weft/ir/SizeNames.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::ir {

// Those of more than one element, in order: what a reshape that only adds or drops others keeps.
inline Dims longDims(llvm::ArrayRef<Dim> dims) {
  Dims result;
  llvm::copy_if(dims, std::back_inserter(result), [](const Dim &dim) { return !dim.isOne(); });
  return result;
}

// Whether a dim that varies stands behind another one of more than one element, whose stride is not
// known before: dims of size 1 in front of it change none.
inline bool variesBehind(llvm::ArrayRef<Dim> dims) {
  Dims all = longDims(dims);
  return !all.empty() &&
         !llvm::all_of(llvm::drop_begin(all), [](const Dim &dim) { return dim.isStatic(); });
}

} // namespace weft::ir
