#include "runtime/aot/main_files.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/aot/held_tensors.h"
#include "runtime/core/float16.h"
#include "runtime/core/status.h"
#include "runtime/io/array_text.h"
#include "runtime/io/files.h"
#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"

namespace weft::runtime {
namespace {

// "input 0 'x'"; without a name where the model gives none.
std::string input_label(size_t i, const weft_tensor_info &info) {
  return *info.name == '\0' ? absl::StrCat("input ", i)
                            : absl::StrCat("input ", i, " '", info.name, "'");
}

// "1 input", "2 inputs".
std::string counted(size_t count, const char *what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// By its name, or else by its number, as --help lists both; traced inputs have a number alone.
size_t index_of(const std::string &label, const std::vector<weft_tensor_info> &infos) {
  for (size_t i = 0; i < infos.size(); ++i)
    if (label == infos[i].name)
      return i;
  for (size_t i = 0; i < infos.size(); ++i)
    if (label == std::to_string(i))
      return i;
  return infos.size();
}

// NAME=FILE, where NAME is one of the tensors' or its number, or the whole is a FILE.
std::pair<std::string, std::string> split(const std::string &text,
                                          const std::vector<weft_tensor_info> &tensors) {
  size_t equals = text.find('=');
  if (equals == text.npos)
    return {"", text};
  std::string label = text.substr(0, equals);
  // An unknown name is reported by the caller, unless the text is a path that holds '='.
  if (index_of(label, tensors) < tensors.size() || label.find('/') == label.npos)
    return {label, text.substr(equals + 1)};
  return {"", text};
}

void print_element(DType dtype, const std::byte *at) {
  auto as = [&](auto zero) {
    std::memcpy(&zero, at, sizeof(zero));
    return zero;
  };
  switch (dtype) {
  case DType::kFloat32:
    std::printf(" %.9g", static_cast<double>(as(float())));
    break;
  case DType::kFloat64:
    std::printf(" %.17g", as(double()));
    break;
  case DType::kInt32:
    std::printf(" %d", as(int32_t()));
    break;
  case DType::kInt64:
    std::printf(" %lld", static_cast<long long>(as(int64_t())));
    break;
  case DType::kInt8:
    std::printf(" %d", as(int8_t()));
    break;
  case DType::kInt16:
    std::printf(" %d", as(int16_t()));
    break;
  case DType::kBool:
  case DType::kUInt8:
    std::printf(" %d", as(uint8_t()));
    break;
  case DType::kBFloat16:
    std::printf(" %.9g", static_cast<double>(bfloat16_to_float(as(uint16_t()))));
    break;
  case DType::kFloat16:
    std::printf(" %.9g", static_cast<double>(float16_to_float(as(uint16_t()))));
    break;
  }
}

} // namespace

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

int32_t varying_dim(const weft_tensor_info &info) {
  for (int32_t d = 0; d < info.rank; ++d)
    if (info.min_dims[d] != info.dims[d])
      return d;
  return -1;
}

//===-- Batches -------------------------------------------------------------------------------===//

// The array lies in `storage`.
absl::Status Batches::give(size_t i, const ArrayView &array, std::shared_ptr<const void> storage,
                           const std::vector<weft_tensor_info> &infos, const std::string &path) {
  const weft_tensor_info &info = infos[i];
  Input &input = inputs_[i];
  const bool sized = varying_dim(info) >= 0;
  const bool stacked = array.dims.size() == static_cast<size_t>(info.rank) + 1;
  Shape own(array.dims.begin() + stacked, array.dims.end());
  const bool cut = sized && !stacked && rows_ > 0 && !own.empty();
  auto wrong = [&](const std::string &advice) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", input_label(i, info), " is ",
                                                   runtime::show(info), "; the file holds ",
                                                   shape_text(array.dtype, array.dims), advice));
  };
  if (static_cast<int32_t>(array.dtype) != info.dtype ||
      own.size() != static_cast<size_t>(info.rank))
    return wrong("");
  for (size_t d = 0; d < own.size(); ++d)
    if ((d > 0 || !cut) && (own[d] < info.min_dims[d] || own[d] > info.dims[d]))
      return wrong(
          sized && !stacked && d == 0 && own[0] > info.dims[0]
              ? absl::StrCat("; --batch ROWS, at most ", info.dims[0], ", cuts it into steps")
              : "");
  // Kernels compute with the byte itself.
  if (array.dtype == DType::kBool &&
      std::ranges::any_of(array.bytes, [](std::byte each) { return each > std::byte{1}; }))
    return wrong(" with elements that are neither 0 nor 1");
  if (sized && stacked && rows_ > 0)
    return wrong(", which are batches already; leave --batch out");
  if (input.data)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", input_label(i, info), " was given before"));
  input.varies = stacked || cut;
  int64_t batches = 0;
  if (stacked)
    batches = array.dims[0];
  if (cut) {
    input.rows = own[0];
    batches = (own[0] + rows_ - 1) / rows_;
    int64_t last = own[0] % rows_;
    if (rows_ > info.dims[0] || rows_ < info.min_dims[0])
      return absl::InvalidArgumentError(absl::StrCat(
          "--batch is ", rows_, "; ", input_label(i, info), " is ", runtime::show(info)));
    if (last != 0 && last < info.min_dims[0])
      return wrong(absl::StrCat(", whose last batch of ", last, " is too small"));
    own[0] = rows_;
  }
  if (input.varies && batches == 0)
    return absl::InvalidArgumentError(absl::StrCat(path, ": there is no batch in it"));
  if (input.varies && count_ != 0 && batches != count_)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": it holds ", batches, " batches; the input before it holds ", count_));
  if (input.varies)
    count_ = batches;
  input.bytes = array_bytes(array.dtype, own);
  input.dims = std::move(own);
  input.data = array.bytes.data();
  if (!is_aligned(input.data, info.dtype)) {
    auto copy = std::make_shared<std::vector<std::byte>>(array.bytes.begin(), array.bytes.end());
    input.data = copy->data();
    storage = std::move(copy);
  }
  static const std::byte kNone{};
  if (input.data == nullptr)
    input.data = &kNone;
  storage_.push_back(std::move(storage));
  return absl::OkStatus();
}

