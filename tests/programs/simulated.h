// What tests on the backends share that stand in for those whose devices a machine may lack.
#pragma once

#include <string>
#include <vector>

#include "compiler/backend/Backend.h"
#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft::tests {

inline std::vector<std::string> simulated_backends() {
  std::vector<std::string> names;
  for (const std::string &name : compiler::backendNames())
    if (name.find("simulated") != std::string::npos)
      names.push_back(name);
  return names;
}

// Each as the backend of cpu:0, with copies at the edges of programs, and as a device ("...:1").
inline std::vector<std::string> simulated_places() {
  std::vector<std::string> places;
  for (const std::string &name : simulated_backends()) {
    places.push_back(name);
    places.push_back(name + ":1");
  }
  return places;
}

// Letters alone, as the names of tests have them.
inline std::string place_name(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  for (char &letter : name)
    if (letter == '-' || letter == ':')
      letter = '_';
  return name;
}

// A backend or a device, until it ends.
class Chosen {
public:
  explicit Chosen(const std::string &place) {
    Config now = before_;
    (place.find(':') == std::string::npos ? now.backend : now.device) = place;
    set_config(now);
  }
  ~Chosen() {
    set_config(before_);
  }

private:
  Config before_ = config();
};

} // namespace weft::tests
