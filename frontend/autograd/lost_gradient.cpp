#include "frontend/autograd/lost_gradient.h"

#include "frontend/recorder/record/module_name.h"
#include "frontend/tensor/impl.h"

namespace weft::recorder {

void refuse_lost_gradient(const GradNode &leaf) {
  if (!leaf.grad.defined())
    return;
  const Value *value = leaf.grad.impl()->storage()->var.value.get();
  if (!value || value->node || !is_lost(value))
    return;
  std::string which = leaf.name ? "the parameter '" + leaf.name->path() + "', " : "a tensor, ";
  fail(ErrorKind::kState,
       "the gradient of " + which + describe(*leaf.leaf_type) +
           ", was lost with the program that failed before (its error was raised then); drop the "
           "gradients with zero_grad(), then compute the loss again and call backward()");
}

void refuse_lost_gradients(const std::vector<Tensor> &parameters, const char *call,
                           Location location) {
  Session session(call, location);
  for (const Tensor &parameter : parameters)
    if (const GradNode *leaf = parameter.impl()->leaf.get())
      refuse_lost_gradient(*leaf);
}

} // namespace weft::recorder
