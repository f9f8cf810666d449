// weft::Tensor: a handle to a storage, directly or through views. Calls on tensors are recorded,
// not run; a value is computed when somebody asks for it (item, to_vector, data, printing, eval).
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/accessor.h"
#include "weft/arguments.h"
#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/error.h"

namespace weft {

namespace recorder {
class TensorImpl;
} // namespace recorder
namespace nn {
class Parameter;
}

// A handle to a storage, cheap to copy: copies share the storage, clone() copies it. Undefined
// until something is assigned.
class Tensor {
public:
  // Undefined: every use but defined(), assignment and destruction is an error.
  Tensor() noexcept : impl_(nullptr) {}
  Tensor(const Tensor &other);
  Tensor(Tensor &&other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  ~Tensor();
  // Does not compile: a Tensor that is given what parameter() or buffer() returns.
  template <std::same_as<nn::Parameter> P> Tensor(P &&) : impl_(nullptr) {
    refuse_parameter<P>();
  }
  template <std::same_as<nn::Parameter> P> Tensor &operator=(P &&) & {
    refuse_parameter<P>();
    return *this;
  }
  // Makes this handle refer to other's storage. On a temporary, such as x[1] = y, it writes the
  // value instead, as copy_ does; of a y of more dims, ones in front are left out.
  Tensor &operator=(const Tensor &other) &;
  Tensor &operator=(Tensor &&other) & noexcept;
  Tensor &operator=(const Tensor &other) &&;
  Tensor &operator=(Tensor &&other) &&;
  Tensor &operator=(TensorArg value) &&;

  // A new tensor that holds a copy of `values`, of the given shape (default: one dimension).
  template <ElementType T>
  static Tensor from(std::span<const T> values, Shape shape,
                     Location location = Location::current());
  template <ElementType T>
  static Tensor from(const std::vector<T> &values, Shape shape,
                     Location location = Location::current());
  template <ElementType T>
  static Tensor from(const std::vector<T> &values, Caller caller = Location::current());
  // A new tensor that holds a copy of `bytes`: row-major elements of any dtype.
  static Tensor from_bytes(const void *bytes, DType dtype, Shape shape,
                           Location location = Location::current());

  // --- What it is. Nothing here computes. Error: the tensor is undefined. ---
  // Whether it refers to a storage.
  bool defined() const {
    return impl_ != nullptr;
  }
  // The type of its elements; a tensor's never changes.
  DType dtype(Location location = Location::current()) const;
  // Where it lies, and what is made of it; a tensor's never changes.
  Device device(Location location = Location::current()) const;
  // The sizes of its dims; a tensor's never change.
  const Shape &shape(Location location = Location::current()) const;
  // The number of dims.
  int64_t ndim(Location location = Location::current()) const {
    return static_cast<int64_t>(shape(location).size());
  }
  // ndim(), under PyTorch's name.
  int64_t dim(Location location = Location::current()) const {
    return ndim(location);
  }
  // The number of elements.
  int64_t size(Location location = Location::current()) const;
  // size(), under PyTorch's name.
  int64_t numel(Location location = Location::current()) const {
    return size(location);
  }
  // The size of one dim (negative: from the end). Error: there is no such dim.
  int64_t size(int64_t dim, Location location = Location::current()) const;
  // Bytes of its elements, row-major.
  int64_t nbytes(Location location = Location::current()) const;
  // Whether both handles refer to the same elements of one storage: a write to one shows in the
  // other.
  bool is_same(const Tensor &other) const {
    return impl_ == other.impl_;
  }
  // Counts the writes to the storage.
  uint64_t version(Location location = Location::current()) const;

  // --- Its values: computed if they are not yet. Errors of the run are raised here, with the line
  // that recorded the op. ---

  // The value of a tensor of one element, converted to T.
  template <ElementType T> T item(Location location = Location::current()) const;
  // A copy of all elements in row-major order, converted to T.
  template <ElementType T> std::vector<T> to_vector(Location location = Location::current()) const;
  // The elements in row-major order, of exactly T's dtype; valid until the storage is written or
  // dies.
  template <ElementType T> const T *data(Location location = Location::current()) const;
  // As data(), of any dtype.
  const void *data_bytes(Location location = Location::current()) const;
  // As data(), to write: counts as a write to the storage, and nothing else shares the memory. What
  // is recorded reads the memory when it runs, and may put a result there: the pointer is good
  // until the next call that reads or writes the tensor, after which one asks again:
  //   for (int i = 0; i < 3; ++i) {
  //     x.mutable_data<float>()[0] = i; // a pointer kept from before the loop would give 3 times 2
  //     sum = sum + x;
  //   }
  template <ElementType T> T *mutable_data(Location location = Location::current());
  // As mutable_data(), of any dtype.
  void *mutable_data_bytes(Location location = Location::current());
  // The elements of a tensor of N dims, to read by position on the host:
  //   auto a = x.accessor<float, 2>(); // then a[i][j]
  // Valid as data() is, and not of a temporary, whose memory goes with it. Errors: another dtype
  // than T's, another number of dims.
  template <ElementType T, int64_t N>
  TensorAccessor<const T, N> accessor(Location location = Location::current()) const & {
    return {static_cast<const T *>(accessed(dtype_of<T>(), N, location)), sizes<N>()};
  }
  template <ElementType T, int64_t N> void accessor(Location = Location::current()) && = delete;
  // The same to write, once: good as long as mutable_data()'s pointer is.
  template <ElementType T, int64_t N>
  TensorAccessor<T, N> mutable_accessor(Location location = Location::current()) & {
    return {static_cast<T *>(accessed_to_write(dtype_of<T>(), N, location)), sizes<N>()};
  }
  // Computes the value now.
  const Tensor &eval(Location location = Location::current()) const;
  // The elements as PyTorch prints them, without `tensor()` around: floating-point numbers with 4
  // digits after the point (none where all shown are whole), with exponents where one is 1e8 or
  // more, or not 0 and below 1e-4; columns aligned; of more than 1000 elements 3 at each end of a
  // dim. Other than there, bools are `true` and `false`, an empty tensor is `[]`, and long lines
  // are not broken.
  std::string to_string(Location location = Location::current()) const;

  // --- Autograd (weft/autograd.h) ---
  // Whether backward() reaches it: it, or what it was computed from, was marked.
  bool requires_grad(Location location = Location::current()) const;
  // Marks a parameter, and computes it now; or takes the mark, which leaves grad() as it is.
  // Errors: a dtype that is not floating; taking the mark from what was computed from marked
  // tensors.
  Tensor &set_requires_grad(bool value = true, Location location = Location::current());
  // set_requires_grad(), under PyTorch's name.
  Tensor &requires_grad_(bool value = true, Location location = Location::current()) {
    return set_requires_grad(value, location);
  }
  // True for tensors that no recorded call with a derivative made: parameters and inputs.
  bool is_leaf(Location location = Location::current()) const;
  // What backward() added up here, in a leaf or by retain_grad(); undefined before.
  Tensor grad(Location location = Location::current()) const;
  // Replaces grad(); an undefined one drops it. Errors: another shape or dtype; a tensor that never
  // was a leaf that requires a gradient.
  void set_grad(const Tensor &grad, Location location = Location::current());
  // Drops grad().
  void zero_grad(Location location = Location::current()) {
    set_grad(Tensor(), location);
  }
  // Calls function(gradient), which may return another gradient of the same shape and dtype, an
  // undefined tensor or nothing, wherever a backward() or grad() has the whole gradient of this
  // tensor: what it returns goes on in its place, to grad() of a leaf and to what the tensor was
  // computed from. With create_graph it has a history, and so has what the function makes of it.
  // Functions are called in the order in which they were registered, on the thread of the backward,
  // which may wait for other threads' calls; one that holds the tensor keeps it until a backward
  // releases what was saved. Returns a number for remove_hook().
  //
  // The function belongs to the value that the tensor has now: a write in place, to a view of it as
  // well, gives the tensor another one. In what jit and trace record it is called once, and what it
  // records is part of the program; where leaves' functions change, jit records again. Errors
  // kState: the tensor does not require grad; inside of such a function it is one from outside.
  // What a function throws leaves the backward as it is, with its type. What that backward had
  // passed without retain_graph is released.
  template <typename F>
    requires std::invocable<F &, const Tensor &>
  unsigned register_hook(F function, Location location = Location::current()) const {
    if constexpr (std::is_void_v<std::invoke_result_t<F &, const Tensor &>>)
      return add_hook(
          [function = std::move(function)](const Tensor &gradient) mutable {
            function(gradient);
            return Tensor();
          },
          location);
    else
      return add_hook(std::move(function), location);
  }
  // Error kValue: the tensor has no such function.
  void remove_hook(unsigned hook, Location location = Location::current()) const;
  // From now on a backward() adds the gradient of this computed tensor, as its hooks leave it, to
  // grad(), as it does to that of leaves. After a write in place to this tensor it is the gradient
  // of what was written; a view whose memory was written is asked again. Of a leaf there is nothing
  // to do. Errors: as of register_hook().
  void retain_grad(Location location = Location::current());
  // Whether a backward() does so.
  bool retains_grad(Location location = Location::current()) const;
  // Adds the derivative of this tensor (weighted by `gradient`, which a tensor of one element may
  // leave out) to grad() of every leaf that it was computed from. Without retain_graph the saved
  // values are released: a second backward is an error.
  void backward(const Tensor &gradient = Tensor(), bool retain_graph = false,
                bool create_graph = false, Location location = Location::current()) const;
  // The same storage without history: what is written to one shows in both, and is part of the
  // history of the one that it was written to. Of the history that the value came from it keeps
  // nothing.
  Tensor detach(Location location = Location::current()) const;
  // Makes this tensor, and each handle to it, one that no gradient goes beyond: the value stays,
  // the history goes, and with it what a backward would need. Of a leaf it takes the mark. Errors
  // kState: a view of a tensor with a history; in a function that jit or trace records, a tensor
  // that has one from outside.
  Tensor &detach_(Location location = Location::current());
  // A new storage with the same value; clone() keeps the history.
  Tensor clone(Location location = Location::current()) const;

  // --- Views: they share the storage; writes show through. ---

  // The i of x[i], which knows the caller's line.
  struct At {
    template <std::integral T>
    At(T i, Location location = Location::current())
        : index(static_cast<int64_t>(i)), location(location) {}
    int64_t index;
    Location location;
  };
  Tensor operator[](At i) const;
  // A view; with tensors among the indices a copy, as in PyTorch: they broadcast to one shape,
  // which stands in place of the indexed dims where those are next to each other, else in front; a
  // position without dims stands for a number. An index outside its dim is an error of the run. A
  // bool mask is the positions where it holds: their number is found now (cut reason `mask`).
  Tensor index(std::initializer_list<Index> indices, Location location = Location::current()) const;
  Tensor index(std::span<const Index> indices, Location location = Location::current()) const;
  // Writes value, broadcast, where index(indices) would read; of a value of more dims, ones in
  // front are left out, as in PyTorch's x[indices] = value. With tensors, of several values for
  // one element the last one, or with accumulate their sum with what was there; value has this
  // dtype. Writing one value through a mask computes nothing now, and converts it.
  void index_put_(std::initializer_list<Index> indices, TensorArg value, bool accumulate = false,
                  Location location = Location::current());
  // The slice at position i of dim (negative: from the end), without that dim. Error: i is outside.
  Tensor select(int64_t dim, int64_t i, Location location = Location::current()) const;
  // Elements start, start+1, ... of `dim`.
  Tensor narrow(int64_t dim, int64_t start, int64_t length,
                Location location = Location::current()) const;
  // Elements start, start + step, ... below stop of dim, as numpy's x[start:stop:step]; bounds
  // beyond the ends are cut. A negative step goes backwards. Error: a step of 0.
  Tensor slice(int64_t dim, std::optional<int64_t> start = {}, std::optional<int64_t> stop = {},
               int64_t step = 1, Location location = Location::current()) const;
  // One size may be -1: it is what the others leave.
  Tensor reshape(const Shape &shape, Location location = Location::current()) const;
  // reshape(), under PyTorch's name.
  Tensor view(const Shape &shape, Location location = Location::current()) const {
    return reshape(shape, location);
  }
  // reshape() to the shape of other.
  Tensor reshape_as(const Tensor &other, Location location = Location::current()) const {
    return reshape(other.shape(location), location);
  }
  // reshape_as(), under PyTorch's name.
  Tensor view_as(const Tensor &other, Location location = Location::current()) const {
    return reshape_as(other, location);
  }
  // The tensor itself: how a view lies in memory is the compiler's matter. What is written to it
  // shows in what it is a view of; clone() gives a copy.
  Tensor contiguous(Location location = Location::current()) const;
  // The dims start_dim to end_dim, both included, as one.
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1,
                 Location location = Location::current()) const;
  // Without those of the dims (default: all) that have size 1.
  Tensor squeeze(Dims dims = {}, Location location = Location::current()) const;
  // With a dim of size 1 in front of dim; -1 appends it.
  Tensor unsqueeze(int64_t dim, Location location = Location::current()) const;
  // The dims in another order: dim i of the result is dim permutation[i] of this tensor.
  Tensor permute(const Shape &permutation, Location location = Location::current()) const;
  // Two dims exchanged.
  Tensor transpose(int64_t dim0, int64_t dim1, Location location = Location::current()) const;
  Tensor t(Location location = Location::current()) const;  // the transpose of a matrix (or less)
  Tensor mT(Location location = Location::current()) const; // the last two dimensions exchanged
  // Repeats dimensions of size 1; -1 keeps a size.
  Tensor expand(const Shape &shape, Location location = Location::current()) const;
  // expand() to the shape of other.
  Tensor expand_as(const Tensor &other, Location location = Location::current()) const {
    return expand(other.shape(location), location);
  }
  // expand(), under numpy's name.
  Tensor broadcast_to(const Shape &shape, Location location = Location::current()) const;

