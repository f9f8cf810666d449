#include "compiler/plugin/Flavour.h"

namespace weft::compiler {

const bool kSealedFlavour = true;

} // namespace weft::compiler
