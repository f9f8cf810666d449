#include "backends/cpu/compile/Libraries.h"

#include "backends/cpu/compile/ConvolutionProvider.h"
#include "backends/cpu/compile/FactorProvider.h"
#include "backends/cpu/compile/MatmulProvider.h"
#include "backends/cpu/compile/SortProvider.h"
#include "backends/cpu/compile/WholeKernels.h"
#include "backends/cpu/device/convolution_entry.h"
#include "backends/cpu/device/few_channels_pixels.h"
#include "backends/cpu/device/library_registry.h"
#include "backends/cpu/device/matmul_packing.h"
#include "backends/cpu/device/onednn_matmul.h"
#include "backends/cpu/device/tiled_matmul.h"
#include "runtime/core/status.h"
#include "runtime/executor/device.h"
#include "llvm/ADT/StringExtras.h"

namespace weft::backends::cpu {

namespace {

// The machine by the features of its processor, as LLVM lists them.
void addProviders(compiler::ProviderSet &set, llvm::StringRef machine) {
  auto has = [&](llvm::StringRef feature) {
    return llvm::is_contained(llvm::split(machine, ','), feature);
  };
  bool packs = machine.empty() ? onednn_packs() : has("+avx512f");
  bool bf16 = machine.empty() ? onednn_has_fast_bf16() : has("+avx512bf16");
  set.add(makeMatmulProvider(packs, bf16));
  set.add(makeConvolutionProvider(bf16, convolution_takes_relu, few_channels_pixels_computes));
  set.add(makeSortProvider());
  addFactorProviders(set);
  set.setKernels(kernelFor);
}

// Users may register as soon as the backend is linked.
[[maybe_unused]] const compiler::BackendLibraries &made = libraries();

} // namespace

compiler::BackendLibraries &libraries() {
  static auto *all = new compiler::BackendLibraries(
      "cpu",
      {{"onednn.convolution", "weft_convolution_find", {"libweft_convolution.a"}, {"-ldnnl"}},
       {"onednn.", "weft_onednn_find", {"libweft_onednn.a"}, {"-ldnnl"}},
       {"weft.arg_sort", "weft_sort_find", {"libweft_sort.a"}, {}},
       {"weft.factor.", "weft_factor_find", {"libweft_factor.a"}, {"-ldnnl"}},
       {"weft.file.", "weft_file_find", {"libweft_file.a"}, {}},
       // Beside it, what defines weft_kernel_plugin (runtime/abi/weft_custom.h).
       {compiler::kCustomEntry.str(), "weft_custom_find", {"libweft_custom.a"}, {}}},
      addProviders);
  return *all;
}

namespace {

// Ours, or one of a user's provider.
const runtime::LibraryEntry *findEntry(std::string_view name) {
  const runtime::LibraryEntry *entry = find_library_entry(name);
  return entry ? entry : libraries().findEntry(name);
}

} // namespace

runtime::LibraryResolver libraryResolver() {
  return findEntry;
}

absl::StatusOr<int64_t> libraryScratch(const runtime::LibraryCall &call) {
  const runtime::LibraryEntry *entry = findEntry(call.entry);
  if (!entry)
    return absl::NotFoundError("there is no such library entry in this build");
  WEFT_ASSIGN_OR_RETURN(
      auto state, runtime::init_state(*entry, call, runtime::cpu_device().executor().threads()));
  return state->scratch_bytes();
}

int64_t packedRows() {
  // Asked for by each evaluation; the library looks at the processor anew.
  static const int64_t rows = onednn_packs()      ? kMaxPackedRows
                              : has_tiled_matmul() ? kMaxTiledRows
                                                   : 0;
  return rows;
}

std::string libraryVersions() {
  return library_versions();
}

std::string libraryAbilities() {
  return std::string(onednn_has_fast_bf16() ? " bf16" : "") + (onednn_packs() ? " packs" : "") +
         (has_tiled_matmul() ? " tiles" : "");
}

std::string libraryThreads() {
  return library_threads();
}

} // namespace weft::backends::cpu
