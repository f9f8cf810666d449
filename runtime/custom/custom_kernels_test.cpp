#include "runtime/custom/custom_kernels.h"

#include <stdexcept>

#include "gtest/gtest.h"

namespace weft::runtime {
namespace {

// Adds ints[0] to each element of a vector; two outputs, the second counts.
weft_custom_kernel adder(const char *name) {
  weft_custom_kernel kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.version = WEFT_CUSTOM_ABI_VERSION;
  kernel.name = name;
  kernel.num_outputs = 1;
  kernel.infer = [](const weft_custom_call *call, weft_custom_shape *outputs) -> const char * {
    if (call->num_inputs != 1 || call->inputs[0].rank != 1 || call->num_ints != 1)
      return "takes one vector and one int";
    outputs[0] = {call->inputs[0].dtype, 1, {call->inputs[0].dims[0]}};
    return nullptr;
  };
  kernel.count = [](const weft_custom_call *call) {
    return call->inputs[0].dims[0];
  };
  kernel.run = [](const weft_custom_call *call, int64_t begin, int64_t end) -> const char * {
    const float *x = static_cast<const float *>(call->inputs[0].data);
    for (int64_t i = begin; i < end; ++i) {
      if (x[i] < 0)
        return "a negative element";
      static_cast<float *>(call->outputs[0].data)[i] = x[i] + static_cast<float>(call->ints[0]);
    }
    return nullptr;
  };
  return kernel;
}

TEST(CustomKernels, AreFoundByName) {
  EXPECT_EQ(weft_register_kernel(nullptr), std::string("weft_register_kernel was given NULL"));
  std::string name = "test.found";
  weft_custom_kernel kernel = adder(name.c_str());
  kernel.derivative = "test.derivative";
  ASSERT_EQ(weft_register_kernel(&kernel), nullptr);
  name = "overwritten"; // the strings were copied
  auto found = find_custom_kernel("test.found");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->name(), "test.found");
  EXPECT_EQ((*found)->derivative(), "test.derivative");
  EXPECT_EQ((*found)->outputs(), 1);
  auto missing = find_custom_kernel("test.missing");
  ASSERT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("test.found"), absl::string_view::npos)
      << missing.status();
}

TEST(CustomKernels, WhatCannotBeRegisteredIsNamed) {
  weft_custom_kernel kernel = adder("test.twice");
  ASSERT_EQ(weft_register_kernel(&kernel), nullptr);
  EXPECT_EQ(weft_register_kernel(&kernel),
            std::string("the kernel 'test.twice' is registered already, by this name"));
  kernel = adder("");
  EXPECT_EQ(weft_register_kernel(&kernel), std::string("the kernel has no name"));
  for (auto [name, shown] : {std::pair("with \" quote\n", "with \" quote?"),
                             std::pair("two words", "two words"), std::pair("\xff", "?")}) {
    kernel = adder(name);
    EXPECT_EQ(weft_register_kernel(&kernel),
              std::string("the kernel '") + shown +
                  "' must have a name of letters, digits and . _ - / : alone");
  }
  kernel = adder("weft.add");
  EXPECT_EQ(weft_register_kernel(&kernel),
            std::string("the kernel 'weft.add' has a name of Weft's own; take another word than "
                        "weft before the point"));
  kernel = adder("test.none");
  kernel.run = nullptr;
  EXPECT_EQ(weft_register_kernel(&kernel),
            std::string("the kernel 'test.none' lacks infer or run"));
  kernel = adder("test.none");
  kernel.num_outputs = 9;
  EXPECT_EQ(weft_register_kernel(&kernel),
            std::string("the kernel 'test.none' has 9 outputs; it must have 1 to 8"));
  EXPECT_FALSE(find_custom_kernel("test.none").ok());
}

TEST(CustomKernels, OtherMinorVersionsWorkAndOtherMajorOnesDoNot) {
  // A newer header's struct is larger.
  struct {
    weft_custom_kernel known;
    void *field[4];
  } newer = {adder("test.newer"), {}};
  newer.known.struct_size = sizeof newer;
  newer.known.version = WEFT_VERSION(1, 9);
  EXPECT_EQ(weft_register_kernel(&newer.known), nullptr);
  EXPECT_TRUE(find_custom_kernel("test.newer").ok());

  weft_custom_kernel other = adder("test.other");
  other.version = WEFT_VERSION(2, 1);
  EXPECT_EQ(weft_register_kernel(&other),
            std::string("the kernel was built for version 2.1 of runtime/abi/weft_custom.h; this "
                        "Weft has version 1.0, which does not fit: build it anew"));
  other = adder("test.other");
  other.struct_size = offsetof(weft_custom_kernel, derivative);
  EXPECT_EQ(std::string(weft_register_kernel(&other)).substr(0, 29),
            "the kernel has a struct_size ");
  EXPECT_FALSE(find_custom_kernel("test.other").ok());
}

