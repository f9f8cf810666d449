// Which flavour of Weft this is: a constant that is chosen when libweft.so is linked
// (tools/install).
#pragma once

namespace weft::compiler {

extern const bool kSealedFlavour;

} // namespace weft::compiler
