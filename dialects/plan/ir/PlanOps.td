// The plan dialect: types and ops.
#ifndef PLAN_OPS
#define PLAN_OPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::weft::plan";
  let summary = "Programs as the runtime sees them: buffers of bytes, kernel launches, library calls.";
  let description = [{
    A `plan.program` is a straight list of instructions over buffers; it becomes the runtime's instruction table one to one. It takes two
    forms. As lowered from `weft`, every buffer that is not an input comes from a `plan.alloc`, a `plan.output` or a `plan.constant`, and
    each alloc and output is written by exactly one instruction. After packing there is one `plan.arena`, and what was allocated is a
    `plan.view` at an offset of it; buffers share bytes where the planner proved that their lives do not meet.
  }];
  let useDefaultTypePrinterParser = 1;
}

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;

//===-- Types ---------------------------------------------------------------------------------===//

def Plan_BufferType : TypeDef<Plan_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a piece of device memory of a fixed number of bytes";
  let parameters = (ins "int64_t":$bytes);
  let assemblyFormat = "`<` $bytes `>`";
  let genVerifyDecl = 1;
}

//===-- Structure -----------------------------------------------------------------------------===//

class Plan_FunctionOp<string mnemonic> : Plan_Op<mnemonic, [FunctionOpInterface, IsolatedFromAbove, Symbol]> {
  dag functionArguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, OptionalAttr<DictArrayAttr>:$arg_attrs,
                               OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  code functionDeclaration = [{
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
  }];
  let extraClassDeclaration = functionDeclaration;
}

def Plan_ProgramOp : Plan_FunctionOp<"program"> {
  let summary = "a program of the runtime";
  let description = [{
    The arguments are the buffers bound as inputs; what `plan.return` gives are the outputs. Attributes of arguments: `plan.type` (required; the tensor type), `plan.name`,
    `plan.donatable` (the program may write the buffer), `plan.stable`, `plan.parameter` (the name of a weight), `plan.prepared` (a value that another program computes ahead of runs: its number there), `plan.source` (in that program: the number of the argument here). Attributes of results: `plan.type`, `plan.name`.

    ```mlir
    plan.program @main(%x: !plan.buffer<64> {plan.type = tensor<16xf32>}) -> (!plan.buffer<64> {plan.type = tensor<16xf32>}) {
      %y = plan.output : !plan.buffer<64>
      plan.launch @tanh ins(%x : !plan.buffer<64>) outs(%y : !plan.buffer<64>)
      plan.return %y : !plan.buffer<64>
    }
    ```
  }];
  let arguments = functionArguments;
  let hasRegionVerifier = 1;
}

def Plan_KernelOp : Plan_FunctionOp<"kernel"> {
  let summary = "what a launch runs: the ops of one fusion, and what codegen says of them";
  let description = [{
    The body holds one `weft.fusion` on tensors. `count` is the number of independent pieces, `grain` the smallest range of them worth handing to
    a thread, `scratch` the bytes that each thread needs, `partials` the bytes of the buffer that all threads of a launch share.
    `in_place` lists (output, input) pairs that may share a buffer.
  }];
  let arguments = !con(functionArguments, (ins
      DefaultValuedAttr<I64Attr, "1">:$count, DefaultValuedAttr<I64Attr, "1">:$grain, DefaultValuedAttr<I64Attr, "0">:$scratch,
      DefaultValuedAttr<I64Attr, "0">:$partials, DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$in_place, OptionalAttr<StrAttr>:$symbol,
      OptionalAttr<StrAttr>:$finish, OptionalAttr<F64Attr>:$flops, OptionalAttr<F64Attr>:$bytes));
  let hasVerifier = 1;
}

