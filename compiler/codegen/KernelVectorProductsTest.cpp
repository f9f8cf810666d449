// Products of a matrix and a vector, as sums of products of elements: rows that are swept together,
// rows that are added together. Products of few rows that convert their matrix.
#include "compiler/codegen/FusionCheck.h"
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"

#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

struct Text {
  std::string rows, columns, element = "f32";
  std::string operator()(std::string text) const {
    return replaced(replaced(replaced(std::move(text), "R", rows), "N", columns), "TYPE", element);
  }
};

constexpr const char *kLinear = R"(
  %x2 = weft.broadcast %x : tensor<NxTYPE> to tensor<RxNxTYPE>
  %t = weft.mul %w, %x2 : tensor<RxNxTYPE>
  %s = weft.reduce_sum %t, dims = [1] : tensor<RxNxTYPE>
  %a = weft.add %s, %b : tensor<RxTYPE>)";
constexpr const char *kLinearInputs =
    "%w: tensor<RxNxTYPE>, %x: tensor<NxTYPE>, %b: tensor<RxTYPE>";

// A matrix as nn::Linear keeps it, [outputs, inputs]. Rows go together from 16 KiB of the vector
// on.
TEST(VectorProducts, RowsThatShareAVector) {
  for (const char *rows : {"1", "2", "3", "4", "5", "7", "33"})
    for (const char *columns : {"17", "1023", "4112", "4127", "8210"})
      checkFusion(Text{rows, columns}(kLinearInputs), Text{rows, columns}(kLinear),
                  Text{rows, columns}("%a: tensor<Rxf32>"), 1e-3);
  for (const char *element : {"f64", "i32", "i64"})
    checkFusion(Text{"13", "4100", element}(kLinearInputs), Text{"13", "4100", element}(kLinear),
                Text{"13", "4100", element}("%a: tensor<RxTYPE>"), 1e-6);
  // A NaN stays in its row.
  checkFusion(Text{"9", "5000"}(kLinearInputs), Text{"9", "5000"}(kLinear),
              Text{"9", "5000"}("%a: tensor<Rxf32>"), 1e-3, {{0, NAN}});
}

TEST(VectorProducts, WhatComesBeforeAndAfter) {
  for (const char *rows : {"6", "35"})
    for (const char *columns : {"50", "4130"}) {
      Text of{rows, columns};
      // A factor of each element in front, an activation and a residual behind, the sum of it all.
      checkFusion(
          of("%w: tensor<RxNxf32>, %x: tensor<Nxf32>, %g: tensor<Nxf32>, %r: tensor<Rxf32>"), of(R"(
        %y = weft.mul %x, %g : tensor<Nxf32>
        %y2 = weft.broadcast %y : tensor<Nxf32> to tensor<RxNxf32>
        %t = weft.mul %w, %y2 : tensor<RxNxf32>
        %s = weft.reduce_sum %t, dims = [1] : tensor<RxNxf32>
        %h = weft.tanh %s : tensor<Rxf32>
        %a = weft.add %h, %r : tensor<Rxf32>
        %all = weft.reduce_sum %a, dims = [0] : tensor<Rxf32>)"),
          of("%a: tensor<Rxf32>, %all: tensor<f32>"), 1e-3);
      // Two matrices and one vector; a maximum beside a sum.
      checkFusion(of("%w: tensor<RxNxf32>, %v: tensor<RxNxf32>, %x: tensor<Nxf32>"), of(R"(
        %x2 = weft.broadcast %x : tensor<Nxf32> to tensor<RxNxf32>
        %t = weft.mul %w, %x2 : tensor<RxNxf32>
        %s = weft.reduce_sum %t, dims = [1] : tensor<RxNxf32>
        %u = weft.mul %v, %x2 : tensor<RxNxf32>
        %m = weft.reduce_max %u, dims = [1] : tensor<RxNxf32>
        %a = weft.mul %s, %m : tensor<Rxf32>)"),
                  of("%a: tensor<Rxf32>, %m: tensor<Rxf32>"), 1e-3);
    }
}