  // --- In place: the storage gets a new value, every handle to it sees it. The dtype and shape
  // stay. ---
  // Adds other, or alpha * other, which broadcasts to this shape. Error: the result's dtype or
  // shape does not fit into this tensor, here and in the next three.
  Tensor &add_(TensorArg other, Location location = Location::current());
  Tensor &add_(TensorArg other, Scalar alpha, Location location = Location::current());
  // Subtracts other, or alpha * other.
  Tensor &sub_(TensorArg other, Location location = Location::current());
  Tensor &sub_(TensorArg other, Scalar alpha, Location location = Location::current());
  // Multiplies by other.
  Tensor &mul_(TensorArg other, Location location = Location::current());
  // Divides by other. The quotient of integers is floating, which does not fit into them.
  Tensor &div_(TensorArg other, Location location = Location::current());
  // Takes the values of source, which broadcasts and is converted.
  Tensor &copy_(TensorArg source, Location location = Location::current());
  // Every element gets the value.
  Tensor &fill_(TensorArg value, Location location = Location::current());
  // Every element gets 0.
  Tensor &zero_(Location location = Location::current());
  // The functions of these names without the underscore. Throws Error where the result's dtype or
  // shape does not fit.
#define WEFT_UNARY(function, record, operands, doc)                                                \
  Tensor &function##_(Location location = Location::current());
#define WEFT_BINARY(function, record, operands, doc)
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  Tensor &pow_(TensorArg exponent, Location location = Location::current());
  Tensor &clamp_(std::optional<Scalar> min, std::optional<Scalar> max = {},
                 Location location = Location::current());
  Tensor &clamp_(const Tensor &min, const Tensor &max, Location location = Location::current());
  Tensor &lerp_(const Tensor &other, TensorArg weight, Location location = Location::current());
  Tensor &addcmul_(const Tensor &a, const Tensor &b, Scalar value = 1.0,
                   Location location = Location::current());
  Tensor &addcdiv_(const Tensor &a, const Tensor &b, Scalar value = 1.0,
                   Location location = Location::current());
  Tensor &masked_fill_(const Tensor &mask, TensorArg value,
                       Location location = Location::current());
  Tensor &scatter_(int64_t dim, const Tensor &indices, TensorArg source,
                   Location location = Location::current());
  Tensor &scatter_add_(int64_t dim, const Tensor &indices, const Tensor &source,
                       Location location = Location::current());
  Tensor &scatter_reduce_(int64_t dim, const Tensor &indices, const Tensor &source,
                          std::string_view reduce, bool include_self = true,
                          Location location = Location::current());
  Tensor &index_add_(int64_t dim, const Tensor &indices, const Tensor &source,
                     Location location = Location::current());
  Tensor &index_copy_(int64_t dim, const Tensor &indices, const Tensor &source,
                      Location location = Location::current());
  Tensor &index_fill_(int64_t dim, const Tensor &indices, Scalar value,
                      Location location = Location::current());
  Tensor &operator+=(TensorArg other) {
    return add_(other, other.location());
  }
  Tensor &operator-=(TensorArg other) {
    return sub_(other, other.location());
  }
  Tensor &operator*=(TensorArg other) {
    return mul_(other, other.location());
  }
  Tensor &operator/=(TensorArg other) {
    return div_(other, other.location());
  }

