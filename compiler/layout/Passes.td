// The passes of the layout phase.
#ifndef WEFT_COMPILER_LAYOUT_PASSES
#define WEFT_COMPILER_LAYOUT_PASSES

include "mlir/Pass/PassBase.td"

def AssignLayoutsPass : Pass<"weft-assign-layouts", "::mlir::ModuleOp"> {
  let summary = "decides in which order the dims of each value lie in memory";
  let description = [{
    Values are row-major; another layout is an explicit transpose, so that no later pass knows of it. Images get channels last where convolutions
    of a library that prefers it would copy more bytes inside their calls than the transposes that stay move (ChannelsLast.h): around each
    convolution stand transposes that its claim takes in, and ops between them run on [N, H, W, C]. The report counts the reorders that stay.

    ```mlir
    %0 = weft.conv2d %x, %w {...} : tensor<8x16x32x32xf32>, tensor<16x16x3x3xf32>
    %1 = weft.relu %0 : tensor<8x16x32x32xf32>
    ```
    becomes, where %x is the result of such an op, too, and %x_last what it was transposed from,
    ```mlir
    %x = weft.transpose %x_last, [0, 3, 1, 2] : tensor<8x32x32x16xf32>
    %0 = weft.conv2d %x, %w {...} : tensor<8x16x32x32xf32>, tensor<16x16x3x3xf32>
    %1 = weft.transpose %0, [0, 2, 3, 1] : tensor<8x16x32x32xf32>
    %2 = weft.relu %1 : tensor<8x32x32x16xf32>
    ```

    Arguments and results of @main stay row-major. `{weft.layout = array<i64: 1, 0>}` on an argument is an error that names it.
  }];
  let options = [Option<"printReport", "report", "bool", "false", "prints what was decided as comments on stderr">];
  let statistics = [
    Statistic<"numConvolutions", "convolutions", "convolutions that got channels last">,
    Statistic<"numReorders", "reorders", "transposes of images that stay">,
  ];
}

#endif
