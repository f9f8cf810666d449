#include "compiler/claim/MakeCall.h"

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/IRMapping.h"

namespace weft::compiler {

using namespace mlir;

std::string whyNoClaim(const Claim &claim) {
  if (claim.ops.empty() || claim.outputs.empty())
    return claim.ops.empty() ? "has no ops" : "has no outputs";
  if (llvm::is_contained(claim.ops, nullptr) || llvm::is_contained(claim.inputs, Value()))
    return "has an op or an input that is null";
  for (const auto &[neighbour, refusal] : claim.left)
    if (!neighbour || refusal.reason.empty())
      return "has left a neighbour that is null, or for a reason without a name";
  Operation *last = claim.ops.back();
  for (Value output : claim.outputs)
    if (!output || output.getDefiningOp() != last)
      return "has an output that is no result of its last op";
  // The call stands where the last op does.
  for (Value input : claim.inputs)
    if (Operation *maker = input.getDefiningOp();
        maker && (maker->getBlock() != last->getBlock() || !maker->isBeforeInBlock(last)))
      return ("has an input, the result of '" + maker->getName().getStringRef() +
              "', that is not there yet where its last op stands")
          .str();
  SmallVector<Operation *, 4> before;
  for (Operation *op : claim.ops) {
    if (op->getBlock() != last->getBlock())
      return "has ops of different blocks";
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(claim.inputs, operand) &&
          !llvm::is_contained(before, operand.getDefiningOp()))
        return ("has the op '" + op->getName().getStringRef() +
                "', an operand of which is neither an input nor the result of an op before it")
            .str();
    before.push_back(op);
  }
  SmallVector<StringRef> names;
  for (NamedAttribute entry : claim.config) {
    StringRef name = entry.getName();
    if (llvm::is_contained(names, name))
      return ("has two entries '" + name + "' in its config").str();
    names.push_back(name);
    auto list = dyn_cast<ArrayAttr>(entry.getValue());
    bool isList = list && llvm::all_of(list, llvm::IsaPred<IntegerAttr>);
    if (!isList &&
        !isa<IntegerAttr, FloatAttr, StringAttr, UnitAttr, DenseI64ArrayAttr>(entry.getValue()))
      return ("has a config whose entry '" + name +
              "' is neither an integer, a float, a string, a bool nor a list of integers")
          .str();
  }
  return "";
}

void makeCall(StringRef entry, const Claim &claim) {
  Operation *last = claim.ops.back();
  OpBuilder builder(last);
  MLIRContext *context = builder.getContext();
  SmallVector<Type> types;
  for (Value output : claim.outputs)
    types.push_back(output.getType());
  SmallVector<Location> locations;
  for (Operation *op : claim.ops)
    if (!llvm::is_contained(locations, op->getLoc()))
      locations.push_back(op->getLoc());
  Location loc = locations.size() == 1 ? locations.front() : FusedLoc::get(context, locations);
  auto call =
      ir::ProviderCallOp::create(builder, loc, types, claim.inputs, builder.getStringAttr(entry),
                                 builder.getDictionaryAttr(claim.config));
  call.getBody().getBlocks().clear();
  Block &body = call.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : claim.inputs)
    mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  builder.setInsertionPointToEnd(&body);
  for (Operation *op : claim.ops)
    builder.clone(*op, mapping);
  SmallVector<Value> yielded;
  for (Value output : claim.outputs)
    yielded.push_back(mapping.lookup(output));
  ir::YieldOp::create(builder, loc, yielded);
  for (auto [i, output] : llvm::enumerate(claim.outputs))
    Value(output).replaceAllUsesWith(call.getResult(i));
}

} // namespace weft::compiler
