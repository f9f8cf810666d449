#include "backends/cuda/device/cuda_libraries.h"

#include <map>

#include "backends/cuda/device/cublaslt_matmul.h"
#include "backends/cuda/device/cudnn_convolution.h"

namespace weft::backends::cuda {
namespace {

using runtime::LibraryEntry;

// Stands where a library is missing.
class MissingEntry : public LibraryEntry {
public:
  MissingEntry(std::string_view name, absl::Status why) : name_(name), why_(std::move(why)) {}
  std::string_view name() const override {
    return name_;
  }
  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const runtime::LibraryCall &,
                                                                  int) const override {
    return why_;
  }

private:
  std::string name_;
  absl::Status why_;
};

// That of the library, if it opened.
template <typename Library>
std::shared_ptr<LibraryEntry>
entry_of(const std::shared_ptr<CudaDevice> &device, std::string_view name,
         const absl::StatusOr<Library> &library,
         std::unique_ptr<LibraryEntry> (*make)(std::shared_ptr<CudaDevice>, const Library &)) {
  if (!library.ok())
    return std::make_shared<MissingEntry>(name, library.status());
  return make(device, *library);
}

} // namespace

runtime::LibraryResolver library_resolver(std::shared_ptr<CudaDevice> device, LibraryNames names) {
  return
      [device = std::move(device), names = std::move(names),
       entries = std::map<std::string, std::shared_ptr<LibraryEntry>, std::less<>>()](
          std::string_view name) mutable -> const LibraryEntry * {
        auto known = entries.find(name);
        if (known != entries.end())
          return known->second.get();
        std::shared_ptr<LibraryEntry> made;
        if (name == "cublaslt.matmul")
          made = entry_of(device, name, open_cublaslt(names.cublaslt), make_matmul_entry);
        else if (name == "cudnn.convolution")
          made = entry_of(device, name, open_cudnn(names.cudnn), make_convolution_entry);
        else
          return nullptr;
        return entries.emplace(name, std::move(made)).first->second.get();
      };
}

} // namespace weft::backends::cuda
