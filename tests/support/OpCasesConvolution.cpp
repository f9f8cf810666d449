// Calls of convolutions, pooling and batch normalization.
#include "tests/support/OpCasesConvolution.h"

namespace weft::tests {

using Shape = std::vector<int64_t>;

static std::string ints(const char *name, const Shape &values) {
  std::string text = std::string(name) + " = array<i64";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : ": ") + std::to_string(values[i]);
  return text + ">";
}
static std::string spell(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}
static TensorSpec data(Shape shape) {
  return {std::move(shape)};
}

namespace {

struct Convolution {
  Shape input, weight;
  Shape strides = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
  bool large = false;

  int64_t outputs(int i) const {
    return (input[2 + i] + 2 * padding[i] - dilation[i] * (weight[2 + i] - 1) - 1) / strides[i] + 1;
  }
};

struct Pool {
  Shape input, kernel;
  Shape strides = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  bool ceil = false, countPad = true, large = false;

  int64_t outputs(int i, int64_t spread) const {
    int64_t room = input[2 + i] + 2 * padding[i] - spread * (kernel[i] - 1) - 1;
    int64_t count = (room + (ceil ? strides[i] - 1 : 0)) / strides[i] + 1;
    return ceil && (count - 1) * strides[i] >= input[2 + i] + padding[i] ? count - 1 : count;
  }
};

} // namespace

