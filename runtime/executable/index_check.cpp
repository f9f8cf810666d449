#include "runtime/executable/index_check.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace weft::runtime {
namespace {

template <typename T> int64_t element(const void *data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + i * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return static_cast<int64_t>(value);
}

int64_t integer_at(const void *data, DType dtype, int64_t i) {
  switch (dtype) {
  case DType::kInt64:
    return element<int64_t>(data, i);
  case DType::kInt32:
    return element<int32_t>(data, i);
  case DType::kInt16:
    return element<int16_t>(data, i);
  case DType::kInt8:
    return element<int8_t>(data, i);
  default:
    return element<uint8_t>(data, i);
  }
}

// A user of weft.check_index with a space in it is the whole message: its indices are none that a
// caller gave.
bool is_message(const std::string &op) {
  return op.find(' ') != op.npos;
}

// Whether the function that is named in another check's message computes this one's indices: then
// they are none that a caller gave, and that message says what is wrong with what was given.
bool has_message(const Launch &launch, const std::string &op) {
  return std::ranges::any_of(launch.checks, [&](const IndexCheck &other) {
    return is_message(other.op) && op == "weft." + other.op.substr(0, other.op.find(':'));
  });
}

std::string rule(const IndexCheck &check) {
  std::string text = absl::StrCat("it must lie in [", check.lower, ", ", check.upper, ")");
  if (check.ignores)
    absl::StrAppend(&text, " or be ignore_index, ", check.ignored);
  return text;
}

} // namespace

BadIndex find_bad_index(const Program &program, const Launch &launch, void *const *buffers) {
  for (const IndexCheck &check : launch.checks) {
    if (check.operand == -1)
      continue;
    int64_t count = program.buffers[launch.operands[check.operand]].bytes / byte_size(check.dtype);
    for (int64_t i = 0; i < count; ++i) {
      int64_t index = integer_at(buffers[check.operand], check.dtype, i);
      if ((index >= check.lower && index < check.upper) ||
          (check.ignores && index == check.ignored))
        continue;
      return {is_message(check.op) ? check.op
                                   : absl::StrCat(check.op, ": index ", index, " at position ", i,
                                                  " is out of range; ", rule(check)),
              check.location};
    }
  }
  std::string message;
  for (const IndexCheck &check : launch.checks) {
    if (!is_message(check.op) && has_message(launch, check.op))
      continue;
    std::string one = is_message(check.op)
                          ? check.op
                          : absl::StrCat(check.op, ": an index is out of range; ", rule(check));
    if (message.find(one) == std::string::npos)
      absl::StrAppend(&message, message.empty() ? "" : ", or ", one);
  }
  if (message.empty())
    message = "an index lies outside the dimension that it indexes";
  return {message, launch.checks.size() == 1 ? launch.checks[0].location : -1};
}

} // namespace weft::runtime
