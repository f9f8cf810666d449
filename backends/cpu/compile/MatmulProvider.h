// What oneDNN's matmul claims.
#pragma once

#include <memory>

#include "compiler/claim/Provider.h"

namespace weft::backends::cpu {

// Claims f32 matmuls of some size, with transposes of the operands and of the result (read and
// written through strides) and a bias over the last dim; and to small products a term of their
// shape. Makes calls of the entry that backends/cpu/device/matmul_entry.h describes. packs: whether
// the library has packed forms on the machine that the program is for; a program that is moved to
// one where it has none runs all the same. bf16: whether that machine multiplies bf16 numbers by
// instructions for it; then conversions of bf16 numbers in front of both factors and behind are
// taken in.
std::unique_ptr<compiler::Provider> makeMatmulProvider(bool packs, bool bf16);

} // namespace weft::backends::cpu