// Matrices of several samples, each with a vector of its own: rows together are one sample's.
TEST(VectorProducts, Batches) {
  for (const char *rows : {"2", "4", "6", "7"})
    for (const char *columns : {"40", "4129"}) {
      Text of{rows, columns};
      checkFusion(of("%w: tensor<3xRxNxf32>, %x: tensor<3xNxf32>"), of(R"(
        %x1 = weft.reshape %x : tensor<3xNxf32> to tensor<3x1xNxf32>
        %x2 = weft.broadcast %x1 : tensor<3x1xNxf32> to tensor<3xRxNxf32>
        %t = weft.mul %w, %x2 : tensor<3xRxNxf32>
        %s = weft.reduce_sum %t, dims = [2] : tensor<3xRxNxf32>
        %a = weft.neg %s : tensor<3xRxf32>)"),
                  of("%a: tensor<3xRxf32>"), 1e-3);
    }
}

// As few pieces as there are groups of rows; of a machine with fewer registers, smaller groups with
// the same bits.
TEST(VectorProducts, MachinesChooseTheGroups) {
  Text of{"37", "4500"};
  std::vector<HostTensor> results[2];
  for (auto [i, cpu, groups] : {std::tuple{0, "x86-64-v3", 19}, {1, "x86-64-v4", 10}}) {
    auto parsed = parseFusion(of(kLinearInputs), of(kLinear), of("%a: tensor<Rxf32>"));
    ASSERT_TRUE(parsed->fusion);
    std::string error;
    auto target = TargetInfo::named(cpu);
    ASSERT_TRUE(target.ok());
    auto kernel = TestKernel::build(parsed->fusion, error, /*dump=*/false, *target);
    ASSERT_TRUE(kernel) << error;
    EXPECT_EQ(kernel->info.count, groups) << cpu;
    // This machine may be of neither kind.
    if (llvm::StringRef(TargetInfo::host().features).contains("+avx512f")) {
      std::vector<HostTensor> inputs;
      for (mlir::Type type : parsed->fusion.getInputs().getTypes())
        inputs.push_back(sample(type, static_cast<int64_t>(inputs.size()) + 1));
      EXPECT_EQ(kernel->run(inputs, results[i]), WEFT_KERNEL_OK);
    }
  }
  if (results[0].empty())
    return;
  for (int64_t i = 0; i < results[0][0].size(); ++i)
    EXPECT_EQ(results[0][0].getDouble(i), results[1][0].getDouble(i)) << "row " << i;
}

// A matrix that lies the other way, [inputs, outputs]: its rows are added up.
TEST(VectorProducts, RowsThatAreAdded) {
  for (const char *rows : {"2", "8", "9", "31", "33", "100", "2100"})
    for (const char *columns : {"65", "100", "200"}) {
      Text of{rows, columns};
      checkFusion(of("%w: tensor<RxNxf32>, %x: tensor<Rx1xf32>, %b: tensor<Nxf32>"), of(R"(
        %x2 = weft.broadcast %x : tensor<Rx1xf32> to tensor<RxNxf32>
        %t = weft.mul %w, %x2 : tensor<RxNxf32>
        %s = weft.reduce_sum %t, dims = [0] : tensor<RxNxf32>
        %a = weft.add %s, %b : tensor<Nxf32>)"),
                  of("%a: tensor<Nxf32>"), 1e-3);
    }
  // Several blocks of columns, the last one not whole.
  for (const char *columns : {"4095", "4096", "5000"})
    for (const char *rows : {"5", "70"})
      checkFusion(Text{rows, columns}("%w: tensor<RxNxf32>, %x: tensor<Rx1xf32>"),
                  Text{rows, columns}(R"(
        %x2 = weft.broadcast %x : tensor<Rx1xf32> to tensor<RxNxf32>
        %t = weft.mul %w, %x2 : tensor<RxNxf32>
        %s = weft.reduce_sum %t, dims = [0] : tensor<RxNxf32>)"),
                  Text{rows, columns}("%t: tensor<RxNxf32>, %s: tensor<Nxf32>"), 1e-3);
  for (const char *element : {"f64", "i32", "i64"})
    for (const char *rows : {"20", "75"}) {
      Text of{rows, "130", element};
      checkFusion(of("%w: tensor<RxNxTYPE>"), of(R"(
        %s = weft.reduce_sum %w, dims = [0] : tensor<RxNxTYPE>
        %m = weft.reduce_max %w, dims = [0] : tensor<RxNxTYPE>)"),
                  of("%s: tensor<NxTYPE>, %m: tensor<NxTYPE>"), 1e-6);
    }
}

