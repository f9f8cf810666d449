// Printing as numpy does: columns aligned, long dimensions cut in the middle.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "frontend/tensor/impl.h"

namespace weft {
namespace {

constexpr int64_t kThreshold = 1000; // more elements than this are summarised, as in numpy
constexpr int64_t kEdge = 3;         // how many are shown at each end then
constexpr int kPrecision = 4;        // digits after the point, as PyTorch prints them

class Printer {
public:
  Printer(const Tensor &tensor, Location location)
      : dims_(tensor.shape()), dtype_(tensor.dtype()), short_(tensor.size() > kThreshold) {
    if (is_floating(dtype_))
      doubles_ = tensor.to_vector<double>(location);
    else
      ints_ = tensor.to_vector<int64_t>(location);
    choose_format();
  }

  std::string run() {
    std::string text = dims_.empty() ? element(0) : "";
    if (!dims_.empty())
      print(text, 0, 0);
    return text;
  }

private:
  // The elements that are shown along a dimension.
  std::vector<int64_t> shown(int64_t size) const {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < size; ++i) {
      if (short_ && size > 2 * kEdge && i == kEdge) {
        indices.push_back(-1);
        i = size - kEdge - 1;
        continue;
      }
      indices.push_back(i);
    }
    return indices;
  }

  void choose_format() {
    if (!is_floating(dtype_)) {
      for (size_t i = 0; i < ints_.size(); ++i)
        width_ = std::max(width_, element(static_cast<int64_t>(i)).size());
      return;
    }
    double largest = 0, smallest = INFINITY;
    bool whole = true;
    for (double x : doubles_) {
      if (!std::isfinite(x))
        continue;
      whole = whole && x == std::trunc(x);
      if (x != 0) {
        largest = std::max(largest, std::fabs(x));
        smallest = std::min(smallest, std::fabs(x));
      }
    }
    // numpy's rule for the exponent form.
    scientific_ =
        largest != 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1e3 * 1e5);
    whole_ = whole && !scientific_;
    for (size_t i = 0; i < doubles_.size(); ++i)
      width_ = std::max(width_, element(static_cast<int64_t>(i)).size());
  }

  std::string element(int64_t i) const {
    if (dtype_ == DType::kBool)
      return ints_[i] ? "true" : "false";
    if (!is_floating(dtype_))
      return std::to_string(ints_[i]);
    double x = doubles_[i];
    if (std::isnan(x))
      return "nan";
    if (std::isinf(x))
      return x < 0 ? "-inf" : "inf";
    char text[64];
    if (whole_)
      std::snprintf(text, sizeof text, "%.0f.", x);
    else
      std::snprintf(text, sizeof text, scientific_ ? "%.*e" : "%.*f", kPrecision, x);
    return text;
  }

  // The rank of a tensor bounds the depth.
  void print(std::string &text, size_t dim, int64_t offset) const {
    int64_t inner = 1;
    for (size_t d = dim + 1; d < dims_.size(); ++d)
      inner *= dims_[d];
    text += "[";
    bool first = true;
    for (int64_t i : shown(dims_[dim])) {
      if (!first) {
        text += dim + 1 == dims_.size() ? ", " : ",";
        if (dim + 1 < dims_.size())
          text += std::string(dims_.size() - dim - 1, '\n') + std::string(dim + 1, ' ');
      }
      first = false;
      if (i < 0)
        text += "...";
      else if (dim + 1 < dims_.size())
        print(text, dim + 1, offset + i * inner);
      else {
        std::string one = element(offset + i);
        text += std::string(width_ - std::min(width_, one.size()), ' ') + one;
      }
    }
    text += "]";
  }

  Shape dims_;
  DType dtype_;
  bool short_;
  std::vector<double> doubles_;
  std::vector<int64_t> ints_;
  bool scientific_ = false, whole_ = false;
  size_t width_ = 0;
};

} // namespace

std::string Tensor::to_string(Location location) const {
  recorder::Session session("to_string", location);
  if (!defined())
    return "undefined";
  return Printer(*this, location).run();
}

std::ostream &operator<<(std::ostream &stream, const Printed &printed) {
  return stream << printed.tensor().to_string(printed.location());
}

} // namespace weft
