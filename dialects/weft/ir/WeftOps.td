// All records of the weft dialect.
include "dialects/weft/ir/ElementwiseOps.td"
include "dialects/weft/ir/TensorOps.td"
include "dialects/weft/ir/ConvolutionOps.td"
include "dialects/weft/ir/LinearAlgebraOps.td"
include "dialects/weft/ir/CollectiveOps.td"
