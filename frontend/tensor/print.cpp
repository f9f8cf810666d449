// Printing as Tensor::to_string() says: columns aligned, long dimensions cut in the middle.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "frontend/tensor/impl.h"

namespace weft {
namespace {

constexpr int64_t kThreshold = 1000; // more elements than this are summarised, as in PyTorch
constexpr int64_t kEdge = 3;         // how many are shown at each end then
constexpr int kPrecision = 4;        // digits after the point, as PyTorch prints them

class Printer {
public:
  Printer(const Tensor &tensor, Location location)
      : dims_(tensor.shape()), dtype_(tensor.dtype()), empty_(tensor.size() == 0),
        short_(tensor.size() > kThreshold) {
    // Only what is shown is fetched, and decides the format.
    std::vector<int64_t> places;
    if (!empty_)
      gather(places, 0, 0);
    if (is_floating(dtype_))
      doubles_ = recorder::elements_at<double>(tensor, places, location);
    else
      ints_ = recorder::elements_at<int64_t>(tensor, places, location);
    choose_format();
  }

  std::string run() {
    if (empty_)
      return "[]"; // there may be very many rows of nothing
    if (dims_.empty())
      return element(0);
    std::string text;
    print(text, 0);
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

  // The places of the shown elements, in the order in which they are printed. The rank of a tensor
  // bounds the depth, here and in print.
  void gather(std::vector<int64_t> &places, size_t dim, int64_t place) const {
    if (dim == dims_.size()) {
      places.push_back(place);
      return;
    }
    for (int64_t i : shown(dims_[dim]))
      if (i >= 0)
        gather(places, dim + 1, place * dims_[dim] + i);
  }

  void choose_format() {
    if (!is_floating(dtype_)) {
      for (size_t i = 0; i < ints_.size(); ++i)
        width_ = std::max(width_, element(i).size());
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
    // Also where the two are so far apart that the digits of one would not show.
    scientific_ =
        largest != 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1e3 * 1e5);
    whole_ = whole && !scientific_;
    for (size_t i = 0; i < doubles_.size(); ++i)
      width_ = std::max(width_, element(i).size());
  }

  std::string element(size_t i) const {
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

  void print(std::string &text, size_t dim) {
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
        print(text, dim + 1);
      else {
        std::string one = element(next_++);
        text += std::string(width_ - std::min(width_, one.size()), ' ') + one;
      }
    }
    text += "]";
  }

  Shape dims_;
  DType dtype_;
  bool empty_, short_;
  // The shown elements, and how many of them are printed.
  std::vector<double> doubles_;
  std::vector<int64_t> ints_;
  size_t next_ = 0;
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

std::ostream &operator<<(std::ostream &stream, DType dtype) {
  return stream << name(dtype);
}

std::ostream &operator<<(std::ostream &stream, const Device &device) {
  return stream << device.name();
}

} // namespace weft
