// The labels of the process, by number.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runtime/profile/profile.h"

namespace weft::runtime::profile {

class Labels {
public:
  // Never destroyed: threads may record while static objects go.
  static Labels &instance();

  uint32_t number_of(const Label &label);
  // A label stays where it is.
  const Label &at(uint32_t number) const;
  int64_t count() const;
  int64_t bytes() const;

private:
  Labels();
  static std::string key_of(const Label &label);

  mutable std::mutex mutex_;
  std::deque<Label> labels_; // 0 is none, 1 stands for those of its kind beyond the bound
  std::unordered_map<std::string, uint32_t> numbers_;
  int64_t bytes_ = 0;
};

} // namespace weft::runtime::profile
