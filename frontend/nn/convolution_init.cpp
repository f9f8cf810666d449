#include "weft/nn/convolution_init.h"

#include <algorithm>
#include <cmath>

#include "weft/nn/init.h"

namespace weft::nn {

void check_convolution(const char *module, int64_t in, int64_t out, const Shape &kernel,
                       int64_t groups, Location location) {
  std::string size;
  for (int64_t taps : kernel)
    size += (size.empty() ? "" : " x ") + std::to_string(taps);
  std::string given = std::to_string(in) + " channels to " + std::to_string(out) +
                      ", a kernel of " + size + ", " + std::to_string(groups) + " groups";
  if (in < 1 || out < 1 || *std::min_element(kernel.begin(), kernel.end()) < 1 || groups < 1)
    fail_at(location, ErrorKind::kValue,
            std::string(module) + ": sizes must be at least 1, they are " + given);
  if (in % groups || out % groups)
    fail_at(location, ErrorKind::kValue,
            std::string(module) + ": groups must divide both channel counts, they are " + given);
}

std::pair<Tensor, Tensor> draw_convolution(const Shape &shape, int64_t out, bool bias) {
  Tensor weight = init::kaiming_uniform(shape, std::sqrt(5.0));
  if (!bias)
    return {weight, Tensor()};
  Tensor drawn = init::uniform({out}, 1 / std::sqrt(init::fans(shape).in));
  init::submit({weight, drawn});
  return {weight, drawn};
}

} // namespace weft::nn
