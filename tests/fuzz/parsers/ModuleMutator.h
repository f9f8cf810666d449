// Changes of a module that leave it one that can be written: what bytecode's readers and verifiers
// see behind a file's sections. Bytes changed at random seldom get past those.
#pragma once

#include <random>

#include "mlir/IR/BuiltinOps.h"

namespace weft::fuzz {

using Generator = std::minstd_rand;

// Changes one to three of: an attribute's value, the type of a result or an argument, an operand,
// the order or the number of ops. The module need not be a valid one afterwards, its attributes
// keep their kinds.
void mutate(mlir::ModuleOp module, Generator &random);

} // namespace weft::fuzz
