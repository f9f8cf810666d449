#include "weft/nn/dropout.h"

#include "weft/autograd.h"
#include "weft/warning.h"

namespace weft::nn {

Dropout::Dropout(double rate, Location location) : rate_(rate) {
  if (!(rate >= 0 && rate <= 1))
    fail_at(location, ErrorKind::kValue,
            "Dropout: the rate must be from 0 to 1, it is " + std::to_string(rate));
}

Tensor Dropout::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  if (!training() || rate_ == 0)
    return x;
  if (!grad_enabled())
    warn("Dropout: it drops elements, as in training, although no history is kept (NoGrad); call "
         "eval() on the module around it before evaluation, and train() after it");
  return weft::dropout(x, rate_, true, default_generator());
}

} // namespace weft::nn
