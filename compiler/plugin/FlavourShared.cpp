#include "compiler/plugin/Flavour.h"

namespace weft::compiler {

// Weak: the sealed library links FlavourSealed.cpp beside it.
__attribute__((weak)) const bool kSealedFlavour = false;

} // namespace weft::compiler