  // --- The functions of weft/ops.h and weft/composites.h that have this tensor first
  // (methods_test.cpp). tools/opgen/members.cpp defines them. ---
#define WEFT_UNARY(function, record, operands, doc)                                                \
  Tensor function(Location location = Location::current()) const;
#define WEFT_BINARY(function, record, operands, doc)                                               \
  Tensor function(TensorArg other, Location location = Location::current()) const;
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  Tensor add(TensorArg other, Scalar alpha, Location location = Location::current()) const;
  Tensor sub(TensorArg other, Scalar alpha, Location location = Location::current()) const;
  Tensor div(TensorArg other, Location location = Location::current()) const;
  Tensor remainder(TensorArg other, Location location = Location::current()) const;
  Tensor square(Location location = Location::current()) const;
  Tensor gelu(std::string_view approximate = "none", Location location = Location::current()) const;
  Tensor sum(Dims dims = {}, bool keepdim = false, Location location = Location::current()) const;
  Tensor mean(Dims dims = {}, bool keepdim = false, Location location = Location::current()) const;
  Tensor max(Dims dims = {}, bool keepdim = false, Location location = Location::current()) const;
  Tensor min(Dims dims = {}, bool keepdim = false, Location location = Location::current()) const;
  Tensor amax(Dims dims = {}, bool keepdim = false, Location location = Location::current()) const;
  Tensor amin(Dims dims = {}, bool keepdim = false, Location location = Location::current()) const;
  Tensor prod(Dims dims = {}, bool keepdim = false, Location location = Location::current()) const;
  Tensor any(Dims dims = {}, bool keepdim = false, Location location = Location::current()) const;
  Tensor all(Dims dims = {}, bool keepdim = false, Location location = Location::current()) const;
  Tensor var(Dims dims = {}, int64_t correction = 1, bool keepdim = false,
             Location location = Location::current()) const;
  Tensor argmax(std::optional<int64_t> dim = {}, bool keepdim = false,
                Location location = Location::current()) const;
  Tensor argmin(std::optional<int64_t> dim = {}, bool keepdim = false,
                Location location = Location::current()) const;
  Tensor cumsum(int64_t dim, Location location = Location::current()) const;
  Tensor clamp(std::optional<Scalar> min, std::optional<Scalar> max = {},
               Location location = Location::current()) const;
  Tensor clamp(const Tensor &min, const Tensor &max, Location location = Location::current()) const;
  Tensor clamp_min(TensorArg min, Location location = Location::current()) const;
  Tensor clamp_max(TensorArg max, Location location = Location::current()) const;
  Tensor masked_fill(const Tensor &mask, TensorArg value,
                     Location location = Location::current()) const;
  Tensor flip(Dims dims, Location location = Location::current()) const;
  Tensor matmul(const Tensor &other, Location location = Location::current()) const;
  Tensor mm(const Tensor &other, Location location = Location::current()) const;
  Tensor bmm(const Tensor &other, Location location = Location::current()) const;
  Tensor mv(const Tensor &other, Location location = Location::current()) const;
  Tensor softmax(int64_t dim, Location location = Location::current()) const;
  Tensor log_softmax(int64_t dim, Location location = Location::current()) const;
  std::vector<Tensor> split(int64_t size, int64_t dim = 0,
                            Location location = Location::current()) const;
  std::vector<Tensor> split(const Shape &sizes, int64_t dim = 0,
                            Location location = Location::current()) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0,
                            Location location = Location::current()) const;
  std::vector<Tensor> tensor_split(int64_t sections, int64_t dim = 0,
                                   Location location = Location::current()) const;
  std::vector<Tensor> tensor_split(const Shape &indices, int64_t dim = 0,
                                   Location location = Location::current()) const;
  Tensor is_nan(Location location = Location::current()) const;
  Tensor is_inf(Location location = Location::current()) const;
  Tensor is_finite(Location location = Location::current()) const;
  Tensor reciprocal(Location location = Location::current()) const;
  Tensor log2(Location location = Location::current()) const;
  Tensor log10(Location location = Location::current()) const;
  Tensor tan(Location location = Location::current()) const;
  Tensor sinh(Location location = Location::current()) const;
  Tensor cosh(Location location = Location::current()) const;
  Tensor trunc(Location location = Location::current()) const;
  Tensor logical_not(Location location = Location::current()) const;
  Tensor bitwise_not(Location location = Location::current()) const;
  Tensor logical_and(TensorArg other, Location location = Location::current()) const;
  Tensor logical_or(TensorArg other, Location location = Location::current()) const;
  Tensor logical_xor(TensorArg other, Location location = Location::current()) const;
  Tensor bitwise_and(TensorArg other, Location location = Location::current()) const;
  Tensor bitwise_or(TensorArg other, Location location = Location::current()) const;
  Tensor bitwise_xor(TensorArg other, Location location = Location::current()) const;
  Tensor bitwise_left_shift(TensorArg other, Location location = Location::current()) const;
  Tensor bitwise_right_shift(TensorArg other, Location location = Location::current()) const;
  Tensor eq(TensorArg other, Location location = Location::current()) const;
  Tensor ne(TensorArg other, Location location = Location::current()) const;
  Tensor lt(TensorArg other, Location location = Location::current()) const;
  Tensor le(TensorArg other, Location location = Location::current()) const;
  Tensor gt(TensorArg other, Location location = Location::current()) const;
  Tensor ge(TensorArg other, Location location = Location::current()) const;
  Tensor floor_divide(TensorArg other, Location location = Location::current()) const;
  Tensor lerp(const Tensor &other, TensorArg weight, Location location = Location::current()) const;
  Tensor atan2(TensorArg other, Location location = Location::current()) const;
  Tensor asin(Location location = Location::current()) const;
  Tensor acos(Location location = Location::current()) const;
  Tensor atan(Location location = Location::current()) const;
  Tensor asinh(Location location = Location::current()) const;
  Tensor acosh(Location location = Location::current()) const;
  Tensor atanh(Location location = Location::current()) const;
  Tensor logit(std::optional<double> eps = {}, Location location = Location::current()) const;
  Tensor digamma(Location location = Location::current()) const;
  Tensor rad2deg(Location location = Location::current()) const;
  Tensor deg2rad(Location location = Location::current()) const;
  Tensor frac(Location location = Location::current()) const;
  Tensor hypot(TensorArg other, Location location = Location::current()) const;
  Tensor fmod(TensorArg other, Location location = Location::current()) const;
  Tensor copysign(TensorArg other, Location location = Location::current()) const;
  Tensor signbit(Location location = Location::current()) const;
  Tensor heaviside(TensorArg at_zero, Location location = Location::current()) const;
  Tensor sinc(Location location = Location::current()) const;
  Tensor fmax(TensorArg other, Location location = Location::current()) const;
  Tensor fmin(TensorArg other, Location location = Location::current()) const;
  Tensor xlogy(TensorArg other, Location location = Location::current()) const;
  Tensor nan_to_num(double nan = 0, std::optional<double> posinf = {},
                    std::optional<double> neginf = {},
                    Location location = Location::current()) const;
  Tensor addcmul(const Tensor &a, const Tensor &b, Scalar value = 1.0,
                 Location location = Location::current()) const;
  Tensor addcdiv(const Tensor &a, const Tensor &b, Scalar value = 1.0,
                 Location location = Location::current()) const;
  Tensor count_nonzero(Dims dims = {}, Location location = Location::current()) const;
  Tensor nansum(Dims dims = {}, bool keepdim = false,
                Location location = Location::current()) const;
  Tensor nanmean(Dims dims = {}, bool keepdim = false,
                 Location location = Location::current()) const;
  Tensor vector_norm(NormOrder p = 2, Dims dims = {}, bool keepdim = false,
                     Location location = Location::current()) const;
  Tensor diff(int64_t n = 1, int64_t dim = -1, Location location = Location::current()) const;
  std::pair<Tensor, Tensor> aminmax(Dims dims = {}, bool keepdim = false,
                                    Location location = Location::current()) const;
  Tensor cov(int64_t correction = 1, Location location = Location::current()) const;
  Tensor corrcoef(Location location = Location::current()) const;
  Tensor take(const Tensor &indices, Location location = Location::current()) const;
  Tensor logcumsumexp(int64_t dim, Location location = Location::current()) const;
  std::pair<Tensor, Tensor> max_with_indices(int64_t dim, bool keepdim = false,
                                             Location location = Location::current()) const;
  std::pair<Tensor, Tensor> min_with_indices(int64_t dim, bool keepdim = false,
                                             Location location = Location::current()) const;
  std::pair<Tensor, Tensor> cummax(int64_t dim, Location location = Location::current()) const;
  std::pair<Tensor, Tensor> cummin(int64_t dim, Location location = Location::current()) const;
  std::pair<Tensor, Tensor> mode(int64_t dim = -1, bool keepdim = false,
                                 Location location = Location::current()) const;
  Tensor quantile(double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                  Location location = Location::current()) const;
  Tensor quantile(const std::vector<double> &q, std::optional<int64_t> dim = {},
                  bool keepdim = false, Location location = Location::current()) const;
  Tensor bincount(const Tensor &weights = Tensor(), int64_t minlength = 0,
                  Location location = Location::current()) const;
  Tensor histc(int64_t bins = 100, double low = 0, double high = 0,
               Location location = Location::current()) const;
  Tensor bucketize(const Tensor &boundaries, bool right = false,
                   Location location = Location::current()) const;
  Tensor isin(const Tensor &elements, Location location = Location::current()) const;
  Tensor diag_embed(int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1,
                    Location location = Location::current()) const;
  Tensor rot90(int64_t k = 1, Dims dims = {0, 1}, Location location = Location::current()) const;
  Tensor unflatten(int64_t dim, const Shape &sizes, Location location = Location::current()) const;
  Tensor take_along_dim(const Tensor &indices, int64_t dim,
                        Location location = Location::current()) const;
  Tensor scatter_reduce(int64_t dim, const Tensor &indices, const Tensor &source,
                        std::string_view reduce, bool include_self = true,
                        Location location = Location::current()) const;
  Tensor index_reduce(int64_t dim, const Tensor &indices, const Tensor &source,
                      std::string_view reduce, bool include_self = true,
                      Location location = Location::current()) const;
  Tensor index_fill(int64_t dim, const Tensor &indices, Scalar value,
                    Location location = Location::current()) const;
  Tensor addmm(const Tensor &a, const Tensor &b, Scalar beta = 1.0, Scalar alpha = 1.0,
               Location location = Location::current()) const;
  Tensor addmv(const Tensor &a, const Tensor &b, Scalar beta = 1.0, Scalar alpha = 1.0,
               Location location = Location::current()) const;
  Tensor baddbmm(const Tensor &a, const Tensor &b, Scalar beta = 1.0, Scalar alpha = 1.0,
                 Location location = Location::current()) const;
  Tensor cross(const Tensor &other, int64_t dim = -1,
               Location location = Location::current()) const;
  Tensor kron(const Tensor &other, Location location = Location::current()) const;
  Tensor tensordot(const Tensor &other, int64_t dims = 2,
                   Location location = Location::current()) const;
  Tensor tensordot(const Tensor &other, const Shape &x_dims, const Shape &y_dims,
                   Location location = Location::current()) const;
  Tensor logaddexp(const Tensor &other, Location location = Location::current()) const;
  Tensor is_close(const Tensor &other, double rtol = 1e-5, double atol = 1e-8,
                  bool equal_nan = false, Location location = Location::current()) const;
  bool all_close(const Tensor &other, double rtol = 1e-5, double atol = 1e-8,
                 bool equal_nan = false, Location location = Location::current()) const;
  // all_close(), under PyTorch's name.
  bool allclose(const Tensor &other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                Location location = Location::current()) const {
    return all_close(other, rtol, atol, equal_nan, location);
  }
  bool equal(const Tensor &other, Location location = Location::current()) const;
  Tensor norm(NormOrder p = 2, Dims dims = {}, bool keepdim = false,
              Location location = Location::current()) const;
  Tensor std(Dims dims = {}, int64_t correction = 1, bool keepdim = false,
             Location location = Location::current()) const;
  Tensor logsumexp(Dims dims = {}, bool keepdim = false,
                   Location location = Location::current()) const;
  Tensor cumprod(int64_t dim, Location location = Location::current()) const;
  std::pair<Tensor, Tensor> sort(int64_t dim = -1, bool descending = false,
                                 Location location = Location::current()) const;
  Tensor argsort(int64_t dim = -1, bool descending = false,
                 Location location = Location::current()) const;
  Tensor msort(Location location = Location::current()) const;
  std::pair<Tensor, Tensor> topk(int64_t k, int64_t dim = -1, bool largest = true,
                                 Location location = Location::current()) const;
  std::pair<Tensor, Tensor> kthvalue(int64_t k, int64_t dim = -1, bool keepdim = false,
                                     Location location = Location::current()) const;
  std::pair<Tensor, Tensor> median(int64_t dim, bool keepdim = false,
                                   Location location = Location::current()) const;
  Tensor median(Location location = Location::current()) const;
  Tensor repeat_interleave(int64_t repeats, std::optional<int64_t> dim = {},
                           Location location = Location::current()) const;
  Tensor repeat(const Shape &repeats, Location location = Location::current()) const;
  Tensor roll(int64_t shift, int64_t dim, Location location = Location::current()) const;
  Tensor roll(const Shape &shifts, Dims dims = {}, Location location = Location::current()) const;
  std::vector<Tensor> unbind(int64_t dim = 0, Location location = Location::current()) const;
  Tensor movedim(int64_t source, int64_t destination,
                 Location location = Location::current()) const;
  Tensor diagonal(int64_t offset = 0, int64_t dim0 = 0, int64_t dim1 = 1,
                  Location location = Location::current()) const;
  Tensor diag(int64_t offset = 0, Location location = Location::current()) const;
  Tensor trace(Location location = Location::current()) const;
  Tensor tril(int64_t diagonal = 0, Location location = Location::current()) const;
  Tensor triu(int64_t diagonal = 0, Location location = Location::current()) const;
  Tensor index_select(int64_t dim, const Tensor &indices,
                      Location location = Location::current()) const;
  Tensor gather(int64_t dim, const Tensor &indices, Location location = Location::current()) const;
  Tensor scatter(int64_t dim, const Tensor &indices, TensorArg source,
                 Location location = Location::current()) const;
  Tensor scatter_add(int64_t dim, const Tensor &indices, const Tensor &source,
                     Location location = Location::current()) const;
  Tensor index_add(int64_t dim, const Tensor &indices, const Tensor &source,
                   Location location = Location::current()) const;
  Tensor index_copy(int64_t dim, const Tensor &indices, const Tensor &source,
                    Location location = Location::current()) const;
  Tensor nonzero(Location location = Location::current()) const;
  Tensor masked_select(const Tensor &mask, Location location = Location::current()) const;
  Tensor dot(const Tensor &other, Location location = Location::current()) const;
  Tensor outer(const Tensor &other, Location location = Location::current()) const;

