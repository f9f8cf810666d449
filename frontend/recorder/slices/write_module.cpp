// A slice as a module, whose ops say which module of the user's they belong to.
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/ir/SignatureAttributes.h"
#include "frontend/recorder/slices/slice.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace weft::recorder {

// The innermost module of that class on the way from `from` up to `within` (null: to the root);
// null where there is none, or `from` is not inside.
static const ModuleName *find_class(const ModuleName *from, const ModuleName *within,
                                    const std::string &type) {
  const ModuleName *found = nullptr;
  const ModuleName *each = from;
  for (; each && each != within; each = each->parent)
    if (!found && each->type == type)
      found = each;
  return each == within ? found : nullptr;
}

// By node of the slice; null where it is no module's. The module is the one whose parameter an op's
// call read, or that said so (InModule): its line has it. What a function of the user's does
// between such calls is known by two things: its class, which the caller's location names, and what
// it reads. It belongs to the innermost module of that class which holds what its latest operand
// was computed by. Such an op, where it comes first in its module and reads another instance of the
// same class, is taken for the latter's.
static std::vector<const ModuleName *> modules_of(const Slice &slice) {
  std::vector<const ModuleName *> modules;
  modules.reserve(slice.nodes.size());
  // By node: its module, or where it has none, that of what it was computed from last.
  llvm::DenseMap<const Node *, const ModuleName *> reached;
  for (const Node *node : slice.nodes) {
    const SourceLine &line = *node->line;
    const ModuleName *module = line.module.get(), *refined = nullptr, *latest = nullptr;
    const std::string &type = line.plain ? line.plain->in_class : line.in_class;
    bool may_refine = !type.empty() && !(module && module->type == type);
    uint64_t refined_at = 0, latest_at = 0;
    for (const Value *operand : node->operands) {
      auto known = operand->node ? reached.find(operand->node) : reached.end();
      if (known == reached.end())
        continue;
      uint64_t number = operand->node->number;
      if (number >= latest_at)
        latest = known->second, latest_at = number;
      if (!may_refine || number < refined_at)
        continue;
      if (const ModuleName *found = find_class(known->second, module, type))
        refined = found, refined_at = number;
    }
    modules.push_back(refined ? refined : module);
    if (const ModuleName *reach = modules.back() ? modules.back() : latest)
      reached[node] = reach;
  }
  return modules;
}

std::string write_module(const Slice &slice) {
  IrState &ir = *recorder().ir;
  mlir::MLIRContext *context = &ir.context();
  mlir::Location unknown = mlir::UnknownLoc::get(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(unknown);
  llvm::SmallVector<mlir::Type> inputs, outputs;
  for (Value *leaf : slice.leaves)
    inputs.push_back(ir.type(leaf->type));
  for (Value *output : slice.outputs)
    outputs.push_back(ir.type(output->type));
  mlir::OpBuilder builder(context);
  builder.setInsertionPointToEnd(module->getBody());
  auto function = mlir::func::FuncOp::create(builder, unknown, "main",
                                             builder.getFunctionType(inputs, outputs));
  mlir::Block *body = function.addEntryBlock();
  llvm::DenseMap<Value *, mlir::Value> values;
  for (size_t i = 0; i < slice.leaves.size(); ++i) {
    values[slice.leaves[i]] = body->getArgument(i);
    if (const Cell *cell = slice.leaves[i]->cell; cell && cell->name)
      body->getArgument(i).setLoc(mlir::NameLoc::get(builder.getStringAttr(cell->name->path())));
  }
  {
    ir::SignatureAttributes attributes(function);
    for (size_t i = 0; i < slice.leaves.size(); ++i) {
      const ProgramKey::Leaf &flags = slice.key.leaves[i];
      if (flags.donatable)
        attributes.argument(i).set(ir::kDonatableAttr, builder.getUnitAttr());
      if (flags.kept)
        attributes.argument(i).set(ir::kKeptAttr, builder.getUnitAttr());
      if (slice.stable[i])
        attributes.argument(i).set(ir::kStableAttr, builder.getUnitAttr());
    }
  }
  builder.setInsertionPointToEnd(body);
  std::vector<const ModuleName *> modules = modules_of(slice);
  for (auto [node, module_of] : llvm::zip(slice.nodes, modules)) {
    const Signature &signature = *node->signature;
    mlir::OperationState state(ir.location(node->line, module_of), signature.name);
    for (Value *operand : node->operands)
      state.operands.push_back(values.find(operand)->second);
    for (const TypeInfo *type : signature.results)
      state.types.push_back(ir.type(type));
    mlir::Operation *op = mlir::Operation::create(state);
    if (signature.properties)
      op->copyProperties(signature.properties);
    builder.insert(op);
    for (Value *result : node->results)
      if (result)
        values[result] = op->getResult(result->index);
  }
  llvm::SmallVector<mlir::Value> results;
  for (Value *output : slice.outputs)
    results.push_back(values.find(output)->second);
  mlir::func::ReturnOp::create(builder, unknown, results);
  std::string bytes = ir::writeBytecode(*module);
  if (bytes.empty())
    fail(ErrorKind::kCompile,
         "the recorded ops cannot be written as bytecode: " + ir.take_diagnostic().message);
  return bytes;
}

} // namespace weft::recorder
