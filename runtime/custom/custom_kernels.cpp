#include "runtime/custom/custom_kernels.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/abi/read_struct.h"
#include "runtime/core/status.h"
#include "runtime/core/thrown.h"
#include "runtime/threading/parallel_for.h"

namespace weft::runtime {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<CustomKernel>, std::less<>> kernels;
};

// Never destroyed: programs may run while the process ends.
Registry &registry() {
  static Registry *registry = new Registry();
  return *registry;
}

std::vector<weft_custom_tensor> described(std::span<const CustomTensor> tensors) {
  std::vector<weft_custom_tensor> result;
  for (const CustomTensor &tensor : tensors)
    result.push_back({tensor.data, tensor.dims.data(), static_cast<int32_t>(tensor.dims.size()),
                      static_cast<int32_t>(tensor.dtype)});
  return result;
}

weft_custom_call call_of(std::span<const weft_custom_tensor> inputs,
                         std::span<const weft_custom_tensor> outputs, int64_t num_outputs,
                         const CustomParameters &parameters) {
  weft_custom_call call = {};
  call.struct_size = sizeof call;
  call.num_inputs = static_cast<int32_t>(inputs.size());
  call.num_outputs = static_cast<int32_t>(num_outputs);
  call.inputs = inputs.data();
  call.outputs = outputs.empty() ? nullptr : outputs.data();
  call.ints = parameters.ints.data();
  call.num_ints = static_cast<int64_t>(parameters.ints.size());
  call.scalars = parameters.scalars.data();
  call.num_scalars = static_cast<int64_t>(parameters.scalars.size());
  return call;
}

// What a function of the kernel says of its failure, by its result or by an exception.
template <typename Function> std::optional<std::string> failure_of(Function function) {
  try {
    if (const char *wrong = function())
      return wrong;
    return std::nullopt;
  } catch (...) {
    return "it " + thrown_text();
  }
}

// Bytes of a tensor of these dims, or -1 where they cannot be.
int64_t bytes_of(DType dtype, std::span<const int64_t> dims) {
  int64_t bytes = byte_size(dtype);
  for (int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes))
      return -1;
  return bytes;
}

} // namespace

CustomKernel::CustomKernel(const weft_custom_kernel &kernel)
    : kernel_(kernel), name_(kernel.name), derivative_(kernel.derivative ? kernel.derivative : "") {
  kernel_.name = name_.c_str();
  kernel_.derivative = nullptr; // derivative_ holds it
}

absl::StatusOr<std::vector<CustomTensor>>
CustomKernel::infer(std::span<const CustomTensor> inputs,
                    const CustomParameters &parameters) const {
  auto invalid = [&](const std::string &what) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", what));
  };
  if (inputs.size() > WEFT_CUSTOM_MAX_INPUTS)
    return invalid(std::to_string(inputs.size()) + " inputs; a kernel takes at most " +
                   std::to_string(WEFT_CUSTOM_MAX_INPUTS));
  std::vector<weft_custom_tensor> tensors = described(inputs);
  std::vector<weft_custom_shape> shapes(static_cast<size_t>(kernel_.num_outputs));
  weft_custom_call call = call_of(tensors, {}, kernel_.num_outputs, parameters);
  if (auto wrong = failure_of([&] { return kernel_.infer(&call, shapes.data()); }))
    return invalid(*wrong);
  std::vector<CustomTensor> outputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const weft_custom_shape &shape = shapes[i];
    std::string which = "its shape rule gives output " + std::to_string(i) + " ";
    if (shape.dtype < 0 || shape.dtype >= static_cast<int32_t>(std::size(kDTypes)))
      return invalid(which + "the dtype " + std::to_string(shape.dtype) + ", which does not exist");
    if (shape.rank < 0 || shape.rank > WEFT_CUSTOM_MAX_RANK)
      return invalid(which + "the rank " + std::to_string(shape.rank) + "; it must be 0 to " +
                     std::to_string(WEFT_CUSTOM_MAX_RANK));
    CustomTensor output{
        static_cast<DType>(shape.dtype), {shape.dims, shape.dims + shape.rank}, nullptr};
    if (bytes_of(output.dtype, output.dims) < 0)
      return invalid(which + "a size that is negative or too large");
    outputs.push_back(std::move(output));
  }
  return outputs;
}