  // --- New tensors of its elements, or like it. ---
  // The same values in another dtype: cast(). The tensor itself where it has that dtype.
  Tensor to(DType dtype, Location location = Location::current()) const;
  // The same values in the device's memory; the tensor itself where it lies there. Recorded like
  // any call, with a derivative; the bytes move while both devices go on with what does not need
  // them.
  Tensor to(Device device, Location location = Location::current()) const;
  // The windows [i * step, i * step + size) along dim that lie in it, [.., windows, .., size]:
  // their number stands in place of dim, their elements along a new last one. A copy, other than
  // PyTorch's. Error: size is negative or beyond that of dim, or step is below 1.
  Tensor unfold(int64_t dim, int64_t size, int64_t step,
                Location location = Location::current()) const;
  // zeros(shape) of this tensor's dtype, if none is given, and on its device.
  Tensor new_zeros(const Shape &shape, std::optional<DType> dtype = {},
                   Location location = Location::current()) const;
  // ones(shape), alike.
  Tensor new_ones(const Shape &shape, std::optional<DType> dtype = {},
                  Location location = Location::current()) const;
  // full(shape, value), alike. Error: the dtype cannot hold the value.
  Tensor new_full(const Shape &shape, Scalar value, std::optional<DType> dtype = {},
                  Location location = Location::current()) const;

