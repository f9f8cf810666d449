// Elementwise ops: one scalar function of the operands at the same position. Operands and result
// have one shape.
#ifndef WEFT_ELEMENTWISE_OPS
#define WEFT_ELEMENTWISE_OPS

include "dialects/weft/ir/WeftBase.td"

// `reference` is the scalar function on doubles or int64s (a generic lambda's return expression
// over x, y, z); `scalar` emits arith or math ops on x, y through a ScalarEmitter s; bf16 and f16
// arrive as f32, and what it returns is rounded once.
class Weft_ElementwiseOp<string mnemonic, Rule derivative, list<Trait> traits = []>
    : Weft_Op<mnemonic, ElementwiseKind, derivative, InFile, NotApplicable<"an elementwise op is a primitive">, InFile,
              Inline<"return ::weft::ir::elementwiseStatement(*this);">,
              !listconcat([Pure, DeclareOpInterfaceMethods<Weft_ElementwiseOpInterface>], traits)> {
  string reference = ?;
  string scalar = ?;
  let hasFolder = 1;
}

class Weft_UnaryOp<string mnemonic, Type operand, Rule derivative>
    : Weft_ElementwiseOp<mnemonic, derivative, [SameOperandsAndResultType]> {
  let arguments = (ins operand:$input);
  let results = (outs operand:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let frontend = UnaryFunction;
  let ruleDefinitions = !strconcat(
    "::mlir::Value $cppClass::emitScalar(::mlir::OpBuilder &b, ::mlir::Location loc, ::mlir::ValueRange operands) {\n",
    "  return ::weft::ir::emitWidened(b, loc, operands, [&](::mlir::ValueRange args) -> ::mlir::Value {\n",
    "    [[maybe_unused]] ::weft::ir::ScalarEmitter s(b, loc); [[maybe_unused]] ::mlir::Value x = args[0];\n    ", scalar, "\n  });\n}\n",
    "::mlir::LogicalResult $cppClass::evaluate(::weft::ir::EvalContext &ctx) {\n",
    "  return ctx.unary([&](auto x) { using T = decltype(x); (void)sizeof(T); ", reference, " });\n}\n",
    "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>> $cppClass::lowerToLinalg(::mlir::OpBuilder &b, ::mlir::ValueRange operands) {\n",
    "  return ::weft::ir::lowerElementwise(b, *this, operands);\n}\n",
    "::mlir::OpFoldResult $cppClass::fold(FoldAdaptor adaptor) {\n",
    "  return ::weft::ir::foldElementwise(*this, adaptor.getOperands(), /*exact=*/", !if(!eq(tests.ulp, 0), "true", "false"), ");\n}\n");
}

class Weft_BinaryOp<string mnemonic, Type operand, Rule derivative>
    : Weft_ElementwiseOp<mnemonic, derivative, [SameOperandsAndResultType]> {
  let arguments = (ins operand:$lhs, operand:$rhs);
  let results = (outs operand:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
  let frontend = BinaryFunction;
  let ruleDefinitions = !strconcat(
    "::mlir::Value $cppClass::emitScalar(::mlir::OpBuilder &b, ::mlir::Location loc, ::mlir::ValueRange operands) {\n",
    "  return ::weft::ir::emitWidened(b, loc, operands, [&](::mlir::ValueRange args) -> ::mlir::Value {\n",
    "    [[maybe_unused]] ::weft::ir::ScalarEmitter s(b, loc); [[maybe_unused]] ::mlir::Value x = args[0], y = args[1];\n    ", scalar, "\n  });\n}\n",
    "::mlir::LogicalResult $cppClass::evaluate(::weft::ir::EvalContext &ctx) {\n",
    "  return ctx.binary([&](auto x, auto y) { using T = decltype(x); (void)sizeof(T); ", reference, " });\n}\n",
    "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>> $cppClass::lowerToLinalg(::mlir::OpBuilder &b, ::mlir::ValueRange operands) {\n",
    "  return ::weft::ir::lowerElementwise(b, *this, operands);\n}\n",
    "::mlir::OpFoldResult $cppClass::fold(FoldAdaptor adaptor) {\n",
    "  return ::weft::ir::foldElementwise(*this, adaptor.getOperands(), /*exact=*/", !if(!eq(tests.ulp, 0), "true", "false"), ");\n}\n");
}

// The derivative of a step function, 0: as a value, so that its operand gets a gradient, as in
// PyTorch.
defvar ZeroDerivative = Inline<"ctx.grad(0, ctx.g().constant(0)); return ::mlir::success();">;

//===-- Unary ---------------------------------------------------------------------------------===//

def Weft_NegOp : Weft_UnaryOp<"neg", Weft_NumericTensor, Inline<"ctx.grad(0, -ctx.g()); return ::mlir::success();">> {
  let tests = ExactTests;
  let summary = "the negative of each element; integers wrap";
  let reference = "return ::weft::ir::wrapping_neg(x);";
  let scalar = "return s.neg(x);";
}
def Weft_AbsOp : Weft_UnaryOp<"abs", Weft_NumericTensor, InFile> {
  let tests = ExactTests;
  let summary = "the absolute value; its derivative at 0 is 0";
  let reference = "return x < T(0) ? ::weft::ir::wrapping_neg(x) : (x == T(0) ? T(0) : x);";
  let scalar = "return s.abs(x);";
  let savesOperands = [0];
}
def Weft_ExpOp : Weft_UnaryOp<"exp", Weft_FloatTensor, Inline<"ctx.grad(0, ctx.g() * ctx.result(0)); return ::mlir::success();">> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-80", "80">], 2>;
  let summary = "e to the power of each element";
  let reference = "return T(std::exp(double(x)));";
  let scalar = "return s.exp(x);";
  let savesResults = [0];
}
def Weft_Exp2Op : Weft_UnaryOp<"exp2", Weft_FloatTensor, Inline<"ctx.roundOnce(); ctx.grad(0, ctx.g() * (ctx.result(0) * 0.69314718055994530942)); return ::mlir::success();">> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-120", "120">], 2>;
  let summary = "2 to the power of each element";
  let reference = "return T(std::exp2(double(x)));";
  let scalar = "return s.exp2(x);";
  let savesResults = [0];
}
def Weft_LogOp : Weft_UnaryOp<"log", Weft_FloatTensor, Inline<"ctx.grad(0, ctx.g() / ctx.operand(0)); return ::mlir::success();">> {
  let cost = FunctionCost;
  let tests = Tests<[PositiveDomain], 1>;
  let summary = "the natural logarithm; NaN below 0, -inf at 0";
  let reference = "return T(std::log(double(x)));";
  let scalar = "return s.log(x);";
  let savesOperands = [0];
}
def Weft_Expm1Op : Weft_UnaryOp<"expm1", Weft_FloatTensor, Inline<"ctx.roundOnce(); ctx.grad(0, ctx.g() * (ctx.result(0) + 1.0)); return ::mlir::success();">> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-20", "20">], 2>;
  let summary = "exp(x) - 1, accurate near 0";
  let reference = "return T(std::expm1(double(x)));";
  let scalar = "return s.expm1(x);";
  let savesResults = [0];
}
def Weft_Log1pOp : Weft_UnaryOp<"log1p", Weft_FloatTensor, Inline<"ctx.grad(0, ctx.g() / (ctx.operand(0) + 1.0)); return ::mlir::success();">> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-0.9", "1000">], 1>;
  let summary = "log(1 + x), accurate near 0; NaN below -1, -inf at -1";
  let reference = "return T(std::log1p(double(x)));";
  let scalar = "return s.log1p(x);";
  let savesOperands = [0];
}
def Weft_SinOp : Weft_UnaryOp<"sin", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-40", "40">], 1>;
  let summary = "the sine, of radians";
  let reference = "return T(std::sin(double(x)));";
  let scalar = "return s.sin(x);";
  let savesOperands = [0];
}
def Weft_CosOp : Weft_UnaryOp<"cos", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-40", "40">], 1>;
  let summary = "the cosine, of radians";
  let reference = "return T(std::cos(double(x)));";
  let scalar = "return s.cos(x);";
  let savesOperands = [0];
}
def Weft_SignOp : Weft_UnaryOp<"sign", Weft_NumericTensor, ZeroDerivative> {
  let tests = ExactTests;
  let summary = "1 above 0, -1 below, else 0: for 0, -0 and, as in PyTorch, NaN";
  let reference = "return T((x > T(0)) - (x < T(0)));";
  let scalar = "return s.sign(x);";
}
def Weft_FloorOp : Weft_UnaryOp<"floor", Weft_NumericTensor, ZeroDerivative> {
  let tests = ExactTests;
  let summary = "the largest integer that is not above; integers stay";
  let reference = "if constexpr (std::is_same_v<T, double>) return std::floor(x); else return x;";
  let scalar = "return s.floor(x);";
}
def Weft_CeilOp : Weft_UnaryOp<"ceil", Weft_NumericTensor, ZeroDerivative> {
  let tests = ExactTests;
  let summary = "the smallest integer that is not below; integers stay";
  let reference = "if constexpr (std::is_same_v<T, double>) return std::ceil(x); else return x;";
  let scalar = "return s.ceil(x);";
}
def Weft_RoundOp : Weft_UnaryOp<"round", Weft_NumericTensor, ZeroDerivative> {
  let tests = ExactTests;
  let summary = "the nearest integer, halves to even; integers stay";
  let reference = "if constexpr (std::is_same_v<T, double>) return std::nearbyint(x); else return x;";
  let scalar = "return s.round(x);";
}
def Weft_SqrtOp : Weft_UnaryOp<"sqrt", Weft_FloatTensor, Inline<"ctx.grad(0, ctx.g() * 0.5 / ctx.result(0)); return ::mlir::success();">> {
  let cost = DivisionCost;
  let tests = Tests<[PositiveDomain], 0>;
  let summary = "the square root; NaN below 0";
  let reference = "return T(std::sqrt(double(x)));";
  let scalar = "return s.sqrt(x);";
  let savesResults = [0];
}
def Weft_RsqrtOp : Weft_UnaryOp<"rsqrt", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[PositiveDomain], 1>;
  let summary = "1 / sqrt(x)";
  let reference = "return T(1.0 / std::sqrt(double(x)));";
  let scalar = "return s.rsqrt(x);";
  let savesResults = [0];
}
def Weft_TanhOp : Weft_UnaryOp<"tanh", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-10", "10">], 2>;
  let summary = "the hyperbolic tangent";
  let reference = "return T(std::tanh(double(x)));";
  let scalar = "return s.tanh(x);";
  let savesResults = [0];
}
def Weft_ErfOp : Weft_UnaryOp<"erf", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[AnyDomain], 2>;
  let summary = "the error function";
  let reference = "return T(std::erf(double(x)));";
  let scalar = "return s.erf(x);";
  let savesOperands = [0];
}
def Weft_ErfcOp : Weft_UnaryOp<"erfc", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[AnyDomain], 3>;
  let summary = "1 - erf(x), which does not cancel where it is small";
  let reference = "return T(std::erfc(double(x)));";
  let scalar = "return s.erfc(x);";
  let savesOperands = [0];
}
def Weft_ErfinvOp : Weft_UnaryOp<"erfinv", Weft_FloatTensor, Inline<[{
    ctx.roundOnce();
    Val y = ctx.result(0);
    ctx.grad(0, ctx.g() * (0.88622692545275801365 * exp(y * y)));
    return ::mlir::success();
  }]>> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-0.9", "0.9">], 4>; // beyond, differences see no slope
  let summary = "the inverse of erf: infinite at -1 and 1, NaN beyond them";
  let reference = "return T(::weft::ir::erfinv(double(x)));";
  let scalar = "return s.erfinv(x);";
  let savesResults = [0];
}
def Weft_LgammaOp : Weft_UnaryOp<"lgamma", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"0.1", "100">], 4>;
  let summary = "the logarithm of the absolute value of the gamma function; infinite at 0 and the negative integers";
  let reference = "return T(::weft::ir::lgamma(double(x)));";
  let scalar = "return s.lgamma(x);";
  let savesOperands = [0];
}
def Weft_PolygammaOp : Weft_UnaryOp<"polygamma", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"2.5", "30">], 4>; // below it, digamma is 0 at 1.46
  let summary = "the derivative of lgamma (digamma), or that one's derivative of this order, which is its own derivative of order + 1";
  let arguments = (ins Weft_FloatTensor:$input, DefaultValuedAttr<I64Attr, "0">:$order);
  let reference = "return T(::weft::ir::polygamma(getOrder(), double(x)));";
  let scalar = "return s.polygamma(x, getOrder());";
  let savesOperands = [0];
  let frontend = Handwritten;
  let hasVerifier = 1;
}
def Weft_SigmoidOp : Weft_UnaryOp<"sigmoid", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-90", "90">], 2>;
  let summary = "1 / (1 + exp(-x))";
  let reference = "double e = std::exp(-std::abs(double(x))); return T((double(x) < 0 ? e : 1.0) / (1.0 + e));";
  let scalar = "return s.sigmoid(x);";
  let savesResults = [0];
}
def Weft_ReluOp : Weft_UnaryOp<"relu", Weft_NumericTensor, InFile> {
  let tests = ExactTests;
  let summary = "max(x, 0); NaN stays NaN, the derivative at 0 is 0";
  let reference = "return x > T(0) || x != x ? x : T(0);";
  let scalar = "return s.relu(x);";
  let savesResults = [0];
}
def Weft_Relu6Op : Weft_UnaryOp<"relu6", Weft_NumericTensor, InFile> {
  let tests = ExactTests;
  let summary = "min(max(x, 0), 6); NaN stays NaN, the derivative at 0 and 6 is 0";
  let reference = "return x >= T(6) ? T(6) : (x > T(0) || x != x ? x : T(0));";
  let scalar = "return s.relu6(x);";
  let savesResults = [0];
}
def Weft_HardsigmoidOp : Weft_UnaryOp<"hardsigmoid", Weft_FloatTensor, InFile> {
  let cost = DivisionCost;
  let tests = Tests<[Domain<"-8", "8">], 2>;
  let summary = "relu6(x + 3) / 6 (Howard et al. 2019); the derivative at -3 and 3 is 0";
  let reference = "double y = double(x) + 3; return T((y >= 6 ? 6 : (y > 0 || y != y ? y : 0)) / 6);";
  let scalar = "return s.hardsigmoid(x);";
  let savesResults = [0];
}
def Weft_HardswishOp : Weft_UnaryOp<"hardswish", Weft_FloatTensor, InFile> {
  let cost = DivisionCost;
  let tests = Tests<[Domain<"-8", "8">], 3>;
  let summary = "x * hardsigmoid(x) (Howard et al. 2019); the derivative is 0 up to -3, and 1 from 3 on";
  let reference = "double y = double(x) + 3; return T(x * ((y >= 6 ? 6 : (y > 0 || y != y ? y : 0)) / 6));";
  let scalar = "return s.mul(x, s.hardsigmoid(x));";
  let savesOperands = [0];
}
def Weft_SoftplusOp : Weft_UnaryOp<"softplus", Weft_FloatTensor, Inline<[{
    ctx.roundOnce();
    ctx.grad(0, ctx.g() * sigmoid(ctx.operand(0)));
    return ::mlir::success();
  }]>> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-90", "90">], 4>;
  let summary = "log(1 + exp(x)), which neither overflows nor cancels";
  let reference = "return T(std::max(double(x), 0.0) + std::log1p(std::exp(-std::abs(double(x)))));";
  let scalar = "return s.add(s.maximum(x, s.constant(x.getType(), 0)), s.log1p(s.exp(s.neg(s.abs(x)))));";
  let savesOperands = [0];
}
def Weft_NotOp : Weft_UnaryOp<"not", Weft_LogicTensor, NotDifferentiable<"bool and integers have no derivative">> {
  let tests = ExactTests;
  let summary = "the logical (bool) or bitwise (integer) complement";
  let reference = "return T(::weft::ir::bit_not(x));";
  let scalar = "return s.bitNot(x);";
  let frontend = Handwritten;
}
def Weft_GeluOp : Weft_UnaryOp<"gelu", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"-10", "10">], 4>;
  let summary = "the Gaussian error linear unit (Hendrycks and Gimpel 2016), x * Phi(x)";
  let description = [{
    Exact: `0.5 * x * (1 + erf(x / sqrt(2)))`. With `tanh_approximation`: `0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))`.
  }];
  let arguments = (ins Weft_FloatTensor:$input, DefaultValuedAttr<BoolAttr, "false">:$tanh_approximation);
  let reference = "return T(::weft::ir::gelu(double(x), getTanhApproximation()));";
  let scalar = "return s.gelu(x, getTanhApproximation());";
  let savesOperands = [0];
  let frontend = Handwritten;
}

