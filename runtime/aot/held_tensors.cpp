#include "runtime/aot/held_tensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/core/status.h"
#include "runtime/executable/sized_programs.h"
#include "runtime/io/array_text.h"

namespace weft::runtime {
namespace {

std::span<const int64_t> dims_of(const weft_tensor_info &info) {
  return {info.dims, static_cast<size_t>(info.rank)};
}

// The tensors of a file, by name.
class Source {
public:
  Source(std::string path, SafetensorsFile file) : path_(std::move(path)), file_(std::move(file)) {
    for (const ArrayView &tensor : file_.tensors)
      by_name_.emplace(tensor.name, &tensor);
    for (const UnreadTensor &tensor : file_.unread)
      unread_.emplace(tensor.name, &tensor);
  }

  // what: "weight" or "state".
  absl::StatusOr<const ArrayView *> find(const weft_tensor_info &info, const char *what) const {
    auto found = by_name_.find(info.name);
    if (auto unread = unread_.find(info.name); unread != unread_.end())
      return absl::InvalidArgumentError(absl::StrCat(path_, ": the ", what, " '", info.name,
                                                     "' is ", unread_text(*unread->second)));
    if (found == by_name_.end())
      return absl::NotFoundError(absl::StrCat(path_, ": there is no ", what, " '", info.name, "'"));
    const ArrayView &tensor = *found->second;
    if (static_cast<int32_t>(tensor.dtype) != info.dtype ||
        !std::ranges::equal(tensor.dims, dims_of(info)))
      return absl::InvalidArgumentError(absl::StrCat(path_, ": the ", what, " '", info.name,
                                                     "' is ", shape_text(tensor.dtype, tensor.dims),
                                                     "; the model takes ", show(info)));
    return &tensor;
  }
  bool has(std::string_view name) const {
    return by_name_.contains(name);
  }
  const std::shared_ptr<const void> &storage() const {
    return file_.storage;
  }

private:
  std::string path_;
  SafetensorsFile file_;
  std::map<std::string_view, const ArrayView *> by_name_;
  std::map<std::string_view, const UnreadTensor *> unread_;
};

absl::StatusOr<Source> read(const std::string &path) {
  WEFT_ASSIGN_OR_RETURN(SafetensorsFile file, read_safetensors(path));
  return Source(path, std::move(file));
}

const char *kind_of(bool is_state) {
  return is_state ? "state" : "weight";
}

constexpr const char *kHowStateIsRead =
    "; weft_model_load_state() and an executable's --load read state";

} // namespace

std::string show(const weft_tensor_info &info) {
  std::span<const int64_t> dims = dims_of(info);
  return range_text(static_cast<DType>(info.dtype), {info.min_dims, dims.size()}, dims);
}

bool is_aligned(const void *data, int32_t dtype) {
  return reinterpret_cast<uintptr_t>(data) %
             static_cast<uintptr_t>(byte_size(static_cast<DType>(dtype))) ==
         0;
}

absl::Status HeldTensors::copy_in(Tensor &tensor, const void *value) {
  WEFT_ASSIGN_OR_RETURN(
      std::shared_ptr<Buffer> buffer,
      memory_->allocate(tensor.info.bytes, tensor.is_state ? "state" : "parameter"));
  if (tensor.info.bytes > 0)
    std::memcpy(buffer->data(), value, static_cast<size_t>(tensor.info.bytes));
  tensor.buffer = std::move(buffer);
  return absl::OkStatus();
}

absl::Status HeldTensors::open(const weft_model_code &code, const char *path,
                               std::shared_ptr<Memory> memory) {
  name_ = code.name;
  memory_ = std::move(memory);
  std::span held(code.held, static_cast<size_t>(code.held_count));
  auto missing = std::ranges::count_if(held, [](const auto *each) { return !each->value; });
  std::optional<Source> source;
  if (missing == 0 && path != nullptr)
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the model '", name_, "' has its weights inside and reads none; compile it with ",
        "weights beside it (weft::CompileOptions::embed_weights = false, weft-compile ",
        "--weights-mode=beside, weft-models export --weights-beside)",
        std::ranges::any_of(held, [](const auto *each) { return each->is_state != 0; })
            ? kHowStateIsRead
            : ""));
  if (missing > 0) {
    if (path == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("the model '", name_, "' needs ", missing,
                                                     missing == 1 ? " weight" : " weights",
                                                     "; name a safetensors file"));
    WEFT_ASSIGN_OR_RETURN(Source file, read(path));
    source.emplace(std::move(file));
  }
  for (const weft_held_code *code_of : held) {
    const weft_held_code &each = *code_of;
    Tensor &tensor = tensors_.emplace_back();
    tensor.info = {each.name, each.dtype, each.rank, each.dims, static_cast<int64_t>(each.bytes),
                   each.dims};
    tensor.is_state = each.is_state != 0;
    if (tensor.is_state)
      state_.push_back(tensors_.size() - 1);
    const void *value = each.value;
    std::shared_ptr<const void> owner;
    if (value == nullptr) {
      WEFT_ASSIGN_OR_RETURN(const ArrayView *array,
                            source->find(tensor.info, kind_of(tensor.is_state)));
      value = array->bytes.data();
      owner = source->storage();
    } else if (source && source->has(each.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the ", kind_of(tensor.is_state), " '", each.name,
                       "' is inside the model '", name_, "' and is not read; leave it out",
                       tensor.is_state ? kHowStateIsRead : ""));
    }
    if (!tensor.is_state && is_aligned(value, each.dtype))
      tensor.buffer = Buffer::borrow_constant(value, tensor.info.bytes, std::move(owner));
    else
      WEFT_RETURN_IF_ERROR(copy_in(tensor, value));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> HeldTensors::find_state(const std::string &name) const {
  for (size_t i : state_)
    if (name == tensors_[i].info.name)
      return i;
  constexpr size_t kShown = 8;
  std::vector<std::string> known;
  for (size_t i = 0; i < std::min(state_.size(), kShown); ++i)
    known.push_back(tensors_[state_[i]].info.name);
  return absl::NotFoundError(absl::StrCat(
      "the model '", name_, "' has no state '", name, "'; it has ",
      known.empty() ? "none" : absl::StrJoin(known, ", "), state_.size() > kShown ? ", ..." : ""));
}

