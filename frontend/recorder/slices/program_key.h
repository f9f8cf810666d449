// What decides which program computes a slice.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/recorder/record/values.h"

namespace weft::recorder {

struct Slice;
struct SignatureText;

// In a key's code, an operand that is a leaf; the other bits count leaves in the order of their
// first use.
inline constexpr uint32_t kLeafBit = 0x80000000u;

struct ProgramKey {
  struct Leaf {
    uint32_t type = 0;      // its type's id; its dtype and rank in the key of a structure
    bool donatable = false; // the program may write its results there
    bool kept = false;      // a storage goes back to it when the run ends at a check
    bool operator==(const Leaf &) const = default;
  };
  // All but the first are no slice's. kSymbolic: of all programs for several sizes of a family.
  enum class Kind : uint32_t { kSlice, kStructure, kSizes, kSymbolic, kFlat };

  Kind kind = Kind::kSlice;
  // Of what the program depends on besides (ProgramContext::salt()); 0 before it is looked for.
  uint64_t salt = 0;
  // For each node its signature's id (or its structure's), then its operands' numbers: a leaf's, or
  // that of a result, counted over all nodes. Values of scalars are not in it. Behind them, or
  // where there is no slice, what else tells programs of the kind apart.
  std::vector<uint32_t> code = {};
  std::vector<Leaf> leaves = {};
  std::vector<uint32_t> outputs = {}; // the numbers of the results that are wanted

  // To the code.
  void add(int64_t number) {
    code.push_back(static_cast<uint32_t>(number));
    code.push_back(static_cast<uint32_t>(static_cast<uint64_t>(number) >> 32));
  }
  bool operator==(const ProgramKey &) const = default;
  uint64_t hash() const;
  int64_t bytes() const;
};

// A key whose ids stand for the same as long as somebody has it.
struct HeldKey {
  ProgramKey key;
  std::vector<Ref<const SignatureText>> texts = {}; // by node
  std::vector<TypeRef> types = {};                  // by leaf
  int64_t bytes() const;
};
HeldKey hold_key(const Slice &slice);

} // namespace weft::recorder