def Plan_ReturnOp : Plan_Op<"return", [Pure, Terminator, ParentOneOf<["ProgramOp", "KernelOp"]>]> {
  let summary = "the outputs of a program, or the results of a kernel's body";
  let description = [{
    A program returns buffers: one of its `plan.output`s (once or more often: the later ones are the same buffer), or one of its inputs (unchanged, or a
    donated one that was written).
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

//===-- Buffers -------------------------------------------------------------------------------===//

def Plan_AllocOp : Plan_Op<"alloc"> {
  let summary = "a buffer that the planner is yet to place";
  let results = (outs Plan_BufferType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
}
def Plan_OutputOp : Plan_Op<"output"> {
  let summary = "a buffer that the caller binds for an output";
  let results = (outs Plan_BufferType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
}
def Plan_ArenaOp : Plan_Op<"arena"> {
  let summary = "the one buffer that all intermediate values lie in";
  let results = (outs Plan_BufferType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
}
def Plan_ConstantOp : Plan_Op<"constant", [Pure]> {
  let summary = "the bytes of a constant tensor, row-major; never written";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Plan_BufferType:$result);
  let assemblyFormat = "attr-dict $value `:` qualified(type($result))";
  let hasVerifier = 1;
}
def Plan_ViewOp : Plan_Op<"view", [Pure]> {
  let summary = "the bytes of a buffer from an offset on";
  let arguments = (ins Plan_BufferType:$source, I64Attr:$offset);
  let results = (outs Plan_BufferType:$result);
  let assemblyFormat = "$source `[` $offset `]` attr-dict `:` qualified(type($source)) `to` qualified(type($result))";
  let hasVerifier = 1;
}

//===-- Instructions --------------------------------------------------------------------------===//

def Plan_InstructionOp : OpInterface<"InstructionOp"> {
  let cppNamespace = "::weft::plan";
  let description = [{An op that runs: what it reads and what it writes.}];
  let methods = [
    InterfaceMethod<"The buffers that it reads.", "::mlir::OperandRange", "getReads", (ins)>,
    InterfaceMethod<"The buffers that it writes, and reads nothing of that it has not written itself.", "::mlir::MutableOperandRange", "getWritesMutable", (ins)>,
  ];
}
class Plan_Instruction<string mnemonic, list<Trait> traits = []>
    : Plan_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<Plan_InstructionOp>], traits)>;

def Plan_LaunchOp : Plan_Instruction<"launch", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel over all of its pieces";
  let description = [{
    Where the kernel asks for it, `partials` is the buffer that its threads share. `serial` keeps the launch on one thread: it is too small for more.

    ```mlir
    plan.launch @softmax ins(%x : !plan.buffer<64>) outs(%y : !plan.buffer<64>) serial
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Plan_BufferType>:$inputs, Variadic<Plan_BufferType>:$outputs,
                       Optional<Plan_BufferType>:$partials, UnitAttr:$serial);
  let assemblyFormat = [{
    $kernel (`ins` `(` $inputs^ `:` type($inputs) `)`)? (`outs` `(` $outputs^ `:` type($outputs) `)`)?
    (`partials` `(` $partials^ `:` type($partials) `)`)? (`serial` $serial^)? attr-dict
  }];
}
def Plan_LibraryCallOp : Plan_Instruction<"library_call", [AttrSizedOperandSegments]> {
  let summary = "calls an entry of a vendor library through the runtime's registry";
  let description = [{
    `config` is the entry's configuration: integers, floats, strings and lists of integers. `types` are the tensor types of inputs, then outputs, which say how the entry sees the bytes.
    `scratch` is the memory that the entry works in; without it, or where it is too small for the number of threads, the run brings some.
    The attribute `plan.strides` says of each tensor how many elements lie between two neighbours of a dim; of one with an empty list, and without the attribute, all lie in a row.
  }];
  let arguments = (ins StrAttr:$callee, Variadic<Plan_BufferType>:$inputs, Variadic<Plan_BufferType>:$outputs, Optional<Plan_BufferType>:$scratch,
                       TypeArrayAttr:$types, DictionaryAttr:$config);
  let assemblyFormat = [{
    $callee (`ins` `(` $inputs^ `:` type($inputs) `)`)? (`outs` `(` $outputs^ `:` type($outputs) `)`)? (`scratch` `(` $scratch^ `:` type($scratch) `)`)?
    `as` $types `config` $config attr-dict
  }];
  let hasVerifier = 1;
}
def Plan_PiecesOp : Plan_Instruction<"pieces", [AttrSizedOperandSegments, IsolatedFromAbove, NoTerminator]> {
  let summary = "runs instructions `count` times, each time on the next piece of what they read and write";
  let description = [{
    The body's arguments are the operands in order: in run i the bytes of an operand from i times its step on, as many as the argument has. Pieces
    of outputs follow each other and are all of the output. `locals` hold what one run needs and the next one writes anew, so their step is 0.
    Planned as one instruction; in the runtime's table it is `count` times the body.

    The gradient %g of a weight, 64 of its 256 rows at a time; the weight is updated piece by piece:
    ```mlir
    plan.pieces 4 ins(%dy, %x, %w : !plan.buffer<8192>, !plan.buffer<2048>, !plan.buffer<65536>) outs(%new : !plan.buffer<65536>)
        locals(%g : !plan.buffer<16384>) steps [256, 0, 16384, 16384, 0] {
    ^bb0(%0: !plan.buffer<7424>, %1: !plan.buffer<2048>, %2: !plan.buffer<16384>, %3: !plan.buffer<16384>, %4: !plan.buffer<16384>):
      plan.library_call "onednn.matmul" ins(%0, %1 : !plan.buffer<7424>, !plan.buffer<2048>) outs(%4 : !plan.buffer<16384>)
          as [tensor<8x64xf32>, tensor<8x64xf32>, tensor<64x64xf32>] config {transpose_lhs = 1 : i64} {plan.strides = [array<i64: 256, 1>, array<i64>, array<i64>]}
      plan.launch @sgd ins(%4, %2 : !plan.buffer<16384>, !plan.buffer<16384>) outs(%3 : !plan.buffer<16384>)
    }
    ```
  }];
  let arguments = (ins I64Attr:$count, Variadic<Plan_BufferType>:$inputs, Variadic<Plan_BufferType>:$outputs, Variadic<Plan_BufferType>:$locals,
                       DenseI64ArrayAttr:$steps);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count (`ins` `(` $inputs^ `:` type($inputs) `)`)? (`outs` `(` $outputs^ `:` type($outputs) `)`)? (`locals` `(` $locals^ `:` type($locals) `)`)?
    `steps` $steps attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}
def Plan_CopyOp : Plan_Instruction<"copy"> {
  let summary = "copies all bytes of one buffer to another of the same size";
  let arguments = (ins Plan_BufferType:$source, Plan_BufferType:$target);
  let assemblyFormat = "$source `to` $target attr-dict `:` qualified(type($source)) `to` qualified(type($target))";
  let hasVerifier = 1;
}
def Plan_FillOp : Plan_Instruction<"fill"> {
  let summary = "repeats the low `width` bytes of a pattern over a buffer";
  let arguments = (ins Plan_BufferType:$target, I64Attr:$pattern, I64Attr:$width);
  let assemblyFormat = "$target `with` $pattern `width` $width attr-dict `:` qualified(type($target))";
  let hasVerifier = 1;
}

#endif
