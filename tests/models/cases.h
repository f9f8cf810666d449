// The small models whose figures PyTorch gave (tools/models/networks.py, SMALL).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/models/models.h"

namespace weft::tests {

struct Case {
  std::string name; // of its file
  std::function<models::AnyModel()> make;
  // salt: stands behind the names of the formula.
  std::function<std::vector<Tensor>(const std::string &salt)> inputs;
};

const std::vector<Case> &cases();

} // namespace weft::tests
