// The calls "weft.file.store" and "weft.file.load": a value waits in a file from the one to the
// other.
#pragma once

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Operands: bytes, and a token of 16 bytes that it writes. Its state has the file's room.
const runtime::LibraryEntry &store_entry();
// Operands: a token, and bytes that it writes.
const runtime::LibraryEntry &load_entry();

} // namespace weft::backends::cpu