  // For the library's own use.
  explicit Tensor(recorder::TensorImpl *impl) : impl_(impl) {} // takes over one reference
  recorder::TensorImpl *impl() const {
    return impl_;
  }

private:
  template <typename P> static void refuse_parameter() {
    static_assert(!std::same_as<P, nn::Parameter>,
                  "keep what parameter() and buffer() return as an nn::Parameter (or auto): "
                  "nn::clone() and nn::to() give a copy of the module its own, but would leave a "
                  "member of type Tensor with the original's");
  }

  unsigned add_hook(std::function<Tensor(const Tensor &)> function, Location location) const;
  // The elements of a tensor that has this dtype and so many dims.
  const void *accessed(DType dtype, int64_t dims, Location location) const;
  void *accessed_to_write(DType dtype, int64_t dims, Location location);
  template <int64_t N> std::array<int64_t, N> sizes() const {
    std::array<int64_t, N> sizes;
    std::copy_n(shape().begin(), N, sizes.begin());
    return sizes;
  }

  recorder::TensorImpl *impl_;
};

// A tensor that is printed, and the line that does it.
class Printed {
public:
  Printed(const Tensor &tensor, Location location = Location::current())
      : tensor_(tensor), location_(location) {}

  // What is printed.
  const Tensor &tensor() const {
    return tensor_;
  }
  // The caller's line.
  Location location() const {
    return location_;
  }

private:
  const Tensor &tensor_;
  Location location_;
};
// As to_string().
std::ostream &operator<<(std::ostream &stream, const Printed &printed);