//===-- Binary --------------------------------------------------------------------------------===//

def Weft_AddOp : Weft_BinaryOp<"add", Weft_NumericTensor, Inline<"ctx.grad(0, ctx.g()); ctx.grad(1, ctx.g()); return ::mlir::success();">> {
  let tests = ExactTests;
  let summary = "the sum; integers wrap";
  let reference = "return ::weft::ir::wrapping_add(x, y);";
  let scalar = "return s.add(x, y);";
}
def Weft_SubOp : Weft_BinaryOp<"sub", Weft_NumericTensor, Inline<"ctx.grad(0, ctx.g()); ctx.grad(1, -ctx.g()); return ::mlir::success();">> {
  let tests = ExactTests;
  let summary = "the difference; integers wrap";
  let reference = "return ::weft::ir::wrapping_sub(x, y);";
  let scalar = "return s.sub(x, y);";
}
def Weft_MulOp : Weft_BinaryOp<"mul", Weft_NumericTensor, InFile> {
  let tests = ExactTests;
  let summary = "the product; integers wrap";
  let reference = "return ::weft::ir::wrapping_mul(x, y);";
  let scalar = "return s.mul(x, y);";
  let savesOperands = [0, 1];
}
def Weft_DivOp : Weft_BinaryOp<"div", Weft_NumericTensor, InFile> {
  let cost = DivisionCost;
  let tests = Tests<[AnyDomain, Domain<"0.5", "4">], 0>;
  let summary = "the quotient; integers round towards zero, an integer division by zero gives 0";
  let reference = "return ::weft::ir::quotient(x, y);";
  let scalar = "return s.div(x, y);";
  let savesOperands = [1];
  let savesResults = [0];
  let frontend = Handwritten;
}
def Weft_RemOp : Weft_BinaryOp<"rem", Weft_NumericTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[AnyDomain, Domain<"0.5", "4">], 0>;
  let summary = "PyTorch's remainder, x - y * floor(x / y): it has the sign of y; an integer's by zero is 0";
  let description = [{
    Floats: C's fmod, which is exact, plus y where its sign is not that of y; a zero keeps the sign of x. By 0 it is NaN.
    The derivative by y is -floor(x / y).
  }];
  let reference = "return ::weft::ir::remainder_of(x, y);";
  let scalar = "return s.rem(x, y);";
  let savesOperands = [0, 1];
  let frontend = Handwritten;
}
def Weft_PowOp : Weft_BinaryOp<"pow", Weft_NumericTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[Domain<"0.1", "10">, AnyDomain], 4>;
  let summary = "x to the power of y, as C's pow; integers wrap";
  let description = [{An integer to a negative power is 0, but 1 and -1 to it are 1 and 1 or -1: as PyTorch has it, rounded towards zero.}];
  let reference = "return ::weft::ir::power_of(x, y);";
  let scalar = "return s.pow(x, y);";
  let savesOperands = [0, 1];
  let specialize = [1];
}
def Weft_Atan2Op : Weft_BinaryOp<"atan2", Weft_FloatTensor, InFile> {
  let cost = FunctionCost;
  let tests = Tests<[AnyDomain], 2>;
  let summary = "the angle of the point (y, x), lhs and rhs, from the positive x-axis, in [-pi, pi]: C's atan2";
  let description = [{Infinities and signed zeros as in C: atan2(0, -0) is pi, atan2(-0, 0) is -0. The derivative at (0, 0) is 0, as PyTorch's.}];
  let reference = "return T(std::atan2(double(x), double(y)));";
  let scalar = "return s.atan2(x, y);";
  let savesOperands = [0, 1];
  let frontend = Handwritten;
}
def Weft_MinimumOp : Weft_BinaryOp<"minimum", Weft_NumericTensor, InFile> {
  let tests = ExactTests;
  let summary = "the smaller element, NaN if one is NaN, -0 < 0; ties share the derivative equally";
  let reference = "return ::weft::ir::minimum_of(x, y);";
  let scalar = "return s.minimum(x, y);";
  let savesOperands = [0, 1];
}
def Weft_MaximumOp : Weft_BinaryOp<"maximum", Weft_NumericTensor, InFile> {
  let tests = ExactTests;
  let summary = "the larger element, NaN if one is NaN, -0 < 0; ties share the derivative equally";
  let reference = "return ::weft::ir::maximum_of(x, y);";
  let scalar = "return s.maximum(x, y);";
  let savesOperands = [0, 1];
}
def Weft_AndOp : Weft_BinaryOp<"and", Weft_LogicTensor, NotDifferentiable<"bool and integers have no derivative">> {
  let tests = ExactTests;
  let summary = "the logical (bool) or bitwise (integer) and";
  let reference = "return T(::weft::ir::bit_and(x, y));";
  let scalar = "return s.bitAnd(x, y);";
  let frontend = Handwritten;
}
def Weft_OrOp : Weft_BinaryOp<"or", Weft_LogicTensor, NotDifferentiable<"bool and integers have no derivative">> {
  let tests = ExactTests;
  let summary = "the logical (bool) or bitwise (integer) or";
  let reference = "return T(::weft::ir::bit_or(x, y));";
  let scalar = "return s.bitOr(x, y);";
  let frontend = Handwritten;
}
def Weft_XorOp : Weft_BinaryOp<"xor", Weft_LogicTensor, NotDifferentiable<"bool and integers have no derivative">> {
  let tests = ExactTests;
  let summary = "the logical (bool) or bitwise (integer) exclusive or";
  let reference = "return T(::weft::ir::bit_xor(x, y));";
  let scalar = "return s.bitXor(x, y);";
  let frontend = Handwritten;
}
// Tests draw integers of 20 times a domain: counts of -10 to 70 lie on both sides of each width.
defvar ShiftTests = Tests<[AnyDomain, Domain<"-0.5", "3.5">], 0>;
def Weft_ShiftLeftOp : Weft_BinaryOp<"shift_left", Weft_IntTensor, NotDifferentiable<"integers have no derivative">> {
  let tests = ShiftTests;
  let summary = "the bits of lhs moved up by rhs places, zeros below; 0 where rhs is negative or not below the width";
  let reference = "return ::weft::ir::shift_left(x, y);";
  let scalar = "return s.shiftLeft(x, y);";
  let frontend = Handwritten;
}
def Weft_ShiftRightOp : Weft_BinaryOp<"shift_right", Weft_IntTensor, NotDifferentiable<"integers have no derivative">> {
  let tests = ShiftTests;
  let summary = "the bits of lhs moved down by rhs places, copies of the sign above";
  let description = [{Where rhs is negative or not below the width, the sign is all that is left: -1 of negative numbers, 0 of others.}];
  let reference = "return ::weft::ir::shift_right(x, y);";
  let scalar = "return s.shiftRight(x, y);";
  let frontend = Handwritten;
}

//===-- Others --------------------------------------------------------------------------------===//

def Weft_Direction : I32EnumAttr<"Direction", "a comparison", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::weft::ir";
}

def Weft_CompareOp : Weft_ElementwiseOp<"compare", NotDifferentiable<"a comparison is constant almost everywhere">,
                                        [SameTypeOperands, Infer]> {
  let tests = ExactTests;
  let summary = "compares the elements of two tensors; NaN compares as IEEE 754 says";
  let arguments = (ins Weft_Direction:$direction, Weft_Tensor:$lhs, Weft_Tensor:$rhs);
  let results = (outs Weft_BoolTensor:$result);
  let assemblyFormat = "$direction $lhs `,` $rhs attr-dict `:` type($lhs)";
}
def Weft_SelectOp : Weft_ElementwiseOp<"select", InFile, [AllTypesMatch<["on_true", "on_false", "result"]>,
    TypesMatchWith<"the condition has the shape of the result", "on_true", "condition",
                   "::weft::ir::withElementType($_self, ::mlir::IntegerType::get($_self.getContext(), 1))">]> {
  let tests = ExactTests;
  let summary = "on_true where the condition holds, else on_false";
  let arguments = (ins Weft_BoolTensor:$condition, Weft_Tensor:$on_true, Weft_Tensor:$on_false);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$condition `,` $on_true `,` $on_false attr-dict `:` type($on_true)";
  let savesOperands = [0];
}
def Weft_CastOp : Weft_ElementwiseOp<"cast", InFile, [SameOperandsAndResultShape]> {
  let tests = ExactTests;
  let summary = "converts the element type";
  let description = [{
    Float to integer rounds towards zero and saturates (NaN gives 0); integers wrap; anything but 0 is `true`; between floats it rounds to nearest even.
  }];
  let arguments = (ins Weft_Tensor:$input);
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
}
def Weft_CheckIndexOp : Weft_ElementwiseOp<"check_index", NotDifferentiable<"integers have no derivative">, [SameOperandsAndResultType]> {
  let tests = Untested<"it has a result for indices in range only; the tests of cross_entropy show both">;
  let summary = "the indices themselves; a run fails unless each lies in [0, size) or is ignore_index";
  let description = [{`user` is the op that errors name: the one that this one was decomposed from.}];
  let arguments = (ins Weft_IndexTensor:$input, I64Attr:$size, OptionalAttr<I64Attr>:$ignore_index, StrAttr:$user);
  let results = (outs Weft_IndexTensor:$result);
  let assemblyFormat = "$input `in` $size `for` $user attr-dict `:` type($input)";
}
def Weft_TransferOp : Weft_ElementwiseOp<"transfer", InFile, [SameOperandsAndResultType]> {
  let tests = ExactTests;
  let summary = "the same values in another device's memory";
  let description = [{
    A program runs on one device: what is recorded is cut at transfers, which the runtime carries out between programs. Inside a program a transfer is its operand.
  }];
  let arguments = (ins Weft_Tensor:$input, StrAttr:$from, StrAttr:$to);
  let frontend = Recorder; // where the result lies is no part of its MLIR type
  let results = (outs Weft_Tensor:$result);
  let assemblyFormat = "$input `from` $from `to` $to attr-dict `:` type($input)";
}

// Its derivative is none, not ZeroDerivative's zeros: as far as a gradient knows, nothing depends on
// the operand.
def Weft_DetachOp : Weft_Op<"detach", ElementwiseKind, Inline<"return ::mlir::success();">, InFile,
                            Inline<"return ::llvm::SmallVector<::mlir::Value>{getInput()};">, ByDecomposition,
                            Inline<"return ::weft::ir::elementwiseStatement(*this);">,
                            [Pure, SameOperandsAndResultType, Weft_WrittenOut]> {
  let tests = ExactTests;
  let cost = NoOperation;
  let summary = "the same values, through which no gradient passes";
  let description = [{
    A traced function has one where it detaches what depends on its inputs, by detach(), weft::NoGrad or a function with a derivative of
    its own: the program's derivative is then the function's. What compiles it sees the operand.
  }];
  let arguments = (ins Weft_FloatTensor:$input);
  let frontend = Recorder; // of traced functions only
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

#endif