absl::Status CustomKernel::run(std::span<const CustomTensor> inputs,
                               std::span<const CustomTensor> outputs,
                               const CustomParameters &parameters, int threads) const {
  std::vector<weft_custom_tensor> in = described(inputs), out = described(outputs);
  struct Work {
    const weft_custom_kernel *kernel;
    weft_custom_call call;
    std::mutex mutex;
    std::optional<std::string> wrong;
    int64_t where = 0;
  } work{&kernel_, call_of(in, out, kernel_.num_outputs, parameters), {}, {}};
  auto failed = [&](const std::string &wrong) {
    return absl::InternalError(absl::StrCat("the kernel ", name_, " failed: ", wrong));
  };
  int64_t count = 1;
  if (kernel_.count)
    if (auto wrong = failure_of([&]() -> const char * {
          count = kernel_.count(&work.call);
          return nullptr;
        }))
      return failed(*wrong);
  if (count < 0)
    return failed(absl::StrCat("its count gives ", count, " pieces; it must give 0 or more"));
  if (count == 0)
    return absl::OkStatus();
  RangeBody body = [](void *data, int, int64_t begin, int64_t end) -> int32_t {
    auto &work = *static_cast<Work *>(data);
    auto wrong = failure_of([&] { return work.kernel->run(&work.call, begin, end); });
    if (!wrong)
      return 0;
    std::lock_guard<std::mutex> lock(work.mutex);
    // The same message however the pieces were split: the first one's.
    if (!work.wrong || begin < work.where)
      work.wrong = std::move(wrong), work.where = begin;
    return 1;
  };
  if (threads > 1 && count > 1)
    parallel_for(count, 1, threads, body, &work);
  else
    body(&work, 0, 0, count);
  return work.wrong ? failed(*work.wrong) : absl::OkStatus();
}

absl::StatusOr<const CustomKernel *> find_custom_kernel(std::string_view name) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto it = registry().kernels.find(name);
  if (it != registry().kernels.end())
    return it->second.get();
  std::string known;
  for (const auto &[other, kernel] : registry().kernels)
    known += (known.empty() ? "" : ", ") + other;
  return absl::NotFoundError("no kernel named '" + std::string(name) +
                             "' is registered in this process (weft_register_kernel); "
                             "load_plugin() or WEFT_PLUGINS loads a library of kernels; known: " +
                             (known.empty() ? "none" : known));
}

namespace {

absl::Status add(const weft_custom_kernel *given) {
  if (!given)
    return absl::InvalidArgumentError("weft_register_kernel was given NULL");
  // The first version's fields: all that there are up to `derivative`.
  constexpr size_t first_bytes = offsetof(weft_custom_kernel, derivative) + sizeof(const char *);
  WEFT_ASSIGN_OR_RETURN(auto kernel, read_struct(*given, first_bytes, WEFT_CUSTOM_ABI_VERSION,
                                                 "the kernel", "runtime/abi/weft_custom.h"));
  if (!kernel.name || !*kernel.name)
    return absl::InvalidArgumentError("the kernel has no name");
  // Names stand in programs, errors and profiles.
  std::string name = kernel.name;
  auto is_odd = [](char c) {
    bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return !is_word && std::string_view("._-/:").find(c) == std::string_view::npos;
  };
  if (std::any_of(name.begin(), name.end(), is_odd)) {
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return absl::InvalidArgumentError(absl::StrCat(
        "the kernel '", name, "' must have a name of letters, digits and . _ - / : alone"));
  }
  if (name.starts_with("weft."))
    return absl::InvalidArgumentError(
        absl::StrCat("the kernel '", name, "' has a name of Weft's own; take another word than "
                     "weft before the point"));
  auto refused = [&](const std::string &why) {
    return absl::InvalidArgumentError(absl::StrCat("the kernel '", kernel.name, "' ", why));
  };
  if (!kernel.infer || !kernel.run)
    return refused("lacks infer or run");
  if (kernel.num_outputs < 1 || kernel.num_outputs > WEFT_CUSTOM_MAX_OUTPUTS)
    return refused(absl::StrCat("has ", kernel.num_outputs, " outputs; it must have 1 to ",
                                WEFT_CUSTOM_MAX_OUTPUTS));
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto [it, fresh] = registry().kernels.try_emplace(kernel.name, nullptr);
  if (!fresh)
    return refused("is registered already, by this name");
  it->second = std::make_unique<CustomKernel>(kernel);
  return absl::OkStatus();
}

} // namespace
} // namespace weft::runtime

extern "C" const char *weft_register_kernel(const weft_custom_kernel *kernel) {
  thread_local std::string why;
  absl::Status status = weft::runtime::add(kernel);
  why = std::string(status.message());
  return status.ok() ? nullptr : why.c_str();
}