TEST(CustomKernels, InferAndRunOnAnyNumberOfThreads) {
  CustomKernel kernel(adder("test.run"));
  std::vector<float> x(1000), y(1000), z(1000);
  for (int i = 0; i < 1000; ++i)
    x[i] = static_cast<float>(i);
  CustomTensor in{DType::kFloat32, {1000}, x.data()};
  std::vector<int64_t> ints = {5};
  auto shapes = kernel.infer({&in, 1}, {ints, {}});
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  ASSERT_EQ(shapes->size(), 1u);
  EXPECT_EQ((*shapes)[0].dims, (std::vector<int64_t>{1000}));
  CustomTensor out = (*shapes)[0];
  out.data = y.data();
  ASSERT_TRUE(kernel.run({&in, 1}, {&out, 1}, {ints, {}}, 1).ok());
  out.data = z.data();
  ASSERT_TRUE(kernel.run({&in, 1}, {&out, 1}, {ints, {}}, 3).ok());
  EXPECT_EQ(y, z);
  EXPECT_EQ(y[999], 1004);
  x[700] = -1;
  for (int threads : {1, 3}) {
    absl::Status status = kernel.run({&in, 1}, {&out, 1}, {ints, {}}, threads);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(status.message(), "the kernel test.run failed: a negative element");
  }
}

TEST(CustomKernels, ExceptionsAndNegativeCountsAreFailures) {
  std::vector<float> x(1000), y(1000);
  CustomTensor in{DType::kFloat32, {1000}, x.data()}, out{DType::kFloat32, {1000}, y.data()};
  std::vector<int64_t> ints = {1};
  auto failure = [&](const weft_custom_kernel &kernel, int threads) {
    absl::Status status = CustomKernel(kernel).run({&in, 1}, {&out, 1}, {ints, {}}, threads);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    return std::string(status.message());
  };
  weft_custom_kernel throws = adder("test.throws"), throws_int = adder("test.throws_int");
  throws.run = [](const weft_custom_call *, int64_t, int64_t) -> const char * {
    throw std::runtime_error("out of luck");
  };
  throws_int.run = [](const weft_custom_call *, int64_t, int64_t) -> const char * {
    throw 7;
  };
  for (int threads : {1, 3}) {
    EXPECT_EQ(failure(throws, threads),
              "the kernel test.throws failed: it threw an exception: out of luck");
    EXPECT_EQ(failure(throws_int, threads),
              "the kernel test.throws_int failed: it threw an exception that is no std::exception");
  }

  weft_custom_kernel counts = adder("test.counts");
  counts.count = [](const weft_custom_call *) -> int64_t {
    return -4;
  };
  EXPECT_EQ(failure(counts, 1),
            "the kernel test.counts failed: its count gives -4 pieces; it must give 0 or more");
  counts.count = [](const weft_custom_call *) -> int64_t {
    throw std::runtime_error("out of luck");
  };
  EXPECT_EQ(failure(counts, 1),
            "the kernel test.counts failed: it threw an exception: out of luck");

  throws.infer = [](const weft_custom_call *, weft_custom_shape *) -> const char * {
    throw std::runtime_error("out of luck");
  };
  EXPECT_EQ(CustomKernel(throws).infer({&in, 1}, {ints, {}}).status().message(),
            "test.throws: it threw an exception: out of luck");
}

TEST(CustomKernels, WrongCallsAndWrongShapeRulesAreRefused) {
  CustomKernel kernel(adder("test.infer"));
  CustomTensor matrix{DType::kFloat32, {2, 2}, nullptr};
  std::vector<int64_t> ints = {1};
  auto refused = kernel.infer({&matrix, 1}, {ints, {}});
  EXPECT_EQ(refused.status().message(), "test.infer: takes one vector and one int");
  std::vector<CustomTensor> many(33, matrix);
  EXPECT_FALSE(kernel.infer(many, {ints, {}}).ok());
  using Rule = const char *(*)(const weft_custom_call *, weft_custom_shape *);
  const std::pair<Rule, const char *> rules[] = {
      {[](const weft_custom_call *, weft_custom_shape *o) -> const char * {
         return o[0] = {99, 0, {}}, nullptr;
       },
       "the dtype 99"},
      {[](const weft_custom_call *, weft_custom_shape *o) -> const char * {
         return o[0] = {0, 17, {}}, nullptr;
       },
       "the rank 17"},
      {[](const weft_custom_call *, weft_custom_shape *o) -> const char * {
         return o[0] = {0, 1, {-1}}, nullptr;
       },
       "negative or too large"},
      {[](const weft_custom_call *, weft_custom_shape *o) -> const char * {
         return o[0] = {0, 2, {1LL << 40, 1LL << 40}}, nullptr;
       },
       "negative or too large"}};
  for (const auto &[rule, says] : rules) {
    weft_custom_kernel wrong = adder("test.wrong");
    wrong.infer = rule;
    auto shapes = CustomKernel(wrong).infer({&matrix, 1}, {ints, {}});
    ASSERT_FALSE(shapes.ok());
    EXPECT_NE(shapes.status().message().find(says), absl::string_view::npos) << shapes.status();
  }
}

} // namespace
} // namespace weft::runtime
