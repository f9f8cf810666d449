// The library entries that the CPU backend has.
#pragma once

#include <span>
#include <string_view>

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

std::span<const runtime::LibraryEntry *const> library_entries();

// The entry of that name, or null: a runtime::LibraryResolver.
const runtime::LibraryEntry *find_library_entry(std::string_view name);

} // namespace weft::backends::cpu