// --- New tensors ---
// A tensor whose elements, row-major ones of this dtype, are the caller's memory: no copy. It lies
// on the device on which calls make tensors where the host has that memory, else on the host.
//
// The caller alone writes the memory. What would write the tensor or a view of it, in place or by
// mutable_data(), is an error: write by the pointer, or to a clone().
//
// The caller may write at any time when nothing waits that was recorded of the tensor, and free the
// memory after such a time: what is recorded reads it when it runs, and calls that come after a
// write see what was written. So first compute what is to be of the old contents, a backward that
// needs them included:
//   Tensor x = from_blob(frame.pixels(), {h, w, 3}, uint8).permute({2, 0, 1}).to(float32).eval();
//   frame.next(); // x has memory of its own
// Results always have memory of their own, also where they are equal to the tensor. clone() copies
// at once, of a view as well.
//
// With a deleter nothing else may free the memory: it is called with the pointer once nothing reads
// the memory any more, on any thread, and must neither throw nor call Weft; not where from_blob
// throws. Errors: kValue for null, and for a pointer that is not aligned to an element; kState
// inside of what jit or trace records, where the tensor is an argument to give.
Tensor from_blob(const void *data, const Shape &shape, DType dtype = float32,
                 Location location = Location::current());
Tensor from_blob(const void *data, const Shape &shape, std::function<void(void *)> deleter,
                 DType dtype = float32, Location location = Location::current());
