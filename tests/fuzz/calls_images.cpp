// Rows of the table: convolutions, pooling, normalization and resizing of images.
#include "tests/fuzz/draw.h"

namespace weft::fuzz {
namespace {

// A value that can be an image, or a new one.
int image(Draw &d) {
  int x = d.value([](const Tensor &t) {
    return floating(t) && t.ndim() == 4 && t.size() > 0 && t.size() < 4000 && t.shape()[2] >= 2 &&
           t.shape()[3] >= 2;
  });
  if (x >= 0 && d.random.chance(0.7))
    return x;
  static const std::vector<Shape> shapes = {{1, 2, 4, 5}, {2, 4, 5, 5}, {2, 3, 8, 6}, {3, 1, 3, 7}};
  static const std::vector<DType> dtypes = {float32, float32, float32, float32,  float32,
                                            float32, float32, float64, bfloat16, float16};
  return d.numbers(d.random.of(dtypes), d.random.of(shapes), -2, 2);
}

// Whether padding is multiplied by a weight or left out differs from kernel to kernel, and shows
// where a weight is no finite number.
constexpr bool kFinite = true;

Conv2dOptions convolution(const Step &s) {
  return Conv2dOptions{.stride = s.numbers[0][0],
                       .padding = s.numbers[1][0],
                       .dilation = s.numbers[2][0],
                       .groups = s.numbers[3][0]};
}

} // namespace

void add_images(Calls &all) {
  all["conv2d"] = {
      [](Draw &d) -> Drawn {
        int x = image(d);
        int64_t channels = d[x].shape()[1], groups = d.random.chance(0.3) ? channels : 1;
        DType dtype = d[x].dtype();
        int64_t out = groups * d.random.between(1, 3), size = d.random.between(1, 2);
        std::vector<int> args = {
            x, d.numbers(dtype, {out, channels / groups, size, d.random.between(1, 2)}, -1, 1,
                         kFinite)};
        if (d.random.chance(0.5))
          args.push_back(d.numbers(dtype, {out}, -1, 1));
        return step(args, {{d.random.between(1, 2)}, {d.random.below(3)}, {1}, {groups}});
      },
      [](const Tensors &a, const Step &s) {
        return conv2d(a[0], a[1], a.size() > 2 ? a[2] : Tensor(), convolution(s));
      },
      "weft::conv2d($0, $1, $2, {.stride = #0, .padding = #1, .dilation = #2, .groups = #3})"};
  // Derivatives of their own, since few programs differentiate what happens to be pooled.
  for (bool largest : {true, false})
    all[largest ? "max_pool2d gradient" : "avg_pool2d gradient"] = {
        [](Draw &d) -> Drawn { return step({image(d)}, {{d.random.between(1, 2)}}); },
        [=](const Tensors &a, const Step &s) {
          Tensor image = a[0].detach().set_requires_grad();
          Tensor pooled =
              largest ? max_pool2d(image, s.numbers[0][0]) : avg_pool2d(image, s.numbers[0][0]);
          return grad({square(pooled).sum()}, {image})[0];
        },
        std::string("[](auto x) { return weft::grad({weft::square(weft::") +
            (largest ? "max" : "avg") +
            "_pool2d(x, #0)).sum()}, {x})[0]; }($0.detach().set_requires_grad())",
        0.5};
  // The derivative by the weight, which is an input that no later step sees.
  all["conv2d weight"] = {[](Draw &d) -> Drawn {
                            int x = image(d);
                            Shape weight = {2, d[x].shape()[1], d.random.between(1, 2), 2};
                            return step({x, d.numbers(d[x].dtype(), weight, -1, 1, kFinite)});
                          },
                          [](const Tensors &a, const Step &) {
                            Tensor weight = a[1].detach().set_requires_grad();
                            return grad({square(conv2d(a[0].detach(), weight)).sum()}, {weight})[0];
                          },
                          "[](auto x, auto w) { return "
                          "weft::grad({weft::square(weft::conv2d(x.detach(), w)).sum()}, {w})[0]; }"
                          "($0, $1.detach().set_requires_grad())",
                          0.4};
  all["conv_transpose2d"] = {[](Draw &d) -> Drawn {
                               int x = image(d);
                               int64_t size = d.random.between(1, 3);
                               Shape weight = {d[x].shape()[1], d.random.between(1, 3), size, size};
                               return step({x, d.numbers(d[x].dtype(), weight, -1, 1, kFinite)},
                                           {{d.random.between(1, 2)}});
                             },
                             [](const Tensors &a, const Step &s) {
                               return conv_transpose2d(
                                   a[0], a[1], Tensor(),
                                   ConvTranspose2dOptions{.stride = s.numbers[0][0]});
                             },
                             "weft::conv_transpose2d($0, $1, weft::Tensor(), {.stride = #0})", 0.5};
  for (bool largest : {true, false})
    all[largest ? "max_pool2d" : "avg_pool2d"] = {
        [](Draw &d) -> Drawn {
          int x = image(d);
          int64_t size = d.random.between(1, 2);
          return step({x}, {{size}, {d.random.between(1, 2)}, {size == 2 ? d.random.below(2) : 0}});
        },
        [=](const Tensors &a, const Step &s) {
          Pair stride = s.numbers[1][0];
          if (largest)
            return max_pool2d(a[0], s.numbers[0][0],
                              MaxPool2dOptions{.stride = stride, .padding = s.numbers[2][0]});
          return avg_pool2d(a[0], s.numbers[0][0],
                            AvgPool2dOptions{.stride = stride, .padding = s.numbers[2][0]});
        },
        std::string(largest ? "weft::max_pool2d" : "weft::avg_pool2d") +
            "($0, #0, {.stride = weft::Pair(#1), .padding = #2})",
        0.7};
  all["batch_norm"] = {[](Draw &d) -> Drawn {
                         int x = image(d);
                         Shape channels = {d[x].shape()[1]};
                         DType dtype = d[x].dtype();
                         bool training = d.random.chance(0.6);
                         std::vector<int> args = {x, d.numbers(dtype, channels, 0.5, 2),
                                                  d.numbers(dtype, channels, -1, 1)};
                         if (!training) {
                           args.push_back(d.numbers(dtype, channels, -1, 1));
                           args.push_back(d.numbers(dtype, channels, 0.5, 2));
                         }
                         return step(args, {{training}});
                       },
                       [](const Tensors &a, const Step &s) {
                         BatchNormOptions options{.training = s.numbers[0][0] != 0};
                         return options.training
                                    ? batch_norm(a[0], Tensor(), Tensor(), a[1], a[2], options)
                                    : batch_norm(a[0], a[3].detach(), a[4].detach(), a[1], a[2],
                                                 options);
                       },
                       "weft::batch_norm($0, $3, $4, $1, $2, {.training = bool(#0)})", 0.8};
  all["group_norm"] = {
      [](Draw &d) -> Drawn {
        int x = image(d);
        return step({x}, {{d.random.chance(0.5) ? 1 : d[x].shape()[1]}});
      },
      [](const Tensors &a, const Step &s) { return group_norm(a[0], s.numbers[0][0]); },
      "weft::group_norm($0, #0)", 0.5};
  all["rms_norm"] = {
      [](Draw &d) -> Drawn {
        int x = d.value(both(floating, not_scalar));
        if (x < 0)
          return {};
        return step({x, d.numbers(d[x].dtype(), {d[x].shape().back()}, 0.5, 2)},
                    {{d[x].shape().back()}});
      },
      [](const Tensors &a, const Step &s) { return rms_norm(a[0], s.numbers[0], a[1]); },
      "weft::rms_norm($0, {#0}, $1)", 0.7};
  all["resize"] = {
      [](Draw &d) -> Drawn {
        int x = image(d);
        return step({x}, {{d.random.between(1, 9)}, {d.random.between(1, 9)}, {d.random.below(2)}});
      },
      [](const Tensors &a, const Step &s) {
        return resize(a[0], Pair(s.numbers[0][0], s.numbers[1][0]),
                      ResizeOptions{.mode = static_cast<Resize>(s.numbers[2][0])});
      },
      "weft::resize($0, weft::Pair(#0, #1), {.mode = weft::Resize(#2)})", 0.4};
}

} // namespace weft::fuzz
