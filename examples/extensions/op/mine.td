// A dialect with one op. Weft_UnaryOp makes the rest of it from this record, as for ops of Weft:
// verifier, assembly, reference evaluation, lowering.
include "dialects/weft/ir/ElementwiseOps.td"

def Mine_Dialect : Dialect {
  let name = "mine";
  let cppNamespace = "::mine";
}

def Mine_SquashOp : Weft_UnaryOp<"squash", Weft_FloatTensor, Inline<[{
    // 1 / (1 + |x|)^2, as formulas of the graph: derivatives have derivatives.
    weft::ir::Val x = ctx.operand(0);
    weft::ir::Val magnitude = select(compare("lt", x, x.constant(0)), -x, x) + 1.0;
    ctx.grad(0, ctx.g() / (magnitude * magnitude));
    return ::mlir::success();
  }]>> {
  let opDialect = Mine_Dialect;
  let cppNamespace = "::mine"; // or the class is weft::ir::SquashOp, beside those of Weft
  let tests = Tests<[AnyDomain], 2>;
  let summary = "x / (1 + |x|)";
  let reference = "return T(double(x) / (1 + std::abs(double(x))));";
  let scalar = "return s.div(x, s.add(s.constant(x.getType(), 1), s.abs(x)));";
  let savesOperands = [0];
}
