#include "frontend/compile/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <utility>

#include "compiler/backend/Backend.h"
#include "compiler/plugin/Plugin.h"
#include "runtime/core/status.h"
#include "runtime/executor/device.h"
#include "runtime/memory/value_file.h"
#include "runtime/threading/parallel_for.h"

namespace weft {
namespace recorder {
namespace {

void ignore(const char *name, const std::string &text, const std::string &wanted) {
  std::cerr << "weft: " << name << "=" << text << " is ignored: it must be " << wanted << "\n";
}

void read_text(const char *name, std::string &value) {
  if (const char *text = std::getenv(name); text && *text)
    value = text;
}

void read_bool(const char *name, bool &value) {
  std::string text;
  read_text(name, text);
  if (text == "1" || text == "true" || text == "on")
    value = true;
  else if (text == "0" || text == "false" || text == "off")
    value = false;
  else if (!text.empty())
    ignore(name, text, "0 or 1");
}

template <typename T> void read_number(const char *name, T &value, T least = 0) {
  std::string text;
  read_text(name, text);
  if (text.empty())
    return;
  T number = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < least)
    ignore(name, text,
           "a number from " + std::to_string(least) + " to " +
               std::to_string(std::numeric_limits<T>::max()));
  else
    value = number;
}

void read_math(const char *name, Math &value) {
  std::string text;
  read_text(name, text);
  for (Math math : {Math::kExact, Math::kStandard, Math::kFast})
    if (text == weft::name(math)) {
      value = math;
      return;
    }
  if (!text.empty())
    ignore(name, text, "exact, standard or fast");
}

} // namespace

absl::Status use_memory_folder(const std::string &folder) {
  std::error_code error;
  std::string path = folder.empty() ? "" : std::filesystem::absolute(folder, error).string();
  if (error)
    return absl::NotFoundError(folder + ": " + error.message());
  if (!path.empty()) {
    WEFT_RETURN_IF_ERROR(runtime::ValueFile::make(1, path).status());
    if (runtime::is_in_memory(path))
      std::cerr << "weft: memory_folder " << path
                << " lies in memory itself (tmpfs): values that wait there save none\n";
  }
  runtime::set_memory_folder(std::move(path));
  return absl::OkStatus();
}

void load_plugins() {
  if (absl::Status status = compiler::loadPluginsFromEnvironment(); !status.ok())
    std::cerr << "weft: " << status.message() << "; the program goes on without\n";
}

Config config_from_environment() {
  Config config;
  read_bool("WEFT_EAGER", config.eager);
  read_bool("WEFT_EXPLAIN", config.explain);
  read_bool("WEFT_SYMBOLIC", config.symbolic);
  read_bool("WEFT_JIT_CHECK", config.jit_check);
  read_bool("WEFT_PREPARE", config.prepare);
  read_math("WEFT_MATH", config.math);
  read_bool("WEFT_TUNE", config.tune);
  read_number("WEFT_TUNE_SECONDS", config.tune_seconds);
  read_number("WEFT_MEMORY_LIMIT", config.memory_limit);
  read_text("WEFT_MEMORY_FOLDER", config.memory_folder);
  if (absl::Status status = use_memory_folder(config.memory_folder); !status.ok()) {
    std::cerr << "weft: WEFT_MEMORY_FOLDER is ignored: " << status.message() << "\n";
    config.memory_folder.clear();
  }
  read_text("WEFT_DUMP_DIR", config.dump_dir);
  read_text("WEFT_CACHE_DIR", config.cache_dir);
  config.num_threads = runtime::threads_from_environment().value_or(0);
  read_number("WEFT_BUDGET_OPS", config.budget_ops, kLeastBudget);
  read_number("WEFT_BUDGET_BYTES", config.budget_bytes, kLeastBudget);
  read_text("WEFT_BACKEND", config.backend);
  // Of those that plugins bring, too; none is made yet.
  if (std::vector<std::string> known = compiler::backendNames();
      config.backend != Config().backend &&
      std::ranges::find(known, config.backend) == known.end()) {
    std::string names = "one of";
    for (const std::string &name : known)
      names += " " + name;
    ignore("WEFT_BACKEND", config.backend, names);
    config.backend = Config().backend;
  }
  read_text("WEFT_DEVICE", config.device);
  if (auto device = runtime::find_device(config.device); !device.ok()) {
    std::cerr << "weft: WEFT_DEVICE is ignored: " << device.status().message() << "\n";
    config.device = Config().device;
  }
  return config;
}

constinit thread_local std::optional<Math> thread_math;

Math math_of(const Config &config) {
  return thread_math.value_or(config.math);
}

} // namespace recorder

std::string_view name(Math math) {
  switch (math) {
  case Math::kExact:
    return "exact";
  case Math::kStandard:
    return "standard";
  case Math::kFast:
    return "fast";
  }
  return "";
}

MathScope::MathScope(Math math) : before_(std::exchange(recorder::thread_math, math)) {}
MathScope::~MathScope() {
  recorder::thread_math = before_;
}

} // namespace weft
