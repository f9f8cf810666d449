// The one interface of all weft ops. A record gives each method inline, in the file of its group,
// or says why it has none.
#ifndef WEFT_INTERFACES
#define WEFT_INTERFACES

include "mlir/IR/OpBase.td"

def Weft_OpInterface : OpInterface<"WeftOp"> {
  let cppNamespace = "::weft::ir";
  let description = [{The rules of an op. A default says that the op has no such rule; `missingRule` says why.}];
  let verify = [{ return ::weft::ir::verifyKind($_op); }];
  let methods = [
    StaticInterfaceMethod<"What the op is to fusion and planning.", "::weft::ir::Kind", "kind", (ins)>,
    StaticInterfaceMethod<"The operands that the derivative reads.", "::llvm::ArrayRef<int64_t>", "savedOperands", (ins)>,
    StaticInterfaceMethod<"The results that the derivative reads.", "::llvm::ArrayRef<int64_t>", "savedResults", (ins)>,
    StaticInterfaceMethod<"Scalar operands that are constants until a second value is seen.",
        "::llvm::ArrayRef<int64_t>", "specializedOperands", (ins)>,
    StaticInterfaceMethod<"The attributes that must be given.", "::llvm::ArrayRef<::llvm::StringRef>", "requiredAttributes",
        (ins)>,
    StaticInterfaceMethod<"Empty where the rule exists, else the reason why it does not.", "::llvm::StringRef",
        "missingRule", (ins "::weft::ir::RuleKind":$rule)>,
    StaticInterfaceMethod<[{Records the derivative: reads cotangents and saved values from `ctx` and sets a gradient for each
        operand that needs one. Never sees an op in place.}],
        "::mlir::LogicalResult", "differentiate", (ins "::weft::ir::GradContext &":$ctx), [{}],
        [{ return ctx.noRule(ConcreteOp::getOperationName(), ConcreteOp::missingRule(::weft::ir::RuleKind::Derivative)); }]>,
    StaticInterfaceMethod<"Scalar operations at each point of its statement.", "int64_t", "cost", (ins)>,
    InterfaceMethod<"How the op uses positions; nothing where that cannot be written down for its sizes.",
        "::std::optional<::weft::ir::IndexStatement>", "statement", (ins), [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<"Evaluates the op on host tensors: the specification of its values.",
        "::mlir::LogicalResult", "evaluate", (ins "::weft::ir::EvalContext &":$ctx), [{}],
        [{ return $_op.emitOpError() << "has no reference evaluation: " << ConcreteOp::missingRule(::weft::ir::RuleKind::Evaluation); }]>,
    InterfaceMethod<"Rewrites the op as simpler weft ops before it; returns the values that replace its results.",
        "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "decompose", (ins "::mlir::OpBuilder &":$b), [{}],
        [{ return ::mlir::failure(); }]>,
    InterfaceMethod<[{Lowers the op to linalg on tensors: `operands` are the already lowered operands, the returned values replace
        its results.}],
        "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "lowerToLinalg",
        (ins "::mlir::OpBuilder &":$b, "::mlir::ValueRange":$operands), [{}], [{ return ::mlir::failure(); }]>,
  ];
}

// Elementwise ops also give their scalar function.
def Weft_ElementwiseOpInterface : OpInterface<"ElementwiseOp"> {
  let cppNamespace = "::weft::ir";
  let methods = [
    InterfaceMethod<[{Emits the op on scalars with arith and math ops; `args` are the operands at one position, of their element types.}],
        "::mlir::Value", "emitScalar", (ins "::mlir::OpBuilder &":$b, "::mlir::Location":$loc, "::mlir::ValueRange":$args)>,
  ];
}

#endif
