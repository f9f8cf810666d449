#include "backends/cpu/compile/Libraries.h"

#include "backends/cpu/compile/ConvolutionProvider.h"
#include "backends/cpu/compile/MatmulProvider.h"
#include "backends/cpu/compile/SortProvider.h"
#include "backends/cpu/compile/WholeKernels.h"
#include "backends/cpu/device/library_registry.h"
#include "backends/cpu/device/onednn_matmul.h"
#include "runtime/executor/device.h"

namespace weft::backends::cpu {

runtime::LibraryResolver libraryResolver() {
  return find_library_entry;
}

absl::StatusOr<int64_t> libraryScratch(const runtime::LibraryCall &call) {
  const runtime::LibraryEntry *entry = find_library_entry(call.entry);
  if (!entry)
    return absl::NotFoundError("there is no such library entry in this build");
  auto state = entry->init(call, runtime::cpu_device().executor().threads());
  if (!state.ok())
    return state.status();
  return (*state)->scratch_bytes();
}

const compiler::ProviderSet *providers() {
  static const compiler::ProviderSet *set = [] {
    auto *made = new compiler::ProviderSet;
    made->add(makeMatmulProvider(packsWeights(), onednn_has_bf16()));
    made->add(makeConvolutionProvider(onednn_has_bf16()));
    made->add(makeSortProvider());
    made->setKernels(kernelFor);
    return made;
  }();
  return set;
}

bool packsWeights() {
  return onednn_packs();
}

std::string libraryVersions() {
  return library_versions();
}

std::string libraryAbilities() {
  return std::string(onednn_has_bf16() ? " bf16" : "") + (onednn_packs() ? " packs" : "");
}

std::string libraryThreads() {
  return library_threads();
}

} // namespace weft::backends::cpu