// A zero point and a scale of each column, of each place of the depth, of groups of the depth.
TEST(VectorProducts, FewRowsAndAMatrixOf8Bits) {
  for (const char *rows : {"2", "9"})
    for (const char *depth : {"64", "100", "1040"}) {
      Text of{rows, depth};
      checkFusion(of("%x: tensor<RxNxf32>, %q: tensor<50xNxui8>, %z: tensor<50x1xf32>, %s: "
                     "tensor<50x1xf32>"),
                  of(R"(
        %c = weft.cast %q : tensor<50xNxui8> to tensor<50xNxf32>
        %z2 = weft.broadcast %z : tensor<50x1xf32> to tensor<50xNxf32>
        %d = weft.sub %c, %z2 : tensor<50xNxf32>
        %s2 = weft.broadcast %s : tensor<50x1xf32> to tensor<50xNxf32>
        %w = weft.mul %d, %s2 : tensor<50xNxf32>
        %y = weft.matmul %x, %w {transpose_rhs = true} : tensor<RxNxf32>, tensor<50xNxf32>)"),
                  of("%y: tensor<Rx50xf32>"), 1e-3);
      checkFusion(of("%x: tensor<RxNxf32>, %q: tensor<NxNxi8>, %s: tensor<Nxf32>"), of(R"(
        %c = weft.cast %q : tensor<NxNxi8> to tensor<NxNxf32>
        %s2 = weft.broadcast %s : tensor<Nxf32> to tensor<NxNxf32>
        %w = weft.mul %c, %s2 : tensor<NxNxf32>
        %y = weft.matmul %x, %w {transpose_rhs = true} : tensor<RxNxf32>, tensor<NxNxf32>)"),
                  of("%y: tensor<RxNxf32>"), 1e-3);
      checkFusion(of("%x: tensor<RxNxf32>, %q: tensor<Nx50xi8>, %s: tensor<1x50xf32>"), of(R"(
        %c = weft.cast %q : tensor<Nx50xi8> to tensor<Nx50xf32>
        %s2 = weft.broadcast %s : tensor<1x50xf32> to tensor<Nx50xf32>
        %w = weft.mul %c, %s2 : tensor<Nx50xf32>
        %y = weft.matmul %x, %w : tensor<RxNxf32>, tensor<Nx50xf32>)"),
                  of("%y: tensor<Rx50xf32>"), 1e-3);
    }
  checkFusion("%x: tensor<3x256xf32>, %q: tensor<48x256xi8>, %s: tensor<48x8x1xf32>", R"(
        %c = weft.cast %q : tensor<48x256xi8> to tensor<48x256xf32>
        %g = weft.reshape %c : tensor<48x256xf32> to tensor<48x8x32xf32>
        %s2 = weft.broadcast %s : tensor<48x8x1xf32> to tensor<48x8x32xf32>
        %m = weft.mul %g, %s2 : tensor<48x8x32xf32>
        %w = weft.reshape %m : tensor<48x8x32xf32> to tensor<48x256xf32>
        %y = weft.matmul %x, %w {transpose_rhs = true} : tensor<3x256xf32>, tensor<48x256xf32>)",
              "%y: tensor<3x48xf32>", 1e-3);
}

} // namespace
} // namespace weft::compiler
