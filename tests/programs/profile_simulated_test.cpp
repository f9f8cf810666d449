// Traces of programs on simulated GPUs: instructions as on the CPU, and what goes there and back.
#include <gtest/gtest.h>

#include "tests/programs/process.h"
#include "tests/programs/simulated.h"
#include "tests/programs/trace.h"
#include "weft/profile.h"

namespace weft {
namespace {

using tests::Span;
using tests::Trace;

constexpr int kM = 32, kN = 48, kK = 64;

Tensor compute(const Tensor &a, const Tensor &b) {
  Tensor c = tanh(matmul(a, b));
  c.eval();
  return c;
}

void check(const Trace &trace) {
  std::vector<Span> programs = trace.of("program"), calls = trace.of("library");
  ASSERT_EQ(programs.size(), 1u);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_TRUE(calls[0].name.ends_with(".matmul")) << calls[0].name;
  EXPECT_EQ(calls[0].args["flops"], 2.0 * kM * kN * kK);
  std::vector<Span> kernels = trace.of("kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_NE(kernels[0].name.find("tanh"), std::string::npos) << kernels[0].name;
  EXPECT_EQ(kernels[0].args["bytes"], 2.0 * 4 * kM * kN);
  for (const Span &each : {kernels[0], calls[0]}) {
    EXPECT_TRUE(programs[0].holds(each)) << each.name;
    EXPECT_NE(each.args["line"].get<std::string>().find("profile_simulated_test.cpp:"),
              std::string::npos);
  }
}

class ProfileSimulated : public testing::TestWithParam<std::string> {};

TEST_P(ProfileSimulated, WithCopiesAtTheEdges) {
  Tensor a = full({kM, kK}, 0.5), b = full({kK, kN}, 0.25);
  eval({a, b});
  Config before = config(), changed = before;
  changed.backend = GetParam();
  set_config(changed);
  std::string file = tests::scratch_folder() + "/copies.json";
  {
    Profile profile(file);
    EXPECT_NEAR(compute(a, b).to_vector<float>()[0], 1.0f, 1e-5);
  }
  set_config(before);
  Trace trace(file);
  check(trace);
  std::vector<Span> transfers = trace.of("transfer");
  ASSERT_EQ(transfers.size(), 2u);
  EXPECT_EQ(transfers[0].name, "inputs to the GPU");
  EXPECT_EQ(transfers[1].name, "outputs from the GPU");
}

TEST_P(ProfileSimulated, OnADevice) {
  std::string file = tests::scratch_folder() + "/device.json";
  DeviceScope there{Device(GetParam() + ":1")};
  Tensor a = full({kM, kK}, 0.5), b = full({kK, kN}, 0.25);
  eval({a, b});
  {
    Profile profile(file);
    compute(a, b);
  }
  Trace trace(file);
  check(trace);
  bool counted = false;
  for (const tests::Json &counter : trace.counters)
    counted = counted || counter["name"] == GetParam() + ":1 bytes in use";
  EXPECT_TRUE(counted);
}

INSTANTIATE_TEST_SUITE_P(Backends, ProfileSimulated, testing::ValuesIn(tests::simulated_backends()),
                         tests::place_name);

TEST(SimulatedBackends, AreThere) {
  EXPECT_FALSE(tests::simulated_backends().empty());
}

} // namespace
} // namespace weft
