// Training loops that lose gradients, or layers, in silence: what step() and zero_grad() can tell
// of them, as warnings (weft/warning.h). Private to this folder.
#pragma once

#include <optional>
#include <vector>

#include "weft/tensor.h"

namespace weft::optim {

class StepWatch {
public:
  // zero_grad() drops the gradients.
  void drop(const std::vector<Tensor> &parameters, Location location);
  // step() takes these, undefined where a parameter has none.
  void take(const std::vector<Tensor> &parameters, const std::vector<Tensor> &gradients,
            Location location);

private:
  // Which tensor, and how often it was written.
  struct Stamp {
    uint64_t born = 0, version = 0;
    bool operator==(const Stamp &) const = default;
  };
  // Of the first of them that is defined: backward() gives and adds to all alike.
  static std::optional<Stamp> stamp(const std::vector<Tensor> &gradients);

  std::optional<Stamp> taken_;      // by the last step
  std::optional<Location> dropped_; // where gradients went that no step had taken
  bool first_ = true;
};

} // namespace weft::optim
