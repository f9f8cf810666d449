#include "backends/cuda/device/cuda_libraries.h"

#include "backends/cuda/device/cublaslt_matmul.h"

namespace weft::backends::cuda {
namespace {

// Stands where a library is missing.
class MissingEntry : public runtime::LibraryEntry {
public:
  explicit MissingEntry(absl::Status why) : why_(std::move(why)) {}
  std::string_view name() const override {
    return "cublaslt.matmul";
  }
  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const runtime::LibraryCall &,
                                                                  int) const override {
    return why_;
  }

private:
  absl::Status why_;
};

} // namespace

runtime::LibraryResolver library_resolver(std::shared_ptr<CudaDevice> device,
                                          std::string cublaslt) {
  return [device = std::move(device), cublaslt = std::move(cublaslt),
          entry = std::shared_ptr<runtime::LibraryEntry>()](
             std::string_view name) mutable -> const runtime::LibraryEntry * {
    if (name != "cublaslt.matmul")
      return nullptr;
    if (!entry) {
      absl::StatusOr<CublasLt> library = open_cublaslt(cublaslt);
      if (library.ok())
        entry = make_matmul_entry(device, *library);
      else
        entry = std::make_shared<MissingEntry>(library.status());
    }
    return entry.get();
  };
}

} // namespace weft::backends::cuda
