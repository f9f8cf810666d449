// The kernels that users registered (runtime/abi/weft_custom.h), with their calls checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/abi/weft_custom.h"
#include "runtime/core/dtype.h"

namespace weft::runtime {

struct CustomTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  void *data = nullptr; // not read by infer()
};

// What a call is given beside tensors.
struct CustomParameters {
  std::span<const int64_t> ints;
  std::span<const double> scalars;
};

class CustomKernel {
public:
  explicit CustomKernel(const weft_custom_kernel &kernel);

  const std::string &name() const {
    return name_;
  }
  // The name of the kernel that is the derivative; empty if there is none.
  const std::string &derivative() const {
    return derivative_;
  }
  int64_t outputs() const {
    return kernel_.num_outputs;
  }

  // Dtypes and dims of the outputs. InvalidArgument with what the kernel's shape rule says or
  // throws, or if the rule gives shapes that cannot be.
  absl::StatusOr<std::vector<CustomTensor>> infer(std::span<const CustomTensor> inputs,
                                                  const CustomParameters &parameters) const;
  // Runs the kernel on this many threads; more than one only on the device's executor. Internal
  // with what the kernel says or throws if it fails, or for a negative count of pieces.
  absl::Status run(std::span<const CustomTensor> inputs, std::span<const CustomTensor> outputs,
                   const CustomParameters &parameters, int threads) const;

private:
  weft_custom_kernel kernel_;
  std::string name_, derivative_;
};

// The kernel of this name, which stays valid. NotFound lists the names of those that are
// registered.
absl::StatusOr<const CustomKernel *> find_custom_kernel(std::string_view name);

} // namespace weft::runtime
