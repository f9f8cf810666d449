#include "tests/support/OpModule.h"

#include "dialects/weft/ir/Weft.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

namespace weft::tests {

using ir::HostTensor;

mlir::RankedTensorType typeOf(const HostTensor &tensor, mlir::MLIRContext &context) {
  return mlir::RankedTensorType::get(tensor.shape, ir::elementType(tensor.dtype, &context));
}

OpModule buildModule(mlir::MLIRContext &context, const OpCase &c, DType dtype) {
  context.loadDialect<ir::WeftDialect, mlir::func::FuncDialect>();
  // What the record refuses is no case; the verifier's diagnostics say so and are dropped.
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) { return mlir::success(); });
  mlir::Location loc = mlir::NameLoc::get(mlir::StringAttr::get(&context, c.name()));
  mlir::OpBuilder builder(&context);
  OpModule made;
  made.module = mlir::ModuleOp::create(builder, loc);
  llvm::SmallVector<mlir::Type> types;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    made.inputs.push_back(sample(c.operands[i], dtype, i, c.operands.size()));
    types.push_back(typeOf(made.inputs.back(), context));
  }
  builder.setInsertionPointToEnd(made.module->getBody());
  made.main = mlir::func::FuncOp::create(builder, loc, "main", builder.getFunctionType(types, {}));
  builder.setInsertionPointToStart(made.main.addEntryBlock());

  mlir::OperationState state(loc, c.op);
  state.addOperands(made.main.getArguments());
  auto attributes =
      mlir::dyn_cast_or_null<mlir::DictionaryAttr>(mlir::parseAttribute(c.attributes, &context));
  if (!attributes)
    llvm::report_fatal_error("a case has unreadable attributes: " + llvm::Twine(c.attributes));
  llvm::SmallVector<mlir::NamedAttribute> all(attributes.begin(), attributes.end());
  if (c.value)
    all.push_back(
        builder.getNamedAttr("value", sample(*c.value, dtype, 0, 1).toAttribute(&context)));
  state.addAttributes(all);

  auto *infer = state.name.getInterface<mlir::InferTypeOpInterface>();
  if (!c.results.empty()) {
    for (const TensorSpec &result : c.results)
      state.addTypes(mlir::RankedTensorType::get(
          result.shape, ir::elementType(result.dtype.value_or(dtype), &context)));
  } else if (c.value) {
    state.addTypes(typeOf(sample(*c.value, dtype, 0, 1), context));
  } else if (infer) {
    // Properties are what inference reads; a throw-away op without results turns attributes into
    // them.
    mlir::OperationState probe(loc, c.op);
    probe.addAttributes(all);
    mlir::Operation *properties = mlir::Operation::create(probe);
    llvm::SmallVector<mlir::Type> inferred;
    bool known = succeeded(infer->inferReturnTypes(
        &context, loc, state.operands, properties->getDiscardableAttrDictionary(),
        properties->getPropertiesStorage(), {}, inferred));
    properties->destroy();
    if (!known)
      return {};
    state.addTypes(inferred);
  } else {
    state.addTypes(types.front()); // ops that keep their (first) operand's type
  }
  mlir::Operation *op = builder.create(state);
  mlir::func::ReturnOp::create(builder, loc, op->getResults());
  made.main.setType(builder.getFunctionType(types, op->getResultTypes()));
  if (failed(mlir::verify(*made.module)))
    return {};
  made.op = op;
  return made;
}

std::vector<HostTensor> evaluate(mlir::func::FuncOp function, std::vector<HostTensor> inputs,
                                 std::string &error) {
  mlir::ScopedDiagnosticHandler collect(function.getContext(), [&](mlir::Diagnostic &diagnostic) {
    error += diagnostic.str() + "\n";
    return mlir::success();
  });
  llvm::SmallVector<HostTensor> results;
  if (failed(ir::evaluateBlock(function.getBody().front(), inputs, results)) && error.empty())
    error = "evaluation failed";
  return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
}

} // namespace weft::tests
