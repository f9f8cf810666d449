#include "backends/cpu/compile/Libraries.h"

#include "backends/cpu/compile/ConvolutionProvider.h"
#include "backends/cpu/compile/MatmulProvider.h"
#include "backends/cpu/compile/SortProvider.h"
#include "backends/cpu/compile/WholeKernels.h"
#include "backends/cpu/device/library_registry.h"
#include "backends/cpu/device/matmul_packing.h"
#include "backends/cpu/device/onednn_matmul.h"
#include "backends/cpu/device/tiled_matmul.h"
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
    made->add(makeMatmulProvider(onednn_packs(), onednn_has_bf16()));
    made->add(makeConvolutionProvider(onednn_has_bf16()));
    made->add(makeSortProvider());
    made->setKernels(kernelFor);
    return made;
  }();
  return set;
}

int64_t packedRows() {
  return onednn_packs() ? kMaxPackedRows : has_tiled_matmul() ? kMaxTiledRows : 0;
}

std::string libraryVersions() {
  return library_versions();
}

std::string libraryAbilities() {
  return std::string(onednn_has_bf16() ? " bf16" : "") + (onednn_packs() ? " packs" : "") +
         (has_tiled_matmul() ? " tiles" : "");
}

std::string libraryThreads() {
  return library_threads();
}

} // namespace weft::backends::cpu