absl::StatusOr<Batches> Batches::read(const std::vector<std::string> &files,
                                      const std::vector<weft_tensor_info> &infos, int64_t rows) {
  Batches result;
  result.rows_ = rows;
  if (rows > 0 && std::ranges::none_of(
                      infos, [](const weft_tensor_info &info) { return varying_dim(info) >= 0; }))
    return absl::InvalidArgumentError("--batch: the model's inputs have one shape each");
  result.inputs_.resize(infos.size());
  size_t next = 0;
  for (const std::string &text : files) {
    auto [label, path] = split(text, infos);
    if (ends_with(path, ".safetensors")) {
      WEFT_ASSIGN_OR_RETURN(SafetensorsFile file, read_safetensors(path));
      const bool is_one = file.tensors.size() + file.unread.size() == 1;
      for (const UnreadTensor &tensor : file.unread)
        if (label.empty() || is_one || tensor.name == label)
          return absl::InvalidArgumentError(
              absl::StrCat(path, ": '", tensor.name, "' is ", unread_text(tensor)));
      for (const ArrayView &tensor : file.tensors) {
        if (!label.empty() && !is_one && tensor.name != label)
          continue;
        size_t i = index_of(label.empty() ? tensor.name : label, infos);
        if (i == infos.size())
          return absl::NotFoundError(absl::StrCat(path, ": the model has no input '",
                                                  label.empty() ? tensor.name : label,
                                                  "'; --help lists them"));
        WEFT_RETURN_IF_ERROR(result.give(i, tensor, file.storage, infos, path));
      }
      continue;
    }
    size_t i = label.empty() ? next++ : index_of(label, infos);
    if (i >= infos.size())
      return label.empty() ? absl::InvalidArgumentError(
                                 absl::StrCat("the model has ", counted(infos.size(), "input"),
                                              "; ", path, " is one too many"))
                           : absl::NotFoundError(absl::StrCat("the model has no input '", label,
                                                              "'; --help lists them"));
    WEFT_ASSIGN_OR_RETURN(NpyFile file, read_npy(path));
    WEFT_RETURN_IF_ERROR(result.give(i, file.array, file.storage, infos, path));
  }
  for (size_t i = 0; i < infos.size(); ++i)
    if (!result.inputs_[i].data)
      return absl::InvalidArgumentError(absl::StrCat(input_label(i, infos[i]), " ",
                                                     runtime::show(infos[i]),
                                                     " is missing; --help shows how to give it"));
  return result;
}

std::vector<const void *> Batches::at(int64_t step) const {
  std::vector<const void *> pointers;
  for (const Input &input : inputs_)
    pointers.push_back(input.varies ? input.data + step % count_ * input.bytes : input.data);
  return pointers;
}

std::vector<Shape> Batches::shapes(int64_t step) const {
  std::vector<Shape> shapes;
  for (const Input &input : inputs_) {
    shapes.push_back(input.dims);
    if (input.rows > 0)
      shapes.back()[0] = std::min(rows_, input.rows - step % count_ * rows_);
  }
  return shapes;
}

//===-- Results -------------------------------------------------------------------------------===//

bool Results::keeps(size_t output) const {
  return std::ranges::any_of(targets_, [&](const Target &target) {
    return target.output == output || target.output == infos_.size();
  });
}