static void addConvolutions(std::vector<OpCase> &cases) {
  auto add = [&](const Convolution &c) {
    Shape result{c.input[0], c.weight[0], c.outputs(0), c.outputs(1)};
    std::string attributes = "{" + ints("strides", c.strides) + ", " + ints("padding", c.padding) +
                             ", " + ints("dilation", c.dilation) +
                             ", groups = " + std::to_string(c.groups) + " : i64}";
    std::string label = spell(c.input) + spell(c.weight) + " by " + spell(c.strides) + " in " +
                        spell(c.padding) + " over " + spell(c.dilation) + " groups " +
                        std::to_string(c.groups);
    cases.push_back(
        {"weft.conv2d", label, {data(c.input), data(c.weight)}, attributes, {}, {}, c.large});
    cases.push_back({"weft.conv2d_input_gradient",
                     label,
                     {data(result), data(c.weight)},
                     attributes,
                     {data(c.input)},
                     {},
                     c.large});
    cases.push_back({"weft.conv2d_weight_gradient",
                     label,
                     {data(c.input), data(result)},
                     attributes,
                     {data(c.weight)},
                     {},
                     c.large});
  };
  add({{2, 3, 5, 4}, {2, 3, 3, 3}, {1, 1}, {1, 1}});
  add({{1, 2, 5, 6}, {4, 1, 3, 2}, {2, 1}, {0, 1}, {1, 2}, 2}); // groups, all pairs uneven
  add({{2, 3, 4, 4}, {3, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 3}); // depthwise
  add({{2, 3, 3, 2}, {2, 3, 1, 1}});
  add({{1, 1, 7, 7}, {1, 1, 3, 3}, {3, 3}, {0, 0}, {2, 2}}); // rows that no window reads
  add({{1, 1, 3, 3}, {1, 1, 1, 1}, {2, 2}, {2, 2}});         // windows in the padding alone
  add({{0, 2, 3, 3}, {2, 2, 2, 2}});
  add({{2, 16, 15, 17}, {24, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true});
  add({{2, 16, 15, 17}, {24, 16, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, true});
  add({{2, 32, 14, 14}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 32, true});
  add({{2, 24, 9, 9}, {40, 24, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, true});
  add({{1, 3, 32, 31}, {16, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}, 1, true});
  add({{2, 8, 13, 13}, {12, 4, 3, 3}, {1, 1}, {2, 2}, {2, 2}, 2, true});
}

// For each window of a pool a position in it: one of the taps in the image, in turn.
static std::vector<int64_t> windowPositions(const Pool &p, const Shape &pooled) {
  std::vector<int64_t> positions;
  for (int64_t image = 0; image < pooled[0] * pooled[1]; ++image)
    for (int64_t y = 0; y < pooled[2]; ++y)
      for (int64_t x = 0; x < pooled[3]; ++x) {
        std::vector<int64_t> inside;
        for (int64_t i = 0; i < p.kernel[0]; ++i)
          for (int64_t j = 0; j < p.kernel[1]; ++j) {
            int64_t row = y * p.strides[0] + i * p.dilation[0] - p.padding[0],
                    column = x * p.strides[1] + j * p.dilation[1] - p.padding[1];
            if (row >= 0 && row < p.input[2] && column >= 0 && column < p.input[3])
              inside.push_back(row * p.input[3] + column);
          }
        positions.push_back(inside[positions.size() * 5 % inside.size()]);
      }
  return positions;
}

static void addPools(std::vector<OpCase> &cases) {
  auto add = [&](const Pool &p) {
    auto flag = [](const char *name, bool value) {
      return std::string(name) + (value ? " = true" : " = false");
    };
    std::string common = ints("kernel", p.kernel) + ", " + ints("strides", p.strides) + ", " +
                         ints("padding", p.padding) + ", " + flag("ceil_mode", p.ceil);
    std::string label = spell(p.input) + " by " + spell(p.kernel) + spell(p.strides) +
                        spell(p.padding) + spell(p.dilation) + (p.ceil ? " ceil" : "") +
                        (p.countPad ? "" : " without padding");
    std::string max = "{" + common + ", " + ints("dilation", p.dilation) + "}",
                avg = "{" + common + ", " + flag("count_include_pad", p.countPad) + "}";
    auto pooled = [&](bool isMax) {
      return Shape{p.input[0], p.input[1], p.outputs(0, isMax ? p.dilation[0] : 1),
                   p.outputs(1, isMax ? p.dilation[1] : 1)};
    };
    cases.push_back({"weft.max_pool2d", label, {data(p.input)}, max, {}, {}, p.large});
    TensorSpec indices{
        pooled(true), DType::kInt32, Values::Listed, 0, 0, 0, windowPositions(p, pooled(true))};
    cases.push_back({"weft.max_pool2d_gradient",
                     label,
                     {data(pooled(true)), indices},
                     max,
                     {data(p.input)},
                     {},
                     p.large});
    cases.push_back({"weft.avg_pool2d", label, {data(p.input)}, avg, {}, {}, p.large});
    cases.push_back({"weft.avg_pool2d_gradient",
                     label,
                     {data(pooled(false))},
                     avg,
                     {data(p.input)},
                     {},
                     p.large});
  };
  add({{2, 2, 4, 6}, {2, 2}, {2, 2}});
  add({{1, 2, 5, 4}, {3, 2}, {1, 2}, {1, 0}});
  add({{1, 1, 7, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true});
  add({{1, 1, 7, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true, false});
  add({{1, 2, 7, 7}, {2, 3}, {2, 1}, {1, 1}, {2, 2}});
  add({{2, 3, 4, 3}, {4, 3}});
  add({{2, 1, 3, 3}, {1, 1}, {2, 2}});
  add({{0, 2, 3, 3}, {2, 2}});
  add({{3, 5, 33, 35}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, true, true});
  add({{2, 7, 28, 30}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, false, true});
}

static void addBatchNorms(std::vector<OpCase> &cases) {
  auto add = [&](Shape shape, bool weight, bool bias, bool large = false) {
    OpCase c{"weft.batch_norm",
             spell(shape) + (weight ? " weight" : "") + (bias ? " bias" : ""),
             {data(shape)}};
    if (weight)
      c.operands.push_back(data({shape[1]}));
    if (bias)
      c.operands.push_back(data({shape[1]}));
    c.attributes = "{eps = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, " +
                   std::to_string(weight) + ", " + std::to_string(bias) + ">}";
    c.large = large;
    cases.push_back(c);
  };
  add({4, 3}, true, true);
  add({2, 3, 2, 3}, true, true);
  add({2, 3, 2, 3}, true, false);
  add({3, 2, 4}, false, true);
  add({2, 2, 2, 2}, false, false);
  add({1, 1, 5}, true, true);
  add({8, 5, 16, 16}, true, true, true);
  add({6, 33, 7, 7}, true, true, true);
  add({300, 40}, true, true, true);
}

static void addBatchNormInferences(std::vector<OpCase> &cases) {
  auto add = [&](Shape shape, bool weight, bool bias, bool large = false) {
    OpCase c{"weft.batch_norm_inference",
             spell(shape) + (weight ? " weight" : "") + (bias ? " bias" : ""),
             {data(shape), data({shape[1]}), {{shape[1]}, {}, Values::Numbers, 0.5, 4}}};
    if (weight)
      c.operands.push_back(data({shape[1]}));
    if (bias)
      c.operands.push_back(data({shape[1]}));
    c.attributes = "{eps = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, " +
                   std::to_string(weight) + ", " + std::to_string(bias) + ">}";
    c.large = large;
    cases.push_back(c);
  };
  add({4, 3}, true, true);
  add({2, 3, 2, 3}, true, false);
  add({3, 2, 4}, false, true);
  add({2, 2, 2, 2}, false, false);
  add({0, 2, 3}, true, true);
  add({1, 1, 5}, true, true);
  add({6, 33, 7, 7}, true, true, true);
}

static void addWindows(std::vector<OpCase> &cases) {
  auto add = [&](Shape shape, Shape kernel, Shape strides, Shape dilation, bool large = false) {
    cases.push_back({"weft.windows",
                     spell(shape) + " of " + spell(kernel) + spell(strides) + spell(dilation),
                     {data(shape)},
                     "{" + ints("kernel", kernel) + ", " + ints("strides", strides) + ", " +
                         ints("dilation", dilation) + "}",
                     {},
                     {},
                     large});
  };
  add({4, 5}, {2, 3}, {1, 1}, {1, 1});
  add({2, 3, 7, 6}, {3, 2}, {2, 3}, {1, 2});
  add({2, 1, 1}, {1, 1}, {1, 1}, {1, 1});
  add({0, 3, 3}, {2, 2}, {1, 1}, {1, 1});
  add({2, 3, 40, 37}, {3, 3}, {2, 1}, {1, 2}, true);
}

void addConvolutionCases(std::vector<OpCase> &cases) {
  addConvolutions(cases);
  addPools(cases);
  addBatchNorms(cases);
  addBatchNormInferences(cases);
  addWindows(cases);
}

} // namespace weft::tests
