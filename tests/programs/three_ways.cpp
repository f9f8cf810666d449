#include "tests/programs/three_ways.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

namespace weft::tests {
namespace {

struct Seen {
  std::string what;
  DType dtype = float32;
  Shape shape;
  std::string bytes;
};

// All that can be seen of one way, in order.
using All = std::vector<Seen>;

void see(All &all, const std::string &what, const std::vector<Tensor> &tensors) {
  eval(tensors);
  for (size_t i = 0; i < tensors.size(); ++i)
    all.push_back({what + std::to_string(i),
                   tensors[i].dtype(),
                   tensors[i].shape(),
                   {static_cast<const char *>(tensors[i].data_bytes()),
                    static_cast<size_t>(tensors[i].nbytes())}});
}

void expect_same(const All &actual, const All &expected, const char *way) {
  ASSERT_EQ(actual.size(), expected.size()) << way;
  for (size_t i = 0; i < actual.size(); ++i) {
    const Seen &is = actual[i], &should = expected[i];
    ASSERT_EQ(is.what, should.what) << way;
    ASSERT_EQ(is.dtype, should.dtype) << should.what << ", " << way;
    ASSERT_EQ(is.shape, should.shape) << should.what << ", " << way;
    if (is.bytes == should.bytes)
      continue;
    size_t element =
        is.bytes.size() /
        static_cast<size_t>(Tensor::from_bytes(is.bytes.data(), is.dtype, is.shape).size());
    size_t at = static_cast<size_t>(
                    std::mismatch(is.bytes.begin(), is.bytes.end(), should.bytes.begin()).first -
                    is.bytes.begin()) /
                element;
    auto number = [&](const Seen &seen) {
      double value =
          Tensor::from_bytes(seen.bytes.data() + at * element, seen.dtype, {}).item<double>();
      char text[40];
      std::snprintf(text, sizeof text, "%.17g", value);
      return std::string(text);
    };
    ADD_FAILURE() << should.what << ", " << way << ", element " << at << ": " << number(is)
                  << " instead of " << number(should);
  }
}

std::vector<Tensor> copies(const std::vector<Tensor> &tensors) {
  NoGrad no_grad;
  std::vector<Tensor> all;
  for (const Tensor &tensor : tensors)
    all.push_back(tensor.clone());
  eval(all);
  return all;
}

} // namespace

std::vector<Tensor> written_by(const optim::Optimizer &optimizer) {
  std::vector<Tensor> all = optimizer.parameters();
  for (const auto &[name, tensor] : optimizer.state())
    all.push_back(tensor);
  return all;
}

void ThreeWays::run(const Function &function, const std::vector<Tensor> &start) const {
  const std::vector<Tensor> arguments = copies(start), before = copies(written);
  auto put_back = [&] {
    for (size_t i = 0; i < written.size(); ++i) {
      Tensor tensor = written[i];
      if (tensor.requires_grad())
        tensor.zero_grad();
      NoGrad no_grad;
      tensor.copy_(before[i]);
    }
    eval(written);
    manual_seed(5);
  };
  // finish() adds what the calls have written.
  auto observe = [&](const Function &call, const std::function<void(All &)> &finish) {
    All all;
    std::vector<Tensor> given = copies(arguments);
    for (int i = 1; i <= calls; ++i) {
      std::vector<Tensor> results = call(given);
      see(all, "call " + std::to_string(i) + ", result ", results);
      for (size_t k = 0; k < fed_back; ++k)
        given.at(k) = results.at(k);
    }
    see(all, "argument ", given);
    finish(all);
    return all;
  };
  auto see_written = [&](All &all) {
    see(all, "written ", written);
    see(all, "generator ", {default_generator().state()});
  };
  auto see_gradients = [&](All &all) {
    for (size_t i = 0; i < written.size(); ++i)
      if (Tensor gradient = written[i].grad(); gradient.defined())
        see(all, "gradient of written " + std::to_string(i) + " ", {gradient});
  };
  All gradients;
  put_back();
  const All called = observe(function, [&](All &all) {
    see_written(all);
    see_gradients(gradients);
  });

  put_back();
  Statistics counts = statistics();
  All jitted_gradients;
  expect_same(observe(jit(function),
                      [&](All &all) {
                        see_written(all);
                        see_gradients(jitted_gradients);
                      }),
              called, "jitted");
  expect_same(jitted_gradients, gradients, "jitted");
  EXPECT_EQ(statistics().direct_calls, counts.direct_calls) << "nothing was replayed";

  // A Program keeps what it writes for itself.
  put_back();
  recorder::TensorNames names;
  for (size_t i = 0; i < written.size(); ++i)
    names.emplace_back("written " + std::to_string(i), written[i]);
  Program program = trace(function, arguments, StateNames("", names));
  expect_same(observe([&](const std::vector<Tensor> &given) { return program.run(given); },
                      [&](All &all) {
                        std::vector<Tensor> now = written;
                        Tensor generator = default_generator().state();
                        for (const auto &[name, tensor] : program.state()) {
                          if (name == "generator")
                            generator = tensor;
                          for (size_t i = 0; i < names.size(); ++i)
                            if (names[i].first == name)
                              now[i] = tensor;
                        }
                        see(all, "written ", now);
                        see(all, "generator ", {generator});
                      }),
              called, "traced");
  All kept, was;
  see(kept, "written ", written);
  see(was, "written ", before);
  expect_same(kept, was, "not the program's, after it ran");
  put_back();
}

} // namespace weft::tests
