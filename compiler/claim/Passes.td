// The passes of the claim phase.
#ifndef WEFT_COMPILER_CLAIM_PASSES
#define WEFT_COMPILER_CLAIM_PASSES

include "mlir/Pass/PassBase.td"

def ClaimPass : Pass<"weft-claim", "::mlir::ModuleOp"> {
  let summary = "offers ops to the providers of a backend; what one claims becomes a weft.provider_call";
  let description = [{
    Each op is offered to each provider, in the order of their registration; the first claim wins. A refusal has a name, which the report shows.
    The claimed ops stay in the call's body, so that what the library must compute stays in the IR. A composite that nobody claims and that a
    kernel of the backend's computes whole is marked `weft.whole`, so that it is not decomposed.

    ```mlir
    %0 = weft.transpose %k, [0, 2, 1, 3] : tensor<2x8x4x16xf32>
    %1 = weft.matmul %q, %0 {transpose_rhs = true} : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
    ```
    becomes
    ```mlir
    %1 = weft.provider_call "onednn.matmul"(%a = %q : tensor<2x4x8x16xf32>, %b = %k : tensor<2x8x4x16xf32>) -> (tensor<2x4x8x8xf32>)
        config {rhs_permutation = array<i64: 0, 2, 1, 3>, transpose_rhs = 1 : i64} { ... }
    ```
  }];
  let options = [
    Option<"composites", "composites", "bool", "false", "offers composites only: they are decomposed afterwards where nobody claims them">,
    Option<"fastMath", "fast-math", "bool", "false", "allows what conformance forbids, such as an activation that drops NaN">,
    Option<"exactMath", "exact-math", "bool", "false", "refuses algorithms with errors beyond those of sums in another order, such as Winograd's">,
    Option<"printReport", "report", "bool", "false", "prints what was refused, and why, as comments on stderr">,
  ];
  let statistics = [Statistic<"numClaims", "claims", "library calls made">];
}

def CallCustomPass : Pass<"weft-call-custom", "::mlir::ModuleOp"> {
  let summary = "makes each weft.custom a call of the runtime's entry for kernels of users";
  let description = [{
    Whatever else a backend may claim: nothing but the user's kernel computes it.

    ```mlir
    %0 = weft.custom "mine.scan"(%x) {ints = array<i64: 3>} : (tensor<4xf32>) -> tensor<4xf32>
    ```
    becomes
    ```mlir
    %0 = weft.provider_call "weft.custom"(%a = %x : tensor<4xf32>) -> (tensor<4xf32>)
        config {ints = array<i64: 3>, kernel = "mine.scan"} { ... }
    ```
  }];
}

def PackSharedPass : Pass<"weft-pack-shared", "::mlir::ModuleOp"> {
  let summary = "packs an operand that many library calls read once for all of them";
  let description = [{
    The recurrent weight of an unrolled network is the right side of a product a step, and so is it in the derivative; a library that wants it
    in a form of its own makes that at each call. Providers say which operands, and what the form depends on. Operands that
    are the same in many runs are left alone: the executable keeps their packed forms from run to run.

    ```mlir
    %1 = weft.provider_call "onednn.matmul"(%a = %h0 : tensor<16x128xf32>, %b = %w : tensor<128x512xf32>) -> (tensor<16x512xf32>) config {} { ... }
    ...
    %9 = weft.provider_call "onednn.matmul"(%a = %h8 : tensor<16x128xf32>, %b = %w : tensor<128x512xf32>) -> (tensor<16x512xf32>) config {} { ... }
    ```
    becomes
    ```mlir
    %p = weft.provider_call "onednn.pack"(%a = %w : tensor<128x512xf32>) -> (tensor<128x512xf32>) config {lhs = array<i64: 16, 128>, ...} {
      weft.yield %a : tensor<128x512xf32>
    }
    %1 = weft.provider_call "onednn.matmul"(%a = %h0 : tensor<16x128xf32>, %b = %p : tensor<128x512xf32>) -> (tensor<16x512xf32>)
        config {packed_rhs = 1 : i64} { ... }
    ```
  }];
  let options = [
    Option<"printReport", "report", "bool", "false", "prints what was refused, and why, as comments on stderr">,
  ];
  let statistics = [Statistic<"numPacked", "packed", "operands that calls share packed">];
}

#endif
