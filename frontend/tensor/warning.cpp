#include "weft/warning.h"

#include <iostream>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace weft {
namespace {

// Warnings that were given: a program that comes to more of them has told enough.
constexpr size_t kMostWarnings = 1000;

struct Warnings {
  std::mutex mutex;
  std::shared_ptr<const std::function<void(const Warning &)>> handler; // null: stderr
  std::unordered_set<std::string> given;
};

// Never destroyed: static variables may warn.
Warnings &warnings() {
  static auto *made = new Warnings;
  return *made;
}

} // namespace

std::string Warning::to_string() const {
  return "weft: " + file + ":" + std::to_string(line) + ": warning: " + message;
}

void set_warning_handler(std::function<void(const Warning &)> handler) {
  Warnings &w = warnings();
  std::lock_guard<std::mutex> lock(w.mutex);
  w.handler = handler
                  ? std::make_shared<const std::function<void(const Warning &)>>(std::move(handler))
                  : nullptr;
  w.given.clear();
}

void warn(const std::string &message, Location location) {
  location = CallerScope::resolve(location);
  Warning warning{message, location.file_name(), static_cast<int>(location.line())};
  std::string text = warning.to_string();
  Warnings &w = warnings();
  std::shared_ptr<const std::function<void(const Warning &)>> handler;
  {
    std::lock_guard<std::mutex> lock(w.mutex);
    if (w.given.size() >= kMostWarnings || !w.given.insert(text).second)
      return;
    handler = w.handler;
  }
  // Without the lock: it may call Weft.
  if (handler)
    (*handler)(warning);
  else
    std::cerr << text + "\n";
}

} // namespace weft
