// What keys and messages know of the signatures of ops, without MLIR.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/compile/generalize.h"
#include "frontend/recorder/record/values.h"

namespace weft::recorder {

// Interned by a text that is the same in every process.
struct InternedText : Interned {
  std::string text;
  std::string_view key() const {
    return text;
  }
  static size_t hash(std::string_view key) {
    return std::hash<std::string_view>()(key);
  }
};

// What signatures that differ in ints only have in common: op, properties, dtypes and ranks.
struct SignatureStructure : InternedText {
  std::vector<IntPosition> positions; // what the ints are
};
void unused(const SignatureStructure &structure);

// Op, properties and types. Outlives the signature, which belongs to a context.
struct SignatureText : InternedText {
  size_t name_size = 0, properties_size = 0;
  uint32_t operands = 0;
  Ref<const SignatureStructure> structure;
  std::vector<int64_t> ints; // in the structure's order
  // "weft.matmul"
  std::string name() const {
    return text.substr(0, name_size);
  }
  // As MLIR writes them; empty where the op has none.
  std::string properties() const {
    return text.substr(name_size, properties_size);
  }
  // " (4x2xf32, ) -> (4x2xf32, )"
  std::string types() const {
    return text.substr(name_size + properties_size);
  }
};
void unused(const SignatureText &text);

} // namespace weft::recorder
