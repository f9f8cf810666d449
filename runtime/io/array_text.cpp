#include "runtime/io/array_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "runtime/core/float16.h"

namespace weft::runtime {
namespace {

// numpy's defaults: printoptions threshold and edgeitems.
constexpr int64_t kThreshold = 1000;
constexpr int64_t kEdge = 3;

template <typename T> T load(const std::byte *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T> std::string number(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value))
      return "nan";
    if (std::isinf(value))
      return value > 0 ? "inf" : "-inf";
  }
  char text[40];
  std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  std::string result(text, end.ptr);
  // A float shows that it is one.
  if (std::is_floating_point_v<T> && result.find_first_of(".e") == std::string::npos)
    result += '.';
  return result;
}

std::string element_text(DType dtype, const std::byte *at) {
  switch (dtype) {
  case DType::kFloat32:
    return number(load<float>(at));
  case DType::kFloat64:
    return number(load<double>(at));
  case DType::kBFloat16:
    return number(bfloat16_to_float(load<uint16_t>(at)));
  case DType::kFloat16:
    return number(float16_to_float(load<uint16_t>(at)));
  case DType::kInt32:
    return number(load<int32_t>(at));
  case DType::kInt64:
    return number(load<int64_t>(at));
  case DType::kInt8:
    return number(int(load<int8_t>(at)));
  case DType::kInt16:
    return number(int(load<int16_t>(at)));
  case DType::kUInt8:
    return number(int(load<uint8_t>(at)));
  case DType::kBool:
    return load<uint8_t>(at) ? "True" : "False";
  }
  return "?";
}

class Printer {
public:
  explicit Printer(const ArrayView &array)
      : array_(array), strides_(array.dims.size(), byte_size(array.dtype)) {
    int64_t size = 1;
    for (int64_t dim : array.dims)
      size *= dim;
    summarized_ = size > kThreshold;
    for (size_t i = strides_.size(); i-- > 1;)
      strides_[i - 1] = strides_[i] * array.dims[i];
  }

  std::string print() {
    if (array_.dims.empty())
      return element_text(array_.dtype, array_.bytes.data());
    visit(0, array_.bytes.data(), [&](const std::byte *at) {
      width_ = std::max(width_, element_text(array_.dtype, at).size());
    });
    write(0, array_.bytes.data());
    return std::move(text_);
  }

private:
  bool hidden(size_t dim, int64_t i) const {
    return summarized_ && array_.dims[dim] > 2 * kEdge && i >= kEdge &&
           i < array_.dims[dim] - kEdge;
  }

  // The recursion is as deep as the array has dims.
  template <typename F> void visit(size_t dim, const std::byte *at, F f) {
    if (dim == array_.dims.size())
      return f(at);
    for (int64_t i = 0; i < array_.dims[dim]; ++i) {
      if (hidden(dim, i))
        i = array_.dims[dim] - kEdge;
      visit(dim + 1, at + i * strides_[dim], f);
    }
  }

  void write(size_t dim, const std::byte *at) {
    if (dim == array_.dims.size()) {
      std::string element = element_text(array_.dtype, at);
      text_.append(width_ - element.size(), ' ');
      text_ += element;
      return;
    }
    bool innermost = dim + 1 == array_.dims.size();
    auto separate = [&] {
      if (innermost) {
        text_ += ' ';
      } else {
        text_.append(array_.dims.size() - dim - 1, '\n');
        text_.append(dim + 1, ' ');
      }
    };
    text_ += '[';
    for (int64_t i = 0; i < array_.dims[dim]; ++i) {
      if (i > 0)
        separate();
      if (hidden(dim, i)) {
        text_ += "...";
        separate();
        i = array_.dims[dim] - kEdge;
      }
      write(dim + 1, at + i * strides_[dim]);
    }
    text_ += ']';
  }

  const ArrayView &array_;
  std::vector<int64_t> strides_;
  bool summarized_ = false;
  size_t width_ = 0;
  std::string text_;
};

} // namespace

std::string array_text(const ArrayView &array) {
  return Printer(array).print();
}

std::string shape_text(DType dtype, std::span<const int64_t> dims) {
  std::string text = std::string(name(dtype)) + "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

} // namespace weft::runtime
