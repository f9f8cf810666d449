// The passes of the phases import and graph, and the decomposition that the claim phase runs.
#ifndef WEFT_COMPILER_GRAPH_PASSES
#define WEFT_COMPILER_GRAPH_PASSES

include "mlir/Pass/PassBase.td"

def ImportPass : Pass<"weft-import", "::mlir::ModuleOp"> {
  let summary = "checks that a module is a slice that the phases can compile";
  let description = [{
    A slice is one `func.func @main` of one block, of weft ops on tensors with static shapes, that ends in `func.return`. Anything else is an
    error at the op that breaks the rule, so that later phases need not ask. Ops are put into a topological order where the writer left another one.

    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = weft.exp %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
    is left as it is.
  }];
}

def DecomposePass : Pass<"weft-decompose", "::mlir::ModuleOp"> {
  let summary = "rewrites ops that have no lowering of their own by their decomposition";
  let description = [{
    Composites (softmax, layer_norm, attention, ...) and ops such as reduce_mean that codegen knows only through simpler ones. What a
    decomposition makes is decomposed in its turn. A composite marked `weft.whole` stays: the backend has a kernel for it.

    ```mlir
    %0 = weft.reduce_mean %x, dims = [1] : tensor<4x8xf32>
    ```
    becomes
    ```mlir
    %s = weft.reduce_sum %x, dims = [1] : tensor<4x8xf32>
    %n = weft.constant dense<1.250000e-01> : tensor<4xf32>
    %0 = weft.mul %s, %n : tensor<4xf32>
    ```
  }];
  let statistics = [Statistic<"numDecomposed", "decomposed", "ops rewritten by their decomposition">];
}

def ExpandPass : Pass<"weft-expand", "::mlir::ModuleOp"> {
  let summary = "writes out ops that are short for elementwise ones";
  let description = [{
    Such an op is recorded as one, which costs little and reads well. The rewrites of the graph, and fusion, look at its parts.

    ```mlir
    %0 = weft.batch_norm_inference %x mean %m variance %v {eps = 1.0e-5 : f64} : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
    ```
    becomes
    ```mlir
    %e = weft.constant dense<9.99999974E-6> : tensor<8xf32>
    %s = weft.add %v, %e : tensor<8xf32>
    %r = weft.rsqrt %s : tensor<8xf32>
    %f = weft.broadcast %r : tensor<8xf32> to tensor<2x8xf32>
    %n = weft.broadcast %m : tensor<8xf32> to tensor<2x8xf32>
    %c = weft.sub %x, %n : tensor<2x8xf32>
    %0 = weft.mul %c, %f : tensor<2x8xf32>
    ```
  }];
  let statistics = [Statistic<"numExpanded", "expanded", "ops written out">];
}

def WidenPass : Pass<"weft-widen", "::mlir::ModuleOp"> {
  let summary = "lets sums, products and extremes of narrow dtypes accumulate in wide ones";
  let description = [{
    Reductions, scans, matrix products, convolutions and scatters of bf16 and f16 become ones in float32, rounded once at the end, with casts that
    fuse into what stands around them; libraries see float32. Those of uint8 become ones in int32. Elementwise ops stay: each rounds by itself.
    Integers (the index operands) stay, too.

    ```mlir
    %0 = weft.reduce_sum %x, dims = [1] : tensor<4x8xbf16>
    ```
    becomes
    ```mlir
    %w = weft.cast %x : tensor<4x8xbf16> to tensor<4x8xf32>
    %s = weft.reduce_sum %w, dims = [1] : tensor<4x8xf32>
    %0 = weft.cast %s : tensor<4xf32> to tensor<4xbf16>
    ```
  }];
  let statistics = [Statistic<"numWidened", "widened", "ops that accumulate in a wider dtype now">];
}