// A tensor of zeros.
Tensor zeros(const Shape &shape, DType dtype = float32, Location location = Location::current());
// A tensor of ones.
Tensor ones(const Shape &shape, DType dtype = float32, Location location = Location::current());
// The dtype of a bool, integer or floating value is boolean, int64 or float32.
Tensor full(const Shape &shape, Scalar value, std::optional<DType> dtype = {},
            Location location = Location::current());
// A tensor without dims; dtype as of full().
Tensor scalar(Scalar value, std::optional<DType> dtype = {},
              Location location = Location::current());
// Zeros of x's shape and dtype.
Tensor zeros_like(const Tensor &x, Location location = Location::current());
// Ones of x's shape and dtype.
Tensor ones_like(const Tensor &x, Location location = Location::current());
// value, in x's shape and dtype.
Tensor full_like(const Tensor &x, Scalar value, Location location = Location::current());
// 0, 1, ..., n-1; start, start+step, ... below stop. Integers give int64, others float32.
Tensor arange(Scalar stop, std::optional<DType> dtype = {},
              Location location = Location::current());
Tensor arange(Scalar start, Scalar stop, Scalar step = 1, std::optional<DType> dtype = {},
              Location location = Location::current());
// `steps` numbers from start to stop, both included, at equal distances.
Tensor linspace(double start, double stop, int64_t steps, DType dtype = float32,
                Location location = Location::current());
