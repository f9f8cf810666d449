#include "weft/config.h"

#include "compiler/backend/Backend.h"
#include "frontend/compile/environment.h"
#include "frontend/recorder/programs/backends.h"
#include "frontend/recorder/programs/program_cache.h"
#include "frontend/recorder/record/state.h"
#include "runtime/executor/device.h"
#include "runtime/threading/thread_pool.h"

namespace weft {

Math current_math() {
  return recorder::math_of(config());
}

Config config() {
  recorder::Session session("config", Location::current());
  return recorder::recorder().config;
}

void set_config(const Config &config, Location location) {
  using namespace recorder;
  Session session("set_config", location);
  check(compiler::findBackend(config.backend).status(), ErrorKind::kValue);
  check_backend(config.backend, 0);
  auto at_least = [](int64_t least, const char *what, int64_t value) {
    if (value < least)
      fail(ErrorKind::kValue, std::string(what) + " must be at least " + std::to_string(least) +
                                  ", it is " + std::to_string(value));
  };
  at_least(kLeastBudget, "budget_ops", config.budget_ops);
  at_least(kLeastBudget, "budget_bytes", config.budget_bytes);
  at_least(1, "cache_entries", config.cache_entries);
  at_least(1, "context_bound", config.context_bound);
  at_least(0, "num_threads", config.num_threads);
  at_least(0, "memory_limit", config.memory_limit);
  at_least(0, "tune_seconds", config.tune_seconds);
  if (config.num_threads > runtime::ThreadPool::kMostThreads)
    fail(ErrorKind::kValue, "num_threads must be at most " +
                                std::to_string(runtime::ThreadPool::kMostThreads) + ", it is " +
                                std::to_string(config.num_threads));
  auto device = runtime::find_device(config.device);
  check(device.status(), ErrorKind::kDevice);
  if (config.memory_folder != recorder::recorder().config.memory_folder)
    check(use_memory_folder(config.memory_folder), ErrorKind::kValue, "memory_folder: ");
  use_threads(config.num_threads);
  Recorder &r = recorder::recorder();
  r.config = config;
  ++r.configured;
  r.default_device = static_cast<uint8_t>(*device);
  program_cache().trim();
}

} // namespace weft