def DifferentiatePass : Pass<"weft-differentiate", "::mlir::ModuleOp"> {
  let summary = "makes the derivatives of functions, by the derivative rules of the op records";
  let description = [{
    For each function that `function` names, or that carries `weft.differentiate`, a function @<name>_grad beside it returns the
    function's results and the derivative of one result by some arguments. A result of more than one element takes its cotangent
    as a last argument. A second run differentiates the derivative.

    ```mlir
    func.func @f(%x: tensor<f32>) -> tensor<f32> attributes {weft.differentiate} {
      %0 = weft.exp %x : tensor<f32>
      return %0 : tensor<f32>
    }
    ```
    gives, beside @f,
    ```mlir
    func.func @f_grad(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
      %0 = weft.exp %x : tensor<f32>
      %1 = weft.constant dense<1.0> : tensor<f32>
      %2 = weft.mul %1, %0 : tensor<f32>
      return %0, %2 : tensor<f32>, tensor<f32>
    }
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", /*default=*/"\"\"", "the function to differentiate; default: all that carry weft.differentiate">,
    ListOption<"arguments", "arguments", "int64_t", "the arguments to differentiate by; default: all of a floating-point type">,
    Option<"result", "result", "int64_t", /*default=*/"0", "the result to differentiate">,
  ];
  let dependentDialects = ["::weft::ir::WeftDialect"];
}

def SimplifyPass : Pass<"weft-simplify", "::mlir::ModuleOp"> {
  let summary = "canonical forms, exact folding of constants, and algebra";
  let description = [{
    A worklist over the ops of @main, linear in the program: no recursion, no repeated walks. Rules change no bit of a result, with three exceptions
    that stay within its error bound: the rows of a batched matmul with one right side become the rows of one matmul, a matmul with a vector
    becomes a sum of products of elements, and powers with some constant exponents become products and roots.

    ```mlir
    %0 = weft.transpose %w, [1, 0] : tensor<8x4xf32>
    %1 = weft.matmul %x, %0 : tensor<2x4xf32>, tensor<4x8xf32>
    %2 = weft.constant dense<4.0> : tensor<2x8xf32>
    %3 = weft.div %1, %2 : tensor<2x8xf32>
    ```
    becomes
    ```mlir
    %1 = weft.matmul %x, %w {transpose_rhs = true} : tensor<2x4xf32>, tensor<8x4xf32>
    %2 = weft.constant dense<2.5e-01> : tensor<2x8xf32>
    %3 = weft.mul %1, %2 : tensor<2x8xf32>
    ```
  }];
  let statistics = [Statistic<"numRewrites", "rewrites", "rules applied">];
}

def FoldBatchNormPass : Pass<"weft-fold-batch-norm", "::mlir::ModuleOp"> {
  let summary = "makes norms with fixed statistics part of the convolutions before them";
  let description = [{
    Of float32 convolutions that the norm alone reads, with a bias between the two or without; not where the program computes a gradient of a
    weight from the same image, as the weight changes with each run then. The product with the weight is made ahead of runs where weights are
    stable (weft-split-prepare), and in each run where they are not: bits do not depend on what is stable. Not exact: each weight is rounded once
    more, which stays within the error bound of the sum that the convolution is; numbers that are not finite may give NaN in other places.

    ```mlir
    %0 = weft.conv2d %x, %w {...} : tensor<1x8x9x9xf32>, tensor<16x8x3x3xf32>
    %1 = weft.batch_norm_inference %0 mean %m variance %v {eps = 0.0 : f64} : (tensor<1x16x7x7xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<1x16x7x7xf32>
    ```
    becomes
    ```mlir
    %s = weft.rsqrt %v : tensor<16xf32>
    %n = weft.neg %m : tensor<16xf32>
    %t = weft.mul %n, %s : tensor<16xf32>
    %f = weft.broadcast %s : tensor<16x1x1x1xf32> to tensor<16x8x3x3xf32>    // reshaped before
    %u = weft.mul %w, %f : tensor<16x8x3x3xf32>
    %0 = weft.conv2d %x, %u {...} : tensor<1x8x9x9xf32>, tensor<16x8x3x3xf32>
    %b = weft.broadcast %t : tensor<16x1x1xf32> to tensor<1x16x7x7xf32>
    %1 = weft.add %0, %b : tensor<1x16x7x7xf32>
    ```
  }];
  let statistics = [Statistic<"numFolded", "folded", "convolutions that took in the norm behind them">];
}

def CsePass : Pass<"weft-cse", "::mlir::ModuleOp"> {
  let summary = "merges ops that compute the same, and drops what nobody reads";
  let description = [{
    One walk forward over a hash table of name, attributes, operands and types; one walk back for dead code. Random ops are functions of their
    state and offset: two equal ones are one.

    ```mlir
    %0 = weft.exp %x : tensor<4xf32>
    %1 = weft.exp %x : tensor<4xf32>
    %2 = weft.add %0, %1 : tensor<4xf32>
    ```
    becomes
    ```mlir
    %0 = weft.exp %x : tensor<4xf32>
    %2 = weft.add %0, %0 : tensor<4xf32>
    ```
  }];
  let statistics = [Statistic<"numMerged", "merged", "ops merged with an equal one">, Statistic<"numDead", "dead", "ops nobody reads">];
}

def PrintStatementsPass : Pass<"weft-print-statements", "::mlir::ModuleOp"> {
  let summary = "prints each op's index statement as a remark";
  let description = [{
    What fusion, sizes and cuts over devices know of an op's positions (`dialects/weft/statements/Statement.h`). The module is left as it is.

    ```mlir
    %0 = weft.matmul %x, %w : tensor<4x8xf32>, tensor<8x2xf32>
    ```
    prints `remark: (m k, k n) -> (m n), k reduced by sum`.
  }];
}

#endif
