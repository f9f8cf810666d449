// The vendor libraries that programs for the CPU may call.
#pragma once

#include <string>

#include "compiler/claim/BackendLibraries.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Who claims ops for them, and what programs compiled ahead of time link for them: those of this
// backend, and those that users registered for "cpu".
compiler::BackendLibraries &libraries();
// Finds the entries of all libraries by name.
runtime::LibraryResolver libraryResolver();
// What a call works in on this machine, on the device's threads; NotFound for an unknown entry.
// (Set other threads later, and a run brings what a plan lacks.)
absl::StatusOr<int64_t> libraryScratch(const runtime::LibraryCall &call);
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
