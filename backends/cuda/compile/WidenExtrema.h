// Minima and maxima of 8-bit and 16-bit integers, in 32 bits.
#pragma once

namespace llvm {
class Module;
}

namespace weft::backends::cuda {

// NVIDIA's assembler (of CUDA 13.0, for sm_90) makes max.s16 an instruction for two halves, and
// takes for a comparison with its operand the predicate of the other half: of int16 x the loop
// `for (e = max(x, 0); e != 0; e >>= 1)` ends before its first round.
void widenExtrema(llvm::Module &module);

} // namespace weft::backends::cuda
