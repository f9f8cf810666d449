// The weft dialect, the rules that every op record carries, and the base classes of op records.
#ifndef WEFT_BASE
#define WEFT_BASE

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/weft/ir/WeftInterfaces.td"

def Weft_Dialect : Dialect {
  let name = "weft";
  let cppNamespace = "::weft::ir";
  let summary = "Tensor programs as pure dataflow graphs.";
  let description = [{
    Ops on ranked tensors with static or named symbolic dims. Everything is pure; broadcasting and dtype
    conversion are explicit ops (`weft.broadcast`, `weft.cast`), so that each rule of an op sees one shape and one dtype.
  }];
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

//===-- Attributes ----------------------------------------------------------------------------===//

def Weft_DimsAttr : AttrDef<Weft_Dialect, "Dims", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "dims";
  let summary = "the names of a tensor type's symbolic dims";
  let description = [{
    The encoding of `tensor<?x128xf32, #weft.dims<n, _>>`: one entry a dimension, a name where the size is `?`, `_` where it is static.
    Equal names are equal sizes throughout a function. A `?` without a name is refused by every op.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr", "null where the dim is static">:$names);
  let hasCustomAssemblyFormat = 1;
}

//===-- Types ---------------------------------------------------------------------------------===//

def Weft_Float : AnyTypeOf<[F32, F64, BF16, F16]>;
def Weft_Int : AnyTypeOf<[I32, I64, I8, I16, UI8]>;
def Weft_Numeric : AnyTypeOf<[Weft_Float, Weft_Int]>;
def Weft_Element : AnyTypeOf<[Weft_Float, Weft_Int, I1]>;

// `dtypes` is the constraint's name in the op table of the tests.
class Weft_TensorOf<list<Type> elements, string name, string dtypes_>
    : Type<And<[RankedTensorOf<elements>.predicate, CPred<"::weft::ir::dimsAreNamed($_self)">]>,
           "a tensor of " # name # " (each `?` named by #weft.dims)", "::mlir::RankedTensorType"> {
  string dtypes = dtypes_;
}
def Weft_FloatTensor : Weft_TensorOf<[Weft_Float], "floating-point numbers", "floating">;
def Weft_NumericTensor : Weft_TensorOf<[Weft_Numeric], "numbers", "numeric">;
def Weft_IntTensor : Weft_TensorOf<[Weft_Int], "integers", "integer">;
def Weft_IndexTensor : Weft_TensorOf<[I32, I64], "int32 or int64", "index">;
def Weft_BoolTensor : Weft_TensorOf<[I1], "bool", "bool">;
def Weft_LogicTensor : Weft_TensorOf<[I1, Weft_Int], "bool or integers", "logic">;
def Weft_Tensor : Weft_TensorOf<[Weft_Element], "numbers or bool", "any">;
// The state of a random generator: {key, counter}.
def Weft_RandomState
    : Type<CPred<"::weft::ir::isRandomState($_self)">, "a random state, tensor<2xi64>", "::mlir::RankedTensorType">,
      BuildableType<"::mlir::RankedTensorType::get({2}, $_builder.getI64Type())"> {
  string dtypes = "state";
}

//===-- Rules ---------------------------------------------------------------------------------===//
// Each op record states, for each interface, how the rule is given. A field that stays unset fails
// the build (tools/opgen checks every record).

class Rule<string kind_, string text_> {
  string kind = kind_;
  string text = text_;
}
class Inline<string body> : Rule<"inline", body>;              // the body of the C++ function, in the record
def InFile : Rule<"file", "">;                                 // the C++ function stands in the file of the op's group
class Deferred<string reason> : Rule<"deferred", reason>;      // can be built, is not built yet: who needs it gets an error
class NotApplicable<string reason> : Rule<"none", reason>;     // cannot exist
class NotDifferentiable<string reason> : Rule<"none", reason>; // has no derivative
// The op is rewritten to other ops by its decomposition before this rule is needed.
def ByDecomposition : Rule<"decomposition", "through its decomposition">;

// What an op costs at one point of its statement, in additions: how often it is worth computing
// again, and what it adds to a kernel's estimate.
class Cost<int operations_> { int operations = operations_; }
def NoOperation : Cost<0>;        // it moves elements, or is counted in what it decomposes to
def OneOperation : Cost<1>;
def TwoOperations : Cost<2>;      // a product and a sum
def DivisionCost : Cost<4>;       // a division or a root
def DrawCost : Cost<12>;          // a draw of Philox, shared by four elements
def FunctionCost : Cost<16>;      // a function that compiler/math expands

// What an op is to fusion and planning, and what such an op costs if its record says nothing else.
class OpKind<string name_, Cost cost_> {
  string name = name_;
  Cost cost = cost_;
}
def CreationKind : OpKind<"Creation", NoOperation>;         // no tensor operand decides its values
def ElementwiseKind : OpKind<"Elementwise", OneOperation>;  // one scalar function of the operands at the same position
def MovementKind : OpKind<"Movement", NoOperation>;         // rearranges or repeats elements: broadcast, transpose, slice, ...
def ReductionKind : OpKind<"Reduction", OneOperation>;
def ScanKind : OpKind<"Scan", OneOperation>;                // a reduction along a dim that keeps what it has at each step
def ContractionKind : OpKind<"Contraction", TwoOperations>;  // matmul and its kin
def GatherKind : OpKind<"Gather", OneOperation>;          // data say where an operand is read
def ScatterKind : OpKind<"Scatter", OneOperation>;        // data say where the result is written
def RandomKind : OpKind<"Random", DrawCost>;
def CompositeKind : OpKind<"Composite", NoOperation>;       // stays whole until a provider claims or decomposes it
def ExchangeKind : OpKind<"Exchange", NoOperation>;         // between ranks: the runtime runs it between programs
def StructureKind : OpKind<"Structure", NoOperation>;       // custom, fusion, yield, leaf, provider_call

// How the frontend offers the op. Unary and Binary functions (free, member) are generated from the
// record; Handwritten ones stand in frontend/ops/. All of them record the op by a function that is
// generated from the record, too.
class Frontend<string kind_> { string kind = kind_; }
def UnaryFunction : Frontend<"unary">;
def BinaryFunction : Frontend<"binary">;    // with broadcasting and promotion
def Handwritten : Frontend<"handwritten">;
def Recorder : Frontend<"recorder">;        // recorded by a function of its own, frontend/recorder/emit*.cpp
def Internal : Frontend<"internal">;        // made by rules and passes only

// Where tests draw an operand's random values from; integers and bools take what of it they can
// hold.
class Domain<string lowest_, string highest_> {
  string lowest = lowest_;
  string highest = highest_;
}
def AnyDomain : Domain<"-4", "4">;
def PositiveDomain : Domain<"0.001", "1000">;

// What the tests of the op draw and expect: a domain for each operand, or one for all, and the
// error budget of an f32 result: in units in the last place of the reference's, 0 for bit-exact; or
// ReductionBound.
class Tests<list<Domain> domains_, int ulp_, string reason_ = ""> {
  list<Domain> domains = domains_;
  int ulp = ulp_;
  string untested = reason_;
}
class Untested<string reason> : Tests<[], 0, reason>;  // not tested op by op
defvar ReductionBound = -1;  // within the bound of an n-term sum from the float64 value
def ExactTests : Tests<[AnyDomain], 0>;
def BoundTests : Tests<[AnyDomain], ReductionBound>;

class Declared<Rule rule, string method> {
  list<string> methods = !if(!or(!eq(rule.kind, "inline"), !eq(rule.kind, "file")), [method], []<string>);
}
class IntList<list<int> values> { string text = !interleave(values, ", "); }

// The names, as C++ strings, of the attributes among an op's arguments that must be given.
class RequiredName<Attr attribute, string name> {
  string text = !if(!or(attribute.isOptional, !initialized(attribute.defaultValue)), "", "\"" # name # "\", ");
}
class RequiredNames<dag arguments> {
  string text = !foldl("", !range(!size(arguments)), names, i,
                       names # !if(!initialized(!getdagarg<Attr>(arguments, i)),
                                   RequiredName<!getdagarg<Attr>(arguments, i), !getdagname(arguments, i)>.text, ""));
}

// The base of all op records.
class Weft_Op<string mnemonic, OpKind kind_, Rule derivative_, Rule evaluation_, Rule decomposition_, Rule lowering_,
              Rule statement_, list<Trait> traits = []>
    : Op<Weft_Dialect, mnemonic, !listconcat(traits, [
        DeclareOpInterfaceMethods<Weft_OpInterface, !listconcat(
            Declared<derivative_, "differentiate">.methods, Declared<evaluation_, "evaluate">.methods,
            Declared<decomposition_, "decompose">.methods, Declared<lowering_, "lowerToLinalg">.methods,
            Declared<statement_, "statement">.methods,
            ["kind", "cost", "savedOperands", "savedResults", "specializedOperands", "requiredAttributes", "missingRule"])>])> {
  OpKind kind = kind_;
  Rule derivative = derivative_;
  Rule evaluation = evaluation_;
  Rule decomposition = decomposition_;
  Rule lowering = lowering_;
  Rule statement = statement_; // how it uses positions: dialects/weft/statements/Statement.h
  Frontend frontend = Handwritten;
  Tests tests = ?;
  // Scalar operations at each of its statement's points.
  Cost cost = kind_.cost;
  // Which operands and results the derivative reads; reading another one is an error.
  list<int> savesOperands = [];
  list<int> savesResults = [];
  // Operands whose scalar value is a constant of the program until a second value is seen.
  list<int> specialize = [];

  string ruleDefinitions = "";
  let extraClassDeclaration = "";
  let extraClassDefinition = !strconcat(
    "::weft::ir::Kind $cppClass::kind() { return ::weft::ir::Kind::", kind.name, "; }\n",
    "int64_t $cppClass::cost() { return ", IntList<[cost.operations]>.text, "; }\n",
    "::llvm::ArrayRef<int64_t> $cppClass::savedOperands() { static const std::vector<int64_t> v{",
        IntList<savesOperands>.text, "}; return v; }\n",
    "::llvm::ArrayRef<int64_t> $cppClass::savedResults() { static const std::vector<int64_t> v{",
        IntList<savesResults>.text, "}; return v; }\n",
    "::llvm::ArrayRef<int64_t> $cppClass::specializedOperands() { static const std::vector<int64_t> v{",
        IntList<specialize>.text, "}; return v; }\n",
    "::llvm::ArrayRef<::llvm::StringRef> $cppClass::requiredAttributes() {\n",
    "  static const std::vector<::llvm::StringRef> v{", RequiredNames<arguments>.text, "}; return v; }\n",
    "::llvm::StringRef $cppClass::missingRule(::weft::ir::RuleKind rule) {\n",
    "  switch (rule) {\n",
    "  case ::weft::ir::RuleKind::Derivative: return \"", !if(!or(!eq(derivative.kind, "inline"), !eq(derivative.kind, "file")), "", !if(!eq(derivative.kind, "deferred"), "not written yet: ", "") # derivative.text), "\";\n",
    "  case ::weft::ir::RuleKind::Evaluation: return \"", !if(!or(!eq(evaluation.kind, "inline"), !eq(evaluation.kind, "file")), "", evaluation.text), "\";\n",
    "  case ::weft::ir::RuleKind::Decomposition: return \"", !if(!or(!eq(decomposition.kind, "inline"), !eq(decomposition.kind, "file")), "", decomposition.text), "\";\n",
    "  case ::weft::ir::RuleKind::Lowering: return \"", !if(!or(!eq(lowering.kind, "inline"), !eq(lowering.kind, "file")), "", lowering.text), "\";\n",
    "  case ::weft::ir::RuleKind::Statement: return \"", !if(!or(!eq(statement.kind, "inline"), !eq(statement.kind, "file")), "", statement.text), "\";\n",
    "  }\n  return \"\";\n}\n",
    !if(!eq(derivative.kind, "inline"), !strconcat("::mlir::LogicalResult $cppClass::differentiate(::weft::ir::GradContext &ctx) {", derivative.text, "}\n"), ""),
    !if(!eq(decomposition.kind, "inline"), !strconcat("::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>> $cppClass::decompose(::mlir::OpBuilder &b) {", decomposition.text, "}\n"), ""),
    !if(!eq(evaluation.kind, "inline"), !strconcat("::mlir::LogicalResult $cppClass::evaluate(::weft::ir::EvalContext &ctx) {", evaluation.text, "}\n"), ""),
    !if(!eq(lowering.kind, "inline"), !strconcat("::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>> $cppClass::lowerToLinalg(::mlir::OpBuilder &b, ::mlir::ValueRange operands) {", lowering.text, "}\n"), ""),
    !if(!eq(statement.kind, "inline"), !strconcat("::std::optional<::weft::ir::IndexStatement> $cppClass::statement() {", statement.text, "}\n"), ""),
    ruleDefinitions);
}

// A composite that is short for elementwise work: weft-expand writes it out before the graph's
// rewrites, which look at its parts.
def Weft_WrittenOut : NativeOpTrait<"WrittenOut"> { let cppNamespace = "::weft::ir"; }

// The result types follow from the operands: the record's shape and dtype rule, in ShapeRules*.cpp.
defvar Infer = InferTypeOpAdaptor;

#endif
