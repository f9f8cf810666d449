#include "frontend/recorder/programs/structure.h"

#include "frontend/recorder/slices/slice.h"

namespace weft::recorder {

// The constant that an operand is in every element; null where the slice has none.
static const Node *constant_of(const Value *operand) {
  while (operand->node && is<ir::BroadcastOp, ir::CastOp, ir::ReshapeOp>(operand->node))
    operand = operand->node->operands[0];
  return operand->node && is<ir::ConstantOp>(operand->node) ? operand->node : nullptr;
}

// The value of a constant that its reader compiles for (a power of 3 is two products) is no int of
// the structure: a program for all values gives other bits.
static void append_specialized(const Node *node, ProgramKey &key) {
  auto *record = node->signature->name.getInterface<ir::WeftOp>();
  if (!record)
    return;
  for (int64_t i : record->specializedOperands())
    if (const Node *constant = constant_of(node->operands[static_cast<size_t>(i)])) {
      const SignatureText &text = *constant->signature->text;
      for (size_t p = 0; p < text.ints.size(); ++p)
        if (text.structure->positions[p].kind == IntPosition::Kind::kConstant)
          key.add(text.ints[p]);
    }
}

StructureKey structure_key(const Slice &slice) {
  StructureKey result{.slice = slice, .key = slice.key, .ints = {}};
  result.key.kind = ProgramKey::Kind::kStructure;
  size_t at = 0;
  for (const Node *node : slice.nodes) {
    const SignatureText &text = *node->signature->text;
    result.key.code[at] = text.structure->id;
    result.ints.insert(result.ints.end(), text.ints.begin(), text.ints.end());
    at += 1 + node->operands.size();
  }
  for (const Node *node : slice.nodes)
    append_specialized(node, result.key);
  for (size_t i = 0; i < slice.leaves.size(); ++i) {
    const TypeInfo &type = *slice.leaves[i]->type;
    result.key.leaves[i].type =
        static_cast<uint32_t>(type.dtype) << 16 | static_cast<uint32_t>(type.ndim());
  }
  return result;
}

std::vector<IntPosition> int_positions(const Slice &slice) {
  std::vector<IntPosition> result;
  for (size_t i = 0; i < slice.nodes.size(); ++i)
    for (IntPosition position : slice.nodes[i]->signature->text->structure->positions) {
      position.op = static_cast<uint32_t>(i);
      result.push_back(position);
    }
  return result;
}

bool computes_with_sizes(const Slice &slice) {
  return llvm::any_of(slice.nodes, [](const Node *node) {
    return is<ir::ReduceMeanOp, ir::RandomNormalOp, ir::BatchNormOp, ir::InsertSliceOp>(node);
  });
}

std::string describe(const Slice &slice, const IntPosition &position) {
  const Node *node = slice.nodes[position.op];
  std::string what;
  switch (position.kind) {
  case IntPosition::Kind::kSize:
    what = "dim " + std::to_string(position.at) + " of ";
    if (position.value & kResult) {
      what += "the result of ";
    } else {
      const Value *operand = node->operands[position.value];
      auto leaf = llvm::find(slice.leaves, operand);
      if (leaf != slice.leaves.end())
        return what + "input " + std::to_string(leaf - slice.leaves.begin());
      what += "operand " + std::to_string(position.value) + " of ";
    }
    break;
  case IntPosition::Kind::kAttribute:
    what = (is<ir::RandomAdvanceOp>(node) ? "amount " : "start ") + std::to_string(position.at) +
           " of ";
    break;
  case IntPosition::Kind::kConstant:
    what = "the value of ";
    break;
  }
  return what + describe(node);
}

} // namespace weft::recorder