// A matrix [n, m] with 1 on its diagonal, 0 elsewhere; m is n by default.
Tensor eye(int64_t n, std::optional<int64_t> m = {}, DType dtype = float32,
           Location location = Location::current());
// A tensor without dims that holds the number, a bool, integer or floating one as boolean, int64 or
// float32: scalar() under PyTorch's name.
Tensor tensor(Scalar value, std::optional<DType> dtype, Location location);
template <typename T>
  requires std::is_arithmetic_v<T>
Tensor tensor(T value, std::optional<DType> dtype = {}, Location location = Location::current()) {
  return tensor(Scalar(value), dtype, location);
}
// Values in braces, for short constants: tensor({1.f, 2.f, 3.f}), tensor({{1.f, 2.f}, {3.f, 4.f}}).
template <ElementType T>
Tensor tensor(std::initializer_list<T> values, Location location = Location::current()) {
  std::vector<T> v(values);
  return Tensor::from<T>(v, Shape{static_cast<int64_t>(v.size())}, location);
}
template <ElementType T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
              Location location = Location::current()) {
  std::vector<T> v;
  int64_t columns = rows.size() == 0 ? 0 : static_cast<int64_t>(rows.begin()->size());
  for (const auto &row : rows) {
    if (static_cast<int64_t>(row.size()) != columns)
      throw Error(ErrorKind::kShape,
                  "tensor: all rows must have as many elements as the first, " +
                      std::to_string(columns),
                  location);
    v.insert(v.end(), row.begin(), row.end());
  }
  if (rows.size() == 0) // tensor<T>({}) comes here
    return Tensor::from<T>(v, Shape{0}, location);
  return Tensor::from<T>(v, Shape{static_cast<int64_t>(rows.size()), columns}, location);
}

// --- Operators: numpy's broadcasting, PyTorch's promotion ---
Tensor operator+(TensorArg a, TensorArg b);
Tensor operator-(TensorArg a, TensorArg b);
Tensor operator*(TensorArg a, TensorArg b);
Tensor operator/(TensorArg a, TensorArg b);
Tensor operator-(TensorArg a);
// Logic of x != 0, as logical_not, logical_and and logical_or. Both operands are computed.
Tensor operator!(TensorArg a);
Tensor operator&&(TensorArg a, TensorArg b);
Tensor operator||(TensorArg a, TensorArg b);
Tensor operator&(TensorArg a, TensorArg b);
Tensor operator|(TensorArg a, TensorArg b);
Tensor operator^(TensorArg a, TensorArg b);
Tensor operator<<(TensorArg a, TensorArg b); // bitwise_left_shift()
Tensor operator>>(TensorArg a, TensorArg b); // bitwise_right_shift(): copies of the sign above
Tensor operator~(TensorArg a);
Tensor operator%(TensorArg a, TensorArg b); // remainder: the sign of b
Tensor operator==(TensorArg a, TensorArg b);
Tensor operator!=(TensorArg a, TensorArg b);
Tensor operator<(TensorArg a, TensorArg b);
Tensor operator<=(TensorArg a, TensorArg b);
Tensor operator>(TensorArg a, TensorArg b);
Tensor operator>=(TensorArg a, TensorArg b);

// "[2, 3]", as errors print a shape.
std::string to_string(const Shape &shape);

} // namespace weft
