#include "runtime/executable/library_call.h"

#include "absl/strings/str_cat.h"
#include "runtime/core/alignment.h"
#include "runtime/core/thrown.h"

namespace weft::runtime {
namespace {

absl::Status wrong_type(std::string_view key, const char *type) {
  return absl::InvalidArgumentError(
      absl::StrCat("config key '", std::string(key), "' is not ", type));
}

} // namespace

absl::StatusOr<std::unique_ptr<LibraryCallState>> init_state(const LibraryEntry &entry,
                                                             const LibraryCall &call, int threads) {
  const char *function = "init()";
  try {
    absl::StatusOr<std::unique_ptr<LibraryCallState>> state = entry.init(call, threads);
    if (!state.ok())
      return state;
    if (!*state)
      return absl::InternalError("init() gave a null state; it must give a state or an error");
    function = "scratch_bytes()";
    int64_t bytes = (*state)->scratch_bytes();
    if (bytes < 0)
      return absl::InternalError(
          absl::StrCat("scratch_bytes() gave ", bytes, "; it must not be negative"));
    if (bytes > kMostBufferBytes)
      return absl::InternalError(absl::StrCat("scratch_bytes() gave ", bytes,
                                              "; no buffer has more than ", kMostBufferBytes));
    return state;
  } catch (...) {
    return absl::InternalError(absl::StrCat(function, " ", thrown_text()));
  }
}

double operations_of(const LibraryEntry &entry, const LibraryCall &call) {
  try {
    return entry.operations(call);
  } catch (...) {
    return 0; // not known
  }
}

absl::Status run_state(LibraryCallState &state, std::span<void *const> operands, void *scratch) {
  try {
    return state.run(operands, scratch);
  } catch (...) {
    return absl::InternalError(absl::StrCat("run() ", thrown_text()));
  }
}

const ConfigValue *find_config(const Config &config, std::string_view key) {
  for (const auto &[name, value] : config)
    if (name == key)
      return &value;
  return nullptr;
}

absl::StatusOr<int64_t> config_int(const Config &config, std::string_view key) {
  const ConfigValue *value = find_config(config, key);
  if (value == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("config key '", std::string(key), "' is missing"));
  if (const int64_t *number = std::get_if<int64_t>(value))
    return *number;
  return wrong_type(key, "an integer");
}

absl::StatusOr<int64_t> config_int(const Config &config, std::string_view key, int64_t otherwise) {
  return find_config(config, key) == nullptr ? absl::StatusOr<int64_t>(otherwise)
                                             : config_int(config, key);
}

absl::StatusOr<std::string> config_string(const Config &config, std::string_view key,
                                          std::string_view otherwise) {
  const ConfigValue *value = find_config(config, key);
  if (value == nullptr)
    return std::string(otherwise);
  if (const std::string *text = std::get_if<std::string>(value))
    return *text;
  return wrong_type(key, "a string");
}

absl::StatusOr<std::vector<int64_t>> config_ints(const Config &config, std::string_view key) {
  const ConfigValue *value = find_config(config, key);
  if (value == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("config key '", std::string(key), "' is missing"));
  if (const auto *list = std::get_if<std::vector<int64_t>>(value))
    return *list;
  return wrong_type(key, "a list of integers");
}

} // namespace weft::runtime
