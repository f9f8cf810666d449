// The vendor libraries that programs for the CPU may call.
#pragma once

#include <string>

#include "runtime/executable/library_call.h"

namespace weft::compiler {
class ProviderSet;
} // namespace weft::compiler

namespace weft::backends::cpu {

// Finds the entries of all libraries by name.
runtime::LibraryResolver libraryResolver();
// What a call works in on this machine, on the device's threads; NotFound for an unknown entry.
// (Set other threads later, and a run brings what a plan lacks.)
absl::StatusOr<int64_t> libraryScratch(const runtime::LibraryCall &call);
// Who claims ops for them; null when there is nobody.
const compiler::ProviderSet *providers();
// Rows of products up to which matrices that stay the same are packed on this machine, 0 where none
// are (backends/cpu/device/matmul_packing.h).
int64_t packedRows();
// Names and versions, for keys of caches.
std::string libraryVersions();
// What the library does on this machine, and claims depend on; its environment may limit it.
std::string libraryAbilities();
// Why libraries work on threads of their own, beside the runtime's; empty where none does.
std::string libraryThreads();

} // namespace weft::backends::cpu