absl::Status HeldTensors::reserve(const std::vector<int64_t> &bytes) {
  std::map<int64_t, size_t> wanted;
  for (int64_t each : bytes)
    ++wanted[each];
  for (auto [each, count] : wanted)
    while (spares_.count(each) < count) {
      WEFT_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, memory_->allocate(each, "state"));
      spares_.emplace(each, std::move(buffer));
    }
  return absl::OkStatus();
}

std::shared_ptr<Buffer> HeldTensors::take(int64_t bytes) {
  auto spare = spares_.find(bytes);
  std::shared_ptr<Buffer> buffer = std::move(spare->second);
  spares_.erase(spare);
  return buffer;
}

void HeldTensors::give_back(std::shared_ptr<Buffer> buffer) {
  spares_.emplace(buffer->bytes(), std::move(buffer));
}

void HeldTensors::exchange(std::vector<std::pair<size_t, std::shared_ptr<Buffer>>> values) {
  std::set<const Buffer *> used;
  for (const auto &[i, buffer] : values)
    used.insert(buffer.get());
  for (auto &[i, buffer] : values) {
    std::swap(tensors_[i].buffer, buffer);
    if (!used.count(buffer.get()))
      give_back(std::move(buffer));
  }
}

void HeldTensors::lose(const absl::Status &failure) {
  lost_ = absl::FailedPreconditionError(absl::StrCat(
      "the state of the model '", name_,
      "' was lost in a run that failed; load it again. The failure was: ", failure.message()));
}

absl::Status HeldTensors::save(const std::string &path) const {
  if (!lost_.ok())
    return lost_;
  std::vector<ArrayView> arrays;
  for (size_t i : state_) {
    const weft_tensor_info &info = tensors_[i].info;
    std::span<const int64_t> dims = dims_of(info);
    arrays.push_back({info.name,
                      static_cast<DType>(info.dtype),
                      {dims.begin(), dims.end()},
                      {static_cast<const std::byte *>(tensors_[i].buffer->data()),
                       static_cast<size_t>(info.bytes)}});
  }
  return write_safetensors(path, arrays);
}

absl::Status HeldTensors::load(const std::string &path) {
  WEFT_ASSIGN_OR_RETURN(Source source, read(path));
  std::vector<const ArrayView *> arrays;
  for (size_t i : state_) {
    WEFT_ASSIGN_OR_RETURN(const ArrayView *array, source.find(tensors_[i].info, kind_of(true)));
    arrays.push_back(array);
  }
  for (size_t s = 0; s < state_.size(); ++s)
    if (!arrays[s]->bytes.empty())
      std::memcpy(tensors_[state_[s]].buffer->data(), arrays[s]->bytes.data(),
                  arrays[s]->bytes.size());
  lost_ = absl::OkStatus();
  return absl::OkStatus();
}

} // namespace weft::runtime
