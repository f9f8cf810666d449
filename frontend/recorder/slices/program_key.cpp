#include "frontend/recorder/slices/program_key.h"

#include "frontend/recorder/slices/slice.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/Support/xxhash.h"

namespace weft::recorder {

template <typename T> static uint64_t hash_of(const std::vector<T> &elements) {
  auto *bytes = reinterpret_cast<const uint8_t *>(elements.data());
  return llvm::xxh3_64bits(llvm::ArrayRef<uint8_t>(bytes, elements.size() * sizeof(T)));
}

uint64_t ProgramKey::hash() const {
  uint64_t flags = 0;
  for (const Leaf &leaf : leaves)
    flags = (flags ^ (uint64_t(leaf.type) << 2 | leaf.donatable << 1 | uint64_t(leaf.kept))) *
            0x9e3779b97f4a7c15u;
  return static_cast<size_t>(llvm::hash_combine(static_cast<uint32_t>(kind), salt, hash_of(code),
                                                flags, hash_of(outputs)));
}

int64_t ProgramKey::bytes() const {
  return static_cast<int64_t>((code.size() + outputs.size()) * sizeof(uint32_t) +
                              leaves.size() * sizeof(Leaf));
}

int64_t HeldKey::bytes() const {
  return key.bytes() + static_cast<int64_t>((texts.size() + types.size()) * sizeof(void *));
}

HeldKey hold_key(const Slice &slice) {
  HeldKey held{slice.key};
  for (const Node *node : slice.nodes)
    held.texts.push_back(node->signature->text);
  for (const Value *leaf : slice.leaves)
    held.types.push_back(leaf->type);
  return held;
}

} // namespace weft::recorder
