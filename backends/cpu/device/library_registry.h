// The library entries that the CPU backend has.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

std::span<const runtime::LibraryEntry *const> library_entries();

// The entry of that name, or null: a runtime::LibraryResolver.
const runtime::LibraryEntry *find_library_entry(std::string_view name);

// Names and versions of the libraries, for keys of caches: "oneDNN 2.6.3".
std::string library_versions();
// Why libraries work on threads of their own, beside the pool's; empty where none does.
std::string library_threads();

} // namespace weft::backends::cpu