absl::Status Results::reserve(size_t output, int64_t steps) {
  int64_t bytes;
  if (!__builtin_mul_overflow(infos_[output].bytes, steps, &bytes))
    try {
      values_.emplace_back().bytes.reserve(static_cast<size_t>(bytes));
      return absl::OkStatus();
    } catch (const std::exception &) {
      // That many bytes are not there, or are more than a vector has.
    }
  return absl::ResourceExhaustedError(
      absl::StrCat("there is no memory for output ", output, " of ", steps, " steps, ",
                   infos_[output].bytes, " bytes each, which are written after the last one; run "
                   "fewer steps at a time, or do not name a file for it"));
}

absl::StatusOr<Results> Results::plan(const std::vector<std::string> &files,
                                      const std::vector<weft_tensor_info> &infos, int64_t steps,
                                      bool joins) {
  Results result;
  result.infos_ = infos;
  result.steps_ = steps;
  result.joins_ = joins;
  size_t next = 0;
  for (const std::string &text : files) {
    auto [label, path] = split(text, infos);
    bool all = ends_with(path, ".safetensors");
    if (!all && !ends_with(path, ".npy"))
      return absl::InvalidArgumentError(
          absl::StrCat("an output file is .npy or .safetensors, not '", path, "'"));
    size_t i = all ? infos.size() : next;
    if (!label.empty()) {
      i = index_of(label, infos);
      if (i == infos.size())
        return absl::NotFoundError(
            absl::StrCat("the model has no output '", label, "'; --help lists them"));
    } else if (!all && next++ >= infos.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the model has ", counted(infos.size(), "output"), "; ", path, " is one too many"));
    }
    WEFT_RETURN_IF_ERROR(check_writable(path));
    result.targets_.push_back({path, i});
  }
  // All memory now, so that none is moved or missing later.
  for (size_t i = 0; i < infos.size(); ++i)
    WEFT_RETURN_IF_ERROR(result.reserve(i, result.keeps(i) ? std::max<int64_t>(steps, 1) : 1));
  return result;
}

std::vector<void *> Results::at(const std::vector<Shape> &shapes) {
  std::vector<void *> pointers;
  for (size_t i = 0; i < infos_.size(); ++i) {
    Output &output = values_[i];
    output.dims = shapes[i];
    if (int32_t dim = varying_dim(infos_[i]); dim >= 0)
      output.joined += shapes[i][static_cast<size_t>(dim)];
    size_t offset = keeps(i) ? output.bytes.size() : 0;
    output.bytes.resize(
        offset + static_cast<size_t>(array_bytes(static_cast<DType>(infos_[i].dtype), shapes[i])));
    pointers.push_back(output.bytes.data() + offset);
  }
  return pointers;
}

void Results::show(int64_t step) const {
  constexpr int64_t kShown = 8;
  if (!targets_.empty())
    return;
  for (size_t i = 0; i < infos_.size(); ++i) {
    const weft_tensor_info &info = infos_[i];
    DType dtype = static_cast<DType>(info.dtype);
    if (steps_ > 0)
      std::printf("step %lld ", static_cast<long long>(step + 1));
    std::printf("%s %s", *info.name ? info.name : absl::StrCat("output", i).c_str(),
                shape_text(dtype, values_[i].dims).c_str());
    int64_t count = static_cast<int64_t>(values_[i].bytes.size()) / byte_size(dtype);
    for (int64_t e = 0; e < std::min(count, kShown); ++e)
      print_element(dtype, values_[i].bytes.data() + e * byte_size(dtype));
    std::printf(count > kShown ? " ...\n" : "\n");
  }
  std::fflush(stdout);
}

absl::Status Results::write() const {
  std::vector<ArrayView> arrays;
  for (size_t i = 0; i < infos_.size(); ++i) {
    Shape dims = values_[i].dims;
    int32_t varying = varying_dim(infos_[i]);
    if (steps_ > 0 && joins_ && varying >= 0)
      dims[static_cast<size_t>(varying)] = values_[i].joined;
    else if (steps_ > 0)
      dims.insert(dims.begin(), steps_);
    arrays.push_back({*infos_[i].name ? infos_[i].name : absl::StrCat("output", i),
                      static_cast<DType>(infos_[i].dtype), std::move(dims), values_[i].bytes});
  }
  for (const auto &[path, i] : targets_) {
    absl::Status status;
    if (!ends_with(path, ".safetensors"))
      status = write_npy(path, arrays[i]);
    else
      status =
          write_safetensors(path, i < arrays.size() ? std::span(&arrays[i], 1) : std::span(arrays));
    if (!status.ok())
      return status;
  }
  return absl::OkStatus();
}

} // namespace weft::runtime
